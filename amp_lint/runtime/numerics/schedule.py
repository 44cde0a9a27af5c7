"""Which steps are looked at: as many as a budget of time allows."""

from __future__ import annotations

import enum
import math
from collections import deque
from dataclasses import dataclass, field
from statistics import median

_FIRST = 2
"""Steps at the start that are looked at."""
_EARLY = frozenset({6, 12, 24})
"""Steps besides, whatever they cost: a short run has five that are looked at."""
_AFTER_SKIPS = 40
"""Steps after skipped ones that are looked at, whatever they cost: a scale falls from 65536 below 1
in 17 of them."""
_REMEMBERED = 9
"""Steps by whose median it is known how long one takes."""


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
    """Look at each step of so many, whatever that takes."""
    at: int | None = None
    """Look at this step, and at the one before it."""


@dataclass(slots=True)
class Schedule:
    """Chooses steps, by what earlier ones took."""

    sampling: Sampling
    _plain: deque[float] = field(default_factory=lambda: deque(maxlen=_REMEMBERED))
    _looked: deque[float] = field(default_factory=lambda: deque(maxlen=_REMEMBERED))
    _last: int = 0
    _skips: int = 0

    def wants(self, step: int, *, skipped: bool = False) -> bool:
        """Whether to look at a step, from 1; ``skipped``: the one before it was."""
        wanted = self.sampling
        if wanted.level is Level.FULL:
            return True
        if wanted.level is Level.PROTOCOL:
            return False
        if wanted.at is not None:
            return step in (wanted.at - 1, wanted.at)
        if wanted.every is not None:
            return (step - 1) % wanted.every == 0
        if skipped and self._skips < _AFTER_SKIPS:
            self._skips += 1
            return True
        return step <= _FIRST or step in _EARLY or step > self._last + self._distance()

    def ended(self, step: int, seconds: float, *, looked: bool) -> None:
        """A step has taken so long, and was looked at or not."""
        if looked:
            self._last = step
        if step > 1:  # which has waited for all that comes before the training
            (self._looked if looked else self._plain).append(seconds)

    def _distance(self) -> float:
        """Steps between two that are looked at, so that both together stay within the budget."""
        if len(self._plain) < _FIRST or not self._looked:
            return math.inf
        plain = max(median(self._plain), 1e-9)
        cost = median(self._looked) - plain
        return math.ceil(max(cost, 0) / (self.sampling.budget * plain))
