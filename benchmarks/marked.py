"""What scripts write into a page of Markdown, between two marks."""

from __future__ import annotations

import sys


def updated(page: str, begin: str, end: str, text: str) -> str:
    """``page`` with ``text`` between its marks; ends the script if it has none."""
    before, first, rest = page.partition(begin)
    _, last, after = rest.partition(end)
    if not first or not last:
        sys.exit(f"the file lacks the lines {begin} and {end}")
    return f"{before}{begin}\n\n{text}\n\n{end}{after}"
