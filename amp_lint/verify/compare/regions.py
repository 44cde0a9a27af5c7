"""What regions hold beside the places that differ: the same code as before."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import libcst as cst

from amp_lint.amp.events import Kind
from amp_lint.verify.compare.side import Side
from amp_lint.verify.compare.units import common

_CORE = frozenset({Kind.BACKWARD.value, Kind.STEP.value, Kind.ZERO_GRAD.value})
"""Events that code without AMP has too: a fix leaves them where they are."""


def shown(side: Side, node: cst.CSTNode) -> str:
    """The first line of a piece of code."""
    return side.model.tree.source(node).splitlines()[0]


def yields(before: Side, after: Side, name: str) -> Iterator[str]:
    """What is active at a ``yield`` is active in the code that runs in between."""
    old, new = (
        [m for m in side.effects[name].marks if m.kind == "yield" and m.regions]
        for side in (before, after)
    )
    for mark in new[len(old) :]:
        line, code = after.line(mark.node), shown(after, mark.node)
        yield f"line {line}: `{code}` leaves the function inside a region"


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
