"""The gradients of a training step between two events: one state machine for every rule.

The gradients of each optimizer go from cleared over scaled, or plain, and unscaled to stepped, and
with the next update it all begins anew. The state keeps the event that brought each about, which is
what a finding shows as its cause.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from amp_lint.amp.events import EVERY, Event, Kind

Causes = Mapping[str, Event]
"""Key of an optimizer -> the event that did something to its gradients."""


@dataclass(frozen=True, slots=True)
class Gradients:
    """What happened since the last update."""

    scaled: Event | None = None
    """The last backward of a scaled loss."""
    scalers: frozenset[str] = frozenset()
    """All that scaled a loss: it may be the loss that they step for."""
    plain: Event | None = None
    """The last backward of a loss that was not scaled."""
    pending: Event | None = None
    """``scaled``, until its gradients are stepped or cleared."""
    divided: frozenset[str] = frozenset()
    """The optimizers whose pending gradients are unscaled, and not yet stepped."""
    touched: bool = False
    """Whether somebody may have unscaled by hand what is pending."""
    unscaled: Causes = field(default_factory=dict)
    """By the scaler, which keeps that in mind until it steps or is updated."""
    stepped: Causes = field(default_factory=dict)
    """By the scaler."""
    direct: Causes = field(default_factory=dict)
    """By the optimizer itself, until its gradients are cleared."""
    used: frozenset[str] = frozenset()
    """The optimizers that the scaler stepped on the present gradients, which it divided for it."""
    waiting: Event | None = None
    """``scaled``, until any gradients are cleared: other optimizers may still have to step."""
    round: int = 0
    """How many backward passes there were."""
    rounds: Mapping[int, int] = field(default_factory=dict)
    """Id of an event -> its round."""
    unknown: bool = False
    """Whether code that is not in this file had the scaler, or gradients were written."""

    @property
    def is_scaled(self) -> bool:
        """Whether gradients are certainly still multiplied by the scale, for every optimizer."""
        return self.pending is not None and not self.divided and not self.touched

    def is_scaled_for(self, optimizer: str | None) -> bool:
        """Whether the gradients that a step of the scaler will use are still multiplied by it."""
        done = {*self.divided, *self.used, *self.direct}
        return self.waiting is not None and not self.unknown and done.isdisjoint({optimizer, EVERY})

    def belongs(self, cause: Event, event: Event) -> bool:
        """Whether two events are of one round, or the same call in two rounds.

        Two calls in different rounds may be under conditions that exclude each other.
        """
        return cause.node is event.node or self.rounds[id(cause)] == self.round

    def after(self, event: Event) -> Gradients:
        """The state that an event leads to."""
        key = event.optimizer or ""
        state = self._counted(event)
        match event.kind:
            case Kind.BACKWARD if event.scaler is not None:
                scalers = self.scalers | {event.scaler}
                return replace(state, scaled=event, pending=event, waiting=event, scalers=scalers)
            case Kind.BACKWARD:
                return replace(state, plain=event)
            case Kind.UNSCALE:
                unscaled = {**self.unscaled, key: event}
                return replace(state, unscaled=unscaled, divided=self.divided | {key})
            case Kind.STEP:
                return state._after_step(key, event)
            case Kind.GRADIENT_WRITE | Kind.OPAQUE:
                return replace(state, unknown=True, touched=self.touched or bool(self.pending))
            case Kind.ZERO_GRAD:
                return state._cleared(event.optimizer)
            case Kind.UPDATE:
                return Gradients()
            case _:
                return state

    def _counted(self, event: Event) -> Gradients:
        current = self.round + (event.kind is Kind.BACKWARD)
        return replace(self, round=current, rounds={**self.rounds, id(event): current})

    def _cleared(self, key: str | None) -> Gradients:
        """After ``zero_grad`` of an optimizer, or of a module, which may be that of any of them."""
        known = key is not None and (key in self.direct or key in self.used)
        direct = _without(self.direct, key or "") if known else {}
        used = self.used - {key} if known else frozenset[str]()
        return replace(self, pending=None, waiting=None, touched=False, direct=direct, used=used)

    def _after_step(self, key: str, event: Event) -> Gradients:
        rest = self.divided - {key}
        state = replace(
            self, pending=self.pending if rest else None, divided=rest, touched=False
        )  # fmt: skip
        if event.scaler is None:
            unscaled = _without(self.unscaled, EVERY)
            return replace(state, direct={**self.direct, key: event}, unscaled=unscaled)
        unscaled = _without(self.unscaled, key)
        stepped = {**self.stepped, key: event}
        return replace(state, stepped=stepped, used=self.used | {key}, unscaled=unscaled)

    def left(self) -> Gradients:
        """The state where a round is left early: what is unscaled is so by that mistake."""
        return replace(self, unscaled={})


def _without(causes: Causes, key: str) -> Causes:
    return {name: cause for name, cause in causes.items() if name != key}


def replay(
    cycle: Iterable[Event], start: Gradients | None = None
) -> Iterator[tuple[Event, Gradients]]:
    """Each event of a cycle with the state it comes in."""
    state = start or Gradients()
    for event in cycle:
        yield event, state
        state = state.after(event)
