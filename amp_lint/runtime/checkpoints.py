"""What is saved of a training and loaded again: the scaler goes with the optimizer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

from amp_lint.mistake import At, Mistake
from amp_lint.runtime.findings import Findings
from amp_lint.runtime.frames import Place
from amp_lint.runtime.owned import Owned
from amp_lint.runtime.protocol import Protocol, scale_of
from amp_lint.vocabulary.amp import SCALE

if TYPE_CHECKING:
    import torch

_DEEP, _WIDE = 3, 64
"""How far into a checkpoint is looked for states."""
_OF_OPTIMIZER = ("param_groups", "state")
_OF_SCALER = (SCALE.word, "_growth_tracker")
"""The keys of their states."""


@dataclass(frozen=True, slots=True)
class _Saved:
    place: Place
    step: int
    state: Place | None


class Checkpoints:
    """Watches what is saved and loaded."""

    def __init__(self, findings: Findings, protocol: Protocol) -> None:
        self.findings = findings
        self._protocol = protocol
        self._lacking: dict[Place, _Saved] = {}
        self._complete: set[Place] = set()
        self._was_there = False
        self._state: Place | None = None
        """Where the state of an optimizer was last asked for: there a checkpoint is made."""

    def optimizer_asked(self, place: Place) -> None:
        """Somebody asks for the state of an optimizer."""
        self._state = place

    def saved(self, data: object, place: Place) -> None:
        """Something is written to a file."""
        has_optimizer, has_scaler = _holds(data, _OF_OPTIMIZER), _holds(data, _OF_SCALER)
        self.findings.reach(place)
        if has_scaler:
            self._complete.add(place)
        elif has_optimizer:
            self._lacking.setdefault(place, _Saved(place, self.findings.step, self._state))

    def read(self, data: object) -> None:
        """Something was read from a file."""
        self._was_there = self._was_there or _holds(data, _OF_SCALER)

    def optimizer_loaded(self, owned: Owned, state: object, place: Place) -> None:
        """An optimizer takes on a state, before it was trained here."""
        trained = isinstance(state, Mapping) and bool(state.get(_OF_OPTIMIZER[1]))
        if trained and not owned.steps and owned.resumed is None:
            owned.resumed = place

    def stepping(self, scaler: torch.amp.GradScaler, owned: Owned, place: Place) -> None:
        """A scaler is about to step; it matters when both do so for the first time."""
        resumed, owned.resumed = owned.resumed, None
        if resumed is None or not self._was_there:
            return
        log = self._protocol.log(scaler)
        if log.steps or log.loaded:
            return
        places = {At.EVENT: resumed, At.STEP: place}
        if log.made is not None:
            places[At.MADE] = log.made
        self.findings.see(Mistake.STALE_RESUME, places, lambda: {SCALE.word: scale_of(scaler)})

    def finish(self) -> None:
        """Say which checkpoints lack a scaler that was in use."""
        used = [log for log in self._protocol.logs if log.steps]
        for saved in self._lacking.values():
            in_time = any(log.saved_at == saved.step for log in used)
            if not used or in_time or saved.place in self._complete:
                continue
            log = used[-1]
            places = {At.EVENT: saved.place}
            if saved.state is not None:
                places[At.STATE] = saved.state
            if log.step is not None:
                places[At.STEP] = log.step
            self.findings.see(Mistake.UNSAVED_SCALER, places, dict)


def _holds(data: object, keys: tuple[str, ...]) -> bool:
    return any(all(key in each for key in keys) for each in _dicts(data, _DEEP))


def _dicts(data: object, deep: int) -> Iterator[Mapping[object, object]]:
    if isinstance(data, Mapping):
        yield data
        if deep:
            for value in islice(data.values(), _WIDE):
                yield from _dicts(value, deep - 1)
