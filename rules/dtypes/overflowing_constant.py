"""AMP313: a constant that the dtype of its tensor cannot hold."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from amp_lint._lazy import cst
from amp_lint.mistake import Account, Mistake
from amp_lint.rule import Rule
from amp_lint.text.diagnostic import Diagnostic, Severity, quoted
from amp_lint.vocabulary.operations import FILLED, FILLS, RANGES

from ._low import LOWERING, REGIONS, elsewhere, first, shown

if TYPE_CHECKING:
    from amp_lint.amp.dtypes import Run, Value
    from amp_lint.model import Model

_ONE_OF = ("where",)
_KEYWORDS = ("value", "fill_value", "min", "max")
_PRODUCT = 1e8
"""Factors from which hardly anything but 0 stays in range."""


class _Place(NamedTuple):
    """Something that puts a number into a tensor."""

    node: cst.BaseExpression
    tensor: cst.BaseExpression
    constant: cst.BaseExpression
    raises: bool


class OverflowingConstant(Rule):
    """``scores.masked_fill(mask, -1e9)`` where the scores are float16."""

    code = "AMP313"
    name = "overflowing-constant"
    severity = Severity.ERROR
    preview = True
    observed = (
        Account(
            Mistake.OVERFLOWING_CONSTANT,
            "{constant:g} makes {infinite:g} numbers inf in {dtype}",
            "use the least or largest number of the dtype, or compute in float32",
        ),
    )
    requires = (LOWERING,)
    elsewhere = REGIONS
    pattern = r"\d[eE]\+?0*(?:[5-9]|[1-9]\d)|\d{5}|\bfinfo\b|10\.?\s*\*\*"

    def check(self, model: Model) -> Iterator[Diagnostic]:
        """Judge every number that is written into a tensor."""
        for place in _places(model):
            yield from first(model, place.node, self._judge, place)

    def _judge(self, model: Model, run: Run, place: _Place) -> Diagnostic | None:
        value, constant = run.of(place.tensor), run.of(place.constant).number
        dtype = _too_small(value, constant)
        if dtype is None or constant is None:
            return None
        if not place.raises and not _is_mask(place.node, constant):
            return None
        written, limit = quoted(model.tree.source(place.constant)), f"{RANGES[dtype][1]:.5g}"
        what = "raises RuntimeError" if place.raises else "makes -inf"
        message = f"{written} {what} in {dtype}, which ends at {limit}{elsewhere(run)}"
        end = "min" if constant < 0 else "max"
        help = f"use `torch.finfo(x.dtype).{end}`, or compute in float32"
        return self.report(model, place.constant, message, shown(model, run, value), help=help)


def _too_small(value: Value, constant: float | None) -> str | None:
    """A dtype that a tensor may have, and that cannot hold a number."""
    if constant is None or not math.isfinite(constant):
        return None
    return next((d for d in sorted(value.low) if abs(constant) > RANGES[d][1] * 1.0002), None)


def _is_mask(node: cst.BaseExpression, constant: float) -> bool:
    """Whether -inf comes of it for sure; inf is as good as any limit that is larger than all."""
    if not isinstance(node, cst.BinaryOperation):
        return constant < 0
    if isinstance(node.operator, cst.Subtract):
        return constant > 0
    return constant < 0 and (isinstance(node.operator, cst.Add) or constant <= -_PRODUCT)


def _places(model: Model) -> Iterator[_Place]:
    """Everything that puts a number into a tensor."""
    for call in model.tree.nodes(cst.Call):
        yield from _of_call(model, call)
    for operation in model.tree.nodes(cst.BinaryOperation):
        if isinstance(operation.operator, (cst.Add, cst.Subtract, cst.Multiply)):
            yield _Place(operation, operation, operation.left, False)
            yield _Place(operation, operation, operation.right, False)
    for assign in model.tree.nodes(cst.Assign):
        target = assign.targets[0].target
        if isinstance(target, cst.Subscript):
            yield _Place(target, target.value, assign.value, False)


def _of_call(model: Model, call: cst.Call) -> Iterator[_Place]:
    """The numbers that a call is given to write."""
    func = call.func
    name = func.attr.value if isinstance(func, cst.Attribute) else getattr(func, "value", "")
    given = [arg.value for arg in call.args if arg.keyword is None and not arg.star]
    named = [arg.value for arg in call.args if arg.keyword and arg.keyword.value in _KEYWORDS]
    function = bool(model.names.qualified(func))
    if name in FILLS:
        owner = given[:1] if function else [func.value] if isinstance(func, cst.Attribute) else []
        rest = given[FILLS[name] + function :]
        for tensor in owner:
            yield from (_Place(call, tensor, constant, True) for constant in [*rest, *named])
    elif name in FILLED:
        yield from (_Place(call, call, constant, True) for constant in [*given[1:2], *named])
    elif name in _ONE_OF:
        yield from (_Place(call, call, constant, False) for constant in given)
