"""AMP312: an eps that is 0 in float16."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from amp_lint._lazy import cst
from amp_lint.mistake import Account, At, Mistake
from amp_lint.rule import Rule
from amp_lint.text.diagnostic import Diagnostic, Severity, quoted
from amp_lint.vocabulary import written
from amp_lint.vocabulary.operations import FLOORS, SPREADS, VANISHING

from ._low import LOWERING, REGIONS, certain, elsewhere, first, is_somewhere, shown

if TYPE_CHECKING:
    from amp_lint.amp.dtypes import Run
    from amp_lint.model import Model

_HELP = "add it to a value in float32, as of `.float()`, or use 1e-5"


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
    pattern = (
        written.pattern(r"[eE]-0*(?:[89]|[1-9]\d)", "e-", "E-")
        | written.pattern(r"\.0000000", ".0000000")
        | written.pattern(r"\*\*\s*-", "**")
    )

    def check(self, model: Model) -> Iterator[Diagnostic]:
        """Judge every number that is added, or that a tensor is kept above."""
        for node, tensor, eps in _places(model):
            supposing = _is_small(model, node, eps)
            yield from first(model, node, self._judge, (tensor, eps), supposing=supposing)

    def _judge(
        self, model: Model, run: Run, place: tuple[cst.BaseExpression, cst.BaseExpression]
    ) -> Diagnostic | None:
        tensor, eps = place
        value, number = run.of(tensor), run.of(eps).number
        if number is None or not 0 < number <= VANISHING:
            return None
        written = quoted(model.tree.source(eps))
        if value.follows and _is_spread(model, run, tensor) and is_somewhere(model):
            message = (
                f"{written} is 0 where {quoted(value.follows)} is float16, so that it keeps "
                "nothing from being 0"
            )
            return self.report(model, eps, message, help=_HELP)
        if not value.may_be("float16") or not certain(run, value):
            return None
        message = (
            f"{written} is 0 in float16, so that it keeps nothing from being 0{elsewhere(run)}"
        )
        return self.report(model, eps, message, shown(model, run, value), help=_HELP)


def _is_spread(model: Model, run: Run, tensor: cst.BaseExpression) -> bool:
    """Whether a tensor is the variance of what a module is given, which autocast does not cast."""
    if not model.dtypes.is_of_module(run.function) or run.ambient.is_on:
        return False
    made = [*model.values.alternatives(tensor)]
    calls = [value for value in made if isinstance(value, cst.Call)]
    return len(calls) == len(made) and all(
        getattr(getattr(call.func, "attr", call.func), "value", "") in SPREADS for call in calls
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
