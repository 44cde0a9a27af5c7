"""Loops around the events of the training step."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import libcst as cst

from amp_lint.amp.events import Kind
from amp_lint.syntax.tree import descendants
from amp_lint.verify.compare.marks import BY_SCALER, IN_ORDER, Mark
from amp_lint.verify.compare.places.names import has_word
from amp_lint.verify.compare.regions import shown
from amp_lint.verify.compare.side import Side, timeless
from amp_lint.verify.compare.units import common
from amp_lint.verify.terms import Const, Op, Term


def reasons(before: Side, after: Side) -> Iterator[str]:
    """Events that came into another loop than the step that they serve, or that are repeated."""
    for name in common(before.units, after.units):
        old, new = before.effects[name].marks, after.effects[name].marks
        pairs = {(mark.kind, mark.about, _loops(mark)) for mark in old}
        steps = [mark for mark in new if mark.kind == Kind.STEP.value]
        for mark in new:
            if mark.kind not in IN_ORDER or (mark.kind, mark.about, _loops(mark)) in pairs:
                continue
            of_step = [s for s in steps if mark.kind == Kind.UPDATE.value or s.about == mark.about]
            apart = bool(of_step) and all(_loops(s) != _loops(mark) for s in of_step)
            apart = apart or _is_repeated(mark, new)
            served = mark.kind in BY_SCALER or not _is_cleared(mark, new)
            if served and apart:
                line, code = after.line(mark.node), shown(after, mark.node)
                yield f"line {line}: `{code}` runs in another loop"
    yield from _unlooped(before, after)


def _is_cleared(mark: Mark, marks: Sequence[Mark]) -> bool:
    """Whether gradients are cleared in each round that goes backward as well."""
    rounds = {_loops(m) for m in marks if m.kind == Kind.BACKWARD.value}
    cleared = (m for m in marks if (m.kind, m.about) == (Kind.ZERO_GRAD.value, mark.about))
    return any(_loops(m) in rounds and len(m.guards) == len(_loops(m)) for m in cleared)


def _is_repeated(mark: Mark, marks: Sequence[Mark]) -> bool:
    """Whether a loop repeats an event for the gradients of one backward pass.

    One that is of no round of the loop, as an update; or with one that is not: a clip of all.
    """
    backwards = [m for m in marks if m.kind == Kind.BACKWARD.value]
    inner = bool(backwards) and all(len(_loops(b)) < len(_loops(mark)) for b in backwards)
    same = (m for m in marks if _loops(m) == _loops(mark))
    return inner and not all(map(_is_of_round, same))


def _is_of_round(mark: Mark) -> bool:
    """Whether an event is of what its loop walks over: each round has another one."""
    match _loops(mark)[-1]:
        case Op(args=(_, Const(value=target))):
            names = (part.value for part in descendants(mark.node) if isinstance(part, cst.Name))
            return any(has_word(str(target), name) for name in names)
    return False


def _unlooped(before: Side, after: Side) -> Iterator[str]:
    """Clips that were repeated by a loop, and are not any more."""
    for name in common(before.units, after.units):
        old, new = before.effects[name].marks, after.effects[name].marks
        clips = [_loops(m) for m in new if m.kind == Kind.CLIP.value]
        kept = {loop for loops in clips for loop in loops}
        for mark in old if clips else ():
            if mark.kind == Kind.CLIP.value and not kept.issuperset(_loops(mark)):
                line, code = before.line(mark.node), shown(before, mark.node)
                yield f"line {line}: `{code}` left its loop"


def _loops(mark: Mark) -> tuple[Term, ...]:
    return tuple(
        timeless(guard)
        for guard in mark.guards
        if isinstance(guard, Op) and guard.name in ("for", "while")
    )
