"""What a fix would change: lines that go and lines that come."""

from __future__ import annotations

import difflib
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from amp_lint.edit import edits
from amp_lint.report import Style
from amp_lint.report.color import BLUE, GREEN, RED, paint
from amp_lint.report.frame import screen
from amp_lint.text.diagnostic import Fix
from amp_lint.text.source import LINE_END, Source

CONTEXT = 1
"""Lines shown above and below what changes."""
_Change: TypeAlias = tuple[list[str], list[str], int]
_COLORS = {"|": BLUE, "-": RED, "+": GREEN}


@dataclass(frozen=True, slots=True)
class _Row:
    """One line, or a gap between two changes."""

    sign: str
    """``|`` for a line that stays, ``-``, ``+``; nothing for a gap."""
    number: int = 0
    """Of the line in the file as it is; 0 for a new one."""
    text: str = ""
    start: int = 0
    end: int = 0
    """Characters that must be seen, from 0: what differs from the line that this one is made of."""


def change(source: Source, fix: Fix, style: Style) -> Iterator[str]:
    """The lines of a frame; none where nothing changes."""
    rows = [*_rows(source, fix)] if fix.edits else []
    if not rows:
        return
    gutter = len(str(max(row.number for row in rows)))
    edge = f"{' ' * gutter} {paint('|', BLUE, style)}"
    yield edge
    for row in rows:
        if not row.sign:
            yield paint("...", BLUE, style)
            continue
        number = paint(f"{row.number or '':>{gutter}}", BLUE, style)
        text = screen(row.text, row.start, row.end, max(style.width - gutter - 3, 20))
        yield f"{number} {paint(row.sign, _COLORS[row.sign], style)} {text}".rstrip()
    yield edge


def _rows(source: Source, fix: Fix) -> Iterator[_Row]:
    for old, new, first in _around(source, fix) if source.is_python else _cells(source, fix):
        yield from _compared(old, new, first)


def _compared(old: Sequence[str], new: Sequence[str], first: int) -> Iterator[_Row]:
    matcher = difflib.SequenceMatcher(None, old, new, autojunk=False)
    for index, group in enumerate(matcher.get_grouped_opcodes(CONTEXT)):
        if index:
            yield _Row("")
        for tag, i, j, k, m in group:
            if tag == "equal":
                yield from (_Row("|", first + n, old[n]) for n in range(i, j))
            else:
                yield from _replaced(old[i:j], new[k:m], first + i)


def _replaced(old: Sequence[str], new: Sequence[str], first: int) -> Iterator[_Row]:
    spans = [((0, 0), (0, 0))] * max(len(old), len(new))
    if len(old) == len(new):
        spans = [_difference(*pair) for pair in zip(old, new, strict=True)]
    for number, (line, (span, _)) in enumerate(zip(old, spans, strict=False), first):
        yield _Row("-", number, line, *span)
    for line, (_, span) in zip(new, spans, strict=False):
        yield _Row("+", 0, line, *span)


def _difference(one: str, other: str) -> tuple[tuple[int, int], tuple[int, int]]:
    """The range of each that differs."""
    start = _common(one, other)
    end = _common(one[start:][::-1], other[start:][::-1])
    return (start, len(one) - end), (start, len(other) - end)


def _common(one: str, other: str) -> int:
    """How many characters at the beginning are the same."""
    pairs = zip(one, other, strict=False)
    return sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], pairs))


def _cells(source: Source, fix: Fix) -> Iterator[_Change]:
    """The same of each cell that changes, whole."""
    changed = source.changed(edits.apply(source.text, [fix])[0])
    for (_, old, _), (_, new, _) in zip(source.pieces(), changed.pieces(), strict=True):
        if old != new:
            yield _lines(old), _lines(new), 1


def _around(source: Source, fix: Fix) -> Iterator[_Change]:
    """The lines that change and those around them, before and after, and the first's number."""
    begin, _ = source.position(min(edit.start for edit in fix.edits))
    end, _ = source.position(max(edit.end for edit in fix.edits))
    old, new = _lines(source.text), _lines(edits.apply(source.text, [fix])[0])
    first, below = max(begin - CONTEXT, 1), max(len(old) - end - CONTEXT, 0)
    yield old[first - 1 : len(old) - below], new[first - 1 : len(new) - below], first


def _lines(text: str) -> list[str]:
    lines = LINE_END.split(text)
    return lines if lines[-1] else lines[:-1]
