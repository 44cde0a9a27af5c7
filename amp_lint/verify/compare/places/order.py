"""Events that changed places with what sees what they do."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from amp_lint.amp.events import Kind
from amp_lint.amp.gradient_values import is_gradient
from amp_lint.verify.compare.marks import IN_ORDER
from amp_lint.verify.compare.side import Side
from amp_lint.verify.compare.units import common

_GRADIENTS, _SCALE, _ALL, _LEAVES = "of gradients", "of the scaler", "of all", "may leave"
_AHEAD = {
    Kind.ZERO_GRAD.value: {_GRADIENTS, _ALL, _LEAVES},
    Kind.UPDATE.value: {_SCALE, _ALL},
    Kind.STEP.value: {_ALL},
}
"""Events by what they must not be moved in front of."""
_BEHIND = {
    Kind.UNSCALE.value: {_GRADIENTS, _ALL, _LEAVES},
    Kind.UPDATE.value: {_ALL, _LEAVES},
}
"""Events by what they must not be moved behind."""


def reasons(before: Side, after: Side) -> Iterator[str]:
    """Events that changed places with what sees what they do, or may leave in between."""
    for name in common(before.units, after.units):
        old, new = (_sequence(side, name) for side in (before, after))
        for (kind, text), place in new.items():
            was = old.get((kind, text))
            for (other, reads), at in new.items() if was is not None and kind in IN_ORDER else ():
                stood = old.get((other, reads))
                if stood is None or was is None:
                    continue
                ahead = was > stood and place < at and other in _AHEAD.get(kind, ())
                behind = was < stood and place > at and other in _BEHIND.get(kind, ())
                if ahead or behind:
                    yield f"`{text}` of `{name}` and `{reads}` changed places"


def _sequence(side: Side, name: str) -> dict[tuple[str, str], int]:
    """Events and what sees them by what they are and how they are written; none that is twice."""
    tree, unit = side.model.tree, side.units[name]
    found = [(m.kind, tree.source(m.node), tree.order(m.node)) for m in side.effects[name].marks]
    for node in (
        *tree.below(unit, cst.Attribute), *tree.below(unit, cst.Yield),
        *tree.below(unit, cst.Await), *tree.below(unit, cst.Assert), *tree.below(unit, cst.Del),
    ):  # fmt: skip
        what = _sees(side, node) if side.holder(node) is unit else ""
        if what:
            statement = tree.statement(node) or node
            found.append((what, tree.source(statement).strip().splitlines()[0], tree.order(node)))
    keys = [(kind, text) for kind, text, _ in found]
    return {(kind, text): at for kind, text, at in found if keys.count((kind, text)) == 1}


def _sees(side: Side, node: cst.CSTNode) -> str:
    """What of a training step something looks at."""
    recognizer, tree = side.model.steps.recognizer, side.model.tree
    match node:
        case cst.Yield() | cst.Await():
            return _ALL
        case cst.Assert() | cst.Del():
            return _LEAVES
        case cst.Attribute() if is_gradient(node):
            return _GRADIENTS
        case cst.Attribute(value=owner) if side.model.roles.is_scaler(owner):
            call = tree.parent(node)
            is_event = isinstance(call, cst.Call) and recognizer.kind(call) is not None
            return "" if is_event else _SCALE
    return ""
