"""Operations without a second derivative, which come where a gradient is differentiated again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import libcst as cst

from amp_lint.flow.values import literal
from amp_lint.verify.compare.regions import shown
from amp_lint.verify.compare.side import Side
from amp_lint.vocabulary.meaning import Part
from amp_lint.vocabulary.operations import ONCE_DIFFERENTIABLE
from amp_lint.vocabulary.training import AUTOGRAD_GRAD

_GRAPH = AUTOGRAD_GRAD.keyword(Part.GRAPH)
_HIGHER = frozenset(
    {"torch.func.hessian", "torch.autograd.functional.hessian", "torch.autograd.functional.hvp"}
)


def reasons(before: Side, after: Side) -> Iterator[str]:
    """Operations that the old text does not call, or less often, in a file that differentiates."""
    if not _differentiates_twice(after):
        return
    known = Counter(name for name, _ in _calls(before))
    for name, call in _calls(after):
        if known[name]:
            known[name] -= 1
        else:
            text = f"`{shown(after, call)}` has no second derivative"
            yield f"line {after.line(call)}: {text}"


def _differentiates_twice(side: Side) -> bool:
    asked = (arg for arg in side.model.tree.nodes(cst.Arg) if arg.keyword is not None)
    if any(a.keyword.value == _GRAPH and literal(a.value) is not False for a in asked if a.keyword):
        return True
    return any(side.model.names.is_any(c.func, _HIGHER) for c in side.model.tree.nodes(cst.Call))


def _calls(side: Side) -> Iterator[tuple[str, cst.Call]]:
    for call in side.model.tree.nodes(cst.Call):
        for name in side.model.names.qualified(call.func) & ONCE_DIFFERENTIABLE:
            yield name, call
