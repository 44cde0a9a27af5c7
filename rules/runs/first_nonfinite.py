"""AMP601: the operation of a run from which the first inf or NaN comes."""

from __future__ import annotations

from amp_lint.mistake import Account, Mistake
from amp_lint.rule import Rule
from amp_lint.text.diagnostic import Severity

_SCALED = (
    "`{operation}` gives the first {kind} of the {phase}, in {dtype} with {region}, of values "
    "up to {largest:g}; the scale is {scale:g}"
)
_PLAIN = (
    "`{operation}` gives the first {kind} of the {phase}, in {dtype} with {region}, of values "
    "up to {largest:g}"
)
_HELP = "compute it in float32 if its dtype ends there, else keep its argument from 0 and from inf"


class FirstNonfinite(Rule):
    """Where a loss or a gradient ceases to be finite."""

    code = "AMP601"
    name = "first-nonfinite"
    severity = Severity.ERROR
    run_only = True
    observed = (
        Account(Mistake.FIRST_NONFINITE, _SCALED, _HELP),
        Account(Mistake.FIRST_NONFINITE, _PLAIN, _HELP),
        Account(
            Mistake.GIVEN_NONFINITE,
            "{kind} is given here that no operation of the step has made",
            "look for it in the data, and in the weights after the step before",
        ),
        Account(
            Mistake.UNSEEN_NONFINITE,
            "the loss is {kind} first in step {number:g}, which was not looked at closely",
            "run again with `--at` and the number of that step, which names the operation",
        ),
    )
