"""Functions whose backward runs again what forward ran: without the region that was on there."""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING

import libcst as cst

from amp_lint.syntax.assignments import assigned
from amp_lint.syntax.names import dotted
from amp_lint.syntax.tree import descendants

from ._elsewhere import shown_place
from ._functions import Function, applied

if TYPE_CHECKING:
    from amp_lint.model import Model

_TRACKING = frozenset({"torch.enable_grad", "torch.set_grad_enabled"})
_MESSAGE = (
    "autocast is off in backward: this is computed again in float32, or raises where the input "
    "is float16"
)
HELP = "use `torch.utils.checkpoint.checkpoint`, or enter autocast here as well"
Found = tuple[cst.Call, str, list[tuple[cst.CSTNode, str]]]


def found(model: Model, owner: cst.ClassDef, function: Function) -> Found | None:
    """What runs again without its region, what to say of it, and where the region is."""
    again = _recomputed(model, function)
    calls = [*applied(model, owner)] if again is not None else []
    chain = next((c for call in calls for c in model.reach.running(call)), None)
    if again is not None and chain is not None:
        return again, _MESSAGE, [(chain.entered[0].region.node, "autocast is on here")]
    if again is not None and calls and (trainer := model.trainer) is not None:
        return again, f"{_MESSAGE}; {shown_place(trainer)} may run it so", []
    return None


def _recomputed(model: Model, function: Function) -> cst.Call | None:
    """Where backward runs again, with gradients, what forward was given and ran."""
    first, second = function.forward, function.backward
    kept = {*_kept(model, function)}
    if not _runs(model, first, {*function.given, *_of_context(first, kept)}):
        return None
    names = _held(model, second, _of_context(second, kept))
    again = (call for call in _runs(model, second, names) if _tracks(model, call))
    return next(again, None) or next(_backwards(model, second, names), None)


def _kept(model: Model, function: Function) -> Iterator[str]:
    """The attributes of the context in which forward keeps what it is given."""
    context = function.forward.params.params[0].name.value
    for assign in model.tree.below(function.forward, cst.Assign):
        for target, value in assigned(assign):
            owner, _, name = (dotted(target) or "").partition(".")
            if owner == context and name and value and dotted(value) in function.given:
                yield name


def _of_context(method: cst.FunctionDef, attributes: AbstractSet[str]) -> set[str]:
    return {f"{method.params.params[0].name.value}.{name}" for name in attributes}


def _held(model: Model, function: cst.FunctionDef, names: AbstractSet[str]) -> set[str]:
    """Some names, and those of variables that hold the same, or a part of it."""
    found = {*names}
    for assign in model.tree.below(function, cst.Assign):
        if dotted(assign.value) in names:
            found.update(filter(None, (dotted(target.target) for target in assign.targets)))
    for loop in model.tree.below(function, cst.For):
        parts = (loop.iter, *descendants(loop.iter))
        if any(isinstance(p, (cst.Name, cst.Attribute)) and dotted(p) in found for p in parts):
            targets = (loop.target, *descendants(loop.target))
            found.update(each.value for each in targets if isinstance(each, cst.Name))
    return found


def _runs(model: Model, function: cst.FunctionDef, names: AbstractSet[str]) -> list[cst.Call]:
    """The calls of what has one of some names, or of a part of it."""
    every = _held(model, function, names)
    return [call for call in model.tree.below(function, cst.Call) if dotted(call.func) in every]


def _backwards(
    model: Model, function: cst.FunctionDef, names: AbstractSet[str]
) -> Iterator[cst.Call]:
    """The calls of a method of a part that runs it with gradients, as reversible blocks have."""
    for call in model.tree.below(function, cst.Call):
        match call.func:
            case cst.Attribute(value=cst.Name(value=owner), attr=cst.Name(value=name)):
                named = [f for f in model.tree.nodes(cst.FunctionDef) if f.name.value == name]
                inner = (c for each in named for c in model.tree.below(each, cst.Call))
                if owner in names and any(_tracks(model, each) for each in inner):
                    yield call


def _tracks(model: Model, call: cst.Call) -> bool:
    """Whether a call stands where gradients are switched on again."""
    around = (each for each in model.tree.ancestors(call) if isinstance(each, cst.With))
    items = (item.item for each in around for item in each.items)
    return any(isinstance(i, cst.Call) and model.names.is_any(i.func, _TRACKING) for i in items)
