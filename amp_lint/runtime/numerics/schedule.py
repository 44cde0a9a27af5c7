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
    """The share of time that looking may take."""
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

    def ended(self, step: int, seconds: float, *, looked: bool) -> None:
        """A step has taken so long, and was looked at or not."""
        self._looks += looked
        if step > 1:
            self._time += seconds
            (self._looked if looked else self._plain).append(seconds)

    def _is_saved(self) -> bool:
        """Whether all looks together, with another one, are within the budget of the whole time."""
        if len(self._plain) < _FIRST or not self._looked:
            return False
        plain = median(self._plain)
        cost = max(median(self._looked) - plain, _LEAST * plain)
        return (self._looks + 1) * cost <= self.sampling.budget * (self._time + plain + cost)
