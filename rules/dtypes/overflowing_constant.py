"""AMP313: a constant that the dtype of its tensor cannot hold."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from amp_lint._lazy import cst
from amp_lint.edit import edits
from amp_lint.mistake import Account, Mistake
from amp_lint.rule import Rule
from amp_lint.text.diagnostic import Applicability, Diagnostic, Edit, Fix, Severity, quoted
from amp_lint.vocabulary import written
from amp_lint.vocabulary.operations import FILLED, FILLS, RANGES

from ._low import LOWERING, REGIONS, certain, elsewhere, first, shown

if TYPE_CHECKING:
    from amp_lint.amp.dtypes import Run, Value
    from amp_lint.model import Model
    from amp_lint.syntax.facts import Facts

_ONE_OF = ("where",)
_MASKS = frozenset({"masked_fill", "masked_fill_", "where", "softmax", "Softmax"})
"""Words of which one is there wherever scores are masked."""
_KEYWORDS = ("value", "fill_value", "min", "max")
_HELP = "use `torch.finfo(x.dtype).{}`, or compute in float32"
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
    fixes = (Applicability.SAFE, Applicability.SUGGEST)
    requires = (LOWERING | _MASKS,)
    elsewhere = REGIONS
    reads_models = True
    pattern = (
        written.pattern(r"\d[eE]\+?0*(?:[5-9]|[1-9]\d)|\d{5}")
        | written.pattern(r"\bfinfo\b", "finfo")
        | written.pattern(r"10\.?\s*\*\*", "10")
    )
    called_for = written.pattern(
        r"-\s*\d+(?:\.\d*)?[eE]\+?0*(?:[5-9]|[1-9]\d)|-\s*\d{5}|\bfinfo\b", "-", "finfo"
    ) | written.pattern(
        r"masked_fill_?\((?:[^()]|\([^()]*\))*,\s*(?:value\s*=\s*)?-?\s*[A-Z][A-Z\d_]+\s*\)",
        "masked_fill",
    )  # the constant may be that of another file

    def may(self, facts: Facts) -> bool:
        """Whether there may be anything low, or modules that may be run under autocast."""
        words = facts.words | facts.linked
        masked = not (_MASKS - {"where"}).isdisjoint(words)
        return not LOWERING.isdisjoint(words) or (masked and "forward" in words)

    def check(self, model: Model) -> Iterator[Diagnostic]:
        """Judge every number that is written into a tensor."""
        for place in _places(model):
            yield from first(
                model, place.node, self._judge, place, supposing=_is_large(model, place)
            )

    def _judge(self, model: Model, run: Run, place: _Place) -> Diagnostic | None:
        value, constant = run.of(place.tensor), run.of(place.constant).number
        dtype = _too_small(value, constant)
        if constant is None or not certain(run, value):
            return None
        if dtype is None:
            return self._if_half(model, run, place, value, constant)
        if not place.raises and not _is_mask(model, place.node, constant):
            return None
        written, limit = quoted(model.tree.source(place.constant)), f"{RANGES[dtype][1]:.5g}"
        what = "raises RuntimeError" if place.raises else "makes -inf"
        message = f"{written} {what} in {dtype}, which ends at {limit}{elsewhere(run)}"
        end = "min" if constant < 0 else "max"
        related, fix = shown(model, run, value), _fix(model, run, place, end)
        return self.report(model, place.constant, message, related, fix, help=_HELP.format(end))

    def _if_half(
        self, model: Model, run: Run, place: _Place, value: Value, constant: float
    ) -> Diagnostic | None:
        """A mask that a module writes into what it is given, in whatever dtype that is."""
        if not (value.follows and place.raises and -math.inf < constant < RANGES["float16"][0]):
            return None
        if not model.dtypes.is_of_module(run.function) or not _is_masked(place.node):
            return None
        written, given = quoted(model.tree.source(place.constant)), quoted(value.follows)
        message = f"{written} raises RuntimeError where {given} is float16, which ends at -65504"
        fix = _fix(model, run, place, "min")
        found = self.report(model, place.constant, message, fix=fix, help=_HELP.format("min"))
        return replace(found, severity=Severity.WARNING)


def _fix(model: Model, run: Run, place: _Place, end: str) -> Fix | None:
    """The limit of the tensor's own dtype, in all masks that write the same number.

    Safe for what goes into a softmax as it is.
    """
    from ._masks import is_filling, masked

    call = place.node
    if end != "min" or not isinstance(call, cst.Call) or not is_filling(call):
        return None
    known = masked(model, run, call)
    made = [_limit(model, each) for each in known.equal]
    if not all(made):
        return None
    trust = Applicability.SAFE if known.is_alone else Applicability.SUGGEST
    return Fix("Use the least number of the dtype", tuple(filter(None, made)), trust)


def _limit(model: Model, call: cst.Call) -> Edit | None:
    """``torch.finfo(x.dtype).min`` for the number that ``x.masked_fill`` writes."""
    from amp_lint.syntax.names import dotted

    from ._masks import filled

    name = dotted(call.func.value) if isinstance(call.func, cst.Attribute) else None
    finfo, number = model.names.spelling_of(call, "torch.finfo"), filled(call)
    if name is None or finfo is None or number is None or not model.tree.is_own(call):
        return None
    if _is_passed(model, number):
        return None
    return edits.replace_node(model.tree, number, f"{finfo}({name}.dtype).min")


def _is_passed(model: Model, number: cst.BaseExpression) -> bool:
    """Whether a number comes through a parameter, for which other calls may give another one."""
    from amp_lint.syntax.tree import descendants

    parts = (part for value in model.values.alternatives(number) for part in descendants(value))
    return any(
        binding.kind == "parameter"
        for part in parts
        if isinstance(part, cst.Name)
        for binding in model.names.bindings(part)
    )


def _is_masked(node: cst.BaseExpression) -> bool:
    """Whether it is a call of ``masked_fill`` or the like."""
    func = node.func if isinstance(node, cst.Call) else None
    return isinstance(func, cst.Attribute) and func.attr.value in _MASKS


def _is_large(model: Model, place: _Place) -> bool:
    """Whether a number is too large for float16 in some run."""
    numbers = (run.of(place.constant).number for run in model.dtypes.reaching(place.node))
    return any(number is not None and abs(number) > RANGES["float16"][1] for number in numbers)


def _too_small(value: Value, constant: float | None) -> str | None:
    """A dtype that a tensor may have, and that cannot hold a number."""
    if constant is None or not math.isfinite(constant):
        return None
    return next((d for d in sorted(value.low) if abs(constant) > RANGES[d][1] * 1.0002), None)


def _is_mask(model: Model, node: cst.BaseExpression, constant: float) -> bool:
    """Whether -inf comes of it for sure; inf is as good as any limit that is larger than all."""
    match node:
        case cst.BinaryOperation(operator=cst.Subtract()):
            return constant > 0
        case cst.BinaryOperation(operator=cst.Multiply()):
            least = -constant if _is_subtracted(model, node) else constant
            return least <= -_PRODUCT
    return constant < 0


def _is_subtracted(model: Model, node: cst.BaseExpression) -> bool:
    """Whether it is ``b`` of ``a - b``, in place or not."""
    match model.linked.parent(node):
        case cst.BinaryOperation(operator=cst.Subtract(), right=right):
            return right is node
        case cst.AugAssign(operator=cst.SubtractAssign()):
            return True
    return False


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
