"""What shows that the gradients of a file's models are float16."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator

import libcst as cst

from amp_lint.amp.modules import HALF, HALF_TEXT, Modules
from amp_lint.amp.regions import Region, Regions
from amp_lint.amp.roles import Roles
from amp_lint.flow.values import Values, literal
from amp_lint.syntax.names import Names, dotted
from amp_lint.syntax.tree import Tree
from amp_lint.vocabulary.amp import DEVICE_AUTOCAST
from amp_lint.vocabulary.meaning import Kind
from amp_lint.vocabulary.operations import FLOAT16
from amp_lint.vocabulary.table import words

_WORDS = sorted({name.rpartition(".")[2] for name in HALF})
_BACKWARD = words(Kind.BACKWARD)
_CASTS = frozenset({"to", "type"})
_WIDE = frozenset({"torch.float", "torch.float32"})
_DTYPE_NAME = re.compile(r"dtype|precision|half", re.IGNORECASE)


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
        if self.never_half:
            return None  # the scaler, if there is one, is for bf16 or float32
        scalers = self.roles.scaler_calls
        on = [scaler for scaler in scalers if not self.roles.is_never_on(scaler)]
        return on[0] if on else None

    @functools.cached_property
    def never_half(self) -> bool:
        """Whether regions are in sight, and none of them can be float16."""
        known = [region for region in self.regions.all if not region.never_enabled]
        return bool(known) and not any(map(self._may_be_half, known))

    @functools.cached_property
    def left_over(self) -> list[cst.CSTNode]:
        """What modules would no longer match that are float16 now, such as a cast of an input.

        It is all else that says float16, and casts to a dtype that nobody knows, in what this file
        imports as well; nothing where a region is on in any case, which casts its inputs.
        """
        if any(map(self._is_on, self.regions.all)):
            return []
        gone = [half.cast for half in self.modules.half_trainings]
        regions = [region.node for region in self.regions.all]
        return [
            node
            for node in (*self._mentions(), *self._unknown_casts())
            if not any(self._is_part(node, cast) for cast in gone)
            and not any(self.tree.linked.contains(region, node) for region in regions)
        ]

    @functools.cached_property
    def trains_here(self) -> bool:
        """Whether something goes backward in sight: else other files may cast what modules get."""
        calls = self.tree.linked.nodes(cst.Call)
        called = (call.func.attr.value for call in calls if isinstance(call.func, cst.Attribute))
        return not _BACKWARD.isdisjoint(called)

    def _is_on(self, region: Region) -> bool:
        """Whether a region casts to a dtype of less precision, whatever is set."""
        dtypes = [*self.values.alternatives(region.dtype)] if region.dtype is not None else []
        wide = any(self.names.is_any(dtype, _WIDE) for dtype in dtypes)
        if region.conditional or region.starred or wide:
            return False
        switch = region.enabled
        return switch is None or all(on is True for on in self.values.constants(switch))

    def _unknown_casts(self) -> Iterator[cst.CSTNode]:
        """What names the dtype of a cast, and is neither one of torch's nor that of a tensor."""
        for call in self.tree.linked.nodes(cst.Call):
            if isinstance(call.func, cst.Attribute) and call.func.attr.value in _CASTS:
                dtypes = [arg.value for arg in call.args if _may_be_dtype(arg)]
                for dtype in dtypes:
                    if not all(map(self._is_dtype, self.values.alternatives(dtype))):
                        yield dtype

    def _is_dtype(self, value: cst.BaseExpression) -> bool:
        if isinstance(value, cst.Attribute) and value.attr.value == "dtype":
            return True
        return literal(value) is not ... or any(
            name.startswith("torch.") for name in self.names.qualified(value)
        )

    def _mentions(self) -> Iterator[cst.CSTNode]:
        """Every float16 dtype, by name or as text, and every call of a method ``half``."""
        tree = self.tree.linked
        for name in (name for word in _WORDS for name in tree.named(word)):
            holder = tree.parent(name)
            node = holder if isinstance(holder, cst.Attribute) and holder.attr is name else name
            user = tree.parent(node)
            called = isinstance(user, cst.Call) and user.func is node
            imported = isinstance(user, (cst.ImportAlias, cst.ImportFrom))
            if not imported and (self.names.is_any(node, HALF) or (called and node is holder)):
                yield node
        for text in tree.nodes(cst.SimpleString):
            if literal(text) in HALF_TEXT:
                yield text

    def _is_part(self, node: cst.CSTNode, cast: cst.Call) -> bool:
        """Whether a node goes with a cast: its method or something in its arguments."""
        return node is cast.func or any(self.tree.linked.contains(arg, node) for arg in cast.args)

    def _is_half(self, region: Region) -> bool:
        """Whether some configuration certainly casts to float16."""
        if region.never_enabled or region.starred or not region.function:
            return False
        if region.dtype is None:
            return self._device(region) == "cuda"
        return any(self.names.is_any(v, FLOAT16) for v in self.values.alternatives(region.dtype))

    def _may_be_half(self, region: Region) -> bool:
        if region.dtype is None:
            return self._device(region) != "cpu"
        known = [self.names.qualified(v) for v in self.values.alternatives(region.dtype)]
        return any(not names or not names.isdisjoint(FLOAT16) for names in known)

    def _device(self, region: Region) -> str | None:
        if region.function in DEVICE_AUTOCAST:
            return DEVICE_AUTOCAST[region.function]
        device = literal(region.device)
        return device.split(":")[0] if isinstance(device, str) else None


def _may_be_dtype(arg: cst.Arg) -> bool:
    """Whether an argument of a cast is its dtype, by the keyword or by what it is called."""
    if arg.keyword is not None:
        return arg.keyword.value == "dtype"
    return bool(_DTYPE_NAME.search((dotted(arg.value) or "").rpartition(".")[2]))
