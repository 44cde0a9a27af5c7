"""AMP303: the logarithm of a sum of exponentials, taken in steps."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amp_lint.text.diagnostic import Applicability
from amp_lint.vocabulary.expressions import Pair

from ._patterns import PatternRule, is_shifted

if TYPE_CHECKING:
    from amp_lint.amp.patterns import Match
    from amp_lint.model import Model


class LogSumExp(PatternRule):
    """``log(sum(exp(x)))`` is inf or -inf where ``logsumexp(x)`` is right."""

    code = "AMP303"
    name = "log-sum-exp"
    preview = True
    fixes = (Applicability.SAFE,)
    pairs = (
        Pair("log(sum(exp(x), *settings))", "logsumexp(x, *settings)"),
        Pair("log(sum(exp(x)))", "logsumexp(flatten(x), 0)"),
        Pair("log(1 + sum(exp(x)))", "softplus(logsumexp(flatten(x), 0))"),
        Pair("log(1 + sum(exp(x), *settings))", "softplus(logsumexp(x, *settings))"),
        Pair("log(mean(exp(x), *settings))", ""),
        Pair("log(sum(exp(x), *settings) / n)", ""),
        Pair("log(sum(exp(x)) / n)", ""),
        Pair("log(exp(x) + exp(y))", ""),
        Pair("log2(sum(exp(x), *settings))", ""),
        Pair("log10(sum(exp(x), *settings))", ""),
    )
    message = (
        "log of a sum of exponentials is inf above 88 and -inf below -104 (float16: 10.4 and -17.3)"
    )
    inner = "the exponential"
    help = "use `logsumexp`"

    def is_right(self, model: Model, match: Match) -> bool:
        """Whether the largest exponent is taken away first, or it is a mean of kernels.

        Those of distances between points are at most 1, and not all of them are 0.
        """
        if super().is_right(model, match) or is_shifted(model, match):
            return True
        return "mean" in match.parts and model.signs.is_never_positive(match.bound["x"])
