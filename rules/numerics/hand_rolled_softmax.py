"""AMP304: exponentials divided by their sum."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amp_lint.text.diagnostic import Applicability
from amp_lint.vocabulary.expressions import Pair

from ._patterns import PatternRule, is_shifted

if TYPE_CHECKING:
    from amp_lint.amp.patterns import Match
    from amp_lint.model import Model

_GRIDS = frozenset({"arange", "linspace", "meshgrid"})
"""What makes the places around which a bell is, so that it is about 1 at one of them."""


class HandRolledSoftmax(PatternRule):
    """``exp(x) / exp(x).sum()`` is NaN where ``softmax(x)`` is right."""

    code = "AMP304"
    name = "hand-rolled-softmax"
    preview = True
    fixes = (Applicability.SAFE,)
    pairs = (
        Pair("exp(x) / sum(exp(x), dim, keepdim=True)", "softmax(x, dim)"),
        Pair("exp(x) / unsqueeze(sum(exp(x), dim), dim)", "softmax(x, dim)"),
    )
    message = (
        "exponentials over their sum are NaN above 88.7 and below -104 (float16: 11.1 and -17.3)"
    )
    inner = "the exponential"
    help = "use `softmax`, which takes the largest away first"

    def is_right(self, model: Model, match: Match) -> bool:
        """Whether the largest exponent is taken away first, or is that of a bell around a place.

        Other exponents that are never above 0, as of distances, may all be far below it.
        """
        if super().is_right(model, match) or is_shifted(model, match):
            return True
        exponent = match.bound["x"]
        counted = model.patterns.mentions(exponent, _GRIDS)
        return counted and model.signs.is_never_positive(exponent)
