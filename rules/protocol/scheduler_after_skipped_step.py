"""AMP112: the learning-rate scheduler steps although the optimizer may not have."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from amp_lint.rule import Rule
from amp_lint.text.diagnostic import Diagnostic, Severity
from amp_lint.vocabulary.meaning import Kind, Role
from amp_lint.vocabulary.table import words

if TYPE_CHECKING:
    from amp_lint.model import Model

_MESSAGE = "the scheduler also counts steps that the scaler skips: the learning rate runs ahead"
_HELP = "step it only if `scaler.get_scale()` did not fall in `update`"


class SchedulerAfterSkippedStep(Rule):
    """``scheduler.step()`` after ``scaler.step(optimizer)``, before the skip is known."""

    code = "AMP112"
    name = "scheduler-after-skipped-step"
    severity = Severity.INFO
    preview = True
    requires = (words(Role.SCALED_LOSS), words(Kind.STEP), words(Kind.UPDATE))

    def check(self, model: Model) -> Iterator[Diagnostic]:
        """Report every scheduler step between a scaled step and its update."""
        for found in model.mistakes.scheduled:
            related = [(found.cause.node, "skipped if a gradient is inf or NaN")]
            yield self.report(model, found.event.node, _MESSAGE, related, help=_HELP)
