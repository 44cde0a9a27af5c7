"""``--fix --prove``: lets pass only the fixes that are proven, and says what became of each."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from types import TracebackType

from amp_lint.progress import Progress
from amp_lint.rule import Diagnostic, Rule
from amp_lint.runner import Job
from amp_lint.source import Source
from amp_lint.verify import catalogue, report
from amp_lint.verify.proof import Proof, Settings, Verdict
from amp_lint.verify.prover import Prover, VerifyError, choose_device
from amp_lint.verify.sites import Site, change

__all__ = ["Gate", "VerifyError"]


class Gate:
    """A `runner.Gate`, and a context manager whose end is the end of the workers."""

    def __init__(self, progress: Progress) -> None:
        """Raises `VerifyError` if a package that the experiments need is not installed."""
        self._prover = Prover(Settings(device=choose_device("auto")))
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
        source = Source.of(text, job.name)
        found = [
            Site(source, finding, change(source, finding, job.selection)) for finding in findings
        ]
        changes = [site.change for site in found]
        proofs = self._prover.prove_all(
            changes, lambda done: self._progress.show(f"{job.name}: {done}/{len(changes)} proofs")
        )
        rules = {rule.code: rule for rule in job.selection.rules}
        return [
            site.finding
            for site, proof in zip(found, proofs, strict=True)
            if self._passes(site, proof, rules[site.finding.code])
        ]

    def _passes(self, site: Site, proof: Proof, rule: Rule) -> bool:
        verdict, why = proof.verdict, "; ".join(proof.reasons)
        if verdict is Verdict.PROVEN:
            self._tell(site, "fix proven")
            return True
        if verdict is Verdict.REFUTED:
            self.refuted = True
            self._tell(site, f"fix refuted, not applied: {report.counterexample(proof)}")
            return False
        if self._page_holds(rule):
            self._tell(site, f"pattern proven, this site not lifted: {why}")
            return True
        self._tell(site, f"fix not proven, not applied: {why}")
        return False

    def _page_holds(self, rule: Rule) -> bool:
        """Whether every fix on the page of a rule is proven, and every wrong one refuted."""
        if rule.code not in self._pages:
            cases = [*catalogue.cases([rule])]
            outcomes = catalogue.run(
                self._prover,
                cases,
                lambda done: self._progress.show(f"{rule.code}: {done}/{len(cases)} proofs"),
            )
            self._pages[rule.code] = all(outcome.right for outcome in outcomes)
        return self._pages[rule.code]

    def _tell(self, site: Site, text: str) -> None:
        self._progress.clear()
        print(f"{site.place}: {site.finding.code} {text}", file=sys.stderr)
