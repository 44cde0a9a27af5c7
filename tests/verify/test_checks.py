"""No check of a verdict is useless: without it, some wrong fix of some page is not refuted.

The linter's own look at the new text ("finding") refutes many wrong fixes too. It is switched off
where the checks of experiments are looked at, so that each of these has to hold by itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from amp_lint.verify import Prover, Verdict
from amp_lint.verify.catalogue import Case, Outcome
from amp_lint.verify.proof import Shown

CHECKS = {
    "expression": ("finite", "value", "dtype", "shape", "raises", "guard"),
    "object": ("raises", "warns", "attributes", "isinstance"),
    "step": (
        "raises",
        "value",
        "backward precision",
        "stale weights",
        "range",
        "forward dtype",
        "calibration",
        "scaler arguments",
        "optimizer",
    ),
    "policy": ("dtype", "raises"),
    "name": ("unbound",),
    "finding": ("finding",),
}
"""The checks of each kind of obligation."""

Outcomes = dict[Case, Outcome]


def refuting(outcome: Outcome) -> Shown:
    """The judgement that refutes."""
    return next(s for s in outcome.proof.shown if s.judgement.verdict is Verdict.REFUTED)


def refuted(outcomes: Outcomes) -> Iterator[tuple[Case, Shown]]:
    for case, outcome in outcomes.items():
        if case.wrong and outcome.right:
            yield case, refuting(outcome)


@pytest.mark.parametrize(
    ("subject", "check"), [(subject, check) for subject in CHECKS for check in CHECKS[subject]]
)
def test_a_check_is_needed(
    subject: str, check: str, outcomes: Outcomes, proving: Prover, monkeypatch: pytest.MonkeyPatch
) -> None:
    candidates = [
        case
        for case, shown in refuted(outcomes)
        if shown.subject == subject
        and shown.judgement.after is not None
        and shown.judgement.after.check == check
    ]
    assert candidates, "no wrong fix is refuted by this check"
    settings = replace(proving.settings, disabled=frozenset({check, "finding"}))
    monkeypatch.setattr(proving, "settings", settings)
    assert not all(proving.prove(case.change).verdict is Verdict.REFUTED for case in candidates), (
        "without this check others refute the same fixes"
    )


def test_all_checks_are_known(outcomes: Outcomes) -> None:
    for _, shown in refuted(outcomes):
        assert shown.judgement.after is not None
        assert shown.judgement.after.check in CHECKS[shown.subject]
