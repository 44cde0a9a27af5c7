"""What explains a finding, but stands in another file than it."""

from __future__ import annotations

import bisect
from collections.abc import Sequence
from itertools import accumulate

from amp_lint.syntax.tree import Tree
from amp_lint.text.diagnostic import Diagnostic, quoted
from amp_lint.text.source import Source, SourceError


class Elsewhere:
    """Tells of places in the texts that are attached to a file."""

    def __init__(self, linked: Tree, sources: Sequence[tuple[str, bytes]]) -> None:
        """``sources`` has the file of each text: its path as shown, and its bytes."""
        self._text = linked.text
        self._sources = sources
        self._starts = [*accumulate(len(each) + 1 for each in linked.texts[:-1])]
        """Where each attached text begins, one after the other, as the tree has them."""

    def notes(self, finding: Diagnostic) -> tuple[str, ...]:
        """Each related place of a finding that is in another file: where, why, and the line."""
        told = (
            self._note(place.start, place.label)
            for place in finding.related
            if self._starts and place.start >= self._starts[0]
        )
        return tuple(dict.fromkeys(told))

    def _note(self, offset: int, label: str) -> str:
        path, data = self._sources[bisect.bisect_right(self._starts, offset) - 1]
        begin = self._text.rfind("\n", 0, offset) + 1
        line = self._text[begin : self._text.find("\n", offset)]
        row = _row(line, data)
        place = f"{path}:{row}" if row else path
        return f"{place}: {label}: {quoted(line)}"


def _row(line: str, data: bytes) -> int | None:
    """Which row of a file a line is, from 1; None if there are several like it."""
    try:
        rows = Source(data, "").text.splitlines()
    except SourceError:
        return None
    return rows.index(line) + 1 if rows.count(line) == 1 else None
