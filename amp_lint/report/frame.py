"""Code frames: numbered lines with marks below what a finding is about."""

from __future__ import annotations

import itertools
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from amp_lint.report import Style
from amp_lint.report.color import BLUE, paint
from amp_lint.text.source import Source

CONTEXT = 2
"""Lines shown above and below what is marked."""
LONGEST = 4
"""Lines of one range that are shown; of a longer one the first and the last."""
_TAB = " " * 4
_CUT = "…"
_TURNING = ("LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI")
"""The kinds of characters that turn the direction of text."""


@dataclass(frozen=True, slots=True)
class Mark:
    """A range of the text, underlined, with a label behind it. The first mark is the finding."""

    start: int
    end: int
    character: str
    label: str
    color: str


@dataclass(frozen=True, slots=True)
class _Underline:
    """The part of a mark on one line, in characters from 0."""

    start: int
    end: int
    mark: Mark
    last: bool


def frame(source: Source, place: str, marks: Sequence[Mark], style: Style) -> Iterator[str]:
    """The lines of a frame; ``place`` stands above it."""
    underlines = _by_row(source, marks)
    rows = _rows(source, marks[0], underlines)
    numbers = {row: source.in_cell(row) for row in rows}
    gutter = max(len(str(number)) for _, number in numbers.values())
    bar = paint("|", BLUE, style)
    yield f"{' ' * gutter}{paint('-->', BLUE, style)} {place}"
    yield f"{' ' * gutter} {bar}"
    main, _ = source.in_cell(source.position(marks[0].start)[0])
    for before, row in itertools.pairwise([rows[0] - 1, *rows]):
        cell, count = numbers[row]
        if cell != (numbers[before][0] if before in numbers else main):
            yield f"{' ' * gutter}{paint(':::', BLUE, style)} cell {cell}"
        elif row > before + 1:
            yield paint("...", BLUE, style)
        number = paint(f"{count:>{gutter}}", BLUE, style)
        here = underlines.get(row, [])
        start = min((one.start for one in here), default=0)
        stop = max((one.end for one in here), default=0)
        line = _Line(source.line(row), start, stop, max(style.width - gutter - 3, 20))
        yield f"{number} {bar} {line.text}".rstrip()
        yield from (
            f"{' ' * gutter} {bar} {text}" for one in here for text in line.under(one, style)
        )
    yield f"{' ' * gutter} {bar}"


def _by_row(source: Source, marks: Sequence[Mark]) -> dict[int, list[_Underline]]:
    """What to underline on each line; a mark's own order is kept on a line."""
    found: dict[int, list[_Underline]] = {}
    for mark in marks:
        for row, underline in _underlines(source, mark):
            found.setdefault(row, []).append(underline)
    return found


def _underlines(source: Source, mark: Mark) -> Iterator[tuple[int, _Underline]]:
    first, start = source.position(mark.start)
    last, end = source.position(mark.end)
    if last > first and end == 1:  # the line end belongs to the line before
        last, end = last - 1, len(source.line(last - 1)) + 1
    for row in _shown(first, last):
        text = source.line(row)
        begin = start - 1 if row == first else len(text) - len(text.lstrip())
        stop = end - 1 if row == last else len(text.rstrip())
        yield row, _Underline(begin, max(stop, begin + 1), mark, row == last)


def _shown(first: int, last: int) -> Sequence[int]:
    return range(first, last + 1) if last - first < LONGEST else (first, first + 1, last)


def _rows(source: Source, main: Mark, underlines: dict[int, list[_Underline]]) -> list[int]:
    """The lines to show: marked ones, what is around the finding, and gaps of one line."""
    own = [row for row, here in underlines.items() if any(one.mark is main for one in here)]
    (top, _), (_, bottom) = source.block(min(own)), source.block(max(own))
    above = range(max(min(own) - CONTEXT, top), min(own))
    below = range(max(own) + 1, min(max(own) + CONTEXT, bottom) + 1)
    context = {*itertools.dropwhile(lambda row: _blank(source, row), above)}
    context |= {*itertools.dropwhile(lambda row: _blank(source, row), reversed(below))}
    rows = {*underlines, *context}
    return sorted(rows | {r + 1 for r in rows if r + 2 in rows and r + 2 <= source.block(r)[1]})


def _blank(source: Source, row: int) -> bool:
    return not source.line(row).strip()


class _Line:
    """A line as it stands on the screen, cut to ``width`` columns around what is to be seen."""

    def __init__(self, text: str, start: int, stop: int, width: int) -> None:
        self._screen = width
        cells = [_cell(character) for character in text.rstrip()]
        self._columns = [0, *itertools.accumulate(map(_columns, cells))]
        self._left, self._right = self._window(start, min(stop, len(cells)), width)
        body = "".join(cells[self._left : self._right])
        self.text = _CUT * (self._left > 0) + body + _CUT * (self._right < len(cells))

    def _window(self, start: int, stop: int, width: int) -> tuple[int, int]:
        """The characters to show: all if they fit, else so that much of ``start:stop`` shows."""
        left, right = 0, len(self._columns) - 1
        if self._width(left, right) <= width:
            return left, right
        marked = min(self._width(start, stop), width // 2)
        while left < start and self._width(left, start) + marked > width - 2:
            left += 1
        while self._width(left, right) > width - 2:
            right -= 1
        return left, right

    def _width(self, start: int, stop: int) -> int:
        return self._columns[stop] - self._columns[start]

    def under(self, underline: _Underline, style: Style) -> Iterator[str]:
        """The line of marks below this line; the label gets one of its own if it needs one."""
        start = min(max(underline.start, self._left), self._right)
        stop = max(min(underline.end, self._right), start)
        indent = self._width(self._left, start) + (self._left > 0)
        marks = underline.mark.character * max(self._width(start, stop), 1)
        label, color = underline.mark.label if underline.last else "", underline.mark.color
        beside = indent + len(marks) + 1 + len(label) <= self._screen
        text = f"{marks} {label}" if beside and label else marks
        yield " " * indent + paint(text, color, style)
        if label and not beside:
            yield " " * min(indent, max(self._screen - len(label), 0)) + paint(label, color, style)


def screen(text: str, start: int, stop: int, width: int) -> str:
    """A line as it stands on the screen, cut to ``width`` columns around ``text[start:stop]``."""
    return _Line(text, start, stop, width).text


def _cell(character: str) -> str:
    """What to print for a character: tabs as spaces, control characters as their pictures.

    What would turn the direction of a line or begin another one is replaced, too.
    """
    if character == "\t":
        return _TAB
    if ord(character) < 0x20:
        return chr(0x2400 + ord(character))
    if character == "\x7f":
        return "\N{SYMBOL FOR DELETE}"
    if character.isascii() or character.isprintable():
        return character
    turns = unicodedata.bidirectional(character) in _TURNING
    controls = unicodedata.category(character) in ("Cc", "Zl", "Zp")
    return "\N{REPLACEMENT CHARACTER}" if turns or controls else character


def _columns(text: str) -> int:
    """The columns that a terminal gives to ``text``."""
    if text.isascii():
        return len(text)
    return sum(map(_character_columns, text))


def _character_columns(character: str) -> int:
    if unicodedata.combining(character) or unicodedata.category(character) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1
