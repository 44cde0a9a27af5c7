"""AMP605: a run that loads its optimizer's state, and not its scaler's."""

from __future__ import annotations

from amp_lint.mistake import Account, At, Mistake
from amp_lint.rule import Rule
from amp_lint.text.diagnostic import Severity


class StaleResume(Rule):
    """The checkpoint has the state of the scaler, and nobody loads it."""

    code = "AMP605"
    name = "stale-resume"
    severity = Severity.WARNING
    run_only = True
    observed = (
        Account(
            Mistake.STALE_RESUME,
            "the optimizer goes on and the scaler starts anew at {scale:g}: what was read "
            "has its state",
            "call `scaler.load_state_dict` as well",
            {At.STEP: "the first step after it", At.MADE: "the scaler is made here"},
        ),
    )
