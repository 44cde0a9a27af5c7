"""Values that a gradient is asked for, or that keep theirs, and what is computed of them."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from amp_lint.syntax.tree import descendants
from amp_lint.verify.compare.side import Side
from amp_lint.verify.compare.units import Unit, common

_GRAD = frozenset({"torch.autograd.grad"})
_KEEPING = ("retain_grad", "register_hook")


def reasons(before: Side, after: Side) -> Iterator[str]:
    """Values that less is computed of than before, while the gradient by them is asked for."""
    for name in common(before.units, after.units):
        old, new = before.units[name], after.units[name]
        for each in sorted({*_asked(after, new)}):
            if _reads(before, old, each) > _reads(after, new, each):
                yield f"line {after.line(new)}: the gradient by `{each}` is another one"


def _asked(side: Side, unit: Unit) -> Iterator[str]:
    """The names of what a function asks the gradient for."""
    for call in side.model.tree.below(unit, cst.Call):
        values = [arg.value for arg in call.args[1:]]
        if not side.model.names.is_any(call.func, _GRAD):
            func = call.func
            keeps = isinstance(func, cst.Attribute) and func.attr.value in _KEEPING
            values = [func.value] if keeps and isinstance(func, cst.Attribute) else []
        for value in values:
            yield from (p.value for p in (value, *descendants(value)) if isinstance(p, cst.Name))


def _reads(side: Side, unit: Unit, name: str) -> int:
    return sum(each.value == name for each in side.model.tree.below(unit, cst.Name))
