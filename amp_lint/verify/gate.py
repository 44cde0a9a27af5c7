"""``--fix --prove``: lets pass only the fixes that are proven, and says what became of each."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from types import TracebackType

from amp_lint.rule import Rule
from amp_lint.run.job import Job
from amp_lint.run.progress import Progress
from amp_lint.syntax.cells import opened
from amp_lint.text.diagnostic import Diagnostic
from amp_lint.text.printable import counted
from amp_lint.verify import catalogue, report
from amp_lint.verify.live import Live, torch_in_use
from amp_lint.verify.proof import ProofSettings, Verdict
from amp_lint.verify.prover import FILE_LIMIT, Prover, VerifyError, choose_device
from amp_lint.verify.record import Entry
from amp_lint.verify.sites import Site, change

__all__ = ["Gate", "VerifyError"]


class Gate:
    """A `job.Gate`, and a context manager whose end is the end of the workers."""

    def __init__(self, progress: Progress) -> None:
        """Raises `VerifyError` if a package that the experiments need is not installed."""
        self._live = Live(progress)
        with self._live.slow("starting torch to look for a GPU"):
            settings = ProofSettings(device=choose_device("auto"))
        self._prover = Prover(settings, file_limit=FILE_LIMIT)
        self._live.say(f"fixes are proven before they are applied, with {torch_in_use(settings)}")
        self._progress = progress
        self._pages: dict[str, bool] = {}
        self.refuted = False
        """Whether a fix was refuted."""

    def __enter__(self) -> Gate:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._prover.close()

    def __call__(self, job: Job, text: str, findings: Sequence[Diagnostic]) -> Sequence[Diagnostic]:
        """The findings whose fix is proven, here or by the page of its rule."""
        source = opened(job.data, job.name).changed(text)
        found = [
            Site(source, finding, change(source, finding, job.selection)) for finding in findings
        ]
        self._live.say(f"{job.name}: proving {counted(len(found), 'fix')}")
        entries = self._live.prove(self._prover, found, self._told)
        rules = {rule.code: rule for rule in job.selection.rules}
        return [
            site.finding
            for site, entry in zip(found, entries, strict=True)
            if self._passes(entry, rules[entry.rule])
        ]

    def _told(self, entry: Entry) -> str:
        """What is said of a fix as soon as it is judged; "" where it is said in another way."""
        verdict = entry.proof.verdict
        if verdict is Verdict.REFUTED:
            self.refuted = True
            why = report.counterexample(entry.proof)
            self._warn(entry, f"fix refuted, not applied: {why}")
        proven = f"{entry.place}: {entry.rule} fix proven{report.incomplete(entry.proof)}"
        return proven if verdict is Verdict.PROVEN else ""

    def _passes(self, entry: Entry, rule: Rule) -> bool:
        if entry.proof.verdict is not Verdict.NOT_COMPARABLE:
            return entry.proof.verdict is Verdict.PROVEN
        why = report.reason(entry.proof)
        if self._page_holds(rule):
            self._live.say(f"{entry.place}: {entry.rule} {report.PATTERN}: {why}")
            return True
        self._warn(entry, f"fix not proven, not applied: {why}")
        return False

    def _page_holds(self, rule: Rule) -> bool:
        """Whether every fix on the page of a rule is proven, and every wrong one refuted."""
        if rule.code not in self._pages:
            cases = [*catalogue.cases([rule])]
            fixes = counted(len(cases), "fix")
            self._live.say(f"trying {fixes}, right and wrong, on the page of {rule.code}")
            entries = self._live.prove(self._prover, cases)
            self._pages[rule.code] = all(entry.right for entry in entries)
        return self._pages[rule.code]

    def _warn(self, entry: Entry, text: str) -> None:
        """Say that a fix is not applied, however quiet the run is to be."""
        self._progress.clear()
        print(f"{entry.place}: {entry.rule} {text}", file=sys.stderr, flush=True)
