"""``with amp_lint.watch() as watch:`` watches the training that runs in it."""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING

from amp_lint.mistake import At, Mistake
from amp_lint.runtime.frames import raised
from amp_lint.runtime.numerics.schedule import Sampling
from amp_lint.runtime.watched import Watched

if TYPE_CHECKING:
    from types import TracebackType

    from amp_lint.runtime.record import Recorder

_NONFINITE = re.compile(r"\b(nan|inf|infinite|infinity|(?:non-?)?finite)s?\b", re.IGNORECASE)
"""Words of an exception by which a training ends itself for its numbers."""


class Watch(Watched):
    """Watches from ``with`` to its end, or from `start` to `stop`; for one training at a time."""

    def __init__(
        self,
        recorder: Recorder | None = None,
        *,
        raising: bool = False,
        sampling: Sampling | None = None,
    ) -> None:
        from amp_lint.runtime.numerics.sampler import Sampler
        from amp_lint.runtime.scaler_hooks import ScalerHooks
        from amp_lint.runtime.training_hooks import TrainingHooks

        super().__init__(recorder, raising=raising)
        self._sampler = Sampler(self, sampling or Sampling(), self.patches)
        self._scaler_hooks = ScalerHooks(self, self.patches)
        self._training_hooks = TrainingHooks(self, self.patches)

    def start(self) -> None:
        """Put everything in place."""
        self.findings.over = False
        self._sampler.start()
        self._scaler_hooks.install()
        self._training_hooks.install()
        self.regions.install(self.patches)
        self.reads.install()
        self.patches.rebind()

    def stop(
        self, *, ended: bool = True, failed: bool = False, error: BaseException | None = None
    ) -> None:
        """Put everything back as it was.

        ``ended``: the training came to its end by itself; ``failed``: it says that it is none;
        ``error``: what has ended it.
        """
        summary = self.record.summary
        was_looked_at = self._sampler.stop(cut=failed or not ended)
        if error is not None:
            self._name(error, was_looked_at=was_looked_at)
        self.patches.undo()
        self.reads.end()
        self.losses.end()
        self._training_hooks.remove()
        self.findings.over = True
        self.protocol.finish()
        self.scales.finish()
        self.checkpoints.finish()
        if ended:
            self._judge_whole()
        summary.ended, summary.counted = ended and not failed, True
        self.findings.save()

    def _name(self, error: BaseException, *, was_looked_at: bool) -> None:
        """Take note of what has ended the run, and where."""
        summary, place = self.record.summary, raised(error.__traceback__)
        is_own = isinstance(error, SystemExit) or _NONFINITE.search(str(error)) is not None
        if is_own and not was_looked_at:
            summary.cut_in = self.findings.step
        if place.file and not isinstance(error, SystemExit):
            summary.error = type(error).__name__
            self.record.raised.append(place)

    def _judge_whole(self) -> None:
        """See what only the whole run can show."""
        self.regions.finish()
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
        self.stop(ended=error is None, error=error)


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
