"""Weights that a training loop makes float16 again after each step of their optimizer."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from amp_lint.flow.values import Slot
from amp_lint.model import Model
from amp_lint.vocabulary.meaning import Kind
from amp_lint.vocabulary.table import words

_STEP = words(Kind.STEP)


def rounded(model: Model) -> Iterator[tuple[cst.Call, cst.Call]]:
    """The casts of modules that were float32 for a step of the same round, each with that step."""
    modules = model.modules
    for cast, module in (*modules.given_casts, *modules.in_place_casts):
        loop, slot = model.program.loop(cast), model.values.slot(module)
        if loop is None or slot is None or not model.tree.is_own(cast):
            continue
        calls = model.tree.below(loop.body, cst.Call)
        before = [call for call in calls if _leads(model, call, cast)]
        step = next((call for call in reversed(before) if _is_step(model, call)), None)
        if step is None or model.program.loop(step) is not loop:
            continue
        if any(_widens(model, call, slot) for call in before[: before.index(step)]):
            yield cast, step


def _leads(model: Model, call: cst.Call, cast: cst.Call) -> bool:
    """Whether a call is done before a cast of the same round."""
    order = model.tree.order
    return order(call) < order(cast) and not model.flow.exclusive(call, cast)


def _is_step(model: Model, call: cst.Call) -> bool:
    func = call.func
    is_step = isinstance(func, cst.Attribute) and func.attr.value in _STEP
    return is_step and isinstance(func, cst.Attribute) and model.roles.is_optimizer(func.value)


def _widens(model: Model, call: cst.Call, slot: Slot) -> bool:
    """Whether a call casts what a variable holds back, or is of a function that does."""
    function = model.program.target(call)
    releases = [(node, module) for node, module, widens in model.modules.releases() if widens]
    if function is None:
        return any(node is call and model.values.slot(module) == slot for node, module in releases)
    given = model.program.bind(function, call)
    names = [
        module.value
        for node, module in releases
        if isinstance(module, cst.Name) and model.tree.linked.contains(function, node)
    ]
    return any(name in given and model.values.slot(given[name]) == slot for name in names)
