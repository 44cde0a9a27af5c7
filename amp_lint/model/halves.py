"""What shows that the gradients of a file's models are float16."""

from __future__ import annotations

import functools

import libcst as cst

from amp_lint.model.modules import Modules
from amp_lint.model.names import Names
from amp_lint.model.regions import DEVICE_AUTOCAST, Region, Regions
from amp_lint.model.roles import Roles
from amp_lint.model.values import Values, arguments, literal
from amp_lint.tree import Tree

_FLOAT16 = frozenset({"torch.float16", "torch.half"})


class Halves:
    """Looks for GradScalers, float16 autocast regions and trained float16 modules."""

    def __init__(
        self,
        tree: Tree,
        names: Names,
        values: Values,
        roles: Roles,
        regions: Regions,
        modules: Modules,
    ) -> None:
        self.tree = tree
        self.names = names
        self.values = values
        self.roles = roles
        self.regions = regions
        self.modules = modules

    @functools.cached_property
    def shown(self) -> cst.CSTNode | None:
        """The first thing that shows float16 gradients; None in a file of bf16 or float32 alone."""
        half = [region.node for region in self.regions.all if self._is_half(region)]
        if half:
            return half[0]
        if self.modules.half_trainings:
            return self.modules.half_trainings[0].cast
        known = [region for region in self.regions.all if not region.never_enabled]
        if known and not any(self._may_be_half(region) for region in known):
            return None  # the scaler, if there is one, is for bf16 or float32
        scalers = self.roles.scaler_calls
        on = [s for s in scalers if literal(arguments(s).get(None, "enabled")) is not False]
        return on[0] if on else None

    def _is_half(self, region: Region) -> bool:
        """Whether some configuration certainly casts to float16."""
        if region.never_enabled or region.starred or not region.function:
            return False
        if region.dtype is None:
            return self._device(region) == "cuda"
        return any(self.names.is_any(v, _FLOAT16) for v in self.values.alternatives(region.dtype))

    def _may_be_half(self, region: Region) -> bool:
        if region.dtype is None:
            return self._device(region) != "cpu"
        known = [self.names.qualified(v) for v in self.values.alternatives(region.dtype)]
        return any(not names or not names.isdisjoint(_FLOAT16) for names in known)

    def _device(self, region: Region) -> str | None:
        if region.function in DEVICE_AUTOCAST:
            return DEVICE_AUTOCAST[region.function]
        device = literal(region.device)
        return device.split(":")[0] if isinstance(device, str) else None
