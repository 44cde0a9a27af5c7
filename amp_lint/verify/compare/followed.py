"""What traces and regions have to say beside the places that differ: they must speak of the same.

Events that only one of two texts follows, and regions that hold other code than before.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import libcst as cst

from amp_lint.amp.events import Kind
from amp_lint.verify.compare.marks import Mark
from amp_lint.verify.compare.side import Side
from amp_lint.verify.compare.units import common

_CORE = frozenset({Kind.BACKWARD.value, Kind.STEP.value, Kind.ZERO_GRAD.value})
"""Events that code without AMP has too: a fix leaves them where they are."""


def shown(side: Side, node: cst.CSTNode) -> str:
    """The first line of a piece of code."""
    return side.model.tree.source(node).splitlines()[0]


def _compact(side: Side, node: cst.CSTNode) -> str:
    """A piece of code without white space."""
    return "".join(side.model.tree.source(node).split())


def _reason(side: Side, mark: Mark, how: str) -> str:
    return f"line {side.line(mark.node)}: `{shown(side, mark.node)}` {how}"


# --- what was not followed ----------------------------------------------------------------------


def _marks(side: Side, name: str) -> list[Mark]:
    return [mark for mark in side.effects[name].marks if mark.kind != "yield"]


def unread_events(before: Side, after: Side) -> Iterator[str]:
    """Events that the traces of one text hold, and those of the other do not.

    They stand on paths that were not followed, or are not taken for events there.
    """
    for one, other in ((before, after), (after, before)):
        for name in common(one.units, other.units):
            texts = {_compact(other, mark.node) for mark in _marks(other, name)}
            calls = {_compact(one, e.node): e.node for e in one.effects[name].done}
            own = {_compact(one, mark.node) for mark in _marks(one, name)}
            for text in common(calls, texts - own):
                yield f"line {one.line(calls[text])}: `{shown(one, calls[text])}` is another call"
            left = _missed(other, name)
            for key, mark in _missed(one, name).items():
                if key not in left:
                    yield _reason(one, mark, "is on no path that was followed")


def _missed(side: Side, name: str) -> dict[object, Mark]:
    """The events of a function that are in no trace."""
    found: dict[object, Mark] = {}
    for mark in _marks(side, name):
        if (side.line(mark.node), side.model.tree.source(mark.node)) not in side.tracer.followed:
            found[mark.kind, mark.about, mark.guards, mark.given] = mark
    return found


# --- autocast -----------------------------------------------------------------------------------


def yields(before: Side, after: Side, name: str) -> Iterator[str]:
    """What is active at a ``yield`` is active in the code that runs in between."""
    old, new = (
        [m for m in side.effects[name].marks if m.kind == "yield" and m.regions]
        for side in (before, after)
    )
    for mark in new[len(old) :]:
        yield _reason(after, mark, "leaves the function inside a region")


def regions(before: Side, after: Side, entered: set[str]) -> Iterator[str]:
    """Where an old region raises instead of being entered, it must be around what it was."""
    for name in common(before.units, after.units):
        old, new = before.effects[name].contexts, after.effects[name].contexts
        lost = [node for node in old if before.model.regions.of(node) is None]
        if not lost and name not in entered:
            continue
        node = (*lost, *old, before.units[name])[0]
        if len(old) != len(new):
            yield f"line {before.line(node)}: a region was added or removed"
        elif _inside(before, name) != _inside(after, name):
            yield f"line {before.line(node)}: a region encloses other code than before"


def _inside(side: Side, name: str) -> Counter[object]:
    """How often each operation and event runs in each region of a function."""
    found = side.effects[name]
    events: list[object] = [(m.kind, m.about, m.regions) for m in found.marks if m.kind in _CORE]
    return Counter(events + [(found.terms[key], inside) for key, inside in found.regions.items()])
