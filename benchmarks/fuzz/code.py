"""Programs with the places of their syntax: what mutants and neutral edits are cut out of."""

from __future__ import annotations

import ast
import functools
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias, TypeVar

from amp_lint.edit.edits import splice
from amp_lint.text.diagnostic import Edit

Block: TypeAlias = list[ast.stmt]
Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef
N = TypeVar("N", bound=ast.AST)


def parsed(text: str | bytes) -> ast.Module | None:
    """The syntax tree; None for what is no Python."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return ast.parse(text)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return None


@dataclass(frozen=True)
class Place:
    """A statement, and the block and the owner of the block that it stands in."""

    node: ast.stmt
    block: Block
    owner: ast.AST

    @property
    def index(self) -> int:
        """Where in the block it stands."""
        return next(i for i, other in enumerate(self.block) if other is self.node)


class Program:
    """The text of a program, with ``\\n`` for line ends, and its syntax tree.

    Spans are offsets of characters in the text.
    """

    def __init__(self, text: str) -> None:
        """Parse ``text``.

        Raises:
            SyntaxError: it is no Python.
        """
        tree = parsed(text)
        if tree is None:
            raise SyntaxError("no Python")
        self.text, self.tree = text, tree
        self.lines = text.split("\n")
        self._starts = [0]
        for line in self.lines:
            self._starts.append(self._starts[-1] + len(line) + 1)

    def offset(self, row: int, column: int) -> int:
        """The offset of a line (from 1) and a column in bytes of UTF-8, as `ast` counts."""
        line = self.lines[row - 1]
        if not line.isascii():
            column = len(line.encode("utf-8", "surrogatepass")[:column].decode("utf-8", "ignore"))
        return self._starts[row - 1] + column

    def span(self, node: ast.AST) -> tuple[int, int]:
        """Where a node begins, with its decorators, and ends."""
        first = min([node, *getattr(node, "decorator_list", [])], key=lambda n: n.lineno)
        start = self.offset(first.lineno, first.col_offset)
        if first is not node:
            start = self.text.rindex("@", 0, start)
        return start, self.offset(node.end_lineno, node.end_col_offset)  # type: ignore[attr-defined]

    def source(self, node: ast.AST) -> str:
        """The text of a node."""
        start, end = self.span(node)
        return self.text[start:end]

    def line_start(self, offset: int) -> int:
        """Where the line begins that an offset is in."""
        return self.text.rfind("\n", 0, offset) + 1

    def line_end(self, offset: int) -> int:
        """Where that line ends."""
        end = self.text.find("\n", offset)
        return len(self.text) if end < 0 else end

    def indent(self, node: ast.AST) -> str:
        """The white space before a statement that begins its line."""
        start, _ = self.span(node)
        return self.text[self.line_start(start) : start]

    def replaced(self, node: ast.AST, content: str) -> Edit:
        """Write something in place of a node."""
        return Edit(*self.span(node), content)

    def nodes(self, *kinds: type[N]) -> list[N]:
        """All nodes of some kinds."""
        return [node for node in self.walked if isinstance(node, kinds)]

    @functools.cached_property
    def functions(self) -> list[Function]:
        """All functions."""
        return [node for node in self.walked if isinstance(node, Function)]

    @functools.cached_property
    def definitions(self) -> set[str]:
        """The names of all functions and classes."""
        return {node.name for node in (*self.functions, *self.nodes(ast.ClassDef))}

    @functools.cached_property
    def walked(self) -> tuple[ast.AST, ...]:
        """All nodes."""
        return tuple(ast.walk(self.tree))

    @functools.cached_property
    def parents(self) -> dict[ast.AST, ast.AST]:
        """What each node is in."""
        return {child: node for node in self.walked for child in ast.iter_child_nodes(node)}

    def above(self, node: ast.AST) -> Iterator[ast.AST]:
        """What a node is in, from the inside out."""
        while node in self.parents:
            node = self.parents[node]
            yield node

    @functools.cached_property
    def places(self) -> list[Place]:
        """All statements."""
        return [
            Place(node, block, owner)
            for owner in self.walked
            for block in blocks(owner)
            for node in block
        ]

    @functools.cached_property
    def whole_lines(self) -> list[Place]:
        """The statements that share no line with others and stand on no line of a string."""
        return [place for place in self.places if self._owns_lines(place)]

    def _owns_lines(self, place: Place) -> bool:
        start, end = self.span(place.node)
        before = self.text[self.line_start(start) : start]
        after = self.text[end : self.line_end(end)].strip()
        continued = self.text[: self.line_start(start)].endswith("\\\n")
        return not before.strip() and (not after or after.startswith("#")) and not continued

    def line_span(self, node: ast.AST) -> tuple[int, int]:
        """The lines of a statement, with the line end."""
        start, end = self.span(node)
        return self.line_start(start), min(self.line_end(end) + 1, len(self.text))

    def after(self, *edits: Edit) -> str:
        """The text with edits made."""
        return splice(self.text, edits)


def blocks(owner: ast.AST) -> Iterator[Block]:
    """The blocks of statements right below a node."""
    for name in ("body", "orelse", "finalbody"):
        block = getattr(owner, name, None)
        if isinstance(block, list) and block and isinstance(block[0], ast.stmt):
            yield block


def shifted(text: str, old: str, new: str) -> str:
    """Lines with another indentation; the lines of strings move with them."""
    return "".join(
        new + line[len(old) :] if line.startswith(old) and line.strip() else line
        for line in text.splitlines(keepends=True)
    )
