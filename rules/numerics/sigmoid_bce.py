"""AMP306: binary cross entropy of a sigmoid."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from amp_lint.text.diagnostic import Applicability, Diagnostic, Severity
from amp_lint.vocabulary import written
from amp_lint.vocabulary.expressions import Pair

from ._differentiated import is_never_differentiated
from ._patterns import PatternRule

if TYPE_CHECKING:
    from amp_lint.amp.patterns import Match
    from amp_lint.model import Model

_HELP_APART = "return logits from there, and use `binary_cross_entropy_with_logits`"


class SigmoidBce(PatternRule):
    """The loss of probabilities stops at 100 and its gradient at 0, that of logits does not."""

    code = "AMP306"
    name = "sigmoid-bce"
    preview = True
    enters = reads_models = True
    called_for = written.look({"BCELoss", "binary_cross_entropy"}, r"\b", r"\b")
    fixes = (Applicability.SAFE,)
    pairs = (
        Pair(
            "binary_cross_entropy(sigmoid(x), *settings)",
            "binary_cross_entropy_with_logits(x, *settings)",
        ),
    )
    message = "cross entropy of a sigmoid has no gradient beyond logits of 16.6 (float16: 8.3, NaN)"
    inner = "the sigmoid"
    help = "use `binary_cross_entropy_with_logits`"

    def adjusted(self, model: Model, match: Match, found: Diagnostic) -> Diagnostic:
        """A warning where a model ends in the sigmoid: what else it is used for has to change."""
        if not match.steps[-1].elsewhere:
            return found
        return replace(found, severity=Severity.WARNING, help=_HELP_APART)

    def is_right(self, model: Model, match: Match) -> bool:
        """Whether a loss of what a model gives is only read, as in an evaluation."""
        apart = match.steps[-1].elsewhere and is_never_differentiated(model, match.node)
        return apart or super().is_right(model, match)
