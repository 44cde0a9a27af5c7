"""AMP114: a loss is scaled by one scaler, and its gradients are stepped by another."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from amp_lint.rule import Diagnostic, Rule, Severity

if TYPE_CHECKING:
    from amp_lint.model import Model

_MESSAGE = (
    "steps with another scaler than the one that scaled the loss: the update is wrong by the "
    "ratio of their scales, and neither learns from overflows of the other"
)


class ScalerMismatch(Rule):
    """``a.scale(loss).backward()`` and then ``b.step(optimizer)``."""

    code = "AMP114"
    name = "scaler-mismatch"
    severity = Severity.ERROR
    requires = (frozenset({"GradScaler"}), frozenset({"scale"}), frozenset({"step"}))

    def check(self, model: Model) -> Iterator[Diagnostic]:
        """Report every step by a scaler that is certainly another one."""
        for found in model.mistakes.mismatches:
            related = [(found.cause.node, "scaled here")]
            yield self.report(
                model, found.event.node, _MESSAGE, related, help="use one scaler for both"
            )
