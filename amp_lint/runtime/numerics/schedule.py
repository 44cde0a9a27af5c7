"""Which steps are looked at: as many as a budget of time allows."""

from __future__ import annotations

import enum
from collections import deque
from dataclasses import dataclass, field
from statistics import median

_FIRST = 2
"""Steps at the start that are looked at, whatever they cost: it is counted, and saved later."""
_AFTER_SKIPS = 40
"""Steps after skipped ones that are looked at, whatever they cost: a scale falls from 65536 below 1
in 17 of them."""
_REMEMBERED = 9
"""Steps by whose median it is known how long one takes."""
_LEAST = 0.1
"""Of a step, what it takes at least to look at it: a measurement may say less."""


_TIMED = 4
"""Of so many steps one tells what the calls that are watched cost."""
_LEFT = 0.2
"""Of the budget, what is left for looking whatever those cost."""


class Level(enum.Enum):
    """How closely a run is looked at."""

    PROTOCOL = "protocol"
    SAMPLED = "sampled"
    FULL = "full"

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True, slots=True)
class Sampling:
    """What the user wants."""

    level: Level = Level.SAMPLED
    budget: float = 0.05
    """The share of time that watching and looking may take."""
    every: int | None = None
    """Look at each step of so many, at the second one and after skipped ones, whatever that takes:
    what comes after the optimizer's step belongs to the next."""
    at: int | None = None
    """Look at this step, and at the one before it."""


@dataclass(slots=True)
class Schedule:
    """Chooses steps, by what earlier ones took."""

    sampling: Sampling
    _plain: deque[float] = field(default_factory=lambda: deque(maxlen=_REMEMBERED))
    _looked: deque[float] = field(default_factory=lambda: deque(maxlen=_REMEMBERED))
    _watching: deque[float] = field(default_factory=lambda: deque(maxlen=_REMEMBERED))
    _steps: int = 0
    _looks: int = 0
    _skips: int = 0
    _time: float = 0.0
    """What all steps have taken but the first, which has waited for what is before the training."""

    def wants(self, step: int, *, skipped: bool = False) -> bool:
        """Whether to look at a step, from 1; ``skipped``: the one before it was."""
        wanted = self.sampling
        if wanted.level is Level.FULL:
            return True
        if wanted.level is Level.PROTOCOL:
            return False
        if wanted.at is not None:
            return step in (wanted.at - 1, wanted.at)
        if skipped and self._skips < _AFTER_SKIPS:
            self._skips += 1
            return True
        if wanted.every is not None:
            return step <= _FIRST or (step - 1) % wanted.every == 0
        return step <= _FIRST or self._is_saved()

    def wants_watching(self, step: int) -> bool:
        """Whether to measure in a step what its calls cost that are watched in each."""
        wanted = self.sampling
        is_free = wanted.level is Level.SAMPLED and wanted.every is None and wanted.at is None
        return is_free and (len(self._watching) < _FIRST or not step % _TIMED)

    def ended(
        self, step: int, seconds: float, *, looked: bool, watching: float | None = None
    ) -> None:
        """A step has taken so long, and was looked at or not.

        ``watching``: what of that was for the calls that are watched in each step, if measured.
        """
        self._steps += 1
        self._looks += looked
        if watching is not None:
            self._watching.append(watching)
        if step > 1:
            self._time += seconds
            (self._looked if looked else self._plain).append(seconds)

    def _is_saved(self) -> bool:
        """Whether all looks, with another one, and all calls are within the budget of all time."""
        if len(self._plain) < _FIRST or not self._looked:
            return False
        plain = median(self._plain)
        cost = max(median(self._looked) - plain, _LEAST * plain)
        budget = self.sampling.budget * (self._time + plain + cost)
        watching = self._steps * median(self._watching) if self._watching else 0.0
        return (self._looks + 1) * cost <= max(budget - watching, _LEFT * budget)
