"""Where the places of a run stand in the texts that findings are shown in."""

from __future__ import annotations

import linecache
from pathlib import Path

from amp_lint.runtime.frames import Place
from amp_lint.text import files
from amp_lint.text.files import from_here
from amp_lint.text.source import Source, SourceError


class Sources:
    """The files of a run, each read once."""

    def __init__(self) -> None:
        self._known: dict[str, Source] = {}

    def of(self, file: str) -> Source:
        """The text of a file as it is now; empty lines where it cannot be read."""
        found = self._known.get(file)
        if found is None:
            found = self._known[file] = _read(file)
        return found

    def span(self, place: Place) -> tuple[int, int]:
        """The range of a place, in characters of its text; its line where columns are unknown."""
        source = self.of(place.file)
        row = min(place.row, len(source.line_starts))
        line = source.line(row)
        if place.column is None or place.end_row is None or place.end_column is None:
            start = source.line_starts[row - 1] + len(line) - len(line.lstrip())
            return start, max(source.line_starts[row - 1] + len(line.rstrip()), start)
        start = _offset(source, row, place.column)
        last = min(place.end_row, len(source.line_starts))
        return start, max(_offset(source, last, place.end_column), start)


def _read(file: str) -> Source:
    name = str(from_here(Path(file)))
    try:
        return Source(files.read(Path(file)), name)
    except (OSError, SourceError):
        lines = linecache.getlines(file)  # a cell of a notebook, or what was typed
        return Source.of("".join(lines), name)


def _offset(source: Source, row: int, column: int) -> int:
    """The offset of a column that counts bytes of UTF-8."""
    line = source.line(row).encode("utf-8", "surrogatepass")[:column]
    return source.line_starts[row - 1] + len(line.decode("utf-8", "ignore"))
