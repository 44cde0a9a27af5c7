"""Keys of checkpoints under which the state of a scaler is saved."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from amp_lint.flow.values import literal
from amp_lint.syntax.assignments import targets_of
from amp_lint.verify.compare.regions import shown
from amp_lint.verify.compare.side import Side
from amp_lint.verify.terms import Term

_LOAD = frozenset({"torch.load"})


def reasons(before: Side, after: Side) -> Iterator[str]:
    """The state of a scaler under a key that something else has, or that a ``**`` may have."""
    known = {before.lifter.term(each.key, {}): owner for _, each, owner in _saved_at(before)}
    hidden = {key for key, _ in _hidden(before)}
    lost = {id(element) for key, element in _hidden(after) if key not in hidden}
    for _, element, owner in _saved_at(after):
        key = after.lifter.term(element.key, {})
        if id(element) in lost or known.get(key, owner) != owner:
            yield f"line {after.line(element)}: `{shown(after, element)}` may not be what is saved"
    yield from _added(before, after)


def _hidden(side: Side) -> Iterator[tuple[Term, cst.DictElement]]:
    """The same that another element of the dict has the key of, or may have, by their key."""
    for display, element, _ in _saved_at(side):
        key = side.lifter.term(element.key, {})
        place = display.elements.index(element)
        twice = any(
            isinstance(each, cst.DictElement) and side.lifter.term(each.key, {}) == key
            for each in display.elements
            if each is not element
        )
        behind = any(isinstance(e, cst.StarredDictElement) for e in display.elements[place:])
        if twice or behind:
            yield key, element


def _added(before: Side, after: Side) -> Iterator[str]:
    """Keys that are new, where something asks for all that was saved, or expects them of all."""
    known = {_keys(display) for display, *_ in _saved_at(before)}
    for display, element, _ in _saved_at(after):
        key, line = literal(element.key), after.line(element)
        if _keys(display) in known:
            continue
        if _walks(after):
            yield f"line {line}: all that is loaded is asked for, be it new or not"
        rest = _keys(display) - {key}
        others = map(_keys, after.model.tree.nodes(cst.Dict))
        if any(rest <= other and key not in other for other in others):
            yield f"line {line}: what is saved like this elsewhere lacks the state of the scaler"


def _keys(display: cst.Dict) -> frozenset[object]:
    elements = (each for each in display.elements if isinstance(each, cst.DictElement))
    return frozenset(literal(each.key) for each in elements)


def _walks(side: Side) -> bool:
    """Whether a file does more with what it loads than to ask for single items of it."""
    names = side.model.names
    loads = (c for c in side.model.tree.nodes(cst.Call) if names.is_any(c.func, _LOAD))
    return not all(_asks_for_one(side, use) for call in loads for use in _uses(side, call))


def _uses(side: Side, load: cst.Call) -> Iterator[cst.BaseExpression]:
    """What is loaded, wherever it is read: under a name, or where it stands."""
    tree, targets = side.model.tree, targets_of(side.model.tree, load)
    yield from () if targets else (load,)
    for target in targets:
        for name in tree.named(target.value) if isinstance(target, cst.Name) else ():
            bindings = side.model.names.bindings(name)
            if name is not target and any(each.value is load for each in bindings):
                yield name


def _asks_for_one(side: Side, use: cst.BaseExpression) -> bool:
    """``saved["model"]``, ``saved.get("model")``, ``"model" in saved``."""
    parent = side.model.tree.parent(use)
    match parent:
        case cst.Subscript(value=value):
            return value is use
        case cst.Attribute(value=value, attr=attr):
            return value is use and attr.value == "get"
        case cst.ComparisonTarget(operator=operator):
            return isinstance(operator, (cst.In, cst.NotIn))
    return isinstance(parent, cst.Del)


def _saved_at(side: Side) -> Iterator[tuple[cst.Dict, cst.DictElement, str]]:
    """The dicts and their elements that hold the state of a scaler, each with the scaler."""
    for display in side.model.tree.nodes(cst.Dict):
        for element in display.elements:
            match element:
                case cst.DictElement(value=cst.Call(func=cst.Attribute(value=owner)) as call) if (
                    side.lifter.is_scaler_state(call)
                ):
                    yield display, element, side.model.tree.source(owner)
