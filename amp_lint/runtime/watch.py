"""``with amp_lint.watch() as watch:`` watches the training that runs in it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from amp_lint.mistake import At, Mistake
from amp_lint.runtime.findings import Findings
from amp_lint.runtime.frames import Place
from amp_lint.runtime.numerics.schedule import Sampling

if TYPE_CHECKING:
    from types import TracebackType

    import torch

    from amp_lint.runtime.record import Record, Recorder

Backward = Callable[["list[torch.Tensor]", Place], None]
"""Is told the losses of a backward that begins, and where."""
Boundary = Callable[[int, bool], None]
"""Is told the number of a step that is over, from 1, and whether it was skipped."""


class Watch:
    """Watches from ``with`` to its end, or from `start` to `stop`; for one training at a time."""

    def __init__(
        self,
        recorder: Recorder | None = None,
        *,
        raising: bool = False,
        sampling: Sampling | None = None,
    ) -> None:
        from amp_lint.runtime.checkpoints import Checkpoints
        from amp_lint.runtime.numerics.sampler import Sampler
        from amp_lint.runtime.patches import Patches
        from amp_lint.runtime.protocol import Protocol
        from amp_lint.runtime.reads import Reads
        from amp_lint.runtime.regions import Regions
        from amp_lint.runtime.scaler_hooks import ScalerHooks
        from amp_lint.runtime.scales import Scales
        from amp_lint.runtime.training_hooks import TrainingHooks

        self.findings = Findings(recorder, raising=raising)
        self.protocol = Protocol(self.findings)
        self.regions = Regions(self.findings)
        self.scales = Scales(self.findings, self.protocol)
        self.checkpoints = Checkpoints(self.findings, self.protocol)
        self.boundaries: list[Boundary] = []
        """Who is told where a step ends: there a next one may be looked at more closely."""
        self.backwards: list[Backward] = []
        self._patches = Patches()
        self._sampler = Sampler(self, sampling or Sampling(), self._patches.inside)
        self.reads = Reads(self.protocol, self._patches)
        self.regions.forwards.append(self.reads.end)
        self._scaler_hooks = ScalerHooks(self, self._patches)
        self._training_hooks = TrainingHooks(self, self._patches)

    @property
    def record(self) -> Record:
        """What was seen so far."""
        return self.findings.record

    def start(self) -> None:
        """Put everything in place."""
        self._sampler.start()
        self._scaler_hooks.install()
        self._training_hooks.install()
        self.regions.install(self._patches)
        self.reads.install()
        self._patches.rebind()

    def stop(self, *, ended: bool = True, failed: bool = False) -> None:
        """Put everything back as it was.

        ``ended``: the training came to its end by itself; ``failed``: it says that it is none.
        """
        self._sampler.stop(cut=failed or not ended)
        self._patches.undo()
        self.reads.end()
        self._training_hooks.remove()
        self.scales.finish()
        self.checkpoints.finish()
        if ended:
            self._judge_whole()
        self.record.summary.ended = ended
        self.findings.save()

    def boundary(self, *, skipped: bool) -> None:
        """A step of any optimizer is over, or was skipped."""
        step, summary = self.findings.step, self.record.summary
        summary.steps += 1
        summary.skips += skipped
        for told in self.boundaries:
            told(step, skipped)

    def _judge_whole(self) -> None:
        """See what only the whole run can show."""
        only_bfloat16 = [*map(str, self.regions.dtypes)] == ["torch.bfloat16"]
        for log in self.protocol.logs:
            if log.step is not None:
                places = {At.EVENT: log.made or log.step, At.STEP: log.step}
                if not log.updates:
                    self.findings.see(Mistake.NEVER_UPDATED, {At.EVENT: log.step}, dict)
                if only_bfloat16:
                    (places[At.REGION],) = self.regions.dtypes.values()
                    self.findings.see(Mistake.BFLOAT16_SCALER, places, dict)

    def __enter__(self) -> Watch:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop(ended=error is None)


def watch() -> Watch:
    """Watch the training in a ``with`` block; what was seen is told on stderr when it is over.

    Raises:
        ModuleNotFoundError: torch is not installed.
    """
    return _Telling()


class _Telling(Watch):
    """Says at its end what it has seen."""

    def __exit__(self, *error: object) -> None:
        super().__exit__(*error)  # type: ignore[arg-type]
        from amp_lint.runtime.tell import told

        sys.stderr.writelines(told(self.record))
