"""Training steps in float16 autocast that no scaler, and no framework, scales the loss of."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from dataclasses import dataclass

import libcst as cst

from amp_lint.amp.ambient import inherited
from amp_lint.amp.events import Event, Kind
from amp_lint.amp.gradient_values import is_untracked
from amp_lint.amp.regions import Region
from amp_lint.flow.forwarding import returned
from amp_lint.flow.values import literal
from amp_lint.model import Model
from amp_lint.syntax.tree import children
from amp_lint.vocabulary.amp import DEVICE_AUTOCAST
from amp_lint.vocabulary.frameworks import OWNERS, OWNING_THE_STEP

_FLOAT16 = frozenset({"torch.float16", "torch.half"})
_DEFAULT_DTYPE = frozenset(
    {"torch.set_autocast_dtype", "torch.set_autocast_gpu_dtype", "torch.set_default_dtype"}
)
_SCALED = re.compile(r"scaler|loss_?scal|scale_?loss|grad(ient)?_?scal", re.IGNORECASE)
_DETACHING = frozenset({"detach", "item", "numpy", "tolist"})
_MAX_CALLS = 3  # functions of this file that are looked into, one in the other
_MAX_NODES = 400  # assignments that one loss is traced back through


@dataclass(frozen=True, slots=True)
class UnscaledForward:
    """A float16 region in which the loss of a plain training step is computed."""

    region: Region
    backward: cst.Call
    step: cst.CSTNode


class Unscaled:
    """Traces the losses of plain backward calls back into float16 regions."""

    def __init__(self, model: Model) -> None:
        self.tree = model.linked
        self.names = model.names
        self.values = model.values
        self.flow = model.flow
        self.regions = model.regions
        self.steps = model.steps

    @functools.cached_property
    def forwards(self) -> list[UnscaledForward]:
        """One for each such region, in source order."""
        if self._may_scale or not any(map(self._is_float16, self.regions.all)):
            return []
        found: dict[int, UnscaledForward] = {}
        for backward, step in self._plain_steps():
            for region in self._regions_of(backward):
                found.setdefault(id(region.node), UnscaledForward(region, backward, step))
        return sorted(found.values(), key=lambda forward: self.tree.order(forward.region.node))

    @functools.cached_property
    def _may_scale(self) -> bool:
        """Whether the file mentions anything that scales, or owns the step."""
        bindings = (b.qualified for b in self.names.every_binding(linked=True) if b.qualified)
        roots = {name.lstrip(".").partition(".")[0] for name in bindings}
        if roots & OWNING_THE_STEP or _SCALED.search(self.tree.text):
            return True
        calls = self.tree.nodes(cst.Call)
        scales = self.steps.recognizer.is_scale
        return any(scales(c) or self.names.is_any(c.func, _DEFAULT_DTYPE) for c in calls)

    # --- plain training steps -----------------------------------------------------------------

    def _plain_steps(self) -> Iterator[tuple[cst.Call, cst.CSTNode]]:
        """Backward calls that a step follows, both without a scaler, and that step."""
        for root in self.steps.roots:
            for cycle in root.cycles:
                backward: Event | None = None
                for event in cycle:
                    if event.kind is Kind.BACKWARD:
                        backward = event if event.scaler is None else None
                    elif event.kind is Kind.STEP and event.scaler is None and backward is not None:
                        assert isinstance(backward.node, cst.Call)
                        yield backward.node, event.node

    # --- where the loss comes from ------------------------------------------------------------

    def _regions_of(self, backward: cst.Call) -> Iterator[Region]:
        meaning = self.steps.recognizer.meaning(backward)
        loss = self.steps.recognizer.loss(backward)
        if loss is not None and meaning is not None and meaning.owner not in OWNERS:
            yield from self._trace([loss], _MAX_CALLS)

    def _trace(self, todo: list[cst.BaseExpression], depth: int) -> Iterator[Region]:
        """The float16 regions in which a value, or what it is made from, is computed."""
        seen: set[int] = set()
        while todo and len(seen) < _MAX_NODES:
            expression = todo.pop()
            if id(expression) in seen or is_untracked(self.tree, self.names, expression):
                continue
            seen.add(id(expression))
            region = self._region(expression)
            if region is not None:
                yield region
            for part in _with_gradient(expression):
                if isinstance(part, cst.Name):
                    todo += self._assigned(part)
                elif isinstance(part, cst.Call) and depth > 0:
                    yield from self._trace(self._returned(part), depth - 1)

    def _assigned(self, name: cst.Name) -> Iterator[cst.BaseExpression]:
        """The values that a local name may have here."""
        holder = self.tree.parent(name)
        if isinstance(holder, cst.Call) and holder.func is name:
            return
        for binding in self.flow.reaching(name):
            value = getattr(binding.node, "value", None)
            kinds = (cst.Assign, cst.AnnAssign, cst.AugAssign)
            if isinstance(binding.node, kinds) and isinstance(value, cst.BaseExpression):
                yield value

    def _returned(self, call: cst.Call) -> list[cst.BaseExpression]:
        """What a function of this file returns."""
        function = self.steps.program.target(call)
        if function is None:
            return []
        return [*returned(function)]

    # --- which regions are float16 ------------------------------------------------------------

    def _region(self, expression: cst.BaseExpression) -> Region | None:
        """The float16 region around an expression that calls something there."""
        if not any(isinstance(part, cst.Call) for part in _with_gradient(expression)):
            return None
        around = self.regions.around(expression)
        decisive = around[:1] if around and around[0].dtype is not None else around
        return around[0] if around and all(map(self._is_float16, decisive)) else None

    def _is_float16(self, region: Region) -> bool:
        """Whether a region, when it is on, casts to float16 wherever there is a GPU."""
        if region.never_enabled or region.starred or not region.function:
            return False
        if region.dtype is not None:
            values = list(self.values.alternatives(region.dtype))
            return all(self.names.is_only(value, _FLOAT16) for value in values)
        if region.function in DEVICE_AUTOCAST:
            return DEVICE_AUTOCAST[region.function] == "cuda"
        device = literal(region.device)
        if isinstance(device, str):
            return device.partition(":")[0] == "cuda" and not self._inherits(region)
        return region.device is not None and not self._inherits(region)

    def _inherits(self, region: Region) -> bool:
        """Whether the dtype may come from a region around this one."""
        if not isinstance(region.node, cst.Call):
            return True
        return "dtype" in inherited(self.regions, self.names, region.node, "cuda", "float16")


def _with_gradient(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """The parts of an expression through which a gradient may flow."""
    todo = [node]
    while todo:
        part = todo.pop()
        func = part.func if isinstance(part, cst.Call) else None
        if not isinstance(func, cst.Attribute) or func.attr.value not in _DETACHING:
            yield part
            todo += children(part)
