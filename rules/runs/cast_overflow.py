"""AMP603: a value becomes inf as it is cast to float16, or as the loss is scaled."""

from __future__ import annotations

from amp_lint.mistake import Account, Mistake
from amp_lint.rule import Rule
from amp_lint.text.diagnostic import Severity


class CastOverflow(Rule):
    """Numbers above 65504 in float16."""

    code = "AMP603"
    name = "cast-overflow"
    severity = Severity.WARNING
    run_only = True
    observed = (
        Account(
            Mistake.CAST_OVERFLOW,
            "a cast to float16 makes inf of values up to {largest:g}",
            "compute what reads it in float32: float16 ends at 65504",
        ),
        Account(
            Mistake.SCALED_OVERFLOW,
            "the loss is float16, and times the scale it is inf: steps are skipped",
            "compute the loss in float32, as of `logits.float()`",
        ),
    )
