"""AMP318: logarithms of probabilities in low precision, after the region."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from amp_lint._lazy import cst
from amp_lint.mistake import Account, Mistake
from amp_lint.rule import Rule
from amp_lint.text.diagnostic import Applicability, Diagnostic, Fix, Severity
from amp_lint.vocabulary import written
from amp_lint.vocabulary.operations import LIKELIHOODS, NORMALIZERS

from ._low import LOWERING, are_others_low, cast, certain, elsewhere, first, is_made_by, shown

if TYPE_CHECKING:
    from amp_lint.amp.dtypes import Run
    from amp_lint.model import Model


class LogitsLeaveRegion(Rule):
    """``F.cross_entropy(logits, y)`` of float16 logits where autocast is off."""

    code = "AMP318"
    name = "logits-leave-region"
    severity = Severity.INFO
    preview = True
    observed = (
        Account(
            Mistake.LOW_LOGITS,
            "log-probabilities outside of autocast are computed in {dtype}",
            "call it in the region, or on `.float()`",
        ),
    )
    fixes = (Applicability.SUGGEST,)
    reads_models = True
    called_for = written.look(written.LIKELIHOODS, r"\b", r"\(")
    requires = (LOWERING, written.LIKELIHOODS)

    def check(self, model: Model) -> Iterator[Diagnostic]:
        """Judge every such call that autocast does not cast, or that it is turned off for."""
        for call in model.tree.nodes(cst.Call):
            off = any(region.never_enabled for region in model.regions.around(call))
            yield from first(model, call, self._judge, call, supposing=off)

    def _judge(self, model: Model, run: Run, call: cst.Call) -> Diagnostic | None:
        known, state = model.dtypes.operation(call, run), run.state(call)
        if known is None or state is None or state.is_on or known[0] not in LIKELIHOODS:
            return None
        value, made = run.of(known[1]), run.of(call)
        is_low = value.low and made.low and certain(run, value)
        if not is_low or model.regions.enters_unknown(call):
            return None
        if is_made_by(model, run, known[1], LIKELIHOODS):  # then it is found there
            return None
        error = "0.25" if "bfloat16" in value.low else "0.03"
        what = f"{known[0]} outside of autocast is in {' or '.join(sorted(value.low))}"
        of = "" if run.ambient.supposed else "log-probabilities are "
        message = f"{what}: {of}off by up to {error}{elsewhere(run)}"
        inside = ", or compute it inside of the region"  # CUDA's lists have no cross_entropy
        help = f"give it `.float()` of them{inside if known[0] != 'cross_entropy' else ''}"
        edits = cast(model, known[1], "float()")
        # the probabilities meet what is low, in a product; or the first operand does
        is_met = known[0] in NORMALIZERS or are_others_low(run, call, known[1])
        fix = None if is_met else Fix("Compute it in float32", edits, Applicability.SUGGEST)
        return self.report(model, call, message, shown(model, run, value), fix, help=help)
