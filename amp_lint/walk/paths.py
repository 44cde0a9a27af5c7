"""One way through the code: what happened, what is known, what the names stand for."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field, replace

import libcst as cst

from amp_lint.amp.events import Event
from amp_lint.amp.regions import Region
from amp_lint.flow.conditions import Facts, Formula
from amp_lint.walk.gradients import Gradients

Cycle = tuple[Event, ...]
"""The events of one training step, from one ``update`` to the next."""


@dataclass(frozen=True, slots=True)
class Ref:
    """A value that has a name: the same key is the same object."""

    key: str


@dataclass(frozen=True, slots=True)
class Scaled:
    """A loss multiplied by the scale of ``scaler``."""

    scaler: str


Value = Ref | Scaled | None


def last_name(key: str) -> str:
    """What an object is called where it is used: ``scaler`` for ``train@12:self.scaler``."""
    return key.rpartition(":")[2].rpartition(".")[2]


class Exit(enum.Enum):
    """How a path left a block."""

    NONE = enum.auto()
    BREAK = enum.auto()
    CONTINUE = enum.auto()
    RETURN = enum.auto()
    RAISE = enum.auto()


@dataclass(frozen=True, slots=True)
class Path:
    """One way through the code so far. Immutable."""

    env: dict[str, Value] = field(default_factory=dict)
    facts: Facts = field(default_factory=Facts)
    trace: Cycle = ()
    gradients: Gradients[Event] = field(default_factory=Gradients)
    """What the events of the trace did."""
    regions: tuple[tuple[Region, Formula], ...] = ()
    updated: Event | None = None
    """The last update, until the next backward."""
    varying: frozenset[str] = frozenset()
    """Keys of what each round of the training loop around here takes another object for."""
    exit: Exit = Exit.NONE
    value: Value = None

    def signature(self) -> tuple[object, ...]:
        """Equal for paths that behave alike from here on."""
        return (*self.outline(), self.facts.signature())

    def outline(self) -> tuple[object, ...]:
        """The signature without what the path knows."""
        env = frozenset(item for item in self.env.items() if isinstance(item[1], Scaled))
        trace = tuple(map(id, self.trace))
        return trace, id(self.updated), self.exit, self.value, env, len(self.regions)

    @property
    def scaled_backward(self) -> bool | None:
        """Whether the last backward of this cycle was scaled; None if there was none."""
        last = self.gradients.last
        return None if last is None else last.scaler is not None

    def after(self, event: Event) -> Path:
        """This path with one more event."""
        return replace(
            self, trace=(*self.trace, event), gradients=self.gradients.after(event)
        )  # fmt: skip

    def with_events(self, *events: Event) -> Path:
        """This path as if these were the events since the last update."""
        gradients: Gradients[Event] = Gradients()
        for event in events:
            gradients = gradients.after(event)
        return replace(self, trace=events, gradients=gradients)

    def without(self, prefix: str) -> Path:
        """This path after the function whose local names begin with ``prefix`` has returned."""
        env = {key: value for key, value in self.env.items() if not key.startswith(prefix)}
        facts = {key: fact for key, fact in self.facts.by_key.items() if prefix not in key}
        return replace(self, env=env, facts=Facts(facts), exit=Exit.NONE, value=None)


@dataclass(frozen=True, slots=True)
class Frame:
    """A function that is being run."""

    function: cst.FunctionDef | cst.Module
    prefix: str
    """What the keys of its local names begin with."""
    local: frozenset[str]
    stack: tuple[int, ...]
    """Ids of the functions entered, outermost first."""
    calls: tuple[cst.Call, ...] = ()
    """The calls that entered them, but the first."""
