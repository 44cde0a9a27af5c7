"""One mistake on a path: what is to blame, and what explains it."""

from __future__ import annotations

from dataclasses import dataclass

from amp_lint.amp.events import EVERY, Event, Kind
from amp_lint.mistake import Mistake
from amp_lint.walk.paths import Cycle
from amp_lint.walk.steps import Root


@dataclass(frozen=True, slots=True, eq=False)
class Found:
    """One mistake: the event to blame, and the one that explains it."""

    mistake: Mistake
    event: Event
    cause: Event
    root: Root
    cycle: Cycle
    """Empty where the event comes after the update."""

    @property
    def repeats(self) -> bool:
        """Whether one and the same call comes twice."""
        return self.event.node is self.cause.node

    @property
    def beside_scaled(self) -> bool:
        """Whether another loss of the same cycle was scaled."""
        return any(event.kind is Kind.BACKWARD and event.scaler for event in self.cycle)

    @property
    def after_step(self) -> bool:
        """Whether the cause is a step."""
        return self.cause.kind is Kind.STEP

    @property
    def by_accelerate(self) -> bool:
        """Whether accelerate unscales, for every optimizer."""
        return self.event.optimizer == EVERY

    @property
    def unscaled(self) -> bool:
        """Whether gradients were unscaled in the cycle before the event."""
        before = self.cycle[: self.cycle.index(self.event)]
        return any(event.kind is Kind.UNSCALE for event in before)
