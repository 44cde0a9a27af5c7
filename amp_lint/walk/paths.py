"""One way through the code: what happened, what is known, what the names stand for."""

from __future__ import annotations

import enum
import functools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import libcst as cst

from amp_lint.amp.events import Event
from amp_lint.amp.regions import Region
from amp_lint.flow.conditions import Facts, Formula, atoms, mentions
from amp_lint.walk.gradients import Gradients, Left

Cycle = tuple[Event, ...]
"""The events of one training step, from one ``update`` to the next."""


@dataclass(frozen=True, slots=True, eq=False)
class History:
    """An event, and what came before it: more than one where paths of equal state were merged."""

    event: Event | None = None
    """None at the beginning of a cycle."""
    before: tuple[History, ...] = ()
    _next: dict[tuple[int, ...], History] = field(default_factory=dict)
    """So that the same events are the same object on every path."""

    def then(self, event: Event, *others: History) -> History:
        """After an event that comes next, on this way and on ``others``."""
        key = (id(event), *map(id, others))
        known = self._next.get(key)
        if known is None:
            known = self._next[key] = History(event, (self, *others))
        return known


@dataclass(frozen=True, slots=True)
class Ref:
    """A value that has a name: the same key is the same object."""

    key: str


@dataclass(frozen=True, slots=True)
class Answer:
    """What a function of the program answered that compares settings."""

    condition: Formula
    """When it is true."""


@dataclass(frozen=True, slots=True)
class Scaled:
    """A loss multiplied by the scale of ``scaler``."""

    scaler: str
    enabled: bool | None = None
    """Whether that was made to be on, where the path tells; if it is off, the loss is as it was."""


Value = Ref | Scaled | Answer | None


def last_name(key: str) -> str:
    """What an object is called where it is used: ``scaler`` for ``train@12:self.scaler``."""
    return key.rpartition(":")[2].rpartition(".")[2]


@dataclass(frozen=True, slots=True)
class LeftStep:
    """A direct step on what is still scaled after an update, as it is another optimizer's."""

    backward: Event
    update: Event
    step: Event


class Exit(enum.Enum):
    """How a path left a block."""

    NONE = enum.auto()
    BREAK = enum.auto()
    CONTINUE = enum.auto()
    RETURN = enum.auto()
    RAISE = enum.auto()


class Environment(dict[str, Value]):
    """What keys stand for. Never changed: with other values it is another one."""

    @functools.cached_property
    def scaled(self) -> frozenset[tuple[str, Scaled]]:
        """The losses among the values that are scaled."""
        return frozenset((key, value) for key, value in self.items() if isinstance(value, Scaled))

    @functools.cached_property
    def _answers(self) -> tuple[tuple[str, Answer, frozenset[str]], ...]:
        """Answers under their keys, with what they were about."""
        found = ((key, value) for key, value in self.items() if isinstance(value, Answer))
        return tuple((key, each, frozenset(atoms(each.condition))) for key, each in found)

    @functools.cached_property
    def _asked(self) -> str:
        """All that answers were about in one text, to look for a name in all of it at once."""
        return "\n".join(atom for _, _, about in self._answers for atom in about)

    def about(self, names: Iterable[str]) -> tuple[tuple[str, Answer], ...]:
        """The answers that were about one of some values, each with its key."""
        asked = self._asked
        known = [name for name in names if name in asked] if asked else []
        return tuple(
            (key, answer)
            for key, answer, about in (self._answers if known else ())
            if any(mentions(atom, name) for atom in about for name in known)
        )


class Path(NamedTuple):
    """One way through the code so far. Immutable."""

    env: Environment = Environment()
    facts: Facts = Facts()
    histories: tuple[History, ...] = ()
    """What happened last, on each way that led here since the beginning of the cycle."""
    gradients: Gradients[Event] = Gradients()
    """What the events did: the same on each way."""
    regions: tuple[tuple[Region, Formula], ...] = ()
    updated: Event | None = None
    """The last update, until the next backward."""
    earlier: Event | None = None
    """The last update after a step of a scaler, until the next one."""
    updated_alone: bool = False
    """Whether no backward was met before it, as in a function that only steps."""
    left: Left[Event] | None = None
    """What the last update left scaled, until gradients are made, cleared or changed."""
    varying: frozenset[str] = frozenset()
    """Keys of what each round of the training loop around here takes another object for."""
    exit: Exit = Exit.NONE
    value: Value = None

    @classmethod
    def start(cls, regions: tuple[tuple[Region, Formula], ...] = ()) -> Path:
        """The beginning of a function that is run in some regions: nothing happened yet."""
        return cls(histories=(History(),), regions=regions)

    def signature(self) -> tuple[object, ...]:
        """Equal for paths that behave alike from here on."""
        return self.gradients.signature(), self._situation(), self.facts.signature()

    def outline(self) -> tuple[object, ...]:
        """Equal for paths on which the same happened, whatever they know."""
        return self.histories, self._situation()

    def exact_signature(self) -> tuple[object, ...]:
        """Equal for paths on which the same happened and that know the same."""
        return *self.outline(), self.facts.signature()

    def _situation(self) -> tuple[object, ...]:
        updated = id(self.updated), id(self.earlier), self.updated_alone, self.left
        return *updated, self.exit, self.value, self.env.scaled, len(self.regions)

    def joined(self, other: Path) -> Path:
        """This path, with the ways that led to another one of the same signature."""
        new = tuple(each for each in other.histories if each not in self.histories)
        return self._replace(histories=self.histories + new) if new else self

    @property
    def latest(self) -> Event | None:
        """The last event since the last update."""
        return self.histories[0].event

    @property
    def trace(self) -> Cycle:
        """The events of the first way that led here, since the last update."""
        return events(next(ways(self.histories[:1], 1)))

    @property
    def scaled_backward(self) -> bool | None:
        """Whether the last backward of this cycle was scaled; None if there was none."""
        last = self.gradients.last
        return None if last is None else last.scaler is not None

    def after(self, event: Event) -> Path:
        """This path with one more event."""
        first, *others = self.histories
        history = first.then(event, *others)
        return self._replace(histories=(history,), gradients=self.gradients.after(event))

    def with_events(self, *events: Event) -> Path:
        """This path as if these were the events since the last update."""
        start = self.histories[0]
        while start.before:
            start = start.before[0]
        path = self._replace(histories=(start,), gradients=Gradients())
        for event in events:
            path = path.after(event)
        return path

    def without(self, prefix: str) -> Path:
        """This path after the function whose local names begin with ``prefix`` has returned."""
        env = Environment(item for item in self.env.items() if not item[0].startswith(prefix))
        facts = {key: fact for key, fact in self.facts.by_key.items() if prefix not in key}
        return self._replace(env=env, facts=Facts(facts), exit=Exit.NONE, value=None)


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


def ways(histories: Sequence[History], most: int) -> Iterator[tuple[History, ...]]:
    """Each way that led to some point, event by event, the first way first.

    Beyond ``most`` not all of them, but so many that each part of a way is in one.
    """
    ends: list[tuple[History, tuple[History, ...]]] = [(each, ()) for each in reversed(histories)]
    met = set[int]()
    while ends:
        every = most > 0
        history, rest = ends.pop(-1 if every else 0)
        if not every and id(history) in met:
            continue
        while history.before:
            met.add(id(history))
            rest = (history, *rest)
            before = history.before
            if not every:  # what is new comes first, so that few ways hold all of it
                before = tuple(sorted(before, key=lambda each: id(each) in met))
            ends += ((each, rest) for each in reversed(before[1:]))
            history = before[0]
        most -= 1
        yield rest


def events(way: Sequence[History]) -> Cycle:
    """What happened on a way."""
    return tuple(history.event for history in way if history.event is not None)
