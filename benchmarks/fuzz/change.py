"""Changes of a program that say where every piece of the new text came from."""

from __future__ import annotations

import ast
import bisect
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from fuzz.code import Place, Program

Span: TypeAlias = tuple[int, int]
Piece: TypeAlias = "str | Span"
"""New text, or the old text of a span."""


@dataclass(frozen=True)
class Cut:
    """Replace a span of a program with pieces, which may be other spans of it."""

    start: int
    end: int
    pieces: tuple[Piece, ...]


Edits: TypeAlias = "tuple[Cut, ...]"
"""Cuts that only together leave the program what it was."""


def put(at: int, text: str) -> Cut:
    """Insert text."""
    return Cut(at, at, (text,))


def swap(span: Span, *pieces: Piece) -> Cut:
    """Write something in place of a span."""
    return Cut(*span, pieces)


def around(program: Program, span: Span, before: str = "(", after: str = ")") -> Edits:
    """Put something around a span."""
    return put(span[0], before), put(span[1], after)


@dataclass(frozen=True)
class Changed:
    """A new text, and which statement of the old one any place of it belongs to."""

    text: str
    statement: Callable[[int], int]
    """From an offset in the new text to the number of a statement, in order of place."""


def changed(program: Program, edits: Iterable[Cut]) -> Changed:
    """The program after some cuts, which do not overlap."""
    starts, origins, texts = [], [], []
    length = 0
    for piece, at in _pieces(program, edits):
        text = piece if isinstance(piece, str) else program.text[slice(*piece)]
        starts.append(length)
        origins.append(None if isinstance(piece, str) else piece[0])
        texts.append((text, at))
        length += len(text)
    numbers = Statements(program)

    def statement(offset: int) -> int:
        index = bisect.bisect_right(starts, offset) - 1
        origin = origins[index]
        old = texts[index][1] if origin is None else origin + offset - starts[index]
        return numbers.at(old)

    return Changed("".join(text for text, _ in texts), statement)


def _pieces(program: Program, edits: Iterable[Cut]) -> Iterator[tuple[Piece, int]]:
    """All pieces of the new text, with an old place for those that are new."""
    at = 0
    for cut in sorted(edits, key=lambda cut: (cut.start, cut.end)):
        if cut.start < at:
            raise ValueError("cuts overlap")
        if at < cut.start:
            yield (at, cut.start), at
        yield from ((piece, cut.start) for piece in cut.pieces)
        at = cut.end
    yield (at, len(program.text)), at


def laid_out(program: Program, text: str) -> Changed | None:
    """The same program in another layout; None if it is not the same."""
    try:
        new = Program(text.replace("\r\n", "\n"))
    except SyntaxError:
        return None
    before, after = Statements(program), Statements(new)
    if before.kinds != after.kinds:
        return None
    windows = text != new.text

    def statement(offset: int) -> int:
        return after.at(offset - text.count("\r", 0, offset) if windows else offset)

    return Changed(text, statement)


class Statements:
    """The statements of a program, numbered in order of place.

    Not a ``continue`` or ``return`` alone under a test: it is one with the test, which says the
    same by what stands in its other arm.
    """

    def __init__(self, program: Program) -> None:
        places = (place for place in program.places if not _is_lone_jump(place))
        spans = [(*program.span(place.node), place.node) for place in places]
        spans.sort(key=lambda span: (span[0], -span[1]))
        self._spans = [(start, end) for start, end, _ in spans]
        self.kinds = [type(node).__name__ for *_, node in spans]

    def at(self, offset: int) -> int:
        """The innermost statement at an offset, or the last one before it; -1 if there is none."""
        index = bisect.bisect_right(self._spans, (offset, float("inf"))) - 1
        last = index
        while index >= 0 and self._spans[index][1] < offset:
            index -= 1
        return index if index >= 0 else last


def _is_lone_jump(place: Place) -> bool:
    leaves = isinstance(place.node, ast.Continue) or (
        isinstance(place.node, ast.Return) and place.node.value is None
    )
    return leaves and isinstance(place.owner, ast.If) and len(place.block) == 1


def overlap(one: Sequence[Cut], other: Sequence[Cut]) -> bool:
    """Whether two edits cannot be made together."""
    return any(
        a.start == b.start or (a.start < b.end and b.start < a.end) or a.end == b.end
        for a in one
        for b in other
    )
