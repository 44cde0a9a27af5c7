"""What the rule pages promise: their fixes are proven, their wrong fixes refuted."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from amp_lint import registry
from amp_lint.handbook import pages
from amp_lint.handbook.pages import Example, Fence
from amp_lint.rule import Rule
from amp_lint.verify.proof import Proof
from amp_lint.verify.prover import Change
from amp_lint.verify.record import Entry


@dataclass(frozen=True, slots=True)
class PageCase:
    """A flagged example of a page and one of the fences that follow it."""

    rule: Rule
    flagged: Fence
    other: Fence

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

    def entry(self, proof: Proof) -> Entry:
        """What came of it."""
        return Entry(self.rule.code, _KINDS[self.other.kind], f"line {self.other.line}", proof)


_KINDS = {"fixed": "fix", "fixed unsafe": "unsafe fix", "wrong": "wrong fix"}


def cases(rules: Iterable[Rule]) -> Iterator[PageCase]:
    """Every fix of code and every wrong one on the pages of some rules, in their order."""
    for rule in filter(lambda rule: rule.is_static, rules):
        for example in pages.parse(registry.page(rule)).examples:
            for fence in _promised(example):
                yield PageCase(rule, example.flagged, fence)


def _promised(example: Example) -> Iterator[Fence]:
    yield from (fence for fence in (example.fixed, example.unsafe) if fence is not None)
    yield from example.wrong
