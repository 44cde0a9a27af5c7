"""The gradients of one optimizer: their state by the automaton, and what is not settled yet."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from functools import lru_cache

import torch

from amp_lint.runtime.frames import Place
from amp_lint.vocabulary.meaning import Kind, Role
from amp_lint.walk.gradients import Gradients
from amp_lint.walk.mistake_rows import CALLS, Row

_SAMPLED = 8
"""Parameters of an optimizer that stand for all; the last one comes besides."""
_KEPT = 64
"""Numbers of a gradient that stand for all."""
_FIRST = 50
"""Scaled backward passes after which numbers are kept, until somebody has asked for them."""
_MOST_ROUNDS = 100
"""Backward passes between two updates after which nothing is known any more."""
_MOST_STATES = 1000
"""States of an optimizer, and what leads from one to the next, that are remembered."""

Stamp = list[tuple[int, int] | None]
"""Of each sampled parameter: which tensor its gradient is, and how often that was written."""
TakeBack = Callable[[Place], None]
"""Is told where a call was made of which nobody knows whether it was right."""
_ANY = (0, -1)
"""Nobody has looked at this gradient."""


@dataclass(frozen=True, slots=True, eq=False)
class Happening:
    """An event of a training step that has happened."""

    kind: Kind
    node: Place
    scaler: str | None = None
    optimizer: str | None = None
    framework: Role | None = None


happening: Callable[..., Happening] = lru_cache(4096)(Happening)
"""One object for all equal ones, so that what follows from it is known from the last step."""


class Lived(Gradients[Happening]):
    """What has happened since the last update: no path excludes another, all was in one round."""

    __slots__ = ()

    def belongs(self, cause: Happening, event: Happening) -> bool:
        """Whether two events are of one round: they are."""
        return True


_CLEARED = Lived()
_FIELDS = tuple(each.name for each in fields(Lived) if each.compare)


@dataclass(frozen=True, slots=True, eq=False)
class _Way:
    """What an event means in a state."""

    event: Happening
    after: Gradients[Happening]
    mistakes: list[tuple[Row, Happening]]


@dataclass(slots=True, eq=False)
class Unsettled:
    """What becomes a mistake with the step of the scaler, unless something comes before."""

    event: Happening
    cause: Happening
    numbers: dict[str, float | str] = field(default_factory=dict)


class Owned:
    """An optimizer and its gradients. Nothing here keeps it, or a tensor, alive."""

    def __init__(self, optimizer: torch.optim.Optimizer, key: str, take_back: TakeBack) -> None:
        self._take_back = take_back
        self.ref = weakref.ref(optimizer)
        self._sample: list[weakref.ref[torch.Tensor]] = []
        self._few: list[int] = []
        """Which of those tell whether somebody has written to them."""
        self._lengths: list[int] = []
        self._ids: frozenset[int] = frozenset()
        self.key = key
        self.state: Gradients[Happening] = _CLEARED
        self._ways: dict[tuple[int, int], _Way] = {}
        """By the ids of a state and an event, which are kept."""
        self._states: dict[tuple[object, ...], Gradients[Happening]] = {}
        """One object for all equal states, as the rounds of a training soon repeat."""
        self.known: Stamp = []
        """The gradients after the last event that wrote them."""
        self._numbers: list[tuple[weakref.ref[torch.Tensor], torch.Tensor]] | None = []
        """None if they were not kept."""
        self._keeps = 0
        self._is_asked_for_numbers = False
        self.is_written_unseen = False
        """Whether somebody has ever written to them where torch does not count it."""
        self.scaler_ref: weakref.ref[torch.amp.GradScaler] | None = None
        """What scaled them last."""
        self.asked = False
        """Whether the user has asked for the scale since they were scaled."""
        self.unsettled: dict[Kind, list[Unsettled]] = {}
        self.early: tuple[Happening, Happening] | None = None
        """``unscale_`` and the update that came after it, with no step between."""
        self.mixed: tuple[Happening, Happening] | None = None
        """``unscale_`` and the backward that has added scaled gradients after it."""
        self.cleared: Place | None = None
        """Where they were cleared after they had been unscaled, before any update."""
        self.done: Happening | None = None
        """The scaler's step on them, also one that it skipped, until they are written again."""
        self.half: Place | None = None
        """The float16 region that their loss came from, if nothing scaled it."""
        self.skipped = False
        """Whether the scaler's last step is known to have changed nothing."""
        self.stepped_by: object = None
        """What is known of the scaler that stepped last."""
        self.steps = 0
        self.resumed: Place | None = None
        """Where it took on a state before it had stepped, until it does."""

    @property
    def scaler(self) -> torch.amp.GradScaler | None:
        """What scaled the gradients last."""
        return self.scaler_ref() if self.scaler_ref is not None else None

    def sample(self) -> list[torch.Tensor]:
        """Some of its parameters, spread over all."""
        self.choose()
        return [param for ref in self._sample if (param := ref()) is not None]

    def choose(self) -> None:
        """Choose them, if there are others than before."""
        optimizer = self.ref()
        if optimizer is None:
            self._sample, self._few = [], []
            return
        lengths = [len(group["params"]) for group in optimizer.param_groups]
        if lengths != self._lengths:
            every = [param for group in optimizer.param_groups for param in group["params"]]
            stride = max(1, len(every) // _SAMPLED)
            chosen = dict.fromkeys([*range(0, len(every), stride)][:_SAMPLED])
            chosen |= dict.fromkeys([len(every) - 1] if every else [])
            self._sample = [weakref.ref(every[index]) for index in chosen]
            count = len(self._sample)
            self._few = [*dict.fromkeys((0, count // 2, count - 1))] if count else []
            self._ids = frozenset(map(id, every))
            self._lengths = lengths

    def parameters(self) -> list[torch.Tensor]:
        """All of its parameters."""
        optimizer = self.ref()
        groups = [] if optimizer is None else optimizer.param_groups
        return [param for group in groups for param in group["params"]]

    def stamp(self) -> Stamp:
        """The gradients as they are now, of the parameters that were chosen last."""
        return [
            None
            if (param := ref()) is None or (grad := param.grad) is None
            else (id(grad), grad._version)
            for ref in self._sample
        ]

    def renew(self) -> None:
        """What has written the gradients is known: few of them tell who writes to them next."""
        known: Stamp = [_ANY] * len(self._sample)
        for at in self._few:
            param = self._sample[at]()
            grad = None if param is None else param.grad
            known[at] = None if grad is None else (id(grad), grad._version)
        self.known = known

    def keep_numbers(self) -> None:
        """Keep some numbers of a few gradients: a copy, for which nothing waits.

        Of one it would not do: those of an embedding are zeros but for the words of the batch. A
        training that goes on without a mistake needs none: what happens later for the first time
        is not judged, and is from its second time on.
        """
        self._keeps += 1
        if self._keeps > _FIRST and not self._is_asked_for_numbers:
            self._numbers = None
            return
        grads = [p.grad for p in self.sample() if p.grad is not None and not p.grad.is_sparse]
        few = {id(each): each for each in (*grads[:1], *grads[len(grads) // 2 :][:1], *grads[-1:])}
        self._numbers = [(weakref.ref(each), _some(each).clone()) for each in few.values()]

    def looks_written(self) -> bool:
        """Whether these are others now; waits for the device.

        torch counts what is written to a tensor, but not through ``.data`` or by an extension.
        """
        self._is_asked_for_numbers = True
        if self._numbers is None:
            return True  # nobody can tell
        kept = [(then, grad) for ref, then in self._numbers if (grad := ref()) is not None]
        self.is_written_unseen |= not all(_equal(then, _some(grad)) for then, grad in kept)
        of_zeros = bool(kept) and not any(bool(then.any()) for then, _ in kept)
        return self.is_written_unseen or of_zeros  # of zeros nobody can tell

    def owns(self, ids: set[int]) -> bool:
        """Whether some of its parameters, or of their gradients, are among those with these ids."""
        self.choose()
        if not self._ids.isdisjoint(ids):
            return True
        return any(each is not None and each[0] in ids for each in self.stamp())

    def catch_up(self, place: Place, *, whole: bool = False) -> None:
        """Take note of what was written to the gradients since the last event, by whomever.

        ``whole``: also to few of them.
        """
        if not whole and self._seems_as_known():
            return
        now, known = self.stamp(), self.known
        self.known = now
        if are_same(now, known):
            return
        self.done = None
        if not any(now):
            self.clear(place)
        elif self.state.pending or self.state.plain:
            self.after(happening(Kind.GRADIENT_WRITE, place))
            self.forget()

    def _seems_as_known(self) -> bool:
        """Whether nobody has written to a few of them: who writes to gradients writes to most."""
        known = self.known
        if len(known) != len(self._sample):
            return False
        for at in self._few:
            param, stamp = self._sample[at](), known[at]
            grad = None if param is None else param.grad
            if grad is None or stamp is None:
                if grad is not None or stamp is not None:
                    return False
            elif id(grad) != stamp[0] or grad._version != stamp[1]:
                return False
        return True

    def after(self, event: Happening) -> None:
        """An event happens to the gradients."""
        way = self._ways.get((id(self.state), id(event))) or self._learn(event)
        self.state = way.after

    def mistakes(self, event: Happening) -> list[tuple[Row, Happening]]:
        """Which mistakes a call is now, and the cause of each."""
        way = self._ways.get((id(self.state), id(event))) or self._learn(event)
        return way.mistakes

    def _learn(self, event: Happening) -> _Way:
        """What an event means in this state, from now on."""
        if len(self._ways) >= _MOST_STATES:
            self._ways.clear()
            self._states.clear()
        state = self._same(self.state)
        causes = ((row, row.judge(event, state)) for row in CALLS.get(event.kind, ()))
        mistakes = [(row, cause) for row, cause in causes if cause is not None]
        after = state.after(event)
        found = _Way(event, _CLEARED if after.round > _MOST_ROUNDS else self._same(after), mistakes)
        self._ways[id(state), id(event)] = found
        return found

    def _same(self, state: Gradients[Happening]) -> Gradients[Happening]:
        """The object that stands for all states that are equal to this one."""
        return self._states.setdefault(_values(state), state)

    def clear(self, place: Place) -> None:
        """The gradients are set to zero, or to None."""
        if self.state.stepped or self.state.unscaled:  # which the scaler keeps until its update
            self.after(happening(Kind.ZERO_GRAD, place, optimizer=self.key))
            self.cleared = place
        else:
            self.state = _CLEARED
        self.done, self.mixed, self.early = None, None, None
        self.forget()

    def forget(self) -> None:
        """What was not settled is right after all, or nobody knows."""
        for each in self.unsettled.get(Kind.CLIP, ()):
            self._take_back(each.event.node)
        self.unsettled.clear()
        self.asked = False


def are_same(now: Stamp, known: Stamp) -> bool:
    """Whether gradients are as they were, as far as somebody has looked."""
    return now == known or (
        len(now) == len(known)
        and all(then is _ANY or then == each for each, then in zip(now, known, strict=True))
    )


def _values(state: Gradients[Happening]) -> tuple[object, ...]:
    """What a state holds; events are told apart by who they are."""
    held = (getattr(state, name) for name in _FIELDS)
    return tuple(tuple(each.items()) if isinstance(each, dict) else each for each in held)


def _equal(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether two hold the same numbers, or NaN in the same places."""
    if one.shape != other.shape:
        return False
    return bool(((one == other) | (one.isnan() & other.isnan())).all())


def _some(tensor: torch.Tensor) -> torch.Tensor:
    """The first numbers of a tensor, as a view."""
    if type(tensor) is torch.Tensor and tensor.is_contiguous() and not tensor.requires_grad:
        return tensor.as_strided((min(_KEPT, tensor.numel()),), (1,))
    last = tensor.detach()
    while last.dim() > 1:
        last = last[0]
    return last[:_KEPT] if last.dim() else last
