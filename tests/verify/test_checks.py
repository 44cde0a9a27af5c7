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
from amp_lint.verify.proof import Failure

ON_PAGES = (
    "finite", "value", "dtype", "raises", "guard", "attributes", "isinstance",
    "backward precision", "read", "range", "optimizer", "unbound", "finding",
)  # fmt: skip
"""The checks that a wrong fix of some page depends on."""
ELSEWHERE = ("shape", "warns", "forward dtype", "scaler arguments", "stale weights", "calibration")
"""Those that the tests of the experiments show to be needed."""

Outcomes = dict[Case, Outcome]


def refuting(outcome: Outcome) -> Failure:
    """The counterexample."""
    failure = outcome.proof.counterexample
    assert failure is not None
    return failure


def seconds(outcome: Outcome) -> float:
    """What its experiments took."""
    return sum(shown.judgement.seconds for shown in outcome.proof.shown)


def refuted(outcomes: Outcomes) -> Iterator[tuple[Case, Failure]]:
    for case, outcome in outcomes.items():
        if case.wrong and outcome.right:
            yield case, refuting(outcome)


@pytest.mark.parametrize("check", ON_PAGES)
def test_a_check_is_needed(
    check: str, outcomes: Outcomes, proving: Prover, monkeypatch: pytest.MonkeyPatch
) -> None:
    candidates = [case for case, failure in refuted(outcomes) if failure.check == check]
    assert candidates, "no wrong fix is refuted by this check"
    candidates.sort(key=lambda case: seconds(outcomes[case]))
    settings = replace(proving.settings, disabled=frozenset({check, "finding"}))
    monkeypatch.setattr(proving, "settings", settings)
    verdicts = (proving.prove(case.change).verdict for case in candidates)
    assert any(verdict is not Verdict.REFUTED for verdict in verdicts), (
        "without this check others refute the same fixes"
    )


def test_all_checks_are_known(outcomes: Outcomes) -> None:
    found = {failure.check for _, failure in refuted(outcomes)}
    assert found <= {*ON_PAGES, *ELSEWHERE}
