"""The fixable findings of user files, each as a change of its own."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from amp_lint import engine, fixing
from amp_lint.edit import edits
from amp_lint.selection import Selection
from amp_lint.text.diagnostic import Diagnostic, applicable
from amp_lint.text.source import Source
from amp_lint.verify.proof import Proof
from amp_lint.verify.prover import Change
from amp_lint.verify.record import Entry


@dataclass(frozen=True, slots=True)
class Site:
    """A finding with a fix that can be applied."""

    source: Source
    finding: Diagnostic
    change: Change
    """The file as it is, and with this fix alone."""

    @property
    def place(self) -> str:
        """``path:line:column``."""
        return self.source.place(self.finding.start)

    def entry(self, proof: Proof) -> Entry:
        """What came of it."""
        return Entry(self.finding.code, "site", self.place, proof)


def sites(source: Source, selection: Selection, *, named: bool) -> Iterator[Site]:
    """The findings of a file that ``--fix --unsafe-fixes`` would fix, in order of place.

    Raises:
        AnalysisError: the file cannot be analysed.
    """
    found = engine.check(source, selection, named=named)
    for finding in fixing.offered(source, selection, found, unsafe=True, named=named):
        if applicable(finding.fix, unsafe=True):
            yield Site(source, finding, change(source, finding, selection))


def change(source: Source, finding: Diagnostic, selection: Selection) -> Change:
    """What the fix of one finding does to a file."""
    assert finding.fix is not None
    after, _ = edits.apply(source.text, [finding.fix])
    return Change(source.text, after, source.name, finding.code, selection.target_torch)
