"""Unified diffs, in the file's own encoding, so that they can be applied."""

from __future__ import annotations

import difflib
import io
from collections.abc import Iterator

from amp_lint.report import Style
from amp_lint.report.color import CYAN, paint
from amp_lint.source import Source

_COLORS = {b"-": "31", b"+": "32", b"@": CYAN}


def diff(before: Source, after: Source, style: Style) -> Iterator[bytes]:
    """The lines that turn the one into the other."""
    name = after.name.encode(errors="surrogateescape")
    old, new = (io.BytesIO(source.data).readlines() for source in (before, after))
    for line in difflib.diff_bytes(difflib.unified_diff, old, new, fromfile=name, tofile=name):
        body = line.rstrip(b"\n")
        yield _paint(body, style)
        yield b"\n" if line.endswith(b"\n") else b"\n\\ No newline at end of file\n"


def _paint(line: bytes, style: Style) -> bytes:
    if not style.color or line[:1] not in _COLORS:
        return line
    start, end = paint("\0", _COLORS[line[:1]], style).encode().split(b"\0")
    return start + line + end
