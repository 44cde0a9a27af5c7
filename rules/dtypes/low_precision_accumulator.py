"""AMP316: a moving average or a counter that small changes do not move."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from amp_lint._lazy import cst
from amp_lint.mistake import Account, Mistake
from amp_lint.rule import Rule
from amp_lint.syntax.parse import own_identifiers
from amp_lint.text.diagnostic import Diagnostic, Severity, quoted
from amp_lint.vocabulary.operations import ADD, EXACT, INTERPOLATE, SHRINK

from ._low import LOWERING, first, shown

if TYPE_CHECKING:
    from amp_lint.amp.dtypes import Run
    from amp_lint.model import Model
    from amp_lint.syntax.facts import Facts

_LARGEST_DECAY = {"bfloat16": 0.99, "float16": 0.999}
"""From which on a moving average does not get where it should: see the page."""
_HELP = "keep it in float32, and cast what is read of it"
_LOW = LOWERING | {"dtype", "type_as"}
"""What is in the code that makes something low."""
_SPELLINGS = frozenset({SHRINK, INTERPOLATE})


class _Average(NamedTuple):
    """``stored = decay * stored + (1 - decay) * new``."""

    node: cst.CSTNode
    stored: cst.BaseExpression
    weight: cst.BaseExpression
    is_decay: bool = True
    """Whether ``weight`` is the decay, not what is left of 1."""


class LowPrecisionAccumulator(Rule):
    """``ema.mul_(0.999).add_(x, alpha=0.001)`` where ema is bfloat16."""

    code = "AMP316"
    name = "low-precision-accumulator"
    severity = Severity.WARNING
    preview = True
    requires = (LOWERING,)
    observed = (
        Account(
            Mistake.STUCK_AVERAGE,
            "a moving average in {dtype} does not move: {share:g} % of what is far from what it "
            "follows stays as it is",
            _HELP,
        ),
    )

    def may(self, facts: Facts) -> bool:
        """Whether anything that is accumulated may be made in low precision here."""
        return any(_may_be_low(facts, name) for name in {*_accumulated(facts)})

    def check(self, model: Model) -> Iterator[Diagnostic]:
        """Judge every moving average and every counter in the dtypes that it may have."""
        for average in _averages(model):
            yield from first(model, average.node, self._judge, average)
        for add in model.tree.nodes(cst.AugAssign):
            if isinstance(add.operator, cst.AddAssign) and model.program.loop(add) is not None:
                yield from first(model, add, self._count, add)

    def _judge(self, model: Model, run: Run, average: _Average) -> Diagnostic | None:
        value, number = run.of(average.stored), run.of(average.weight).number
        if number is None or not value.low:
            return None
        decay = number if average.is_decay else 1 - number
        dtype = sorted(value.low)[-1]
        if not _LARGEST_DECAY[dtype] <= decay < 1:
            return None
        message = (
            f"a moving average in {dtype} with a decay of {decay:g} stops short of what it follows"
        )
        return self.report(model, average.node, message, shown(model, run, value), help=_HELP)

    def _count(self, model: Model, run: Run, add: cst.AugAssign) -> Diagnostic | None:
        value, number = run.of(add.target), run.of(add.value).number
        if number != 1 or not value.low:
            return None
        dtype = sorted(value.low)[-1]
        message = f"{quoted(model.tree.source(add.target))} stops at {EXACT[dtype]} in {dtype}"
        return self.report(model, add, message, shown(model, run, value), help=_HELP)


def _accumulated(facts: Facts) -> Iterator[str]:
    """The last names of what may be an average or a counter."""
    for node in facts.nodes:
        match node:
            case ast.Call(func=ast.Attribute(attr=attr, value=stored)) if attr in _SPELLINGS:
                yield _last(stored)
            case ast.Assign(targets=[stored], value=ast.BinOp(op=ast.Add())):
                yield _last(stored)
            case ast.AugAssign(target=stored, op=ast.Add(), value=ast.Constant(value=1)):
                yield _last(stored)


def _last(node: ast.expr) -> str:
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
        case ast.Subscript(value=value):
            return _last(value)
    return ""


def _may_be_low(facts: Facts, name: str) -> bool:
    """Whether the code that makes something says a dtype."""
    made = [value for value in facts.values.get(name, ()) if not isinstance(value, ast.Constant)]
    for call in facts.calls.get("register_buffer", ()):
        match call.args:
            case [ast.Constant(value=value), *rest] if value == name:
                made += rest
    return any(
        not _LOW.isdisjoint(own_identifiers(part)) for value in made for part in ast.walk(value)
    )


def _averages(model: Model) -> Iterator[_Average]:
    for call in model.tree.nodes(cst.Call):
        func = call.func
        given = [arg.value for arg in call.args if not arg.keyword and not arg.star]
        if not isinstance(func, cst.Attribute) or func.attr.value not in _SPELLINGS:
            continue
        if func.attr.value == INTERPOLATE and len(given) > 1:
            yield _Average(call, func.value, given[1], is_decay=False)
        elif func.attr.value == SHRINK and given and _is_added_to(model, call):
            yield _Average(call, func.value, given[0])
    for assign in model.tree.nodes(cst.Assign):
        if len(assign.targets) == 1 and isinstance(assign.value, cst.BinaryOperation):
            yield from _written_out(model, assign, assign.value)


def _is_added_to(model: Model, call: cst.Call) -> bool:
    holder = model.tree.parent(call)
    return isinstance(holder, cst.Attribute) and holder.attr.value == ADD


def _written_out(
    model: Model, assign: cst.Assign, total: cst.BinaryOperation
) -> Iterator[_Average]:
    """``stored = decay * stored + rest``, in either order."""
    stored = model.tree.source(assign.targets[0].target)
    if not isinstance(total.operator, cst.Add):
        return
    for product in (total.left, total.right):
        if isinstance(product, cst.BinaryOperation) and isinstance(product.operator, cst.Multiply):
            for one, other in ((product.left, product.right), (product.right, product.left)):
                if model.tree.source(other) == stored:
                    yield _Average(total, other, one)
