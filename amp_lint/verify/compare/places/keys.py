"""Keys of checkpoints under which the state of a scaler is saved."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from amp_lint.verify.compare.regions import shown
from amp_lint.verify.compare.side import Side


def reasons(before: Side, after: Side) -> Iterator[str]:
    """The state of a scaler under a key that something else has, or that a ``**`` may have."""
    known = {before.lifter.term(each.key, {}): owner for _, each, owner in _saved_at(before)}
    for display, element, owner in _saved_at(after):
        key = after.lifter.term(element.key, {})
        others = [each for each in display.elements if each is not element]
        twice = any(
            isinstance(each, cst.DictElement) and after.lifter.term(each.key, {}) == key
            for each in others
        )
        place = display.elements.index(element)
        behind = any(isinstance(e, cst.StarredDictElement) for e in display.elements[place:])
        other = known.get(key, owner) != owner
        if twice or other or behind:
            yield f"line {after.line(element)}: `{shown(after, element)}` may not be what is saved"


def _saved_at(side: Side) -> Iterator[tuple[cst.Dict, cst.DictElement, str]]:
    """The dicts and their elements that hold the state of a scaler, each with the scaler."""
    for display in side.model.tree.nodes(cst.Dict):
        for element in display.elements:
            match element:
                case cst.DictElement(value=cst.Call(func=cst.Attribute(value=owner)) as call) if (
                    side.lifter.is_scaler_state(call)
                ):
                    yield display, element, side.model.tree.source(owner)
