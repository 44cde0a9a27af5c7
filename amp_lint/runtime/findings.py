"""What a run has shown so far: one observation for each mistake and place."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch

from amp_lint.mistake import At, Mistake
from amp_lint.runtime.frames import Place, callers
from amp_lint.runtime.record import (
    Numbers,
    Observation,
    Record,
    Recorder,
    files_line,
    seen_line,
    state_line,
)

_MOST = 1000
"""Observations that are kept, and call sites that are counted."""


class WatchedError(Exception):
    """An error that a run has shown, where the user wants it to end there."""


class Findings:
    """Collects what is seen, and writes it down at once where there is a file."""

    def __init__(self, recorder: Recorder | None = None, *, raising: bool = False) -> None:
        self._seen: dict[tuple[Mistake, Place], Observation] = {}
        self._recorder = recorder
        self._raising = raising
        self._callers: dict[Place, tuple[Place, ...]] = {}
        self.record = Record()
        self.files: Callable[[], list[str]] = list
        """Tells the project's files that have run so far."""
        self._noted: set[str] = set()
        """Files in which something was seen."""
        self.again = False
        """Whether an optimizer steps that has been counted, on the same gradients."""
        self.over = False
        """Whether the run is over, and what is seen is of the whole of it."""

    @property
    def step(self) -> int:
        """The step that is being made, from 1, or 0 at the end; those of all optimizers count."""
        return 0 if self.over else self.record.summary.steps + (not self.again)

    def see(
        self,
        mistake: Mistake,
        places: Mapping[At, Place],
        measure: Callable[[], Numbers],
        step: int | None = None,
    ) -> None:
        """A mistake has happened; ``measure``, which may wait for the device, is asked once.

        ``step``: the one in which it did, if that is not the one that is being made.
        """
        known = {at: place for at, place in places.items() if place.file}
        event = known.get(At.EVENT)
        if event is None:
            return  # no code of the user's is running
        if (mistake, event) in self._seen:
            self._seen[mistake, event].count += 1
        elif len(self._seen) < _MOST:
            led = self._callers.get(event, ())
            found = Observation(mistake, known, measure(), step or self.step, callers=led)
            self._seen[mistake, event] = found
            self.record.observations.append(found)
            if self._recorder is not None:
                self._recorder.write(seen_line(found))
            if self._raising:
                _raise(found)

    def misplaced(self, place: Place, given: object, parameter: str, function: str) -> None:
        """An argument has landed in a parameter that is for something else."""
        numbers: Numbers = {"argument": str(given), "parameter": parameter, "function": function}
        self.see(Mistake.MISPLACED_ARGUMENT, {At.EVENT: place}, lambda: numbers)

    def reach(self, place: Place, *, on: bool = True) -> None:
        """A call of the training is made; ``on``: with AMP."""
        counts = self.record.reached if on else self.record.passed
        known = counts.get(place)
        if known is not None:
            counts[place] = known + 1
            return
        self.note(place)
        if place.file and len(counts) < _MOST:
            counts[place] = 1

    def note(self, place: Place) -> None:
        """Remember what has led to a place where something happens now, when it first does."""
        if place not in self._callers and len(self._callers) < _MOST:
            self._callers[place] = callers()
            if self._recorder is not None and place.file not in self._noted:
                self._noted.add(place.file)
                self.name_files()

    def take_back(self, place: Place) -> None:
        """A call that was reached has not come to its end, or nobody knows whether it was right."""
        if place in self.record.reached:
            self.record.reached[place] -= 1

    def name_files(self) -> None:
        """Write down the files that have run, without which nobody can lint them after a kill."""
        found = self.files()
        if found != self.record.files:
            self.record.files = found
            if self._recorder is not None:
                self._recorder.write(files_line(self.record))

    def save(self) -> None:
        """Write the counts down."""
        self.record.summary.on_cuda = torch.cuda.is_initialized()  # type: ignore[no-untyped-call]
        if self._recorder is not None:
            self._recorder.write(state_line(self.record))


def _raise(seen: Observation) -> None:
    """End the run where it happened.

    Raises:
        WatchedError: the mistake is an error.
    """
    from amp_lint.runtime.tell import said
    from amp_lint.text.diagnostic import Severity

    for each in said(Record([seen])):
        if each.severity is Severity.ERROR:
            raise WatchedError(f"{each.rule.code}: {each.message}; {each.account.help}")
