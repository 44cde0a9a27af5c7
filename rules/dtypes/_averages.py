"""Moving averages, however they are written: ``stored = decay * stored + (1 - decay) * new``."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from amp_lint._lazy import cst
from amp_lint.vocabulary.operations import ADD, COPY, INTERPOLATE, SHRINK, SUBTRACT

if TYPE_CHECKING:
    from amp_lint.model import Model
    from amp_lint.syntax.facts import Facts

_IN_PLACE = frozenset({SHRINK, INTERPOLATE, COPY, ADD, SUBTRACT})
_ALONE = frozenset({SHRINK, INTERPOLATE})
_GIVEN = frozenset({"add", "lerp"})
_SAME = "data"
"""What of a tensor is the tensor itself here."""


class Average(NamedTuple):
    """An update of a moving average."""

    node: cst.CSTNode
    stored: cst.BaseExpression
    weight: cst.BaseExpression
    is_decay: bool = True
    """Whether ``weight`` is the decay, not what is left of 1."""


def accumulated(facts: Facts) -> Iterator[str]:
    """The last names of what may be an average or a counter."""
    for node in facts.nodes:
        match node:
            case ast.Call(
                func=ast.Attribute(attr=attr, value=stored), args=[ast.BinOp() | ast.Call()]
            ) if attr in _IN_PLACE:
                yield _last(stored)
            case ast.Call(func=ast.Attribute(attr=attr, value=stored)) if attr in _ALONE:
                yield _last(stored)
            case ast.Assign(targets=[stored], value=ast.BinOp(op=ast.Add())):
                yield _last(stored)
            case ast.Assign(targets=[stored], value=ast.Call(func=ast.Attribute(attr=attr))) if (
                attr in _GIVEN
            ):
                yield _last(stored)
            case ast.AugAssign(
                target=stored, value=ast.Constant(value=1) | ast.BinOp(op=ast.Mult())
            ):
                yield _last(stored)


def _last(node: ast.expr) -> str:
    match node:
        case ast.Attribute(attr="data", value=value) | ast.Subscript(value=value):
            return _last(value)
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
    return ""


def averages(model: Model) -> Iterator[Average]:
    """The updates of moving averages, in whatever dtype."""
    for call in model.tree.nodes(cst.Call):
        if isinstance(call.func, cst.Attribute) and call.func.attr.value in _IN_PLACE:
            yield from _in_place(model, call, _bare(call.func.value), call.func.attr.value)
    for assign in model.tree.nodes(cst.Assign):
        if len(assign.targets) == 1:
            yield from _assigned(model, _bare(assign.targets[0].target), assign.value)
    for change in model.tree.nodes(cst.AugAssign):
        if isinstance(change.operator, (cst.AddAssign, cst.SubtractAssign)):
            is_added = isinstance(change.operator, cst.AddAssign)
            yield from _stepped(model, _bare(change.target), change.value, is_added=is_added)


def _in_place(
    model: Model, call: cst.Call, stored: cst.BaseExpression, name: str
) -> Iterator[Average]:
    """``stored.mul_(decay).add_(rest)`` and other methods that change it."""
    from amp_lint.flow.values import arguments

    given = arguments(call)
    value, weight = given.get(0, None), given.get(1, "weight")
    if name == INTERPOLATE and weight is not None:
        yield Average(call, stored, weight, is_decay=False)
    elif value is None:
        return
    elif name == SHRINK and _is_added_to(model, call):
        yield Average(call, stored, value)
    elif name == COPY:
        yield from _assigned(model, stored, value)
    elif name in (ADD, SUBTRACT):
        yield from _stepped(model, stored, value, is_added=name == ADD)


def _assigned(
    model: Model, stored: cst.BaseExpression, value: cst.BaseExpression
) -> Iterator[Average]:
    """``stored = decay * stored + rest``, in either order, or ``lerp(stored, new, weight)``."""
    made = model.operations.of(value)
    if made is None:
        return
    weight = made.args.get(1, "weight") if made.name == "lerp" else None
    if weight is not None and made.input is not None and _is_same(model, made.input, stored):
        yield Average(value, _bare(made.input), weight, is_decay=False)
    for part in (made.input, made.args.get(0, "other")) if made.name == "add" else ():
        for one, other in _factors(model, part):
            if _is_same(model, other, stored):
                yield Average(value, _bare(other), one)  # the stored one before it is bound again


def _stepped(
    model: Model, stored: cst.BaseExpression, value: cst.BaseExpression, *, is_added: bool
) -> Iterator[Average]:
    """``stored += weight * (new - stored)``, and ``stored -= weight * (stored - new)``."""
    for weight, apart in _factors(model, value):
        if not isinstance(apart, cst.BinaryOperation):
            continue
        old = apart.right if is_added else apart.left
        if isinstance(apart.operator, cst.Subtract) and _is_same(model, old, stored):
            yield Average(value, _bare(old), weight, is_decay=False)


def _factors(
    model: Model, node: cst.BaseExpression | None
) -> Iterator[tuple[cst.BaseExpression, cst.BaseExpression]]:
    """The factors of a product, in both orders."""
    product = model.operations.of(node) if node is not None else None
    if product is None or product.name != "mul":
        return
    one, other = product.input, product.args.get(0, "other")
    if one is not None and other is not None:
        yield one, other
        yield other, one


def _is_added_to(model: Model, call: cst.Call) -> bool:
    holder = model.tree.parent(call)
    return isinstance(holder, cst.Attribute) and holder.attr.value == ADD


def _is_same(model: Model, node: cst.BaseExpression, stored: cst.BaseExpression) -> bool:
    source = model.tree.source
    return source(_bare(node)) == source(stored)


def _bare(node: cst.BaseExpression) -> cst.BaseExpression:
    """``x`` of ``x.data``."""
    while isinstance(node, cst.Attribute) and node.attr.value == _SAME:
        node = node.value
    return node
