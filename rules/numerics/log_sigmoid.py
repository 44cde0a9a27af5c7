"""AMP302: the logarithm of a sigmoid, or of 1 minus it, taken in two steps."""

from __future__ import annotations

from amp_lint.vocabulary.expressions import Pair

from ._patterns import PatternRule


class LogSigmoid(PatternRule):
    """``log(sigmoid(x))`` is -inf, and its gradient NaN, where ``-softplus(-x)`` is right."""

    code = "AMP302"
    name = "log-sigmoid"
    enters = True
    preview = True
    pairs = (
        Pair("log(sigmoid(x))", "-softplus(-x)"),
        Pair("log(1 - sigmoid(x))", "-softplus(x)"),
        Pair("log1p(-sigmoid(x))", "-softplus(x)"),
        Pair("log(1 / (1 + exp(-x)))", ""),
    )
    message = "log of a sigmoid that rounds to 0 or 1 is -inf, its gradient NaN (float16: from 8.3)"
    floored = (
        "the floor under the log of a sigmoid hides the -inf: what lies below it gets no gradient"
    )
    inner = "the sigmoid"
    help = "use `logsigmoid` or `softplus` of the logits"
