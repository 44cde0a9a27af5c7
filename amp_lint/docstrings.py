"""Findings in the documentation of a module, told as findings in the module."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from amp_lint.edit import edits
from amp_lint.syntax.cells import DocstringSource
from amp_lint.syntax.docstrings import Docstring, docstrings
from amp_lint.text.cell import Cell
from amp_lint.text.diagnostic import Diagnostic, Edit, Fix
from amp_lint.text.source import Source, SourceError


def findings(source: Source, look: Callable[[Source], list[Diagnostic]]) -> Iterator[Diagnostic]:
    """What ``look`` finds in the code of each documentation string, at its place in the file.

    All code of a string is one module. What is no program is passed over.
    """
    for docstring in docstrings(source):
        try:
            inner = DocstringSource.of_container(docstring, source.name)
        except SourceError:
            continue
        outer = _Outer(source, docstring, inner)
        yield from map(outer.finding, look(inner))


class _Outer:
    """The places of a documentation string in its module."""

    def __init__(self, source: Source, docstring: Docstring, inner: DocstringSource) -> None:
        self._source, self._docstring, self._inner = source, docstring, inner

    def finding(self, found: Diagnostic) -> Diagnostic:
        """A finding where it stands in the file."""
        start, end = self._span(found.start, found.end)
        places = ((each, self._span(each.start, each.end)) for each in found.related)
        related = tuple(replace(each, start=first, end=last) for each, (first, last) in places)
        fix = self._fix(found.fix) if found.fix else None
        return replace(found, start=start, end=end, related=related, fix=fix)

    def _span(self, start: int, end: int) -> tuple[int, int]:
        first = self._offset(start)
        return first, max(first, self._offset(end))

    def _offset(self, offset: int) -> int:
        row, column = self._inner.file_position(offset)
        return self._source.line_starts[row - 1] + column - 1

    def _fix(self, fix: Fix) -> Fix | None:
        """A fix of the file; None if its string cannot hold it as it is."""
        text, applied = edits.apply(self._inner.text, [fix])
        try:
            respelled = [*self._inner.changed(text).respelled()]
        except (SourceError, SyntaxError):
            return None
        made = [each for cell, spelled in respelled for each in self._edits(cell, spelled)]
        holds = all(self._docstring.holds(edit.content) for edit in made)
        return replace(fix, edits=tuple(made)) if applied and made and holds else None

    def _edits(self, cell: Cell, spelled: str) -> Iterator[Edit]:
        for edit in edits.difference(self._source.text[cell.start : cell.end], spelled):
            yield Edit(edit.start + cell.start, edit.end + cell.start, edit.content)
