"""AMP602: a run whose loss scale falls below 1, where no scale helps."""

from __future__ import annotations

from amp_lint.mistake import Account, At, Mistake
from amp_lint.rule import Rule
from amp_lint.text.diagnostic import Severity


class LossScaleCollapse(Rule):
    """Gradients that overflow at any scale, so that no step is taken any more."""

    code = "AMP602"
    name = "loss-scale-collapse"
    severity = Severity.ERROR
    run_only = True
    observed = (
        Account(
            Mistake.SCALE_COLLAPSE,
            "the scale fell from {first:g} to {least:g} and did not settle, {skips:g} of {steps:g} "
            "steps were skipped",
            "look for inf or NaN in the data, the loss and the weights",
            {At.MADE: "its scaler"},
        ),
    )
