"""AMP112: the learning-rate scheduler steps although the optimizer may not have."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from amp_lint._lazy import cst
from amp_lint.mistake import Account, At, Mistake
from amp_lint.rule import Rule
from amp_lint.text.diagnostic import Applicability, Diagnostic, Fix, Severity
from amp_lint.vocabulary import written
from amp_lint.vocabulary.amp import GET_SCALE
from amp_lint.vocabulary.frameworks import APEX
from amp_lint.vocabulary.meaning import Kind, Role
from amp_lint.vocabulary.table import called, words

if TYPE_CHECKING:
    from amp_lint.model import Model
    from amp_lint.walk.found import Found

_MESSAGE = "the scheduler also counts steps that the scaler skips: the learning rate runs ahead"
_SKIPPED = "skipped if a gradient is inf or NaN"
_FALLS = "the scale falls here where the optimizer did not step"
_TOLD = f"count only the steps in whose `update` `scaler.{GET_SCALE.word}()` did not fall"
_HELP = f"step it only if `scaler.{GET_SCALE.word}()` did not fall in `update`"
_HELP_BY = {
    Role.ACCELERATOR: "prepare it with the optimizer, whose skipped steps it leaves out then",
    Role.APEX: "move to a `GradScaler`, which tells what it skips; apex does not",
}


_BY_ITSELF = "step it only if the accelerator's `optimizer_step_was_skipped` is False"


class SchedulerAfterSkippedStep(Rule):
    """``scheduler.step()`` after ``scaler.step(optimizer)``, whether or not that stepped."""

    code = "AMP112"
    name = "scheduler-after-skipped-step"
    severity = Severity.INFO
    preview = True
    fixes = (Applicability.SUGGEST,)
    requires = (
        words(Role.SCALED_LOSS) | called(Kind.BACKWARD),
        words(Kind.STEP),
        words(Kind.UPDATE, Role.PREPARED) | APEX,
    )
    called_for = written.SCHEDULED
    observed = (
        Account(
            Mistake.SCHEDULED,
            "the scheduler steps after a step that was skipped: the learning rate runs ahead",
            _HELP,
            {At.CAUSE: "skipped here"},
        ),
    )

    def check(self, model: Model) -> Iterator[Diagnostic]:
        """Report every scheduler step that follows a scaled step, or its update."""
        for found in model.mistakes.scheduled:
            why = _FALLS if found.cause.kind is Kind.UPDATE else _SKIPPED
            related = [(found.cause.node, why)]
            owner = found.cause.framework
            assert isinstance(found.event.node, cst.Call)
            counted = bool(found.event.node.args)
            fix = _fix(model, found) if owner is None and not counted else None
            own = _TOLD if counted else _HELP
            told = own if owner is None else _HELP_BY[owner]
            if owner is not None and _is_prepared(model, found.event.node):
                told = _BY_ITSELF
            yield self.report(model, found.event.node, _MESSAGE, related, fix, help=told)


def _is_prepared(model: Model, step: cst.Call) -> bool:
    """Whether a scheduler is prepared, and steps by itself all the same."""
    func = step.func
    return isinstance(func, cst.Attribute) and model.roles.frameworks.counts_each(func.value)


def _fix(model: Model, found: Found) -> Fix | None:
    """Step only if the scale did not fall in the update."""
    from amp_lint.edit.counted_steps import CountedSteps

    changes = CountedSteps(model, found).edits()
    if changes is None:
        return None
    return Fix("Step only if the scale did not fall", changes, Applicability.SUGGEST)
