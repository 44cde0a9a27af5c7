"""What replaces the other calls of a training step: backward, clips, steps, schedulers, files."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch.optim.optimizer import (
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)

from amp_lint.mistake import At, Mistake
from amp_lint.runtime import marks
from amp_lint.runtime.frames import Place, here
from amp_lint.runtime.owned import Owned
from amp_lint.runtime.patches import CALLER, Function, Inside, Patches, is_running
from amp_lint.runtime.record import Numbers
from amp_lint.vocabulary import amp, training
from amp_lint.vocabulary.meaning import Kind, Meaning, Part
from amp_lint.vocabulary.table import rows

if TYPE_CHECKING:
    from amp_lint.runtime.watched import Watched

Optimizer = torch.optim.Optimizer
_UTILITIES = "torch.nn.utils."
_TORCH = "torch.optim."
"""Where the optimizers are that compute in the dtype of their parameters."""
_LOOKED_AT = 2
"""Steps of an optimizer before which the dtypes of its parameters are looked at."""


class TrainingHooks:
    """Installs itself into torch."""

    def __init__(self, watch: Watched, patches: Patches) -> None:
        self.watch = watch
        self.protocol = watch.protocol
        self.regions = watch.regions
        self.findings = watch.findings
        self.inside = patches.inside
        self._patches = patches
        self._handles: list[Any] = []
        self._in_method = Inside({})

    def install(self) -> None:
        """Replace what is watched."""
        patches, (clearing,) = self._patches, rows(Kind.ZERO_GRAD)
        schedule = training.SCHEDULER_STEP
        patches.function(torch.autograd, training.AUTOGRAD_BACKWARD.word, self._backward)
        patches.method(torch.Tensor, training.AUTOGRAD_BACKWARD.word, self._backward_method)
        for row in rows(Kind.CLIP):
            for name in (each for each in row.names if each.startswith(_UTILITIES)):
                patches.function(torch.nn.utils, name[len(_UTILITIES) :], self._clip(row))
        patches.methods(torch.optim.lr_scheduler.LRScheduler, schedule.word, self._schedule)
        patches.function(torch, "save", self._save)
        patches.function(torch, "load", self._load)
        patches.method(Optimizer, clearing.word, self._zero_grad)
        patches.method(torch.nn.Module, clearing.word, self._module_zero_grad)
        patches.method(Optimizer, "__init__", self._optimizer_init)
        patches.methods(Optimizer, amp.STATE_DICT.word, self._optimizer_state)
        patches.method(Optimizer, amp.LOAD_STATE_DICT.word, self._optimizer_load)
        self._handles += [
            register_optimizer_step_pre_hook(self._before_step),
            register_optimizer_step_post_hook(self._after_step),
        ]

    def remove(self) -> None:
        """Take the hooks of optimizers out; the patches are undone by themselves."""
        for handle in self._handles:
            handle.remove()

    # --- gradients ------------------------------------------------------------------------------

    def _backward(self, old: Function) -> Function:
        def backward(tensors: Any, *args: Any, **keywords: Any) -> Any:  # noqa: ANN401
            if torch.compiler.is_compiling() or is_running():
                return old(tensors, *args, **keywords)
            place, losses = here(CALLER), _tensors(tensors)
            scaler = marks.scaler_of(losses)
            self.findings.reach(place, on=scaler is not None or bool(self.regions.dtypes))
            for told in self.watch.backwards:
                told(losses, place)
            if losses:
                self.regions.backward(place, losses[0].device.type)
            half = (
                scaler is None
                and self.regions.half is not None
                and marks.ran_in(losses, (torch.float16,))
            )
            spoiled = self.regions.spoiled(losses)
            before = self.protocol.before_backward(place)
            with self.inside.running(place, scaler):
                given = old(tensors, *args, **keywords)
            for owned in self.protocol.after_backward(before, place, scaler):
                owned.half = self.regions.half if half else None
                if owned.key in spoiled:
                    self.regions.fed(owned.key, place)
            if scaler is not None and not self._in_method.depth:
                self.watch.reads.begin()
            return given

        return backward

    def _backward_method(self, old: Function) -> Function:
        def backward(tensor: torch.Tensor, *args: Any, **keywords: Any) -> None:  # noqa: ANN401
            with self._in_method:  # in which torch may have taken a mode of the user's off
                old(tensor, *args, **keywords)
            if not self._in_method.depth:
                self.watch.reads.begin()

        return backward

    def _clip(self, row: Meaning) -> Callable[[Function], Function]:
        limit, strict = row.place(Part.LIMIT), row.place(Part.STRICT)

        def wrap(old: Function) -> Function:
            def clip(given: Any, *args: Any, **keywords: Any) -> Any:  # noqa: ANN401
                whole = [given] if isinstance(given, torch.Tensor) else [*given]
                ids, place = {*map(id, whole)}, here(CALLER)
                bound = _argument((whole, *args), keywords, limit)
                self.findings.reach(place)
                clipped = self.protocol.clip(
                    place,
                    ids,
                    old.__name__.lstrip("_"),
                    _number(bound),
                    strict=_argument((whole, *args), keywords, strict) is True,
                )
                with self.inside:
                    result = old(whole, *args, **keywords)
                self.protocol.after_clip(clipped)
                if isinstance(result, torch.Tensor) and (most := _number(bound)):
                    for told in self.watch.clips:
                        told(ids, result, most)
                return result

            return clip

        return wrap

    def _zero_grad(self, old: Function) -> Function:
        def zero_grad(optimizer: Optimizer, *args: Any, **keywords: Any) -> Any:  # noqa: ANN401
            looked = self.watch.reads.end()
            with self.inside, self.watch.losses.aside():
                given = old(optimizer, *args, **keywords)
            gone = not args and keywords.get("set_to_none", True) is True
            self.protocol.zero(self.protocol.owned(optimizer), here(CALLER), gone=gone)
            if looked:
                self.watch.reads.begin()
            return given

        return zero_grad

    def _module_zero_grad(self, old: Function) -> Function:
        def zero_grad(module: torch.nn.Module, *args: Any, **keywords: Any) -> Any:  # noqa: ANN401
            place = here(CALLER)
            self.watch.reads.end()
            before = self.protocol.before_backward(place)
            with self.inside, self.watch.losses.aside():
                given = old(module, *args, **keywords)
            for owned, stamp in before:
                if owned.stamp() != stamp:
                    self.protocol.zero(owned, place)
            self.watch.reads.begin()
            return given

        return zero_grad

    # --- optimizers and schedulers --------------------------------------------------------------

    def _optimizer_init(self, old: Function) -> Function:
        def __init__(optimizer: Optimizer, *args: Any, **keywords: Any) -> None:  # noqa: ANN401
            old(optimizer, *args, **keywords)
            self.protocol.owned(optimizer)

        return __init__

    def _optimizer_state(self, old: Function) -> Function:
        def state_dict(optimizer: Optimizer, *args: Any, **keywords: Any) -> Any:  # noqa: ANN401
            self.watch.checkpoints.optimizer_asked(here(CALLER))
            return old(optimizer, *args, **keywords)

        return state_dict

    def _optimizer_load(self, old: Function) -> Function:
        def load_state_dict(optimizer: Optimizer, state: Any, **keywords: Any) -> Any:  # noqa: ANN401
            self.watch.checkpoints.optimizer_loaded(
                self.protocol.owned(optimizer), state, here(CALLER)
            )
            return old(optimizer, state, **keywords)

        return load_state_dict

    def _before_step(self, optimizer: Optimizer, args: Any, keywords: Any) -> None:  # noqa: ANN401
        if torch.compiler.is_compiling():
            return
        owned = self.protocol.owned(optimizer)
        if not self.inside.depth:
            place = here()
            self.watch.reads.end()
            self.findings.reach(place)
            if not has_closure(args, keywords):  # which would run backward again
                owned.catch_up(place)
                self.findings.again = owned.done is not None
                self._judge_unscaled(owned, place)
                self._judge_unchecked(owned, place)
                self.protocol.direct_step(owned, place)
        elif (
            self.inside.depth == 1
            and (backward := self.inside.backward) is not None
            and backward.scaler is not None
        ):
            self.protocol.step_in_backward(owned, here(), backward.scaler, backward.place)
        if owned.steps < _LOOKED_AT:
            self._judge_dtypes(optimizer, here())

    def _judge_unscaled(self, owned: Owned, place: Place) -> None:
        """See whether a float16 forward goes without a scaler."""
        plain, state = owned.state.plain, owned.state
        if owned.half is None or plain is None or state.scaled or state.unknown or owned.asked:
            return
        if owned.scaler is None:
            places = {At.EVENT: owned.half, At.CAUSE: plain.node, At.STEP: place}
            self.findings.see(Mistake.NO_SCALER, places, dict)

    def _judge_unchecked(self, owned: Owned, place: Place) -> None:
        """See whether a step that is not the scaler's is one that it would have skipped."""
        state, scaler, optimizer = owned.state, owned.scaler, owned.ref()
        if scaler is not None and owned.key in state.divided and not state.unknown:
            places = {At.EVENT: place, At.CAUSE: state.unscaled[owned.key].node}
            if optimizer is not None:
                self.watch.scales.unchecked(scaler, optimizer, places)

    def _judge_dtypes(self, optimizer: Optimizer, place: Place) -> None:
        if not type(optimizer).__module__.startswith(_TORCH):
            return  # it may keep copies in float32
        params = [param for group in optimizer.param_groups for param in group["params"]]
        half = [p for p in params if p.dtype is torch.float16 and p.grad is not None]
        if half:
            numbers: Numbers = {"half": len(half), "all": len(params)}
            self.findings.see(Mistake.HALF_PARAMETERS, {At.EVENT: place}, lambda: numbers)

    def _after_step(self, optimizer: Optimizer, args: Any, keywords: Any) -> None:  # noqa: ANN401
        if torch.compiler.is_compiling():
            return
        owned, direct = self.protocol.owned(optimizer), not self.inside.depth
        again, self.findings.again = owned.done is not None, False
        if direct and has_closure(args, keywords):
            self.protocol.closure_step(owned, here())
        self.protocol.stepped(owned, direct=direct)
        self.regions.stepped(owned.key)
        if direct and not again:  # else the scaler's step on these gradients has been counted
            self.watch.boundary(skipped=False)

    def _schedule(self, old: Function) -> Function:
        def step(scheduler: Any, *args: Any, **keywords: Any) -> Any:  # noqa: ANN401
            place, optimizer = here(CALLER), getattr(scheduler, "optimizer", None)
            self.findings.reach(place)
            if isinstance(optimizer, Optimizer):
                self.protocol.schedule(optimizer, place)
            with self.inside:
                return old(scheduler, *args, **keywords)

        return step

    # --- files ----------------------------------------------------------------------------------

    def _save(self, old: Function) -> Function:
        def save(data: Any, *args: Any, **keywords: Any) -> Any:  # noqa: ANN401
            self.watch.checkpoints.saved(data, here(CALLER))
            return old(data, *args, **keywords)

        return save

    def _load(self, old: Function) -> Function:
        def load(*args: Any, **keywords: Any) -> Any:  # noqa: ANN401
            data = old(*args, **keywords)
            self.watch.checkpoints.read(data)
            return data

        return load


def has_closure(args: Sequence[Any], keywords: Mapping[str, Any]) -> bool:
    """Whether a step is given what runs forward and backward again."""
    return len(args) > 1 or bool(keywords)


def _tensors(given: object) -> list[torch.Tensor]:
    if isinstance(given, torch.Tensor):
        return [given]
    listed = given if isinstance(given, Sequence) else ()
    return [each for each in listed if isinstance(each, torch.Tensor)]


def _argument(
    args: Sequence[Any],
    keywords: Mapping[str, Any],
    place: tuple[int | None, str | None],
) -> object:
    """What a call gives for a parameter, by its position or keyword; None if nothing."""
    position, keyword = place
    if keyword is not None and keyword in keywords:
        return keywords[keyword]
    return args[position] if position is not None and position < len(args) else None


def _number(given: object) -> float | None:
    """A limit that is known without waiting for the device, and limits something."""
    known = isinstance(given, (int, float)) and not isinstance(given, bool)
    return float(given) if known and given != float("inf") else None  # type: ignore[arg-type]
