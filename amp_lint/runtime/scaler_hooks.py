"""What replaces the methods of scalers: each does what it did, and says that it happened."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from amp_lint.runtime import marks
from amp_lint.runtime.frames import here
from amp_lint.runtime.patches import CALLER, Function, Patches
from amp_lint.vocabulary import amp
from amp_lint.vocabulary.meaning import Kind, Part, Role
from amp_lint.vocabulary.table import rows

if TYPE_CHECKING:
    from amp_lint.runtime.watched import Watched

Optimizer = torch.optim.Optimizer
Scaler = torch.amp.GradScaler
_INITIAL = amp.GRAD_SCALER.keyword(Part.INITIAL_SCALE)
_AT = amp.GRAD_SCALER.order.index(_INITIAL)


class ScalerHooks:
    """Installs itself into `torch.amp.GradScaler` and what derives from it."""

    def __init__(self, watch: Watched, patches: Patches) -> None:
        self.watch = watch
        self.protocol = watch.protocol
        self.findings = watch.findings
        self.inside = patches.inside
        self._patches = patches

    def install(self) -> None:
        """Replace what is watched."""
        made: dict[str, Callable[[Function], Function]] = {
            amp.SCALE.word: self._scale,
            amp.GET_SCALE.word: self._get_scale,
            amp.STATE_DICT.word: self._state_dict,
            amp.LOAD_STATE_DICT.word: self._load_state_dict,
        }
        does: dict[Kind, Callable[[Function], Function]] = {
            Kind.UNSCALE: self._unscale,
            Kind.STEP: self._step,
            Kind.UPDATE: self._update,
        }
        for kind, wrap in does.items():
            (row,) = rows(kind, Role.SCALER)
            made[row.word] = wrap
        self._patches.method(Scaler, "__init__", self._init)
        for name, wrap in made.items():
            self._patches.methods(Scaler, name, wrap)

    def _init(self, old: Function) -> Function:
        def __init__(scaler: Scaler, *args: Any, **keywords: Any) -> None:  # noqa: ANN401
            old(scaler, *args, **keywords)
            place = here(CALLER)
            self.findings.reach(place, on=scaler._enabled)
            if not scaler._enabled:
                return
            self.protocol.log(scaler).made = place
            given = args[_AT] if len(args) > _AT else keywords.get(_INITIAL)
            if isinstance(given, bool):
                self.findings.misplaced(place, given, _INITIAL, amp.GRAD_SCALER.word)

        return __init__

    def _scale(self, old: Function) -> Function:
        def scale(scaler: Scaler, outputs: Any) -> Any:  # noqa: ANN401
            with self.inside:
                scaled = old(scaler, outputs)
            if scaler._enabled:
                marks.mark(scaled, scaler)
                self.watch.losses.scaled(scaler, scaled, here(CALLER))
            return scaled

        return scale

    def _get_scale(self, old: Function) -> Function:
        def get_scale(scaler: Scaler) -> Any:  # noqa: ANN401
            if not scaler._enabled:
                return old(scaler)
            self.protocol.asked(scaler)
            scale = old(scaler)
            self.watch.losses.asked(scaler, scale, here(CALLER))
            return scale

        return get_scale

    def _state_dict(self, old: Function) -> Function:
        def state_dict(scaler: Scaler) -> Any:  # noqa: ANN401
            self.protocol.log(scaler).saved_at = self.findings.step
            with self.inside:
                return old(scaler)

        return state_dict

    def _load_state_dict(self, old: Function) -> Function:
        def load_state_dict(scaler: Scaler, *args: Any, **keywords: Any) -> Any:  # noqa: ANN401
            self.protocol.log(scaler).loaded = True
            with self.inside:
                return old(scaler, *args, **keywords)

        return load_state_dict

    def _unscale(self, old: Function) -> Function:
        def unscale_(scaler: Scaler, optimizer: Optimizer) -> Any:  # noqa: ANN401
            place = here(CALLER)
            self.findings.reach(place, on=scaler._enabled)
            if scaler._enabled:
                owned = self.protocol.owned(optimizer)
                looked = self.watch.reads.end()
                self.protocol.unscale(scaler, owned, place)
                with self.inside:
                    old(scaler, optimizer)
                owned.renew()
                if looked:
                    self.watch.reads.begin()

        return unscale_

    def _step(self, old: Function) -> Function:
        def step(scaler: Scaler, optimizer: Optimizer, *args: Any, **keywords: Any) -> Any:  # noqa: ANN401
            if not scaler._enabled:
                return old(scaler, optimizer, *args, **keywords)
            place, owned = here(CALLER), self.protocol.owned(optimizer)
            self.findings.reach(place)
            self.watch.checkpoints.stepping(scaler, owned, place)
            looked = self.watch.reads.end()
            self.protocol.scaler_step(scaler, owned, place)
            before = owned.steps
            with self.inside:
                given = old(scaler, optimizer, *args, **keywords)
            skipped = owned.steps == before
            self.protocol.scaler_stepped(scaler, owned, place, skipped=skipped)
            if getattr(optimizer, "_step_supports_amp_scaling", False):
                self.watch.scales.skipped(scaler, optimizer)
            if looked:
                self.watch.reads.begin()
            self.watch.boundary(skipped=skipped)
            return given

        return step

    def _update(self, old: Function) -> Function:
        def update(scaler: Scaler, *args: Any, **keywords: Any) -> Any:  # noqa: ANN401
            place = here(CALLER)
            self.findings.reach(place, on=scaler._enabled)
            if scaler._enabled:
                self.protocol.update(scaler, place)
                self.watch.losses.updating(scaler)
            try:
                with self.inside:
                    given = old(scaler, *args, **keywords)
            except AssertionError:
                self.findings.take_back(place)
                self.protocol.update_failed(scaler, place)
                raise
            if scaler._enabled:
                self.watch.scales.updated(scaler)
                self.watch.losses.updated(scaler)
            return given

        return update
