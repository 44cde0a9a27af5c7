"""Moving averages, however they are written: ``stored = decay * stored + (1 - decay) * new``."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from amp_lint._lazy import cst
from amp_lint.vocabulary.expressions import SELECTS
from amp_lint.vocabulary.operations import ADD, CASTS, COPY, INTERPOLATE, SHRINK, SUBTRACT

if TYPE_CHECKING:
    from amp_lint.model import Model
    from amp_lint.syntax.facts import Facts

_IN_PLACE = frozenset({SHRINK, INTERPOLATE, COPY, ADD, SUBTRACT})
_ALONE = frozenset({SHRINK, INTERPOLATE})
_GIVEN = frozenset({"add", "lerp"})
_SAME = "data"
"""What of a tensor is the tensor itself here."""
_STILL_WEIGHTS = SELECTS | {*CASTS, "to", "type", "type_as"}
"""What makes no other values of a model's parameters."""


class Average(NamedTuple):
    """An update of a moving average."""

    node: cst.CSTNode
    stored: cst.BaseExpression
    weight: cst.BaseExpression
    is_decay: bool = True
    """Whether ``weight`` is the decay, not what is left of 1."""
    followed: cst.BaseExpression | None = None
    """What it is an average of, with its own factor."""


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
            case ast.Assign(
                targets=[stored],
                value=ast.BinOp(op=ast.Add()) | ast.IfExp(body=ast.BinOp(op=ast.Add())),
            ):
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
            for value in _arms(assign.value):
                yield from _assigned(model, _bare(assign.targets[0].target), value)
    for change in model.tree.nodes(cst.AugAssign):
        if isinstance(change.operator, (cst.AddAssign, cst.SubtractAssign)):
            is_added = isinstance(change.operator, cst.AddAssign)
            yield from _stepped(model, _bare(change.target), change.value, is_added=is_added)


class CastAverage(NamedTuple):
    """A cast of an object that keeps moving averages of a model's parameters."""

    node: cst.Call
    dtype: str
    made: cst.Call
    update: cst.Call
    """Where it follows the model after that."""


def cast_averages(model: Model) -> Iterator[CastAverage]:
    """The casts to 16 bits of such objects that follow their model later on."""
    from amp_lint.amp.casts import cast_to_low
    from amp_lint.vocabulary.modules import AVERAGES

    for call in model.tree.nodes(cst.Call):
        dtype = cast_to_low(model.names, model.values, call)
        if dtype is None or not isinstance(call.func, cst.Attribute):
            continue
        made = model.origins.makers(call.func.value)
        update = _followed_after(model, call, call.func.value)
        if made and update and all(model.names.is_any(each.func, AVERAGES) for each in made):
            yield CastAverage(call, dtype, made[0], update)


def _followed_after(model: Model, cast: cst.Call, average: cst.BaseExpression) -> cst.Call | None:
    """The first update of an average behind a cast of it, in the same function."""
    from amp_lint.vocabulary.modules import FOLLOWING

    home, at = model.program.function_of(cast), model.tree.order(cast)
    for call in model.tree.nodes(cst.Call):
        func = call.func
        if not isinstance(func, cst.Attribute) or func.attr.value not in FOLLOWING:
            continue
        is_later = model.tree.order(call) > at and model.program.function_of(call) is home
        if is_later and model.origins.same(func.value, average):
            return call
    return None


def counts(model: Model) -> Iterator[tuple[cst.CSTNode, cst.BaseExpression, cst.BaseExpression]]:
    """What is counted up, ``n += x`` or ``n = n + x``: where, ``n`` and ``x``."""
    for add in model.tree.nodes(cst.AugAssign):
        if isinstance(add.operator, cst.AddAssign):
            yield add, add.target, add.value
    for assign in model.tree.nodes(cst.Assign):
        match assign:
            case cst.Assign(
                targets=[cst.AssignTarget(target=target)],
                value=cst.BinaryOperation(left=left, operator=cst.Add(), right=right),
            ) if model.tree.source(left) == model.tree.source(target):
                yield assign.value, left, right


def _arms(value: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
    """What a conditional expression chooses from, or the expression itself."""
    if isinstance(value, cst.IfExp):
        yield from _arms(value.body)
        yield from _arms(value.orelse)
    else:
        yield value


def is_of_weights(model: Model, average: Average) -> bool:
    """Whether it is an average of what a model's parameters are in each step."""
    from amp_lint.syntax.assignments import held_in
    from amp_lint.vocabulary.modules import PARAMETERS

    if average.followed is None:
        return False
    factors = (factor for pair in _factors(model, average.followed) for factor in pair)
    return any(
        isinstance(held, cst.Call)
        and isinstance(held.func, cst.Attribute)
        and held.func.attr.value in PARAMETERS
        for whole in (average.followed, *factors)
        for one in model.sources.of(whole, _STILL_WEIGHTS)
        for part in (one.value if isinstance(one, cst.Attribute) else one,)
        if isinstance(part, cst.Name)
        for binding in model.names.bindings(part)
        for held in held_in(binding)
    )


def _in_place(
    model: Model, call: cst.Call, stored: cst.BaseExpression, name: str
) -> Iterator[Average]:
    """``stored.mul_(decay).add_(rest)`` and other methods that change it."""
    from amp_lint.flow.values import arguments

    given = arguments(call)
    value, weight = given.get(0, None), given.get(1, "weight")
    if name == INTERPOLATE and weight is not None:
        yield Average(call, stored, weight, is_decay=False, followed=value)
    elif value is None:
        return
    elif name == SHRINK and _is_added_to(model, call):
        added = model.tree.parent(call)
        holder = model.tree.parent(added) if added is not None else None
        rest = arguments(holder).get(0, "other") if isinstance(holder, cst.Call) else None
        yield Average(call, stored, value, followed=rest)
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
        new = made.args.get(0, "end")
        yield Average(value, _bare(made.input), weight, is_decay=False, followed=new)
    added = made.input, made.args.get(0, "other")
    for part, rest in (added, added[::-1]) if made.name == "add" else ():
        for one, other in _factors(model, part):
            if _is_same(model, other, stored):  # the stored one before it is bound again
                yield Average(value, _bare(other), one, followed=rest)


def _stepped(
    model: Model, stored: cst.BaseExpression, value: cst.BaseExpression, *, is_added: bool
) -> Iterator[Average]:
    """``stored += weight * (new - stored)``, and ``stored -= weight * (stored - new)``."""
    for weight, apart in _factors(model, value):
        if not isinstance(apart, cst.BinaryOperation):
            continue
        old = apart.right if is_added else apart.left
        if isinstance(apart.operator, cst.Subtract) and _is_same(model, old, stored):
            new = apart.left if is_added else apart.right
            yield Average(value, _bare(old), weight, is_decay=False, followed=new)


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
    if source(_bare(node)) == source(stored):
        return True
    return isinstance(node, cst.Name) and source(stored) in _also(model, node)


def _also(model: Model, name: cst.Name) -> Iterator[str]:
    """What a variable of a loop is as well: of ``for i, x in enumerate(xs)`` it is ``xs[i]``."""
    from amp_lint.syntax.assignments import numbered

    source = model.tree.source
    for binding in model.names.bindings(name):
        if isinstance(binding.node, (cst.For, cst.CompFor)):
            for index, element, container in numbered(binding.node):
                if isinstance(element, cst.Name) and element.value == name.value:
                    yield f"{source(container)}[{source(index)}]"


def _bare(node: cst.BaseExpression) -> cst.BaseExpression:
    """``x`` of ``x.data``."""
    while isinstance(node, cst.Attribute) and node.attr.value == _SAME:
        node = node.value
    return node
