"""No check of a verdict is useless: without it, some wrong fix of some page is not refuted.

The linter's own look at the new text ("finding") refutes many wrong fixes too. It is switched off
where the checks of experiments are looked at, so that each of these has to hold by itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from amp_lint.verify import Prover, Verdict
from amp_lint.verify.catalogue import PageCase
from amp_lint.verify.proof import Failure
from amp_lint.verify.record import Entry

ON_PAGES = (
    "finite", "value", "dtype", "raises", "guard", "attributes", "isinstance",
    "backward precision", "read", "range", "optimizer", "unbound", "finding",
)  # fmt: skip
"""The checks that a wrong fix of some page depends on."""
ELSEWHERE = ("shape", "warns", "forward dtype", "scaler arguments", "stale weights", "calibration")
"""Those that the tests of the experiments show to be needed."""

Entries = dict[PageCase, Entry]


def refuting(entry: Entry) -> Failure:
    """The counterexample."""
    failure = entry.proof.counterexample
    assert failure is not None
    return failure


def seconds(entry: Entry) -> float:
    """What its experiments took."""
    return sum(shown.judgement.seconds for shown in entry.proof.shown)


def refuted(entries: Entries) -> Iterator[tuple[PageCase, Failure]]:
    for case, entry in entries.items():
        if entry.kind == "wrong fix" and entry.right:
            yield case, refuting(entry)


@pytest.mark.parametrize("check", ON_PAGES)
def test_a_check_is_needed(
    check: str, entries: Entries, proving: Prover, monkeypatch: pytest.MonkeyPatch
) -> None:
    candidates = [case for case, failure in refuted(entries) if failure.check == check]
    assert candidates, "no wrong fix is refuted by this check"
    candidates.sort(key=lambda case: seconds(entries[case]))
    settings = replace(proving.settings, disabled=frozenset({check, "finding"}))
    monkeypatch.setattr(proving, "settings", settings)
    verdicts = (proving.prove(case.change).verdict for case in candidates)
    assert any(verdict is not Verdict.REFUTED for verdict in verdicts), (
        "without this check others refute the same fixes"
    )


def test_all_checks_are_known(entries: Entries) -> None:
    found = {failure.check for _, failure in refuted(entries)}
    assert found <= {*ON_PAGES, *ELSEWHERE}
