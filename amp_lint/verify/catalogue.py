"""What the rule pages promise: their fixes are proven, their wrong fixes refuted."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from amp_lint import pages, registry
from amp_lint.pages import Example, Fence
from amp_lint.rule import Rule
from amp_lint.verify.proof import Proof, Verdict
from amp_lint.verify.prover import Change, Prover


@dataclass(frozen=True, slots=True)
class Case:
    """A flagged example of a page and one of the fences that follow it."""

    rule: Rule
    flagged: Fence
    other: Fence

    @property
    def wrong(self) -> bool:
        """Whether this is a wrong fix, to be refuted."""
        return self.other.kind == "wrong"

    @property
    def wanted(self) -> Verdict:
        """What the verifier must say."""
        return Verdict.REFUTED if self.wrong else Verdict.PROVEN

    @property
    def change(self) -> Change:
        """What is to be proven or refuted."""
        return Change(
            self.flagged.text,
            self.other.text,
            name=f"{self.rule.code}, line {self.flagged.line} of its page",
            code=self.rule.code,
            target_torch=self.flagged.target_torch,
        )


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a case."""

    case: Case
    proof: Proof

    @property
    def right(self) -> bool:
        """Whether the verifier says what it must."""
        return self.proof.verdict is self.case.wanted


def cases(rules: Iterable[Rule]) -> Iterator[Case]:
    """Every fix and every wrong fix on the pages of some rules, in the order of the pages."""
    for rule in rules:
        for example in pages.parse(registry.page(rule)).examples:
            for fence in _promised(example):
                yield Case(rule, example.flagged, fence)


def _promised(example: Example) -> Iterator[Fence]:
    yield from (fence for fence in (example.fixed, example.unsafe) if fence is not None)
    yield from example.wrong


def run(
    prover: Prover, chosen: Sequence[Case], on_done: Callable[[int], None] = lambda done: None
) -> list[Outcome]:
    """Prove or refute every case; ``on_done`` hears how many there are."""
    proofs = prover.prove_all([case.change for case in chosen], on_done)
    return [Outcome(case, proof) for case, proof in zip(chosen, proofs, strict=True)]
