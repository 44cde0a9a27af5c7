"""AMP305: the logarithm of 1 plus an exponential."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amp_lint.text.diagnostic import Applicability
from amp_lint.vocabulary.expressions import Pair

from ._patterns import PatternRule, is_shifted

if TYPE_CHECKING:
    from amp_lint.amp.patterns import Match
    from amp_lint.model import Model


class HandRolledSoftplus(PatternRule):
    """``log(1 + exp(x))`` is inf where ``softplus(x)`` is right."""

    code = "AMP305"
    name = "hand-rolled-softplus"
    preview = True
    fixes = (Applicability.SAFE,)
    pairs = (
        Pair("log(1 + exp(x))", "softplus(x)"),
        Pair("log1p(exp(x))", "softplus(x)"),
    )
    message = "log(1 + exp(x)) is inf above 88.7 and 0 below -16.6 (float16: 11.1 and -7.6)"
    inner = "the exponential"
    help = "use `softplus`"

    def is_right(self, model: Model, match: Match) -> bool:
        """Whether the exponent is never large."""
        never = model.signs.is_never_positive(match.bound["x"])
        return never or super().is_right(model, match) or is_shifted(model, match)
