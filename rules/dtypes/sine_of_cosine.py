"""AMP322: the sine of a cosine that low precision rounds to 1."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from amp_lint._lazy import cst
from amp_lint.rule import Rule
from amp_lint.text.diagnostic import Diagnostic, Severity
from amp_lint.vocabulary import written
from amp_lint.vocabulary.expressions import CASTS, SELECTS, Pair, stages

from ._low import LOWERING, REGIONS, certain, elsewhere, first, shown

if TYPE_CHECKING:
    from amp_lint.amp.dtypes import Run, Value
    from amp_lint.amp.operations import Operation
    from amp_lint.model import Model
    from amp_lint.syntax.facts import Facts

_SQUARES = ("sqrt", "rsub", "square")
"""The operations, from the last one to the first one."""
_WAYS = stages(Pair("sqrt(1 - square(x))", ""), frozenset(_SQUARES[:1]))
_ANGLES = {"float16": 1.2, "bfloat16": 3}
"""Dtype -> below how many degrees a cosine is 1 in it, as measured: see the page."""
_KEEPING = SELECTS | CASTS | {"clamp"}
_HELP = "multiply in float32 with autocast off, or `.clamp(min=1e-6)` under the root"


class SineOfCosine(Rule):
    """``torch.sqrt(1 - cos**2)`` where the cosine is what autocast made of a product."""

    code = "AMP322"
    name = "sine-of-cosine"
    severity = Severity.WARNING
    preview = True
    requires = (LOWERING | {"forward"}, frozenset({"sqrt"}))
    elsewhere = REGIONS
    pattern = written.pattern(r"\b1(?:\.0*)?\s*-\s*(?![\d\s])", "-")

    def may(self, facts: Facts) -> bool:
        """Whether a root may be taken of 1 minus a square, of tensors."""
        return any(
            facts.leads(call, way, _KEEPING)
            for call in facts.calls.get("sqrt", ())
            for way in _WAYS
            if not _is_of_numbers(facts, call.func)
        )

    def check(self, model: Model) -> Iterator[Diagnostic]:
        """Judge every root of 1 minus a square, where gradients may be taken of it."""
        from amp_lint.amp.gradient_values import is_never_tracked

        for call in model.tree.nodes(cst.Call):
            steps = _cosine(model, call)
            if steps and not is_never_tracked(model.program, call):
                yield from first(model, call, self._judge, (call, steps), supposing=True)

    def _judge(
        self, model: Model, run: Run, place: tuple[cst.Call, list[cst.BaseExpression]]
    ) -> Diagnostic | None:
        call, steps = place
        value = next(filter(lambda each: each.low, map(run.of, steps)), None)
        if value is None or not certain(run, value) or not _is_of_product(model, run, value):
            return None
        dtype = min(value.low, key=_ANGLES.__getitem__)
        message = (
            f"the gradient is NaN where {dtype} rounds the cosine to 1, below {_ANGLES[dtype]:g} "
            f"degrees{elsewhere(run)}"
        )
        return self.report(model, call, message, shown(model, run, value), help=_HELP)


def _is_of_numbers(facts: Facts, function: ast.expr) -> bool:
    """Whether a function is Python's or NumPy's own."""
    holder = getattr(function, "value", None)
    return isinstance(holder, ast.Name) and facts.imported.get(holder.id) in ("math", "numpy")


def _cosine(model: Model, call: cst.Call) -> list[cst.BaseExpression]:
    """What is squared in ``sqrt(1 - x ** 2)``, and what that was before it was cast or cut."""
    made = model.operations.of(call)
    if made is None or made.name != _SQUARES[0]:
        return []
    wanted, found = [*_SQUARES], list[cst.BaseExpression]()
    for step in model.operations.chain(call):
        if wanted and step.name == wanted[0] and (step.name != "rsub" or _is_from_one(step)):
            wanted = wanted[1:]
        elif _is_kept_away(step):
            return []
        elif step.name not in _KEEPING:
            break
        if not wanted and step.input is not None:
            found.append(step.input)
    return found


def _is_from_one(step: Operation) -> bool:
    from amp_lint.flow.values import literal

    return literal(step.args.get(0, "other")) == 1


def _is_kept_away(step: Operation) -> bool:
    """Whether a clamp keeps what it is given from 0, or from 1."""
    from amp_lint.flow.values import literal

    ends = step.args.get(0, "min"), step.args.get(1, "max")
    known = [literal(end) for end in ends if end is not None]
    return step.name == "clamp" and not all(number in (0, 1, -1) for number in known)


def _is_of_product(model: Model, run: Run, value: Value) -> bool:
    """Whether it is low because autocast casts what is multiplied."""
    return value.why is not None and model.dtypes.lowers(value.why, run)
