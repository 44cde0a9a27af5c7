"""AMP104: an optimizer steps on gradients still multiplied by the loss scale."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from amp_lint._lazy import cst
from amp_lint.edit import edits
from amp_lint.mistake import Account, At, Mistake
from amp_lint.rule import Rule
from amp_lint.text.diagnostic import Applicability, Diagnostic, Fix, Severity, quoted
from amp_lint.vocabulary import written
from amp_lint.vocabulary.meaning import Kind, Role
from amp_lint.vocabulary.table import words

if TYPE_CHECKING:
    from amp_lint.amp.events import Event
    from amp_lint.model import Model
    from amp_lint.walk.found import Found

_BYPASS = (
    "this step takes gradients that are still scaled: updates of SGD are {:g} times too large at "
    "first"
)
_UNCHECKED = (
    "this step takes gradients even where `unscale_` has found inf or NaN, which ruin the weights"
)
_THROUGH, _ALONE = "call `scaler.step(optimizer)` instead", "keep `scaler.step(optimizer)` alone"
_BEFORE = "call `scaler.step(optimizer)` before `update` instead"
_DOUBLE = "the optimizer steps twice on the same gradients, once by the scaler and once directly"


class StepBypassesScaler(Rule):
    """``optimizer.step()`` after ``scaler.scale(loss).backward()``, or after ``unscale_``."""

    code = "AMP104"
    name = "step-bypasses-scaler"
    severity = Severity.ERROR
    fixes = (Applicability.SAFE, Applicability.UNSAFE, Applicability.SUGGEST)
    given = written.SCALED
    requires = (words(Kind.STEP), words(Role.SCALED_LOSS), words(Kind.BACKWARD))
    observed = (
        Account(
            Mistake.BYPASS,
            "this step takes gradients that are still scaled, {scale:g} times too large",
            _THROUGH,
            {At.CAUSE: "the gradients are scaled here"},
        ),
        Account(
            Mistake.UNCHECKED_STEP,
            "this step takes gradients in which the scaler has found inf or NaN: they are added to "
            "the weights",
            _THROUGH,
            {At.CAUSE: "found here"},
        ),
        Account(Mistake.DOUBLE_STEP, _DOUBLE, _ALONE, {At.CAUSE: "stepped here too"}),
    )

    def check(self, model: Model) -> Iterator[Diagnostic]:
        """Report every direct step that some path reaches with scaled gradients."""
        bypass = _BYPASS.format(model.clips.initial_scale)
        for found in model.mistakes.bypasses:
            related = [(found.cause.node, "the gradients are scaled here")]
            fix = _fix(model, found) if found.cycle else None
            help = _THROUGH if found.cycle else _BEFORE
            report = self.report(model, found.event.node, bypass, related, fix, help=help)
            yield report if found.cycle else replace(report, preview=True)
        for found in model.mistakes.unchecked_steps:
            if model.step_places.is_stepped_by_scaler(found.event):
                continue
            related = [(found.cause.node, "unscaled here")]
            fix = _through(model, found)
            yield self.report(model, found.event.node, _UNCHECKED, related, fix, help=_THROUGH)
        for found in model.mistakes.double_steps:
            related = [(found.cause.node, "stepped here too")]
            direct = found.event if found.event.scaler is None else found.cause
            fix, help = _without(model, direct), _ALONE
            yield self.report(model, found.event.node, _DOUBLE, related, fix, help=help)


def _fix(model: Model, found: Found) -> Fix | None:
    """Let the scaler step; where it does so next, on the same gradients, one of both has to go."""
    direct = found.event
    if not model.step_places.is_stepped_by_scaler(direct):
        return _through(model, found)
    return _without(model, direct) if model.step_places.is_stepped_again(direct) else None


def _through(model: Model, found: Found) -> Fix | None:
    """``scaler.step(optimizer)`` in its place, and ``update`` where none follows."""
    call, scaler = found.event.node, model.step_places.scaler_text(found.cause, found.event)
    statement = model.tree.statement(call)
    if scaler is None or not isinstance(call, cst.Call) or call.args or statement is None:
        return None
    if not isinstance(model.tree.parent(call), cst.Expr):
        return None
    assert isinstance(call.func, cst.Attribute)
    optimizer = model.tree.source(call.func.value)
    step = edits.replace_node(model.tree, call, f"{scaler}.step({optimizer})")
    if model.step_places.is_updated(found.event):
        return Fix(f"Use {quoted(f'{scaler}.step({optimizer})')}", (step,), Applicability.SAFE)
    update = edits.insert_after(model.tree, statement, f"{scaler}.update()")
    return Fix(f"Use {quoted(f'{scaler}.step')} and `update`", (step, update), Applicability.UNSAFE)


def _without(model: Model, direct: Event) -> Fix | None:
    """Remove the direct one of two steps: shown only, as it may be the one that is meant."""
    small = model.tree.parent(direct.node)
    if not isinstance(small, cst.Expr):
        return None
    edit = edits.remove_statement(model.tree, small)
    return Fix("Remove the direct step", (edit,), Applicability.SUGGEST) if edit else None
