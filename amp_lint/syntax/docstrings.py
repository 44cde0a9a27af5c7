"""Python in the documentation strings of a module: fences, blocks and doctests.

A string is read as it is spelled, line by line, so that each character has its place in the file.
Where that is not what the string says, as with an escape in a block, the block is left alone.
"""

from __future__ import annotations

import ast
import itertools
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from amp_lint.syntax.parse import TooDeepError, parse
from amp_lint.text.cell import Cell
from amp_lint.text.document import (
    Block,
    Document,
    cell,
    directives,
    fences,
    literals,
    of_code,
)
from amp_lint.text.lines import lines_of, pieces_of
from amp_lint.text.source import Source

MARKS = (b"```", b"~~~", b"::", b">>>")
"""Without one of them, there is no code in the documentation of a file."""
_OPENING = re.compile(r"(?P<prefix>[rRuU]?)(?P<quotes>\"\"\"|''')")
_EXAMPLE = re.compile(r"(?<![^\r\n])(?P<indent>[ \t]*)>>> ?")
_PROMPTS = (">>>", "...")


@dataclass(frozen=True)
class Docstring(Document):
    """A module as a document, of which the code in one documentation string is the Python."""

    quotes: str = ""
    raw: bool = False
    """Whether a backslash is nothing but that."""
    doctests: frozenset[int] = frozenset()
    """The numbers of the cells that are doctests."""

    def holds(self, text: str) -> bool:
        """Whether a text can stand in the string as it is."""
        return self.quotes not in text and (self.raw or "\\" not in text)

    def _indented(self, cell: Cell, text: str) -> str:
        if cell.number not in self.doctests:
            return super()._indented(cell, text)
        starts = {min(_rows(statement)) for statement in parse(text).body}
        lines = pieces_of(text)
        told = self._unchanged(cell, lines)
        return "".join(
            _prompted(cell.indent, _PROMPTS[row not in starts], *pair)
            for row, pair in enumerate(zip(lines, told, strict=True), 1)
        )


def docstrings(source: Source) -> Iterator[Docstring]:
    """The documentation strings of a module that have code in them.

    None if the module is no Python.
    """
    try:
        tree = parse(source.data)
    except (SyntaxError, TooDeepError):
        return
    lines = lines_of(source.text)
    starts = [0, *itertools.accumulate(map(len, lines))]
    for node in ast.walk(tree):
        literal = _literal(node)
        if literal is not None and (opening := _spelled(literal, lines)):
            found = Docstring(
                source.text, b"", (), opening["quotes"], opening["prefix"].lower() == "r"
            )
            yield from _with_code(found, literal, lines, starts)


def _with_code(
    empty: Docstring, literal: ast.Constant, lines: Sequence[str], starts: Sequence[int]
) -> Iterator[Docstring]:
    first, last = literal.lineno, (literal.end_lineno or literal.lineno) - 1
    inner, of = lines[first:last], starts[first : last + 1]
    cells: list[Cell] = []
    tests: set[int] = set()
    for block, is_test in _blocks(inner):
        if not empty.holds("".join(inner[block[0] : block[1]])):
            continue
        number = len(cells) + 1
        if is_test:
            cells.append(of_code(number, [*_code(inner, block)], of, block))
            tests.add(number)
        else:
            cells.append(cell(number, inner, of, block))
    if cells:
        kind = empty.quotes, empty.raw, frozenset(tests)
        yield Docstring(empty.text, b"", tuple(cells), *kind)


def _literal(node: ast.AST) -> ast.Constant | None:
    """The documentation of what a node defines."""
    if not isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
        return None
    first = node.body[0] if node.body else None
    value = first.value if isinstance(first, ast.Expr) else None
    return value if isinstance(value, ast.Constant) and isinstance(value.value, str) else None


def _spelled(literal: ast.Constant, lines: Sequence[str]) -> re.Match[str] | None:
    """How a string of several lines begins, if it is one and no several."""
    row, end = literal.lineno, literal.end_lineno or literal.lineno
    text = "".join(lines[row - 1 : end]).encode()
    below = len(lines[end - 1].encode()) - (literal.end_col_offset or 0)
    whole = text[literal.col_offset : len(text) - below].decode()
    opening = _OPENING.match(whole)
    if opening is None or whole.count(opening["quotes"]) != 2 or end - row < 2:
        return None
    return opening


def _blocks(lines: Sequence[str]) -> list[tuple[Block, bool]]:
    """The blocks of code, none in another, and whether each is a doctest."""
    tests = [*_doctests(lines)]
    prompts = {row for first, last, _ in tests for row in range(first, last)}
    found: list[tuple[Block, bool]] = [(block, True) for block in tests]
    others = (*fences(lines), *directives(lines), *literals(lines))
    found += [(each, False) for each in others if prompts.isdisjoint(range(each[0], each[1]))]
    found.sort(key=lambda each: (each[0][0], -each[0][1]))
    return [*_apart(found)]


def _apart(found: Iterable[tuple[Block, bool]]) -> Iterator[tuple[Block, bool]]:
    """Without those that begin in one before them, and the empty ones."""
    end = 0
    for block, is_test in found:
        if block[0] >= end and block[1] > block[0]:
            yield block, is_test
            end = block[1]


def _doctests(lines: Sequence[str]) -> Iterator[Block]:
    """Each example: a line with a prompt, and those with dots that go on with it."""
    for row, line in enumerate(lines):
        if match := _EXAMPLE.match(line):
            end, more = row + 1, match["indent"] + "..."
            while end < len(lines) and lines[end].rstrip("\r\n").startswith(more):
                end += 1
            yield row, end, match["indent"]


def _code(lines: Sequence[str], block: Block) -> Iterator[str]:
    """The lines of an example without prompts."""
    first, last, indent = block
    for line in lines[first:last]:
        yield line[len(indent) + 3 :].removeprefix(" ")


def _prompted(indent: str, prompt: str, line: str, spelled: str | None) -> str:
    """A line of an example; as it is spelled, if it is there already with this prompt."""
    if spelled is not None:
        before = len(indent) + len(prompt)
        return f"{indent}{prompt}{spelled[before:]}"
    return f"{indent}{prompt}{' ' * bool(line.strip())}{line}"


def _rows(statement: ast.stmt) -> Iterator[int]:
    """Where a statement begins, and its decorators."""
    yield statement.lineno
    yield from (each.lineno for each in getattr(statement, "decorator_list", ()))
