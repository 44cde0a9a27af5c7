"""Keys of checkpoints under which the state of a scaler is saved."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from amp_lint.verify.compare.regions import shown
from amp_lint.verify.compare.side import Side
from amp_lint.verify.terms import Term


def reasons(before: Side, after: Side) -> Iterator[str]:
    """The state of a scaler under a key that something else has, or that a ``**`` may have."""
    known = dict(_saved(before))
    for element, owner in _saved_at(after):
        display = after.model.tree.parent(element)
        if not isinstance(display, cst.Dict) or not isinstance(element, cst.DictElement):
            continue
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


def _saved(side: Side) -> Iterator[tuple[Term, str]]:
    for element, owner in _saved_at(side):
        if isinstance(element, cst.DictElement):
            yield side.lifter.term(element.key, {}), owner


def _saved_at(side: Side) -> Iterator[tuple[cst.CSTNode, str]]:
    """The elements of dicts that hold the state of a scaler, each with the scaler."""
    for call in side.model.tree.nodes(cst.Call):
        holder = side.model.tree.parent(call)
        if isinstance(holder, cst.DictElement) and side.lifter.is_scaler_state(call):
            func = call.func
            owner = side.model.tree.source(func.value) if isinstance(func, cst.Attribute) else ""
            yield holder, owner
