"""Masks of one tensor: what they write, and whether a softmax is all that reads them.

Of rows that are masked as a whole softmax sees nothing but these numbers, so that one of two equal
numbers cannot be another one without the other.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple, TypeGuard

import libcst as cst

from amp_lint.amp.dtypes import Run
from amp_lint.amp.sources import last_name
from amp_lint.flow.values import arguments
from amp_lint.model import Model
from amp_lint.syntax.names import dotted
from amp_lint.vocabulary.operations import LIKE, MASKINGS, SIZE_METHODS, SIZES, VIEWS

_FILLING = frozenset({"masked_fill", "masked_fill_"})
_THROUGH = VIEWS | {"add", "sub", "rsub"}
"""What is done to scores that leaves a mask in them as it is."""
_MASKING = MASKINGS - _THROUGH - _FILLING
_FACTORS = ("mul", "div")
_MAX_NAMES = 5
"""One after the other, of one value."""


class Masked(NamedTuple):
    """What is known of the masks of one tensor."""

    equal: tuple[cst.Call, ...]
    """The calls that write one number, in source order; one of them is that asked about."""
    is_alone: bool
    """Whether a softmax, which reads nothing but numbers that are larger, or -inf, reads them."""


def masked(model: Model, run: Run, call: cst.Call) -> Masked:
    """The masks around ``x.masked_fill(mask, number)``, before and after it."""
    found, is_known = {id(call): call}, True
    todo = [call]
    for each in todo:  # grows while it is read
        before, is_told = _before(model, each)
        after = [*_users(model, each)]
        is_known = is_known and is_told and bool(after) and all(map(_is_read, after))
        for other in (*before, *filter(is_filling, after)):
            if id(other) not in found:
                found[id(other)] = other
                todo.append(other)
    own = run.of(filled(call)).number
    numbers = {id(each): run.of(filled(each)).number for each in found.values()}
    equal = [each for each in found.values() if numbers[id(each)] == own]
    is_alone = is_known and all(_is_apart(number, own) for number in numbers.values())
    return Masked(tuple(sorted(equal, key=model.tree.order)), is_alone)


def is_filling(node: cst.CSTNode | None) -> TypeGuard[cst.Call]:
    """Whether it is a call of ``masked_fill``."""
    func = node.func if isinstance(node, cst.Call) else None
    return isinstance(func, cst.Attribute) and func.attr.value in _FILLING


def filled(call: cst.Call) -> cst.BaseExpression | None:
    """The number that a mask writes."""
    return arguments(call).get(1, "value")


def _is_apart(number: float | None, own: float | None) -> bool:
    """Whether a number stays as it is to another one that becomes the least of its dtype."""
    if number is None or own is None:
        return False
    return number >= own or number == -math.inf


def _before(model: Model, call: cst.Call) -> tuple[list[cst.Call], bool]:
    """The masks in what a mask is given, and whether there are no others, as far as is known."""
    assert isinstance(call.func, cst.Attribute)
    found: list[cst.Call] = []
    is_told, todo, seen = True, [call.func.value], set[int]()
    for start in todo:  # grows while it is read
        for node in model.sources.of(start, _THROUGH):
            if id(node) in seen:
                continue
            seen.add(id(node))
            made = model.operations.of(node)
            name = made.name if made is not None else ""
            if isinstance(node, cst.Call) and is_filling(node):
                found.append(node)
            elif isinstance(node, cst.AugAssign) or name in _MASKING or _is_given(model, node):
                is_told = False  # a caller may have masked it, or what is added may be a mask
            elif made is not None and made.input is not None and name in _FACTORS:
                todo.append(made.input)
            is_told = is_told and not _is_changed(model, node)
    return found, is_told


def _is_given(model: Model, node: cst.CSTNode) -> bool:
    """Whether it is a parameter of a function that nobody calls here."""
    found = model.flow.reaching(node) if isinstance(node, cst.Name) else []
    homes = (
        model.tree.ancestor(each.node, cst.FunctionDef)
        for each in found
        if each.kind == "parameter"
    )
    return any(home is None or not model.program.calls_of(home) for home in homes)


def _is_changed(model: Model, node: cst.CSTNode) -> bool:
    """Whether something is written into a variable: ``x[mask] = -1e9``, ``x.masked_fill_(...)``."""
    if not isinstance(node, cst.Name):
        return False
    holder = model.tree.ancestor(node, cst.FunctionDef) or model.tree.module
    targets = (each.target for each in model.tree.below(holder, cst.AssignTarget))
    items = (each.value for each in targets if isinstance(each, cst.Subscript))
    calls = (each.func for each in model.tree.below(holder, cst.Call))
    owners = (
        func.value
        for func in calls
        if isinstance(func, cst.Attribute) and func.attr.value.endswith("_")
    )
    return any(dotted(each) == node.value for each in (*items, *owners))


def _users(
    model: Model, node: cst.BaseExpression, steps: int = _MAX_NAMES
) -> Iterator[cst.CSTNode | None]:
    """What uses the result of a call: what stands around it, or reads what it is assigned to."""
    parent = model.tree.parent(node)
    if isinstance(parent, cst.Assign) and steps:
        line = model.tree.statement(parent)
        for binding in model.names.every_binding():
            if model.tree.statement(binding.node) is line:
                for name in model.flow.readers(binding):
                    yield from _users(model, name, steps - 1)
    elif not _is_measured(model, node):
        yield model.tree.parent(parent) if isinstance(parent, (cst.Attribute, cst.Arg)) else None


def _is_measured(model: Model, node: cst.CSTNode) -> bool:
    """Whether only its size, or that of a part, is asked for: ``x.shape``, ``ones_like(x[0])``."""
    parent = model.tree.parent(node)
    match parent:
        case cst.Attribute(attr=cst.Name(value=name)):
            return name in SIZES or name in SIZE_METHODS - {"item", "tolist"}
        case cst.Subscript(value=value) if value is node:
            return _is_measured(model, parent)
        case cst.Arg():
            call = model.tree.parent(parent)
            return call is not None and last_name(call) in LIKE
    return False


def _is_read(node: cst.CSTNode | None) -> bool:
    """Whether it is a softmax, or the next mask."""
    return is_filling(node) or (node is not None and last_name(node) == "softmax")
