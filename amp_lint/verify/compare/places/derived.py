"""Values that a gradient is asked for, or that keep theirs, and what is computed of them."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from amp_lint.flow.values import arguments
from amp_lint.verify.compare.side import Side
from amp_lint.verify.compare.units import Unit, common

_GRAD = frozenset({"torch.autograd.grad"})
_INPUTS = "inputs"
_KEEPING = ("retain_grad", "register_hook")


def reasons(before: Side, after: Side) -> Iterator[str]:
    """Values that less is computed of than before, while the gradient by them is asked for."""
    for name in common(before.units, after.units):
        old, new = before.units[name], after.units[name]
        for each in sorted({*_asked(after, new)} if isinstance(new, cst.FunctionDef) else ()):
            if _reads(before, old, each) > _reads(after, new, each):
                yield f"line {after.line(new)}: the gradient by `{each}` is another one"


def _asked(side: Side, unit: Unit) -> Iterator[str]:
    """The names of what a function asks the gradient for."""
    for call in side.model.tree.below(unit, cst.Call):
        value: cst.BaseExpression | None = None
        if side.model.names.is_any(call.func, _GRAD):
            value = arguments(call).get(1, _INPUTS)
        elif isinstance(call.func, cst.Attribute) and call.func.attr.value in _KEEPING:
            value = call.func.value
        parts = value.elements if isinstance(value, (cst.List, cst.Tuple)) else ()
        for each in (value, *(part.value for part in parts)):
            if isinstance(each, cst.Name):
                yield each.value


def _reads(side: Side, unit: Unit, name: str) -> int:
    return sum(each.value == name for each in side.model.tree.below(unit, cst.Name))
