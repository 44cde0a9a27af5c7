"""AMP301: the logarithm of a softmax, taken in two steps."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amp_lint.mistake import Account, At, Mistake
from amp_lint.vocabulary.expressions import Pair

from ._patterns import PatternRule, is_over_dim

if TYPE_CHECKING:
    from amp_lint.amp.patterns import Match
    from amp_lint.model import Model

_PLAIN = (
    "log(softmax) is -inf 104 below the top logit, its gradient NaN 88.7 below (float16: 17.3 and "
    "11.1)"
)
_WITH_FLOOR = (
    "the floor under log(softmax) hides the -inf: what lies below it is wrong and gets no gradient"
)
_BOUNDED = (
    "the logarithm of a softmax in {dtype}: the least probability was {least:g}, its gradient is "
    "right down to {bound:.1g}"
)


class LogSoftmax(PatternRule):
    """``log(softmax(x))`` is -inf, and its gradient NaN, where ``log_softmax(x)`` is right."""

    code = "AMP301"
    name = "log-softmax"
    harmless = 5.0
    enters = of_gradients = True
    pairs = (
        Pair("log(softmax(x, *settings))", "log_softmax(x, *settings)"),
        Pair("log(softmax(x, *settings) / y)", "", sure=False),
        Pair("log(softmax(x, *settings) * y)", "", sure=False),
    )
    anchors = (frozenset({"log", "LOG", "Log"}),)
    message, floored = _PLAIN, _WITH_FLOOR
    inner = "the softmax"
    help = "use `log_softmax`"
    observed = (
        Account(
            Mistake.LOG_OF_SOFTMAX,
            "the logarithm of a softmax in {dtype}: the least probability is {least:g}, "
            "{infinite:g} results are -inf",
            help,
            {At.CAUSE: inner},
        ),
        Account(Mistake.BOUNDED_LOG_OF_SOFTMAX, _BOUNDED, help, {At.CAUSE: inner}, warns=True),
    )

    def is_right(self, model: Model, match: Match) -> bool:
        """Whether only the order counts, or what was picked cannot be 0."""
        from ._choices import Choices

        last, choices = match.steps[-1], model.part(Choices)
        return (
            not is_over_dim(model, last)
            or (not match.pair.sure and any(map(model.patterns.is_floor, match.between)))
            or bool(match.steps[0].args.positional or match.steps[0].args.keywords)
            or super().is_right(model, match)
            or choices.is_compared(match.node)
            or choices.picks_likely(match.steps[1:-1], last)
        )
