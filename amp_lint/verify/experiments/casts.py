"""A value that has another dtype than before: nothing is run."""

from __future__ import annotations

from amp_lint.verify.obligations import Cast
from amp_lint.verify.proof import Changed, Judgement, ProofSettings, Verdict


def judge(obligation: Cast, settings: ProofSettings) -> Judgement:
    """That it is another setting; whether a finding is mended by it cannot be told."""
    text = f"from {obligation.before} to {obligation.after}: what its dtype was is not known"
    changes = Changed(obligation.before, obligation.after)
    return Judgement(Verdict.NOT_COMPARABLE, text, changes=changes)
