"""The gradients of a training step between two events: one state machine for every rule.

The gradients of each optimizer go from cleared over scaled, or plain, and unscaled to stepped, and
with the next update it all begins anew. The state keeps the event that brought each about, which is
what a finding shows as its cause.

It asks of an event what an `Occurrence` has, so that the events may be those of a path through the
code or those of a real run.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Generic, Protocol, TypeVar

from amp_lint.vocabulary.meaning import EVERY, Kind, Role


class Occurrence(Protocol):
    """An event of a training step. Objects are named by keys: equal keys are the same object."""

    @property
    def kind(self) -> Kind:
        """What happens."""

    @property
    def node(self) -> object:
        """The place in the code: one object for each."""

    @property
    def scaler(self) -> str | None:
        """BACKWARD: the scaler that scaled the loss. STEP: the scaler that steps, if one does."""

    @property
    def optimizer(self) -> str | None:
        """UNSCALE, STEP, ZERO_GRAD: the optimizer; `EVERY` if it is all there are."""

    @property
    def framework(self) -> Role | None:
        """BACKWARD: what scales the loss by itself. STEP, SCHEDULE: what prepared the stepped."""


E = TypeVar("E", bound=Occurrence)

LEAVING_SCALED = frozenset({Kind.CLIP, Kind.GRADIENT_READ, Kind.GRADIENT_REPAIR, Kind.SCHEDULE})
"""Events after which scaled gradients are as they were, but for a limit."""


@dataclass(frozen=True, slots=True)
class Left(Generic[E]):
    """Gradients beyond an update: those of all optimizers but some are still scaled."""

    backward: E
    done: frozenset[str]
    """The optimizers that are stepped, or whose gradients are unscaled."""

    def is_scaled_for(self, optimizer: str | None) -> bool:
        """Whether an optimizer that steps now takes what is scaled, and is no part of another."""
        own = optimizer or ""
        parts = (key for key in self.done if _is_part(key, own) or _is_part(own, key))
        return self.done.isdisjoint({own, EVERY}) and next(parts, None) is None


@dataclass(frozen=True, slots=True)
class Gradients(Generic[E]):
    """What happened since the last update."""

    scaled: E | None = None
    """The last backward of a scaled loss."""
    scalers: frozenset[str] = frozenset()
    """All that scaled a loss: it may be the loss that they step for."""
    plain: E | None = None
    """The last backward of a loss that was not scaled."""
    bare: E | None = None
    """``plain``, if no framework ran it either."""
    added: E | None = None
    """``bare``, until its gradients are stepped or cleared, if none had been unscaled before."""
    owned: E | None = None
    """The last backward that a framework ran."""
    loose: E | None = None
    """``owned``, until its gradients are unscaled, stepped or cleared."""
    pending: E | None = None
    """``scaled``, until its gradients are stepped or cleared."""
    divided: frozenset[str] = frozenset()
    """The optimizers whose pending gradients are unscaled, and not yet stepped."""
    touched: bool = False
    """Whether somebody may have unscaled by hand what is pending."""
    unscaled: Mapping[str, E] = field(default_factory=dict)
    """By the scaler, which keeps that in mind until it steps or is updated."""
    stepped: Mapping[str, E] = field(default_factory=dict)
    """By the scaler."""
    direct: Mapping[str, E] = field(default_factory=dict)
    """By the optimizer itself, until its gradients are cleared."""
    used: frozenset[str] = frozenset()
    """The optimizers that the scaler stepped on the present gradients, which it divided for it."""
    waiting: E | None = None
    """``scaled``, until any gradients are cleared: other optimizers may still have to step."""
    round: int = 0
    """How many backward passes there were."""
    rounds: Mapping[int, int] = field(default_factory=dict)
    """Id of an event -> its round."""
    unknown: bool = False
    """Whether code that is not in this file had the scaler, or gradients were written."""
    last: E | None = None
    """The last backward, scaled or plain; also beyond an update."""
    since: frozenset[Kind] = frozenset()
    """What happened after it."""
    kinds: frozenset[Kind] = frozenset()
    """All that happened; also beyond an update."""
    by_scaler: bool = False
    """Whether a scaler took part in any of it, or may have."""
    cleared: Mapping[str, E] = field(default_factory=dict)
    """``zero_grad`` of an optimizer or a module, the last of each since a backward."""
    _signature: tuple[object, ...] | None = field(
        default=None, init=False, repr=False, compare=False
    )

    @property
    def is_scaled(self) -> bool:
        """Whether gradients are certainly still multiplied by the scale, for every optimizer."""
        return self.pending is not None and not self.divided and not self.touched

    def is_scaled_for(self, optimizer: str | None) -> bool:
        """Whether the gradients that a step of the scaler will use are still multiplied by it."""
        done = {*self.divided, *self.used, *self.direct}
        return self.waiting is not None and not self.unknown and done.isdisjoint({optimizer, EVERY})

    def left(self) -> Left[E] | None:
        """What an update that comes now leaves scaled, if the scaler stepped some optimizers."""
        others = self.unknown or self.plain is not None or self.owned is not None
        if self.waiting is None or not self.used or others:
            return None
        done = (self.divided, self.used, self.unscaled, self.stepped, self.direct)
        return Left(self.waiting, frozenset().union(*done))

    @property
    def scaled_last(self) -> E | None:
        """The last backward, if its loss was scaled."""
        return self.last if self.last is not None and self.last.scaler is not None else None

    def signature(self) -> tuple[object, ...]:
        """Equal for states that the same events lead on from to the same mistakes.

        Which of two calls unscaled, stepped or cleared the same gradients makes no difference.
        Worked out once, for paths are compared at every statement.
        """
        if self._signature is None:
            object.__setattr__(self, "_signature", self._find_signature())
        assert self._signature is not None
        return self._signature

    def _find_signature(self) -> tuple[object, ...]:
        backwards = (
            self.scaled, self.plain, self.bare, self.added, self.owned, self.loose, self.pending,
            self.waiting, self.last,
        )  # fmt: skip
        named = (self.unscaled, self.stepped, self.direct)
        begun = Kind.BACKWARD in self.kinds
        return (
            *((id(event), self._is_current(event)) for event in backwards),
            *(frozenset((key, self._is_current(e)) for key, e in of.items()) for of in named),
            frozenset(self.cleared), self.scalers, self.divided, self.used, self.touched,
            self.unknown, self.by_scaler,
            self.since - LEAVING_SCALED, self.kinds - LEAVING_SCALED if begun else self.kinds,
        )  # fmt: skip

    def _is_current(self, event: E | None) -> bool:
        """Whether an event is of the last round."""
        return self.rounds.get(id(event)) == self.round

    def belongs(self, cause: E, event: E) -> bool:
        """Whether two events are of one round, or the same call in two rounds.

        Two calls in different rounds may be under conditions that exclude each other.
        """
        return cause.node is event.node or self.rounds[id(cause)] == self.round

    def after(self, event: E) -> Gradients[E]:
        """The state that an event leads to."""
        key = event.optimizer or ""
        match event.kind:
            case Kind.BACKWARD:
                return self._with(event, **self._backward(event))
            case Kind.UNSCALE:
                unscaled, divided = {**self.unscaled, key: event}, self.divided | {key}
                return self._with(event, unscaled=unscaled, divided=divided, loose=None)
            case Kind.STEP:
                return self._with(event, **self._stepped(key, event))
            case Kind.GRADIENT_WRITE | Kind.OPAQUE:
                touched = self.touched or self.pending is not None
                return self._with(event, unknown=True, touched=touched, loose=None)
            case Kind.ZERO_GRAD:
                return self._with(event, **self._cleared(key, event))
            case Kind.RESET:
                unscaled, stepped = (
                    {k: e for k, e in each.items() if e.scaler != event.scaler}
                    for each in (self.unscaled, self.stepped)
                )
                return self._with(event, unscaled=unscaled, stepped=stepped)
            case Kind.UPDATE:
                return type(self)(
                    last=self.last, since=self.since, kinds=self.kinds, by_scaler=self.by_scaler
                )._with(event)
            case _:
                return self._with(event)

    def _with(self, event: E, **changes: object) -> Gradients[E]:
        """After an event that changes some fields, and the records of all events."""
        backward = event.kind is Kind.BACKWARD
        current = self.round + backward
        records: dict[str, object] = {
            "round": current,
            "rounds": {**self.rounds, id(event): current},
            "last": event if backward else self.last,
            "since": frozenset[Kind]() if backward else self.since | {event.kind},
            "kinds": self.kinds | {event.kind},
            "by_scaler": self.by_scaler or event.scaler is not None or event.kind is Kind.OPAQUE,
        }
        return replace(self, **records, **changes)  # type: ignore[arg-type]

    def _backward(self, event: E) -> dict[str, object]:
        owned: dict[str, object] = {"cleared": {}}
        if event.framework is not None:
            owned |= {"owned": event, "loose": event}
        if event.scaler is None:
            added = self.added if event.framework is not None or self.divided else event
            bare = self.bare if event.framework is not None else event
            return {"plain": event, "bare": bare, "added": added, **owned}
        scalers = self.scalers | {event.scaler}
        scaled = {"scaled": event, "pending": event, "waiting": event, "scalers": scalers}
        return {**scaled, **owned}

    def _cleared(self, key: str, event: E) -> dict[str, object]:
        """By ``zero_grad`` of an optimizer, or of a module, which may be that of any of them."""
        known = key in self.direct or key in self.used
        return {
            "pending": None,
            "added": None,
            "loose": None,
            "waiting": None,
            "touched": False,
            "direct": _without(self.direct, key) if known else {},
            "used": self.used - {key} if known else frozenset(),
            "cleared": {**self.cleared, key: event},
        }

    def _stepped(self, key: str, event: E) -> dict[str, object]:
        rest = self.divided - {key}
        changes: dict[str, object] = {
            "pending": self.pending if rest else None,
            "added": None,
            "loose": None,
            "divided": rest,
            "touched": False,
            "unscaled": _without(self.unscaled, EVERY if event.scaler is None else key),
        }
        if event.scaler is None:
            return changes | {"direct": {**self.direct, key: event}}
        return changes | {"stepped": {**self.stepped, key: event}, "used": self.used | {key}}

    def given_up(self) -> Gradients[E]:
        """The state where a round is left early: what is unscaled is so by that mistake."""
        return replace(self, unscaled={})


def _without(causes: Mapping[str, E], key: str) -> Mapping[str, E]:
    return {name: cause for name, cause in causes.items() if name != key}


def _is_part(key: str, whole: str) -> bool:
    """Whether a key is that of an attribute or an item of something."""
    return key.startswith((f"{whole}.", f"{whole}["))
