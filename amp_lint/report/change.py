"""What a fix would change: lines that go and lines that come."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from typing import TypeAlias

from amp_lint import edits
from amp_lint.report import Style
from amp_lint.report.color import BLUE, GREEN, RED, paint
from amp_lint.report.frame import screen
from amp_lint.rule import Fix
from amp_lint.source import LINE_END, Source

CONTEXT = 1
"""Lines shown above and below what changes."""

_Row: TypeAlias = tuple[str, int, str]
"""``|`` for a line that stays, ``-``, ``+`` or, for lines left out, ``.``; its number in the file
as it is, 0 where it is new; its text."""


def change(source: Source, fix: Fix, style: Style) -> Iterator[str]:
    """The lines of a frame; none where nothing changes."""
    rows = [*_rows(source, fix)] if fix.edits else []
    if not rows:
        return
    gutter = len(str(max(number for _, number, _ in rows)))
    edge = f"{' ' * gutter} {paint('|', BLUE, style)}"
    yield edge
    for sign, number, text in rows:
        if sign == ".":
            yield paint("...", BLUE, style)
            continue
        color = {"-": RED, "+": GREEN}.get(sign, BLUE)
        place = paint(f"{number or '':>{gutter}}", BLUE, style)
        line = screen(text, max(style.width - gutter - 3, 20))
        yield f"{place} {paint(sign, color, style)} {line}".rstrip()
    yield edge


def _rows(source: Source, fix: Fix) -> Iterator[_Row]:
    old, new, first = _around(source, fix)
    matcher = difflib.SequenceMatcher(None, old, new, autojunk=False)
    for index, group in enumerate(matcher.get_grouped_opcodes(CONTEXT)):
        if index:
            yield ".", 0, ""
        for tag, i, j, k, m in group:
            sign = "|" if tag == "equal" else "-"
            yield from (
                (sign, number, old[number - first]) for number in range(first + i, first + j)
            )
            if tag != "equal":
                yield from (("+", 0, text) for text in new[k:m])


def _around(source: Source, fix: Fix) -> tuple[list[str], list[str], int]:
    """The lines that change and those around them, before and after, and the first's number."""
    begin, _ = source.position(min(edit.start for edit in fix.edits))
    end, _ = source.position(max(edit.end for edit in fix.edits))
    old, new = _lines(source.text), _lines(edits.apply(source.text, [fix])[0])
    first, below = max(begin - CONTEXT, 1), max(len(old) - end - CONTEXT, 0)
    return old[first - 1 : len(old) - below], new[first - 1 : len(new) - below], first


def _lines(text: str) -> list[str]:
    lines = LINE_END.split(text)
    return lines if lines[-1] else lines[:-1]
