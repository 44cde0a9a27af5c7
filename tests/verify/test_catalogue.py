"""Every rule keeps what its page promises: fixes are proven, wrong fixes refuted.

Here in eager mode, two dtypes and with few random inputs; ``amp-lint verify`` does it in full.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
from _pytest.mark import ParameterSet

from amp_lint import registry
from amp_lint.handbook.pages import Fence
from amp_lint.rule import Rule
from amp_lint.text.diagnostic import Applicability, Severity
from amp_lint.verify import Prover, Verdict, catalogue, record, report
from amp_lint.verify.catalogue import PageCase
from amp_lint.verify.proof import Failure, Judgement, Proof, ProofSettings, Shown
from amp_lint.verify.record import Entry
from tests.verify.conftest import CASES


def by_case() -> list[ParameterSet]:
    return [
        pytest.param(case, id=f"{case.rule.code}-line{case.other.line}-{case.other.kind}")
        for case in CASES
    ]


@pytest.mark.parametrize("case", by_case())
def test_page(case: PageCase, entries: dict[PageCase, Entry]) -> None:
    entry = entries[case]
    shown = entry.proof.counterexample
    assert entry.right, f"{entry.proof.verdict}: {shown or entry.proof.reasons}"


@pytest.mark.parametrize("rule", registry.all_rules(), ids=lambda rule: rule.code)
def test_a_safe_fix_is_proven(rule: Rule, entries: dict[PageCase, Entry]) -> None:
    """A rule that offers safe fixes shows one on its page, and it is proven."""
    proven = [
        entry
        for case, entry in entries.items()
        if case.rule is rule and case.other.kind == "fixed" and entry.right
    ]
    assert proven or Applicability.SAFE not in rule.fixes  # as `test_pages.py` holds


# --- the catalogue itself can say no --------------------------------------------------------------


class Toy(Rule):
    """Its page below is all there is of it."""

    code = "AMP999"
    name = "toy"
    severity = Severity.ERROR
    requires = (frozenset({"softmax"}),)


FLAGGED = Fence("", "import torch\ny = torch.log(torch.softmax(x, 1))\n", 10)
RIGHT = Fence("fixed", "import torch\ny = torch.log_softmax(x, 1)\n", 20)
WRONG = Fence("wrong", "import torch\ny = torch.log_softmax(x, 0)\n", 30)
STRANGE = Fence("wrong", "import torch\nfrom oracle import mystery\ny = mystery(x)\n", 40)


def toy(fence: Fence, proving: Prover) -> Entry:
    """What comes of a fence; the registry does not know the rule, so its findings do not count."""
    case = PageCase(Toy(), FLAGGED, fence)
    change = case.change
    proof = proving.prove(type(change)(change.before, change.after, change.name))
    return case.entry(proof)


def test_a_wrong_fix_that_is_called_right_is_seen(proving: Prover) -> None:
    assert toy(RIGHT, proving).right
    assert toy(WRONG, proving).right
    assert not toy(Fence("fixed", WRONG.text, 20), proving).right


def test_a_right_fix_that_is_called_wrong_is_seen(proving: Prover) -> None:
    assert not toy(Fence("wrong", RIGHT.text, 20), proving).right


def test_what_is_not_comparable_counts_for_neither(proving: Prover) -> None:
    assert not toy(STRANGE, proving).right
    assert not toy(Fence("fixed", STRANGE.text, 20), proving).right


def test_cases_are_all_fixes_and_wrong_fixes(monkeypatch: pytest.MonkeyPatch) -> None:
    text = (
        "```py\na\n```\n```py fixed\nb\n```\n```py fixed unsafe\nc\n```\n```py wrong\nd\n```\n"
        "```py\ne\n```\n```py wrong\nf\n```\n```py ok\ng\n```\n"
    )
    monkeypatch.setattr(registry, "page", lambda rule: text)
    cases = [*catalogue.cases([Toy()])]
    assert [(c.flagged.text, c.other.text, c.other.kind == "wrong") for c in cases] == [
        ("a\n", "b\n", False),
        ("a\n", "c\n", False),
        ("a\n", "d\n", True),
        ("e\n", "f\n", True),
    ]


def test_a_rule_is_proven_if_all_of_its_page_is() -> None:
    def entry(kind: str, verdict: Verdict) -> Entry:
        return Entry("AMP101", kind, "line 1", Proof(verdict, (), (), None, "", ""))

    right, refuted = entry("fix", Verdict.PROVEN), entry("wrong fix", Verdict.REFUTED)
    assert record.proven([right, refuted]) == {"AMP101"}
    assert not record.proven([right, entry("wrong fix", Verdict.PROVEN)])
    assert not record.proven([entry("unsafe fix", Verdict.NOT_COMPARABLE), refuted])
    assert not record.proven([entry("site", Verdict.PROVEN)])


def test_the_counterexample_is_the_first_refutation() -> None:
    good = Judgement(Verdict.PROVEN, "fine", before=Failure("finite", "-inf"))
    bad = Judgement(Verdict.REFUTED, "no", after=Failure("value", "0 instead of 1", "x = 2"))
    shown = tuple(Shown("expression", "f", 1, 1, "a", "b", one) for one in (good, bad))
    proof = Proof(Verdict.REFUTED, shown, (), None, "", "")
    assert report.counterexample(proof) == "0 instead of 1, at x = 2"
    assert proof.fails_before == Failure("finite", "-inf")


# --- no check of a verdict is useless -------------------------------------------------------------
# Without it, some wrong fix of some page is not refuted. The linter's own look at the new text
# ("finding") refutes many wrong fixes too: it is switched off where the checks of experiments are
# looked at, so that each of these has to hold by itself. Here, as the pages are proven once a file.

ON_PAGES = (
    "value", "dtype", "raises", "guard", "attributes", "isinstance",
    "backward precision", "read", "range", "optimizer", "unbound", "finding", "resumed",
)  # fmt: skip
"""The checks that a wrong fix of some page depends on."""
ELSEWHERE = (
    "finite", "shape", "warns", "forward dtype", "scaler arguments", "stale weights", "calibration",
    "steps",
)  # fmt: skip
"""Those that the tests of the experiments show to be needed."""

Entries = dict[PageCase, Entry]
Decided = dict[PageCase, tuple[Entry, ProofSettings]]


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
    check: str, decided: Decided, proving: Prover, monkeypatch: pytest.MonkeyPatch
) -> None:
    entries = {case: entry for case, (entry, _) in decided.items()}
    candidates = [case for case, failure in refuted(entries) if failure.check == check]
    assert candidates, "no wrong fix is refuted by this check"
    candidates.sort(key=lambda case: seconds(entries[case]))
    disabled = frozenset({check, "finding"})

    def refuted_without(case: PageCase) -> bool:
        settings = replace(decided[case][1], disabled=disabled)
        monkeypatch.setattr(proving, "settings", settings)
        return proving.prove(case.change).verdict is Verdict.REFUTED

    assert not all(map(refuted_without, candidates)), "others refute the same fixes"


def test_all_checks_are_known(entries: Entries) -> None:
    found = {failure.check for _, failure in refuted(entries)}
    assert found <= {*ON_PAGES, *ELSEWHERE}
