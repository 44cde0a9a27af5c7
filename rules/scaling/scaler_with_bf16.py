"""AMP109: a GradScaler is enabled though the region it serves is bf16."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from amp_lint.edit import call_edits
from amp_lint.mistake import Account, At, Mistake
from amp_lint.rule import Rule
from amp_lint.text.diagnostic import Applicability, Diagnostic, Fix, Severity
from amp_lint.vocabulary import written
from amp_lint.vocabulary.amp import BFLOAT16_FLAGS
from amp_lint.vocabulary.meaning import Role
from amp_lint.vocabulary.table import words

if TYPE_CHECKING:
    from amp_lint.model import Model

    from ._precision import Bf16Scaler

MESSAGE = (
    "`GradScaler` can be on with bfloat16, which needs none: it costs time and skips only inf and "
    "NaN"
)
_HELP = "enable it for float16 only, as `enabled=dtype == torch.float16` does"


class ScalerWithBf16(Rule):
    """A scaler that some configuration enables together with bf16."""

    code = "AMP109"
    name = "scaler-with-bf16"
    severity = Severity.INFO
    fixes = (Applicability.UNSAFE, Applicability.SUGGEST)
    given = written.SCALED
    requires = (words(Role.SCALER), BFLOAT16_FLAGS)
    observed = (
        Account(
            Mistake.BFLOAT16_SCALER,
            "`GradScaler` is on and every region is bfloat16: it costs time and skips "
            "only inf and NaN",
            _HELP,
            {At.REGION: "a bfloat16 region", At.STEP: "stepped here"},
        ),
    )

    def check(self, model: Model) -> Iterator[Diagnostic]:
        """Report the constructor of every such scaler."""
        from ._precision import Precision

        for scaler in model.part(Precision).bf16_scalers:
            yield self.report(
                model,
                scaler.call,
                MESSAGE,
                related=[(scaler.dtype, "bfloat16 is chosen here")],
                fix=_fix(model, scaler),
                help=_HELP,
            )


def _fix(model: Model, scaler: Bf16Scaler) -> Fix | None:
    """Disable the scaler where the region is bf16: whatever the settings, or by one of them."""
    if scaler.switch is None:
        return None
    changes = call_edits.set_keyword(model.tree, scaler.call, "enabled", scaler.switch)
    if scaler.always:
        return Fix("Disable the scaler: `enabled=False`", changes, Applicability.UNSAFE)
    return Fix("Disable the scaler for bfloat16", changes, Applicability.SUGGEST)
