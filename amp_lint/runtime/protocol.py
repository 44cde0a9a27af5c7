"""The protocol of scaler and optimizer: what happens goes through the automaton of the linter."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from amp_lint.mistake import At, Mistake
from amp_lint.runtime.frames import Place
from amp_lint.runtime.owned import Happening, Owned, Stamp, Unsettled, are_same, happening
from amp_lint.runtime.record import Numbers
from amp_lint.vocabulary.amp import SCALE
from amp_lint.vocabulary.meaning import Kind
from amp_lint.walk.mistake_rows import SCALED_CLIP, SCALED_READ, STRICT_CLIP

if TYPE_CHECKING:
    import torch

    from amp_lint.runtime.findings import Findings

_ENOUGH = 0.01
"""A limit that is this large when divided by the scale was made for scaled gradients."""
_LARGE = 1e3
"""Whatever the scale is, nobody means such a limit for true gradients."""
_STILL = 2.0
"""Gradients are this many times too large, at least, if they certainly are not unscaled."""
_MOST_LOOKS = 100
"""How often the device is waited for to know by how much gradients were changed."""
_MOST_SCALERS = 1000
"""Scalers of which a log is kept when they are gone."""


@dataclass(slots=True, eq=False)
class ScalerLog:
    """What a scaler has done."""

    key: str
    ref: weakref.ref[torch.amp.GradScaler]
    made: Place | None = None
    touched: set[str] = field(default_factory=set)
    """The optimizers that it has unscaled or stepped since its last update."""
    asked: bool = False
    """Whether the user has ever asked for its scale."""
    loaded: bool = False
    saved_at: int = -1
    """The step of the run in which its state was last asked for."""
    steps: int = 0
    skips: int = 0
    step: Place | None = None
    """Where it stepped last."""
    updates: int = 0


class Protocol:
    """All optimizers and scalers of a run, and what is wrong with the order of their calls."""

    def __init__(self, findings: Findings) -> None:
        self.findings = findings
        self._owned: dict[int, Owned] = {}
        """By the ids of optimizers, also of those that are gone, until another one comes."""
        self._logs: dict[int, ScalerLog] = {}
        """In the same way of scalers."""
        self.logs: list[ScalerLog] = []
        """Of all scalers, also of those that are gone."""
        self._keys = 0
        self._looks = _MOST_LOOKS

    def owned(self, optimizer: torch.optim.Optimizer) -> Owned:
        """What is known of the gradients of an optimizer."""
        found = self._owned.get(id(optimizer))
        if found is None or found.ref() is not optimizer:
            self._keys += 1
            self._owned = {key: each for key, each in self._owned.items() if each.ref()}
            found = Owned(optimizer, str(self._keys), self.findings.take_back)
            self._owned[id(optimizer)] = found
            found.choose()
            found.known = found.stamp()
        return found

    def log(self, scaler: torch.amp.GradScaler) -> ScalerLog:
        """What is known of a scaler."""
        found = self._logs.get(id(scaler))
        if found is None or found.ref() is not scaler:
            self._keys += 1
            self._logs = {key: log for key, log in self._logs.items() if log.ref() is not None}
            found = self._logs[id(scaler)] = ScalerLog(str(self._keys), weakref.ref(scaler))
            if len(self.logs) < _MOST_SCALERS:
                self.logs.append(found)
        return found

    def all(self) -> list[Owned]:
        """Every optimizer that is there."""
        return [owned for owned in self._owned.values() if owned.ref() is not None]

    def are_scaled(self) -> bool:
        """Whether gradients of any optimizer certainly are."""
        for owned in self._owned.values():
            if owned.state.is_scaled and not owned.state.unknown and owned.ref() is not None:
                return True
        return False

    # --- events -------------------------------------------------------------------------------

    def before_backward(self, place: Place) -> list[tuple[Owned, Stamp]]:
        """The gradients of all optimizers, to be compared with those after it."""
        every = self.all()
        for owned in every:
            owned.choose()
            owned.catch_up(place, whole=True)
        return [(owned, owned.known) for owned in every]

    def after_backward(
        self,
        before: Iterable[tuple[Owned, Stamp]],
        place: Place,
        scaler: torch.amp.GradScaler | None,
    ) -> list[Owned]:
        """The optimizers whose gradients a backward has written."""
        fed = []
        for owned, stamp in before:
            now = owned.stamp()
            if now == stamp:
                continue
            if not any(stamp):
                owned.clear(place)
            self._fed(owned, place, scaler)
            owned.known = now
            fed.append(owned)
        return fed

    def _fed(self, owned: Owned, place: Place, scaler: torch.amp.GradScaler | None) -> None:
        key = None if scaler is None else self.log(scaler).key
        event = happening(Kind.BACKWARD, place, scaler=key, optimizer=owned.key)
        if key is not None and owned.key in owned.state.divided:
            owned.mixed = (owned.state.unscaled[owned.key], event)
        owned.after(event)
        owned.done, owned.early = None, None
        if scaler is not None:
            owned.scaler_ref = weakref.ref(scaler)
            owned.keep_numbers()

    def unscale(self, scaler: torch.amp.GradScaler, owned: Owned, place: Place) -> None:
        """The user calls ``unscale_``."""
        owned.catch_up(place)
        log = self.log(scaler)
        event = happening(Kind.UNSCALE, place, scaler=log.key, optimizer=owned.key)
        if scaler._scale is None:  # which raises, before there is a step
            self._judge(owned, happening(Kind.STEP, place, scaler=log.key, optimizer=owned.key))
        self._judge(owned, event)
        owned.after(event)
        log.touched.add(owned.key)

    def clip(
        self,
        place: Place,
        ids: set[int],
        function: str,
        limit: float | None,
        *,
        strict: bool,
    ) -> list[Owned]:
        """Gradients are clipped, or their norm is taken where there is no ``limit``: of whom."""
        clipped = [owned for owned in self.all() if owned.owns(ids)]
        if not clipped or any(owned.state.unknown for owned in clipped):
            self.findings.take_back(place)  # of parameters that no optimizer owns nobody knows more
        for owned in clipped:
            owned.catch_up(place)
            event = happening(Kind.CLIP, place)
            cause = None if owned.state.unknown else SCALED_CLIP.judge(event, owned.state)
            right = owned.asked or self._compensated(owned, limit)
            if cause is not None and not right and not self._is_written(owned, place):
                numbers: Numbers = {"function": function}
                if limit is not None:
                    numbers["limit"] = limit
                owned.unsettled.setdefault(Kind.CLIP, []).append(Unsettled(event, cause, numbers))
            cause = STRICT_CLIP.judge(event, owned.state) if strict else None
            if cause is not None and not owned.state.unknown:
                self._see(Mistake.STRICT_CLIP, owned, event, cause)
            owned.after(event)
        return clipped

    def after_clip(self, clipped: Iterable[Owned]) -> None:
        """What a clip wrote is no surprise."""
        for owned in clipped:
            owned.renew()
            if owned.state.is_scaled:  # of others nobody asks whether they were written
                owned.keep_numbers()

    def read(self, params: set[int], place: Place, function: str) -> list[Owned]:
        """Gradients of some parameters are measured by hand: of whom."""
        for owned in self.all():
            if not owned.owns(params):
                continue
            owned.catch_up(place)
            event = happening(Kind.GRADIENT_READ, place)
            cause = None if owned.state.unknown else SCALED_READ.judge(event, owned.state)
            if cause is not None and not owned.asked:
                self.findings.note(place)
                unsettled = Unsettled(event, cause, {"function": function})
                owned.unsettled.setdefault(Kind.GRADIENT_READ, []).append(unsettled)
            return [owned]
        return []

    def written(self, params: set[int], place: Place, factor: Callable[[], float | None]) -> None:
        """Gradients of some parameters are changed by hand; ``factor`` may wait for the device."""
        for owned in self.all():
            if not owned.owns(params) or not owned.state.is_scaled:
                continue
            if self._stay_scaled(owned, factor):
                owned.known = owned.stamp()
                owned.keep_numbers()
            else:
                owned.after(happening(Kind.GRADIENT_WRITE, place))
                owned.forget()
                owned.known = owned.stamp()

    def _stay_scaled(self, owned: Owned, factor: Callable[[], float | None]) -> bool:
        """Whether gradients that were measured are still multiplied by much of the scale."""
        scaler = owned.scaler
        if scaler is None or not owned.unsettled.get(Kind.GRADIENT_READ) or not self._looks:
            return False
        self._looks -= 1
        value = factor()
        return value is not None and value * scale_of(scaler) > _STILL

    def _is_written(self, owned: Owned, place: Place) -> bool:
        """Whether somebody wrote to gradients where torch does not count it; a few looks tell."""
        written = owned.is_written_unseen
        if self._looks and not written:
            self._looks -= 1
            written = owned.looks_written()
        if written:
            owned.after(happening(Kind.GRADIENT_WRITE, place))
            owned.forget()
        return written

    def scales(self) -> Iterator[tuple[torch.Tensor, torch.amp.GradScaler]]:
        """The factors of the scalers that are there, as they keep them."""
        for log in [*self._logs.values()]:
            scaler = log.ref()
            if scaler is not None and scaler._scale is not None:
                yield scaler._scale, scaler

    def asked(self, scaler: torch.amp.GradScaler) -> None:
        """The user asks for the scale: what is read of the gradients may be divided by it."""
        self.log(scaler).asked = True
        for owned in self.all():
            owned.asked = True
            owned.unsettled.pop(Kind.GRADIENT_READ, None)
            clips = owned.unsettled.get(Kind.CLIP, [])
            owned.unsettled[Kind.CLIP] = [each for each in clips if _clips(each)]

    def scaler_step(self, scaler: torch.amp.GradScaler, owned: Owned, place: Place) -> None:
        """``scaler.step(optimizer)``, before it does anything."""
        owned.catch_up(place)
        log = self.log(scaler)
        event = happening(Kind.STEP, place, scaler=log.key, optimizer=owned.key)
        self._judge(owned, event)
        self._settle(owned, event)
        self._is_new(log, owned, place)
        owned.after(event)
        log.touched.add(owned.key)
        log.step = place

    def scaler_stepped(
        self, scaler: torch.amp.GradScaler, owned: Owned, place: Place, *, skipped: bool
    ) -> None:
        """``scaler.step(optimizer)``, when it is done."""
        log = self.log(scaler)
        log.steps += 1
        log.skips += skipped
        if skipped:  # else `stepped` has looked
            owned.renew()
        owned.skipped = skipped
        owned.done = happening(Kind.STEP, place, scaler=log.key)
        owned.forget()

    def _settle(self, owned: Owned, step: Happening) -> None:
        """The scaler steps: what was done with scaled gradients is a mistake."""
        is_settled = not owned.unsettled and owned.mixed is None and owned.early is None
        if is_settled or owned.state.unknown:
            return
        for kind, mistake in (
            (Kind.CLIP, Mistake.SCALED_CLIP),
            (Kind.GRADIENT_READ, Mistake.SCALED_READ),
        ):
            for each in owned.unsettled.get(kind, ()):
                self._see(mistake, owned, each.event, each.cause, each.numbers, step.node)
        if owned.mixed is not None:
            unscale, backward = owned.mixed
            self._see(Mistake.ADDED_SCALED, owned, unscale, backward, step=step.node)
        if owned.early is not None:
            update, _ = owned.early
            self._see(Mistake.EARLY_UPDATE, owned, update, step)
        owned.mixed, owned.early = None, None

    def direct_step(self, owned: Owned, place: Place) -> None:
        """``optimizer.step()``, before it does anything."""
        owned.catch_up(place)
        event = happening(Kind.STEP, place, optimizer=owned.key)
        done = owned.done if any(owned.stamp()) else None
        if done is not None and owned.skipped and not owned.asked:
            self._see(Mistake.UNCHECKED_STEP, owned, event, done)
        elif done is not None and not owned.state.used:
            self._see(Mistake.DOUBLE_STEP, owned, event, done)
        elif not owned.asked and not (owned.state.is_scaled and self._is_written(owned, place)):
            self._judge(owned, event)
        owned.after(event)

    def closure_step(self, owned: Owned, place: Place) -> None:
        """``optimizer.step(closure)``, when it is done: on gradients as the closure left them."""
        owned.catch_up(place)
        if not owned.asked and owned.state.is_scaled and not self._is_written(owned, place):
            self._judge(owned, happening(Kind.STEP, place, optimizer=owned.key))

    def step_in_backward(
        self, owned: Owned, place: Place, scaler: torch.amp.GradScaler, backward: Place
    ) -> None:
        """``optimizer.step()`` in a hook, while the backward of a scaled loss runs."""
        asked = self.log(scaler).asked or owned.asked
        grads = [param.grad for param in owned.sample() if param.grad is not None]
        if are_same(owned.stamp(), owned.known):
            return  # this backward has not written them
        if grads and not asked and not any(grad._version for grad in grads):
            key = self.log(scaler).key
            cause = happening(Kind.BACKWARD, backward, scaler=key)
            event = happening(Kind.STEP, place, scaler=key, optimizer=owned.key)
            self._see(Mistake.BYPASS, owned, event, cause)

    def stepped(self, owned: Owned, *, direct: bool) -> None:
        """An optimizer has stepped, in whatever way."""
        owned.steps += 1
        owned.renew()
        if direct:
            owned.done = None
            owned.forget()

    def update(self, scaler: torch.amp.GradScaler, place: Place) -> None:
        """``scaler.update()``."""
        log = self.log(scaler)
        log.updates += 1
        event = happening(Kind.UPDATE, place, scaler=log.key)
        for owned in self.all():
            if owned.key in log.touched:
                unscaled = owned.state.unscaled.get(owned.key)
                if unscaled is not None and owned.key in owned.state.divided:
                    owned.early = (event, unscaled)
                owned.after(event)
                owned.cleared = None
            elif owned.state.is_scaled and owned.scaler is scaler:
                owned.early = (event, event)  # unless they are cleared, or others come to them
        log.touched.clear()

    def update_failed(self, scaler: torch.amp.GradScaler, place: Place) -> None:
        """``scaler.update()`` has raised, as nothing was unscaled or stepped."""
        for owned in self.all():
            cause = owned.state.pending
            if cause is not None and owned.scaler is scaler and not owned.state.unknown:
                self._see(Mistake.EMPTY_UPDATE, owned, happening(Kind.UPDATE, place), cause)

    def finish(self) -> None:
        """What no step has settled is not in order, also of optimizers that are gone by now."""
        for owned in self._owned.values():
            owned.forget()

    def schedule(self, optimizer: torch.optim.Optimizer, place: Place) -> None:
        """A scheduler of an optimizer steps."""
        owned = self.owned(optimizer)
        if owned.skipped:
            self._judge(owned, happening(Kind.SCHEDULE, place, optimizer=owned.key))

    def zero(self, owned: Owned, place: Place, *, gone: bool = False) -> None:
        """The gradients of an optimizer were cleared; ``gone``: there are none any more."""
        owned.clear(place)
        owned.known = [None] * len(owned.known) if gone else owned.stamp()

    # --- mistakes -----------------------------------------------------------------------------

    def _judge(self, owned: Owned, event: Happening) -> None:
        if owned.state.unknown:
            return
        for row, cause in owned.mistakes(event):
            again = row.mistake is Mistake.REPEATED_UNSCALE and owned.cleared is not None
            mistake = Mistake.GIVEN_UP if again else row.mistake
            self._see(mistake, owned, event, cause)

    def _see(
        self,
        mistake: Mistake,
        owned: Owned,
        event: Happening,
        cause: Happening,
        numbers: Numbers | None = None,
        step: Place | None = None,
    ) -> None:
        def measured() -> Numbers:
            return _with_scale(numbers or {}, owned.scaler or self._stepping(event))

        places = {At.EVENT: event.node, At.CAUSE: cause.node}
        if step is not None:
            places[At.STEP] = step
        self.findings.see(mistake, places, measured)

    def _stepping(self, event: Happening) -> torch.amp.GradScaler | None:
        """The scaler of an event."""
        return next((log.ref() for log in self._logs.values() if log.key == event.scaler), None)

    def _is_new(self, log: ScalerLog, owned: Owned, place: Place) -> None:
        """See whether another scaler from the same place has stepped this optimizer before."""
        before, owned.stepped_by = owned.stepped_by, log
        if not isinstance(before, ScalerLog) or before is log or log.loaded or not before.steps:
            return
        if log.made is not None and log.made is before.made:
            places = {At.EVENT: log.made, At.STEP: place}
            self.findings.see(
                Mistake.NEW_SCALER, places, lambda: {"steps": before.steps, "skips": before.skips}
            )

    def _compensated(self, owned: Owned, limit: float | None) -> bool:
        """Whether somebody has thought of the scale when choosing a limit."""
        if limit is None or limit >= _LARGE:
            return limit is not None
        scaler = owned.scaler
        if scaler is None or not self.log(scaler).asked:
            return False
        return limit / scale_of(scaler) >= _ENOUGH


def scale_of(scaler: torch.amp.GradScaler) -> float:
    """The factor of a scaler now; waits for the device."""
    scale = scaler._scale
    return float(scaler._init_scale if scale is None else scale)


def _with_scale(numbers: Numbers, scaler: torch.amp.GradScaler | None) -> Numbers:
    if scaler is None or scaler._scale is None:
        return numbers  # as it has scaled nothing
    scale, limit = scale_of(scaler), numbers.get("limit")
    known: Numbers = {**numbers, SCALE.word: scale}
    return {**known, "effective": limit / scale} if isinstance(limit, float) and scale else known


def _clips(each: Unsettled) -> bool:
    """Whether a clip changes gradients, which nobody can put right by dividing what it gives."""
    return "limit" in each.numbers
