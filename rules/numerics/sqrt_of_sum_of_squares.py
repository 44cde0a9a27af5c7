"""AMP308: the root of a sum of squares, in a module or a loss."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from amp_lint.text.diagnostic import Applicability, Diagnostic, Severity
from amp_lint.vocabulary.expressions import Pair

from ._differentiated import is_differentiated, is_never_differentiated
from ._patterns import PatternRule

if TYPE_CHECKING:
    from amp_lint.amp.patterns import Match
    from amp_lint.model import Model


_OF_MEAN = "the gradient of the root of a mean of squares is NaN where all of them are 0"
_HELP_OF_MEAN = "add an eps under the root, or use `torch.std`, whose gradient is 0 there"


class SqrtOfSumOfSquares(PatternRule):
    """The gradient of a root is infinite at 0, that of a norm is 0."""

    code = "AMP308"
    name = "sqrt-of-sum-of-squares"
    severity = Severity.WARNING
    preview = True
    fixes = (Applicability.SUGGEST,)
    pairs = (
        Pair("sqrt(sum(x ** 2, *settings))", "vector_norm(x, *settings)"),
        Pair("sqrt(sum(x ** 2, *settings) / y)", ""),
        Pair("sqrt(sum(x ** 2 * y, *settings) / z)", ""),
    )
    message = "the gradient of the root of a sum of squares is NaN for a row of zeros"
    help = "use `torch.linalg.vector_norm`, whose gradient is 0 there"

    def adjusted(self, model: Model, match: Match, found: Diagnostic) -> Diagnostic:
        """What to say of a standard deviation that is written out, and of weighted squares."""
        if match.pair is self.pairs[0]:
            return found
        return replace(found, message=_OF_MEAN, help=_HELP_OF_MEAN)

    def is_right(self, model: Model, match: Match) -> bool:
        """Whether it is kept away from 0, or has no gradients as far as is known."""
        floored = any(map(model.patterns.is_floor, match.between))
        return (
            floored
            or is_never_differentiated(model, match.node)
            or not is_differentiated(model, match.node)
        )
