"""AMP114: a loss is scaled by one scaler, and its gradients are stepped by another."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from amp_lint.mistake import Account, At, Mistake
from amp_lint.rule import Rule
from amp_lint.text.diagnostic import Diagnostic, Severity
from amp_lint.vocabulary import written
from amp_lint.vocabulary.meaning import Kind, Role
from amp_lint.vocabulary.table import words

if TYPE_CHECKING:
    from amp_lint.model import Model

_MESSAGE = (
    "this scaler did not scale the loss: the update is wrong as soon as the two scales differ"
)
_HELP = "use one scaler for both"


class ScalerMismatch(Rule):
    """``a.scale(loss).backward()`` and then ``b.step(optimizer)``."""

    code = "AMP114"
    name = "scaler-mismatch"
    severity = Severity.ERROR
    given = written.SCALED
    requires = (words(Role.SCALER), words(Role.SCALED_LOSS), words(Kind.STEP))
    observed = (Account(Mistake.MISMATCH, _MESSAGE, _HELP, {At.CAUSE: "scaled here"}),)

    def check(self, model: Model) -> Iterator[Diagnostic]:
        """Report every step by a scaler that is certainly another one."""
        for found in model.mistakes.mismatches:
            related = [(found.cause.node, "scaled here")]
            yield self.report(model, found.event.node, _MESSAGE, related, help=_HELP)
