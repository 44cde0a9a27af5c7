"""Which effects of two versions of a function belong together."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence

from amp_lint.verify.compare.effects import Effect
from amp_lint.verify.terms import Form, Op

Pairing = tuple[int | None, int | None]
"""Indices of an old and a new effect; None where one side has none."""


def pairings(before: Sequence[Effect], after: Sequence[Effect]) -> Iterator[Pairing]:
    """Every effect of both sides once, with the one it is held against."""
    old, new = [e.key for e in before], [e.key for e in after]
    for tag, i, j, k, m in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if tag == "equal":
            yield from zip(range(i, j), range(k, m), strict=True)
        else:
            yield from _matched(before, after, range(i, j), range(k, m))


def _matched(
    before: Sequence[Effect], after: Sequence[Effect], old: range, new: range
) -> Iterator[Pairing]:
    rest = list(new)
    for one in old:
        other = next((n for n in rest if _outline(after[n]) == _outline(before[one])), None)
        if other is not None:
            rest.remove(other)
        yield one, other
    yield from ((None, other) for other in rest)


def _outline(effect: Effect) -> tuple[object, ...]:
    head = (effect.term.form, effect.term.name) if isinstance(effect.term, Op) else None
    callee = effect.term.args[0] if head and head[0] is Form.APPLY else None  # type: ignore[union-attr]
    return effect.kind, len(effect.guards), (head, callee) if effect.kind == "do" else None


def differing(
    before: Sequence[Effect], after: Sequence[Effect]
) -> Iterator[tuple[Effect | None, Effect | None]]:
    """Effects of both sides that differ, side by side; None where one side has none."""
    for one, other in pairings(before, after):
        old = None if one is None else before[one]
        new = None if other is None else after[other]
        if old is None or new is None or old.key != new.key:
            yield old, new
