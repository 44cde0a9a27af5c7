"""AMP312: an eps that is 0 in float16."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

from amp_lint._lazy import cst
from amp_lint.mistake import Account, At, Mistake
from amp_lint.rule import Rule
from amp_lint.text.diagnostic import Diagnostic, Severity, quoted
from amp_lint.vocabulary import written
from amp_lint.vocabulary.expressions import CASTS, SELECTS
from amp_lint.vocabulary.operations import FLOORS, SPREADS, UPPER_BOUNDS, VANISHING

from ._low import LOWERING, REGIONS, certain, elsewhere, first, is_somewhere, shown

if TYPE_CHECKING:
    from amp_lint.amp.dtypes import Run
    from amp_lint.model import Model

_HELP = "add it to a value in float32, as of `.float()`, or use 1e-5"
_HELP_BELOW = "take it of a value in float32, as of `.float()`, or use 1 - 1e-3"
_NEXT = {"float16": 2.0**-12, "bfloat16": 2.0**-9}
"""Dtype -> how far below 1 a number may be that rounds to it."""
_INFINITE = {
    **dict.fromkeys(("acos", "arccos", "arctanh", "atanh", "erfinv", "logit"), ""),
    **dict.fromkeys(("div", "log", "log10", "log2", "rdiv", "reciprocal", "rsqrt"), "rsub"),
    "log1p": "neg",
}
"""What is infinite, or its gradient, where a number is 1 -> what is done to that before."""
_KEEPING = SELECTS | CASTS
_ON_BOTH_SIDES = frozenset(name for name, place in UPPER_BOUNDS.items() if place)


class VanishingEps(Rule):
    """``x / (x.abs().max() + 1e-8)`` where x is float16."""

    code = "AMP312"
    name = "vanishing-eps"
    severity = Severity.WARNING
    preview = True
    observed = (
        Account(
            Mistake.VANISHING_EPS,
            "{eps:g} is 0 in {dtype}, so that it keeps nothing from being 0",
            _HELP,
            {At.STEP: "where 0 matters"},
        ),
    )
    requires = (LOWERING | {"forward"},)
    elsewhere = REGIONS
    reads_models = True
    pattern = (
        written.pattern(r"[eE]-0*(?:[89]|[1-9]\d)", "e-", "E-")
        | written.pattern(r"\.0000000", ".0000000")
        | written.pattern(r"\*\*\s*-", "**")
        | written.pattern(r"\b1\.?0*\s*-\s*(?:[\d.]+[eE]-|[\w.]*eps|0?\.0)", "clamp", "clip")
        | written.pattern(r"\b0?\.999\d", ".999")
    )
    called_for = pattern

    def check(self, model: Model) -> Iterator[Diagnostic]:
        """Judge every number that is added, or that a tensor is kept above."""
        for node, tensor, eps in _places(model):
            if not _may_be_small(model, eps):
                continue  # before any function is run
            supposing = _is_small(model, node, eps)
            yield from first(model, node, self._judge, (tensor, eps), supposing=supposing)
        bounds = [*_bounds(model)]
        taken = _taken_from_one(model) if bounds else frozenset()
        for call, tensor, bound in bounds:
            if id(call) in taken or _is_kept_apart(model, call, bound):
                supposing = any(_rounds(run, bound) for run in model.dtypes.reaching(call))
                place = (tensor, bound)
                yield from first(model, call, self._judge_bound, place, supposing=supposing)

    def _judge(
        self, model: Model, run: Run, place: tuple[cst.BaseExpression, cst.BaseExpression]
    ) -> Diagnostic | None:
        tensor, eps = place
        value, number = run.of(tensor), run.of(eps).number
        if number is None or not 0 < number <= VANISHING:
            return None
        zero = f"{quoted(model.tree.source(eps))} is 0"
        kept = f"so that it keeps nothing from being 0{elsewhere(run)}"
        if value.may_be("float16") and certain(run, value):
            related = shown(model, run, value)
            return self.report(model, eps, f"{zero} in float16, {kept}", related, help=_HELP)
        given = _given(model, run, tensor) if not value.low else ""
        if not given:
            return None
        message = f"{zero} where {quoted(given)} is float16, {kept}"
        return self.report(model, eps, message, help=_HELP)

    def _judge_bound(
        self, model: Model, run: Run, place: tuple[cst.BaseExpression, cst.BaseExpression]
    ) -> Diagnostic | None:
        tensor, bound = place
        value, rounding = run.of(tensor), _rounds(run, bound)
        given = _given_logits(model, run, tensor) if not value.low else ""
        dtypes = sorted((run.ambient.dtypes if given else value.low) & rounding)
        if not dtypes or not certain(run, value):
            return None
        where = f"where {quoted(given)} is {dtypes[0]}" if given else f"in {dtypes[0]}"
        one = f"{quoted(model.tree.source(bound))} is 1 {where}"
        message = f"{one}, so that it keeps nothing from being 1{elsewhere(run)}"
        return self.report(model, bound, message, shown(model, run, value), help=_HELP_BELOW)


def _rounds(run: Run, bound: cst.BaseExpression) -> frozenset[str]:
    """The dtypes in which a number below 1 is 1."""
    number = run.of(bound).number
    if number is None or number >= 1:
        return frozenset()
    return frozenset(dtype for dtype, next in _NEXT.items() if 1 - number <= next)


def _bounds(
    model: Model,
) -> Iterator[tuple[cst.Call, cst.BaseExpression, cst.BaseExpression]]:
    """(Call, tensor, number) of what keeps a tensor below a number."""
    for call in model.tree.nodes(cst.Call):
        made = model.operations.of(call)
        if made is not None and made.name in UPPER_BOUNDS and made.input is not None:
            bound = made.args.get(UPPER_BOUNDS[made.name], "max")
            if bound is not None:
                yield call, made.input, bound


def _is_kept_apart(model: Model, call: cst.Call, bound: cst.BaseExpression) -> bool:
    """Whether a sigmoid is kept as far from 1 as from 0: for logarithms of both."""
    made = model.operations.of(call)
    if made is None or made.name not in _ON_BOTH_SIDES:
        return False
    low = made.args.get(UPPER_BOUNDS[made.name] - 1, "min")
    if low is None:
        return False
    if not any(step.name.rstrip("_") == "sigmoid" for step in model.operations.chain(made.input)):
        return False
    return any(
        math.isclose(run.of(low).number or 0.0, 1 - (run.of(bound).number or 0.0), rel_tol=1e-3)
        for run in model.dtypes.reaching(call)
    )


def _taken_from_one(model: Model) -> frozenset[int]:
    """Ids of the calls that give what must not be 1: of p in ``log(1 - p)``, ``acos(p)``."""
    found: set[int] = set()
    nodes = (*model.tree.nodes(cst.Call), *model.tree.nodes(cst.BinaryOperation))
    for made in filter(None, map(model.operations.of, nodes)):
        before = _INFINITE.get(made.name)
        start = made.args.get(0, "other") if made.name == "div" else made.input
        for step in model.operations.chain(start) if before is not None else ():
            if not before:
                found.add(id(step.node))
            if step.name == before:
                before = ""
            elif step.name not in _KEEPING:
                break
    return frozenset(found)


def _is_spread(model: Model, run: Run, tensor: cst.BaseExpression) -> bool:
    """Whether a tensor is the variance of what a module is given, which autocast does not cast."""
    if not model.dtypes.is_of_module(run.function) or run.ambient.is_on:
        return False
    made = [*model.values.alternatives(tensor)]
    calls = [value for value in made if isinstance(value, cst.Call)]
    return len(calls) == len(made) and all(
        getattr(getattr(call.func, "attr", call.func), "value", "") in SPREADS for call in calls
    )


def _given(model: Model, run: Run, tensor: cst.BaseExpression) -> str:
    """The parameter of which a small value is made, if what is made of it has its dtype; or ""."""
    if _is_spread(model, run, tensor) and is_somewhere(model):
        return run.of(tensor).follows
    return _given_logits(model, run, tensor) if "float16" in run.ambient.dtypes else ""


def _given_logits(model: Model, run: Run, tensor: cst.BaseExpression) -> str:
    """The parameter with the logits of which a sigmoid makes something, where autocast is on.

    They come of a layer, and nobody has cast them since; "" where it is not so.
    """
    from amp_lint.amp.dtypes import ANY

    state, value = run.ambient, run.of(tensor)
    if not state.is_on or state.supposed or not value.may_be(ANY):
        return ""
    for each in model.sources.of(tensor, _KEEPING | {"rsub"}):
        made = model.operations.of(each)
        if made is not None and made.name.rstrip("_") == "sigmoid" and made.input is not None:
            for there in model.dtypes.reaching(each):
                logits = there.of(made.input)
                if logits.follows and not logits.is_wide:
                    return value.follows or logits.follows
    return ""


def _may_be_small(model: Model, eps: cst.BaseExpression) -> bool:
    """Whether a small number is written for an operand: where it stands, or where it is given."""
    written = [*model.values.alternatives(eps)]
    given = (g for each in written if isinstance(each, cst.Name) for g in model.origins.given(each))
    numbers = (n for each in (*written, *given) for n in model.values.usual(each))
    return any(isinstance(n, float) and 0 < n <= VANISHING for n in numbers) or any(
        isinstance(each, cst.BinaryOperation) and isinstance(each.operator, cst.Power)
        for each in written
    )


def _is_small(model: Model, node: cst.BaseExpression, eps: cst.BaseExpression) -> bool:
    """Whether a number is 0 in float16 in some run."""
    numbers = (run.of(eps).number for run in model.dtypes.reaching(node))
    return any(number is not None and 0 < number <= VANISHING for number in numbers)


def _places(
    model: Model,
) -> Iterator[tuple[cst.BaseExpression, cst.BaseExpression, cst.BaseExpression]]:
    """(Operation, tensor, number) of sums, floors, and maxima of two."""
    for operation in model.tree.nodes(cst.BinaryOperation):
        if isinstance(operation.operator, cst.Add):
            yield operation, operation.left, operation.right
            yield operation, operation.right, operation.left
    for call in model.tree.nodes(cst.Call):
        func = call.func
        name = func.attr.value if isinstance(func, cst.Attribute) else getattr(func, "value", "")
        if name in FLOORS:
            values = [a.value for a in call.args if a.keyword is None and not a.star]
            named = [
                a.value for a in call.args if a.keyword and a.keyword.value in ("min", "other")
            ]
            function = bool(model.names.qualified(func))
            owner = values[0] if function and values else getattr(func, "value", call)
            for eps in [*values[function : function + 1], *named]:
                yield call, owner, eps
