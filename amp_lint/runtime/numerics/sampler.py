"""Looks at sampled steps: begins and ends with them, and says what was seen."""

from __future__ import annotations

import contextlib
import functools
import sys
from collections.abc import Callable, Iterator, Sequence
from time import perf_counter
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec

import torch
from torch.optim.optimizer import (
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)

from amp_lint.mistake import At, Mistake
from amp_lint.runtime.frames import Place, here
from amp_lint.runtime.numerics.averages import Averages
from amp_lint.runtime.numerics.facts import Facts
from amp_lint.runtime.numerics.losses import Losses
from amp_lint.runtime.numerics.operations import Operation, Operations, usable
from amp_lint.runtime.numerics.ranges import Ranges, Root
from amp_lint.runtime.numerics.scalars import Scalars
from amp_lint.runtime.numerics.schedule import Level, Sampling, Schedule
from amp_lint.runtime.numerics.underflow import Underflow
from amp_lint.runtime.numerics.updates import Updates
from amp_lint.runtime.patches import Patches, Timed
from amp_lint.runtime.protocol import scale_of
from amp_lint.runtime.record import Numbers
from amp_lint.runtime.training_hooks import has_closure
from amp_lint.vocabulary.amp import SCALE

if TYPE_CHECKING:
    from amp_lint.runtime.watched import Watched

Optimizer = torch.optim.Optimizer
P = ParamSpec("P")
_Looks = Callable[Concatenate["Sampler", P], None]


def _harmless(method: _Looks[P]) -> _Looks[P]:
    """A method that looks at a training, and whose failure is none of the training's.

    The memory of a device may be full, say; nothing is looked at closely from then on.
    """

    @functools.wraps(method)
    def call(sampler: Sampler, /, *args: P.args, **keywords: P.kwargs) -> None:
        if sampler.has_failed:
            return
        try:
            method(sampler, *args, **keywords)
        except Exception as error:  # torch raises what it likes
            sampler.give_up(error)

    return call


class Sampler:
    """One for each run."""

    def __init__(self, watch: Watched, sampling: Sampling, patches: Patches) -> None:
        self._watch, self._findings = watch, watch.findings
        self._patches, self._inside = patches, patches.inside
        self._schedule = Schedule(sampling)
        self._scalars = Scalars()
        self._ranges = Ranges(self._scalars, watch.regions)
        self._facts = Facts(self._scalars, watch.findings, watch.regions)
        self._underflow = Underflow(self._scalars, watch.findings)
        self._updates = Updates(self._scalars, watch.findings)
        self._averages = Averages(self._scalars, watch.findings)
        self._losses = Losses()
        self._mode: Operations | None = None
        self._left: list[Operations] = []
        """Modes that could not be taken away yet; they do nothing."""
        self._paused: Operations | None = None
        """What looks at no operation of the optimizer that steps."""
        self._handles: list[Any] = []
        self._looked: set[int] = set()
        self._compiled = Compiled()
        self._began = perf_counter()
        self._timed: Timed | None = None
        """Of the step before: the last call of a step is only over when the next one has begun."""
        self._explained = False
        self.has_failed = False
        """Whether looking has failed, and has ended."""

    def start(self) -> None:
        """Begin with the first step, if this torch can be looked into."""
        level = self._schedule.sampling.level
        if level is Level.PROTOCOL:
            return
        if not usable():
            self._findings.record.summary.note = "steps of this torch cannot be looked into"
            return
        self._watch.boundaries.append(self._boundary)
        self._watch.backwards.append(self._backward)
        self._watch.clips.append(self._clipped)
        self._handles += [
            register_optimizer_step_pre_hook(self._before_step),
            register_optimizer_step_post_hook(self._after_step),
        ]
        if self._schedule.wants(1):
            self._begin()

    def stop(self, *, cut: bool) -> bool:
        """End where the run does, wherever that is in a step; ``cut``: not as it was meant to.

        Whether that step is explained: it was looked at, or an earlier one was told of, or none is
        looked at in this run.
        """
        is_looked_at = self._mode is not None or not self._handles
        for handle in self._handles:
            handle.remove()
        if self._mode is not None:
            self._end()
            self._judge(self._findings.step, skipped=False, cut=cut)
        for mode in self._left:
            mode.end()
        self._underflow.finish()
        self._updates.finish()
        self._findings.record.summary.sampled = len(self._looked)
        self._findings.record.exponents.update(self._updates.exponents)
        bad = self._losses.first()
        if bad is not None and not self._explained:
            numbers: Numbers = {"number": bad.step, "kind": bad.kind}
            places = {At.EVENT: bad.place}
            self._findings.see(Mistake.UNSEEN_NONFINITE, places, lambda: numbers, bad.step)
        return is_looked_at or self._explained or bad is not None

    def give_up(self, error: Exception) -> None:
        """Look at nothing closely any more, and say why."""
        self.has_failed = True
        text = (str(error).splitlines() or [""])[0]
        self._findings.record.summary.note = (
            f"not looked at closely from step {self._findings.step} on, which failed with "
            f"{type(error).__name__}: {text}"
        )
        if self._mode is not None:
            self._end()

    # --- steps ------------------------------------------------------------------------------------

    @_harmless
    def _boundary(self, step: int, skipped: bool) -> None:
        """A step is over; the next one begins."""
        looked = self._mode is not None
        if looked:
            self._looked.add(step)
            self._end()
            self._judge(step, skipped=skipped)
        now, timed, self._timed = perf_counter(), self._timed, self._patches.timed
        watching = None if timed is None else timed.seconds
        self._schedule.ended(step, now - self._began, looked=looked, watching=watching)
        self._began = now
        wanted = self._schedule.wants(step + 1, skipped=skipped)
        if wanted:
            self._begin()
        is_due = not wanted and self._schedule.wants_watching(step + 1)
        self._patches.timed = Timed() if is_due else None

    def _begin(self) -> None:
        self._left = [mode for mode in self._left if not mode.end()]
        mode = Operations(self._look, self._inside, self._averages.before, self.give_up)
        if mode.begin():
            self._mode = mode
            self._compiled.leave()

    def _end(self) -> None:
        mode, self._mode = self._mode, None
        if mode is not None and not mode.end():
            self._left.append(mode)
        self._compiled.enter()

    def _look(self, operation: Operation) -> None:
        self._facts.look(operation)
        self._ranges.look(operation)
        self._underflow.look(operation)
        if operation.kernel.is_update:
            self._averages.look(operation)

    @_harmless
    def _backward(self, losses: Sequence[torch.Tensor], place: Place) -> None:
        self._losses.keep(losses, self._findings.step, place)
        if self._mode is not None:
            self._ranges.loss(losses)

    @_harmless
    def _clipped(self, ids: set[int], norm: torch.Tensor, limit: float) -> None:
        if self._mode is not None:
            self._updates.clipped |= dict.fromkeys(ids, (norm, limit))

    @_harmless
    def _before_step(self, optimizer: Optimizer, args: Any, keywords: Any) -> None:  # noqa: ANN401
        mode = self._mode
        if mode is not None:
            with self._aside():
                self._updates.before(optimizer)
            if has_closure(args, keywords):
                mode.stepping = True
            else:
                self._paused = mode
                mode.pause()

    @_harmless
    def _after_step(self, optimizer: Optimizer, args: Any, keywords: Any) -> None:  # noqa: ANN401
        paused, self._paused = self._paused, None
        if paused is not None:
            paused.resume()
        if self._mode is not None:
            self._mode.stepping = False
            with self._aside():
                self._updates.after(here())

    @contextlib.contextmanager
    def _aside(self) -> Iterator[None]:
        """What is measured here is none of the training's operations, nor a read of gradients."""
        mode = self._mode
        assert mode is not None
        mode.pause()
        try:
            with self._inside, torch.no_grad():
                yield
        finally:
            mode.resume()

    # --- what was seen ----------------------------------------------------------------------------

    @_harmless
    def _judge(self, step: int, *, skipped: bool, cut: bool = False) -> None:
        with torch.no_grad():
            values = self._scalars.read()
            self._facts.judge(values, step)
            self._averages.judge(values, step)
            if not skipped:
                self._underflow.judge(values, step)
                self._updates.judge(values, step)
            root = self._root(values, skipped=skipped, cut=cut)
            self._facts.judge_squares(values, step, None if root is None else root.result.place)
        for each in (self._ranges, self._facts, self._underflow, self._updates, self._averages):
            each.forget()  # and what they hold of the step
        if root is not None and (root.result.operation or not self._explained):
            self._explained = True
            self._tell(root, step)

    def _root(self, values: Sequence[float], *, skipped: bool, cut: bool) -> Root | None:
        """The first inf or NaN, if it is one that no scale brings and nobody has dealt with."""
        found = self._ranges.root_of_loss(values)
        if found is None and cut:
            found = self._ranges.root_of_last(values)
        if found is None:
            params = [param for owned in self._watch.protocol.all() for param in owned.parameters()]
            gradients = [param.grad for param in params if param.grad is not None]
            found = self._ranges.root_of_gradients(gradients, values)
            if found and not found.is_of_scale and not self._is_harm(skipped=skipped):
                found = None
        return found

    def _is_harm(self, *, skipped: bool) -> bool:
        """Whether gradients that are not finite are more than a scale that is not found yet."""
        scales = self._scales()
        return all(scale <= 1 for scale in scales) and (bool(scales) or not skipped)

    def _scales(self) -> list[float]:
        """The scales of the gradients."""
        scalers = {owned.scaler for owned in self._watch.protocol.all()}
        return [scale_of(scaler) for scaler in scalers if scaler is not None]

    def _tell(self, root: Root, step: int) -> None:
        place, result = root.result.place, root.result
        if (place.file, place.row) in self._facts.rows:
            return  # told with its cause
        mistake = Mistake.FIRST_NONFINITE
        if not result.operation:
            mistake = Mistake.GIVEN_NONFINITE
        elif root.is_of_scale:
            mistake = Mistake.SCALED_OVERFLOW
        elif root.is_cast:
            mistake = Mistake.CAST_OVERFLOW
        numbers = root.numbers()
        if scales := self._scales():
            numbers[SCALE.word] = max(scales)
        self._findings.see(mistake, {At.EVENT: place}, lambda: numbers, step=step)


class Compiled:
    """Steps that are looked at run as they are written, and not compiled."""

    def __init__(self) -> None:
        self._stance: Any = None

    def leave(self) -> None:
        """Run compiled code as it is written."""
        dynamo = sys.modules.get("torch._dynamo")
        if dynamo is not None and hasattr(torch.compiler, "set_stance"):
            self._stance = torch.compiler.set_stance("force_eager")

    def enter(self) -> None:
        """Go back to what was before."""
        stance, self._stance = self._stance, None
        if stance is not None:
            stance.__exit__(None, None, None)
