"""What proofs say while they are under way, on stderr: a line for each that is done.

The lines stay, on a terminal as in a log. Between them a terminal shows how far the run has come,
and a log that goes without a line for long gets one.
"""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from importlib import metadata
from typing import Protocol

from amp_lint.report.terminal import style_of
from amp_lint.run.progress import Progress
from amp_lint.verify import report
from amp_lint.verify.proof import Proof, ProofSettings
from amp_lint.verify.prover import Change, Done, Prover
from amp_lint.verify.record import Entry

_SLOW = 1.0
"""Seconds of work after which somebody should hear what is done."""
_SILENCE = 30.0
"""Seconds after which a log gets a line that says how far it has come."""


class Task(Protocol):
    """A change to be proven, and what it is about."""

    @property
    def change(self) -> Change:
        """What is to be proven."""

    def entry(self, proof: Proof) -> Entry:
        """What came of it."""


class Live:
    """Says it, unless the run is to be quiet."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._style = style_of(sys.stderr)
        self._began = self._last = time.monotonic()

    def say(self, text: str) -> None:
        """A line that stays; none for ""."""
        if text and not self._progress.quiet:
            self._progress.clear()
            print(text, file=sys.stderr, flush=True)
            self._last = time.monotonic()

    def show(self, text: str) -> None:
        """How far the run has come, with the seconds it took."""
        now = time.monotonic()
        text = f"{text}, {now - self._began:.0f} s"
        if sys.stderr.isatty():
            self._progress.show(text)
        elif now - self._last >= _SILENCE:
            self.say(text)

    @contextlib.contextmanager
    def slow(self, text: str) -> Iterator[None]:
        """Say what is done here, if it is not done soon."""
        timer = threading.Timer(_SLOW, self.say, [text])
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()

    def prove(
        self,
        prover: Prover,
        tasks: Sequence[Task],
        tell: Callable[[Entry], str] | None = None,
    ) -> list[Entry]:
        """The entries of all tasks, in order; a line for each as soon as it is done.

        ``tell`` gives the line, or "" for none; by default it counts them.

        Raises:
            VerifyError: no experiment can be run at all.
        """
        count = 0

        def on_done(done: Done) -> None:
            nonlocal count
            count += 1
            entry = tasks[done.index].entry(done.proof)
            if tell is not None:
                line = tell(entry)
            else:
                line = f"{count}/{len(tasks)} {report.summary(entry, self._style)}"
            if line:
                self.say(f"{line}, {done.seconds:.0f} s")

        def on_wait() -> None:
            self.show(f"{count}/{len(tasks)} proofs")

        proofs = prover.prove_all([task.change for task in tasks], on_done, on_wait)
        self._progress.clear()
        return [task.entry(proof) for task, proof in zip(tasks, proofs, strict=True)]


def torch_in_use(settings: ProofSettings) -> str:
    """What runs the experiments, and what it is slow at, for the first line."""
    compiles = not {"compiled", "emulated"}.isdisjoint(settings.modes)
    slow = "; the first compile takes about a minute" if compiles else ""
    return f"torch {metadata.version('torch')} on {settings.device}{slow}"
