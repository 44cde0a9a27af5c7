"""Documents with Python in them: fences of Markdown, blocks of reStructuredText.

What is around them stays as it is, and so do lines that a change leaves.
"""

from __future__ import annotations

import bisect
import codecs
import functools
import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from amp_lint.text.cell import Cell, spliced
from amp_lint.text.lines import changes, lines_of, pieces_of, without_end
from amp_lint.text.source import LINE_END, SourceError

MARKDOWN = (".md", ".markdown")
RESTRUCTURED = (".rst",)
_LANGUAGE = r"(?:python3?|py3?|ipython3?|testcode)"
_FENCE = re.compile(r"(?<![^\r\n])([ \t]*)(`{3,}|~{3,})([^\r\n`]*)$", re.MULTILINE)
_INFO = re.compile(
    rf"\A[ \t]*(?:\{{code(?:-cell|-block)?\}}[ \t]*|\{{\.)?{_LANGUAGE}(?![\w-])", re.I
)
_DIRECTIVE = re.compile(
    rf"\A([ \t]*)\.\.[ \t]+(?:(?:code(?:-block)?|sourcecode)::[ \t]+{_LANGUAGE}|testcode::)[ \t]*\Z"
)
_OPTION = re.compile(r"\A[ \t]+:[\w-]+:")
_INDENT = re.compile(r"\A[ \t]*")


Block: TypeAlias = tuple[int, int, str]
"""The first line, the one after the last, and the indentation."""


@dataclass(frozen=True)
class Document:
    """A document, and the Python in it, without its indentation."""

    text: str
    bom: bytes
    cells: tuple[Cell, ...]

    def written(self, texts: Sequence[str]) -> bytes:
        """The document with other code, as bytes."""
        return self.bom + spliced(self.text, self.cells, texts, self._indented).encode()

    def respelled(self, texts: Sequence[str]) -> Iterator[tuple[Cell, str]]:
        """The cells that have other code, and how the document says it, without what is around."""
        for cell, text in zip(self.cells, texts, strict=True):
            if text != cell.text:
                yield cell, self._indented(cell, text)

    def position(self, cell: Cell, offset: int) -> tuple[int, int]:
        """Line and column in the document, from 1, of a character of the code."""
        before = LINE_END.split(cell.text[:offset])
        start = bisect.bisect_right(self._starts, cell.start) + len(before) - 1
        line = cell.text[offset - len(before[-1]) :]
        raw = self.text[self._starts[start - 1] :]
        first, code = (LINE_END.split(each, 1)[0] for each in (raw, line))
        return start, len(first) - len(code) + len(before[-1]) + 1

    def _indented(self, cell: Cell, text: str) -> str:
        lines = pieces_of(text)
        told = self._unchanged(cell, lines)
        return "".join(
            cell.indent * bool(line.strip()) + line if spelled is None else spelled
            for line, spelled in zip(lines, told, strict=True)
        )

    def _unchanged(self, cell: Cell, lines: Sequence[str]) -> list[str | None]:
        """How the document spells the lines that a cell has already; None for new ones."""
        spelled = pieces_of(self.text[cell.start : cell.end])
        told: list[str | None] = []
        at = 0
        for i, j, k, m in changes(pieces_of(cell.text), lines):
            told += [*spelled[at:i], *[None] * (m - k)]
            at = j
        return [*told, *spelled[at:]]

    @functools.cached_property
    def _starts(self) -> list[int]:
        return [0, *(match.end() for match in LINE_END.finditer(self.text))]


def read(data: bytes, suffix: str) -> Document:
    """The document with these bytes, in the language of files with this suffix.

    Raises:
        SourceError: they are not UTF-8.
    """
    bom = codecs.BOM_UTF8 if data.startswith(codecs.BOM_UTF8) else b""
    try:
        text = data[len(bom) :].decode("utf-8")
    except UnicodeDecodeError as error:
        raise SourceError("cannot be read: it is not UTF-8") from error
    lines = lines_of(text)
    blocks = [*(fences if suffix in MARKDOWN else directives)(lines)]
    starts = [0, *itertools.accumulate(map(len, lines))]
    cells = [cell(number, lines, starts, block) for number, block in enumerate(blocks, 1)]
    return Document(text, bom, tuple(cells))


def cell(number: int, lines: Sequence[str], starts: Sequence[int], block: Block) -> Cell:
    """The code of a block of some lines, which start at these offsets."""
    first, last, indent = block
    return of_code(number, [_without(line, indent) for line in lines[first:last]], starts, block)


def of_code(number: int, body: Sequence[str], starts: Sequence[int], block: Block) -> Cell:
    """The cell whose lines of code are known; the last line end is no part of it."""
    first, last, indent = block
    code = "".join(map(_apart, ["", *body], body))
    kept = without_end(code)
    end = starts[last] - len(code) + len(kept)
    return Cell(number, kept, starts[first], end, indent, code[len(kept) :] or "\n")


def _apart(before: str, line: str) -> str:
    r"""A line after another one, whose ``\r`` does not become a part of what ends this one."""
    return " \n" if line == "\n" and before.endswith("\r") else line


def _without(line: str, indent: str) -> str:
    """A line of a block as code; a blank one may be shorter than the indentation."""
    return line.removeprefix(indent) if line.strip() else line.lstrip(" \t")


def fences(lines: Sequence[str]) -> Iterator[Block]:
    """Fences of Python in Markdown."""
    opened: tuple[int, re.Match[str]] | None = None
    for row, line in enumerate(lines):
        match = _FENCE.match(line.rstrip("\r\n"))
        if match is None:
            continue
        if opened is None:
            opened = row, match
        elif match[2].startswith(opened[1][2]) and not match[3].strip():
            if _INFO.match(opened[1][3]):
                yield opened[0] + 1, row, opened[1][1]
            opened = None
    if opened is not None and _INFO.match(opened[1][3]):
        yield opened[0] + 1, len(lines), opened[1][1]


def directives(lines: Sequence[str]) -> Iterator[Block]:
    """Blocks of Python in reStructuredText."""
    row = 0
    while row < len(lines):
        match = _DIRECTIVE.match(lines[row].rstrip("\r\n"))
        row += 1
        if match is None:
            continue
        while row < len(lines) and (not lines[row].strip() or _OPTION.match(lines[row])):
            row += 1
        first = row
        indent = _indent(lines[row]) if row < len(lines) else ""
        if len(indent) <= len(match[1]):
            continue
        row = _end(lines, row, indent)
        yield first, row, indent


def literals(lines: Sequence[str]) -> Iterator[Block]:
    """Blocks of reStructuredText that a ``::`` announces, in whatever language."""
    for row, line in enumerate(lines):
        if not line.rstrip().endswith("::") or line.lstrip().startswith(".. "):
            continue
        first = row + 1
        while first < len(lines) and not lines[first].strip():
            first += 1
        indent = _indent(lines[first]) if first < len(lines) else ""
        if first > row + 1 and len(indent) > len(_indent(line)):
            yield first, _end(lines, first, indent), indent


def _end(lines: Sequence[str], row: int, indent: str) -> int:
    """The line after the last of an indented block."""
    while row < len(lines) and (lines[row].startswith(indent) or not lines[row].strip()):
        row += 1
    while not lines[row - 1].strip():
        row -= 1
    return row


def _indent(line: str) -> str:
    match = _INDENT.match(line)
    return match[0] if match else ""
