"""AMP604: operations of backward that make 0 of much of a gradient."""

from __future__ import annotations

from amp_lint.mistake import Account, Mistake
from amp_lint.rule import Rule
from amp_lint.text.diagnostic import Severity


class GradientUnderflow(Rule):
    """Gradients that are too small for float16 at the scale of the run."""

    code = "AMP604"
    name = "gradient-underflow"
    severity = Severity.WARNING
    run_only = True
    observed = (
        Account(
            Mistake.GRADIENT_UNDERFLOW,
            "{share:g} % of the gradients that go back from here are 0 in float16 and not in "
            "float32: {size:g} % of their sum",
            "use a larger scale, or bfloat16",
        ),
    )
