"""AMP306: binary cross entropy of a sigmoid."""

from __future__ import annotations

from amp_lint.text.diagnostic import Applicability
from amp_lint.vocabulary.expressions import Pair

from ._patterns import PatternRule


class SigmoidBce(PatternRule):
    """The loss of probabilities stops at 100 and its gradient at 0, that of logits does not."""

    code = "AMP306"
    name = "sigmoid-bce"
    preview = True
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
