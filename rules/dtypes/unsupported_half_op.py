"""AMP319: an operation that has no kernel for low precision."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from amp_lint._lazy import cst
from amp_lint.rule import Rule
from amp_lint.text.diagnostic import Applicability, Diagnostic, Fix, Severity, quoted
from amp_lint.vocabulary import written
from amp_lint.vocabulary.operations import COMPOSITES, WINDOWED, operations

from ._low import LOWERING, REGIONS, cast, certain, elsewhere, first, shown

if TYPE_CHECKING:
    from amp_lint.amp.dtypes import Run, Value
    from amp_lint.model import Model
    from amp_lint.syntax.facts import Facts

_ISLAND = "compute it in float32: `.float()` under `autocast(enabled=False)`"


class UnsupportedHalfOp(Rule):
    """``torch.linalg.inv(x @ y)`` under autocast."""

    code = "AMP319"
    name = "unsupported-half-op"
    severity = Severity.ERROR
    preview = True
    fixes = (Applicability.SAFE, Applicability.SUGGEST)
    requires = (LOWERING.union(WINDOWED, {"forward", "dtype"}),)
    elsewhere = REGIONS
    reads_models = True
    called_for = written.pattern(r"\b(?:fft|linalg)\.\w", "fft.", "linalg.") | written.look(
        {"ctc_loss", "histc", "inverse", "quantile", "stft", "svd"}, r"\b", r"\("
    )

    def may(self, facts: Facts) -> bool:
        """Whether one of them is named, here or in a file that this one imports from."""
        return not _names().isdisjoint(facts.words | facts.linked)

    def check(self, model: Model) -> Iterator[Diagnostic]:
        """Judge every call of such an operation."""
        for call in model.tree.nodes(cst.Call):
            if _may_be_one(model, call):  # else no function need be run
                yield from first(model, call, self._judge, call, supposing=True)

    def _judge(self, model: Model, run: Run, call: cst.Call) -> Diagnostic | None:
        known = model.dtypes.operation(call, run)
        state = run.state(call)
        if known is None or state is None or known[0] not in operations().no_half | COMPOSITES:
            return None
        name, value = known[0], run.of(known[1])
        policy = operations().policies.get(state.device, {}).get(name) if state.is_on else None
        where = elsewhere(run)
        if name in COMPOSITES and policy == "low" and value.dtypes == {"float32"}:
            low = " or ".join(sorted(state.dtypes))
            message = f"{name} of a float32 tensor computes its products in {low} here{where}"
            related = [(state.region, "autocast is on here")] if state.region is not None else []
            return self.report(model, call, message, related, help=_ISLAND)
        if name in WINDOWED and not value.low:
            return self._windowed(model, run, call, value)
        if name not in operations().no_half or not value.low or policy in ("float32", "varies"):
            return None
        if not certain(run, value):
            return None
        # a transform raises in bfloat16 whatever the sizes are
        is_fft = name.startswith("fft.")
        dtype = sorted(value.low)[0 if is_fft else -1]
        only = is_fft and dtype == "float16"
        if only and _asks_for_powers_of_2(model, run):
            return None
        sizes = " but for sizes of 2**n" if only else ""
        message = (
            f"{name} raises RuntimeError in {dtype}{sizes}, and autocast does not cast it{where}"
        )
        help = "give it `.float()`"
        trust = Applicability.SUGGEST if is_fft else Applicability.SAFE
        fix = Fix("Compute it in float32", cast(model, known[1], "float()"), trust)
        return self.report(model, call, message, shown(model, run, value), fix, help=help)

    def _windowed(self, model: Model, run: Run, call: cst.Call, value: Value) -> Diagnostic | None:
        """A transform of what a function is given, whose window is made in the dtype of that."""
        window = model.values.argument(call, 4, "window")
        known = run.of(window).follows if window is not None else ""
        if not known or known != value.follows:
            return None
        state, where = run.state(call), elsewhere(run)
        if state is None or not state.is_on:
            name = run.function.name.value if isinstance(run.function, cst.FunctionDef) else ""
            trainer = next(model.trainers(naming=name), None) if name else None
            if trainer is None:
                return None
            where = f"; {trainer.name}:{trainer.line} may give it that"
        message = f"stft raises RuntimeError where {quoted(known)} is float16{where}"
        help = "give it `.float()`, and a window in float32"
        return replace(self.report(model, call, message, help=help), severity=Severity.WARNING)


@functools.cache
def _names() -> frozenset[str]:
    """What such operations are called, after their modules."""
    return frozenset(name.rpartition(".")[2] for name in operations().no_half | COMPOSITES)


def _may_be_one(model: Model, call: cst.Call) -> bool:
    """Whether a call is one of such an operation by its name, or may be of a module that is."""
    func, known = call.func, model.names.qualified(call.func)
    last = func.attr.value if isinstance(func, cst.Attribute) else getattr(func, "value", "")
    if not _names().isdisjoint({name.rpartition(".")[2] for name in known} or {last}):
        return True
    modules = (m for m, name in operations().modules.items() if name in operations().no_half)
    return not known and any(model.tree.named(module) for module in modules)


def _asks_for_powers_of_2(model: Model, run: Run) -> bool:
    """Whether a function asks ``n & (n - 1)`` of the sizes that it works on."""
    source = model.tree.source
    return any(
        isinstance(test.operator, cst.BitAnd)
        and isinstance(rest := test.right, cst.BinaryOperation)
        and isinstance(rest.operator, cst.Subtract)
        and source(rest.left) == source(test.left)
        for test in model.tree.below(run.function, cst.BinaryOperation)
    )
