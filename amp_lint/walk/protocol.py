"""The state of the gradients between the events of a cycle."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from amp_lint.amp.events import Event, Kind


@dataclass(frozen=True, slots=True)
class State:
    """What the events so far did to the gradients."""

    scaled: Event | None = None
    """The backward that left gradients scaled, until they are stepped or cleared."""
    unscaled: frozenset[str] = frozenset()
    """Keys of the optimizers that were unscaled and not yet stepped."""
    touched: bool = False
    """Whether somebody may have unscaled by hand: gradients were written, or code that is not
    in this file got the scaler."""

    @property
    def is_scaled(self) -> bool:
        """Whether gradients are certainly still multiplied by the scale, for every optimizer."""
        return self.scaled is not None and not self.unscaled and not self.touched

    def after(self, event: Event) -> State:
        """The state that ``event`` leads to."""
        match event.kind:
            case Kind.BACKWARD:
                return replace(self, scaled=event) if event.scaler else self
            case Kind.UNSCALE:
                return replace(self, unscaled=self.unscaled | {event.optimizer or ""})
            case Kind.STEP:
                return self._stepped(event)
            case Kind.GRADIENT_WRITE | Kind.OPAQUE:
                return replace(self, touched=True) if self.scaled else self
            case Kind.ZERO_GRAD:
                return replace(self, scaled=None, touched=False)
            case Kind.UPDATE:
                return State()
            case _:
                return self

    def _stepped(self, event: Event) -> State:
        rest = self.unscaled - {event.optimizer or ""}
        return State(None if not rest else self.scaled, rest, touched=False)


def replay(cycle: Iterable[Event], start: State | None = None) -> Iterator[tuple[Event, State]]:
    """Each event of a cycle with the state it comes in."""
    state = start or State()
    for event in cycle:
        yield event, state
        state = state.after(event)
