"""What is known of a run while it is watched: what those who watch it share."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from amp_lint.runtime.findings import Findings
from amp_lint.runtime.frames import Place

if TYPE_CHECKING:
    import torch

    from amp_lint.runtime.record import Record, Recorder

Backward = Callable[["list[torch.Tensor]", Place], None]
"""Is told the losses of a backward that begins, and where."""
_AT_A_TIME = 50
"""Steps after which the counts are written down, each time."""
Boundary = Callable[[int, bool], None]
"""Is told the number of a step that is over, from 1, and whether it was skipped."""


Clip = Callable[[set[int], "torch.Tensor", float], None]
"""Is told the ids of the parameters that were clipped, the norm before, and the limit."""
_EARLY = frozenset({1, 2, 4, 8, 16, 32})
"""Steps after which the counts are written down, besides each 50th: a run may be killed early."""


class Watched:
    """The parts of one run, and who is told of its steps."""

    def __init__(self, recorder: Recorder | None = None, *, raising: bool = False) -> None:
        from amp_lint.runtime.checkpoints import Checkpoints
        from amp_lint.runtime.patches import Patches
        from amp_lint.runtime.protocol import Protocol
        from amp_lint.runtime.reads.gradients import GradientReads
        from amp_lint.runtime.reads.losses import LossReads
        from amp_lint.runtime.regions import Regions
        from amp_lint.runtime.scales import Scales

        self.findings = Findings(recorder, raising=raising)
        self.protocol = Protocol(self.findings)
        self.regions = Regions(self.findings)
        self.scales = Scales(self.findings, self.protocol)
        self.checkpoints = Checkpoints(self.findings, self.protocol)
        self.patches = Patches()
        self.reads = GradientReads(self.protocol, self.patches)
        self.losses = LossReads(self.findings, self.patches, self.reads)
        self.reads.ends.append(self.losses.end)
        self.regions.forwards += [self.reads.end, self.losses.end]
        self.boundaries: list[Boundary] = []
        """Who is told where a step ends: there a next one may be looked at more closely."""
        self.backwards: list[Backward] = []
        self.clips: list[Clip] = []
        """Who is told of a clip that has measured the norm of gradients."""

    @property
    def record(self) -> Record:
        """What was seen so far."""
        return self.findings.record

    def boundary(self, *, skipped: bool) -> None:
        """A step of any optimizer is over, or was skipped."""
        summary = self.findings.record.summary
        summary.steps += 1
        step = summary.steps
        summary.skips += skipped
        for told in self.boundaries:
            told(step, skipped)
        if step in _EARLY or not step % _AT_A_TIME:
            self.findings.save()
