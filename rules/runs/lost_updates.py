"""AMP606: parameters in low precision that updates do not move."""

from __future__ import annotations

from amp_lint.mistake import Account, Mistake
from amp_lint.rule import Rule
from amp_lint.text.diagnostic import Severity


class LostUpdates(Rule):
    """Updates that are smaller than half the distance to the next number."""

    code = "AMP606"
    name = "lost-updates"
    severity = Severity.WARNING
    run_only = True
    observed = (
        Account(
            Mistake.LOST_UPDATES,
            "{share:g} % of the {dtype} parameters with a gradient are not moved by a step",
            "keep parameters in float32 and use autocast",
        ),
    )
