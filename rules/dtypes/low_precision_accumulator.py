"""AMP316: a moving average or a counter that small changes do not move."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from amp_lint._lazy import cst
from amp_lint.mistake import Account, Mistake
from amp_lint.rule import Rule
from amp_lint.syntax.parse import own_identifiers
from amp_lint.text.diagnostic import Diagnostic, Severity, quoted
from amp_lint.vocabulary.modules import AVERAGES
from amp_lint.vocabulary.operations import EXACT

from ._averages import Average, accumulated, averages, cast_averages, counts, is_of_weights
from ._low import LOWERING, first, shown

if TYPE_CHECKING:
    from amp_lint.amp.dtypes import Run
    from amp_lint.model import Model
    from amp_lint.syntax.facts import Facts

_LARGEST_DECAY = {"bfloat16": 0.99, "float16": 0.999}
"""From which on a moving average does not get where it should: see the page."""
_HELP = "keep it in float32, and cast what is read of it"
_CAST = "moving averages in {} with a decay of {:g} or more stop short of what they follow"
_UNCAST = "leave them in float32, and cast the model that gets them"
_LOW = LOWERING | {"dtype", "type_as"}
"""What is in the code that makes something low."""


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
        made = (name.rpartition(".")[2] for name in AVERAGES)
        is_kept = any(name in facts.calls for name in made)
        return is_kept or any(_may_be_low(facts, name) for name in {*accumulated(facts)})

    def check(self, model: Model) -> Iterator[Diagnostic]:
        """Judge every moving average and every counter in the dtypes that it may have."""
        for average in averages(model):
            yield from first(model, average.node, self._judge, average)
        for cast in cast_averages(model):
            related = [(cast.made, "it is made here"), (cast.update, "and follows the model here")]
            message = _CAST.format(cast.dtype, _LARGEST_DECAY[cast.dtype])
            yield self.report(model, cast.node, message, related, help=_UNCAST)
        for count in counts(model):
            if model.program.loop(count[0]) is not None:
                yield from first(model, count[0], self._count, count)

    def _judge(self, model: Model, run: Run, average: Average) -> Diagnostic | None:
        value, number = run.of(average.stored), run.of(average.weight).number
        if not value.low:
            return None
        dtype = sorted(value.low)[-1]
        stops = f"a moving average in {dtype} with a decay of {{}} stops short of what it follows"
        if number is not None:
            decay = number if average.is_decay else 1 - number
            if not _LARGEST_DECAY[dtype] <= decay < 1:
                return None
            message = stops.format(f"{decay:g}")
        elif is_of_weights(model, average):
            message = stops.format(f"{_LARGEST_DECAY[dtype]:g} or more")
        else:
            return None
        return self.report(model, average.node, message, shown(model, run, value), help=_HELP)

    def _count(
        self,
        model: Model,
        run: Run,
        count: tuple[cst.CSTNode, cst.BaseExpression, cst.BaseExpression],
    ) -> Diagnostic | None:
        node, counter, step = count
        value, number = run.of(counter), run.of(step).number
        if number != 1 or not value.low:
            return None
        dtype = sorted(value.low)[-1]
        message = f"{quoted(model.tree.source(counter))} stops at {EXACT[dtype]} in {dtype}"
        return self.report(model, node, message, shown(model, run, value), help=_HELP)


def _may_be_low(facts: Facts, name: str) -> bool:
    """Whether the code that makes something says a dtype."""
    made = [value for value in facts.values.get(name, ()) if not isinstance(value, ast.Constant)]
    named = [value.id for value in made if isinstance(value, ast.Name) and value.id != name]
    made += [value for each in named for value in facts.values.get(each, ())]
    for call in facts.calls.get("register_buffer", ()):
        match call.args:
            case [ast.Constant(value=value), *rest] if value == name:
                made += rest
    return any(
        not _LOW.isdisjoint(own_identifiers(part)) for value in made for part in ast.walk(value)
    )
