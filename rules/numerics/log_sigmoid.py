"""AMP302: the logarithm of a sigmoid, or of 1 minus it, taken in two steps."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from amp_lint.text.diagnostic import Diagnostic, Severity
from amp_lint.vocabulary.expressions import Pair

from ._differentiated import is_never_differentiated
from ._patterns import PatternRule, holds, is_wide, may_be_half

if TYPE_CHECKING:
    from amp_lint.amp.patterns import Match
    from amp_lint.model import Model

_OF_OTHER = "log of 1 minus a sigmoid is -inf where that is 1, its gradient NaN (float16: from 8.3)"
_COST = "in float16 the floor under the log of a sigmoid is 0, and the cost inf where it is 0 or 1"


class LogSigmoid(PatternRule):
    """``log(sigmoid(x))`` is -inf, and its gradient NaN, where ``-softplus(-x)`` is right."""

    code = "AMP302"
    name = "log-sigmoid"
    harmless = 8.0
    enters = True
    pairs = (
        Pair("log(sigmoid(x))", "-softplus(-x)"),
        Pair("log(1 / (1 + exp(-x)))", ""),
        Pair("log(1 - sigmoid(x))", "-softplus(x)"),
        Pair("log1p(-sigmoid(x))", "-softplus(x)"),
    )
    message = "log of a sigmoid that rounds to 0 is -inf, its gradient NaN (float16: from -11.1)"
    floored = (
        "the floor under the log of a sigmoid hides the -inf: what lies below it gets no gradient"
    )
    inner = "the sigmoid"
    help = "use `logsigmoid` or `softplus` of the logits"

    def adjusted(self, model: Model, match: Match, found: Diagnostic) -> Diagnostic:
        """A floor is a warning; one that float16 holds, or float32 under autocast, may be meant.

        A cost has no gradient, and is right where nothing is float16; nor does a value without a
        floor harm there where it is only read.
        """
        floors = [*filter(model.patterns.is_floor, match.between)]
        severity = Severity.WARNING if floors else found.severity
        if floors and (holds(model, floors) or any(is_wide(model, each) for each in floors)):
            return replace(found, severity=severity, preview=True)
        untracked = is_never_differentiated(model, match.node)
        unfloored = _OF_OTHER if not floors and match.pair in self.pairs[2:] else found.message
        message = _COST if floors and untracked else unfloored
        unsure = untracked and not any(may_be_half(model, each) for each in floors)
        return replace(found, message=message, severity=severity, preview=unsure or found.preview)

    def is_right(self, model: Model, match: Match) -> bool:
        """Whether it is an entropy, or a cost whose floor holds in float16, too."""
        floors = [*filter(model.patterns.is_floor, match.between)]
        return super().is_right(model, match) or (
            bool(floors) and holds(model, floors) and is_never_differentiated(model, match.node)
        )
