"""The places at which two plain trees differ."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from amp_lint.verify.compare.plain import BLOCK, Plain

Pair = tuple[Plain, Plain]
Rewrite = Callable[[Plain, Plain], Pair]
"""Makes two pieces of code more alike, where it makes no difference."""


@dataclass(frozen=True, slots=True, eq=False)
class Differing:
    """Code that is not the same in both texts."""

    before: Plain | None
    """None where the new text has more."""
    after: Plain | None
    """None where it has less."""
    around: tuple[Pair, ...] = field(default=())
    """What holds both, from the inside out."""


class Alignment:
    """Two trees, part by part."""

    def __init__(self, old: Plain, new: Plain, rewrite: Rewrite) -> None:
        self._rewrite = rewrite
        self.same: list[Pair] = []
        """The statements that are in both, in order."""
        self.places = [*self._differing(old, new, ())]
        """Where the trees differ, as small as can be."""

    def _differing(self, old: Plain, new: Plain, around: tuple[Pair, ...]) -> Iterator[Differing]:
        if old.digest != new.digest:
            old, new = self._rewrite(old, new)
        inner = ((old, new), *around)
        if (old.kind, old.text) != (new.kind, new.text):
            yield Differing(old, new, around)
        elif old.kind == BLOCK:
            yield from self._blocks(old.parts, new.parts, inner)
        else:
            for one, other in zip(old.parts, new.parts, strict=True):
                yield from self._differing(one, other, inner)

    def _blocks(
        self, old: Sequence[Plain], new: Sequence[Plain], around: tuple[Pair, ...]
    ) -> Iterator[Differing]:
        texts = [each.digest for each in old], [each.digest for each in new]
        for tag, i, j, k, m in difflib.SequenceMatcher(None, *texts, autojunk=False).get_opcodes():
            if tag == "equal":
                self.same += zip(old[i:j], new[k:m], strict=True)
            else:
                yield from self._runs(old[i:j], new[k:m], around)

    def _runs(
        self, old: Sequence[Plain], new: Sequence[Plain], around: tuple[Pair, ...]
    ) -> Iterator[Differing]:
        """Statements that became others: alike ones are held against each other, in order."""
        rest = list(new)
        for one in old:
            other = next((each for each in rest if alike(one, each)), None)
            if other is None:
                yield Differing(one, None, around)
                continue
            for passed in rest[: rest.index(other)]:
                yield Differing(None, passed, around)
            del rest[: rest.index(other) + 1]
            yield from self._differing(one, other, around)
        yield from (Differing(None, other, around) for other in rest)


def alike(one: Plain, other: Plain) -> bool:
    """Whether two statements may be one that was changed."""
    if one.kind != other.kind:
        return False
    if one.kind in ("FunctionDef", "ClassDef"):
        return one.text.partition(" ")[0] == other.text.partition(" ")[0]
    if one.kind in ("Assign", "AnnAssign", "AugAssign", "For", "With"):
        return not {part.digest for part in one.parts}.isdisjoint(p.digest for p in other.parts)
    if one.kind == "Expr":
        return _callee(one) == _callee(other)
    return True


def _callee(statement: Plain) -> object:
    value = statement.parts[0]
    return value.parts[0].digest if value.kind == "Call" else value.kind
