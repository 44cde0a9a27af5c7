"""What unscales in each round of an accumulation, of which only the last one steps."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from amp_lint.flow.branches import deciding
from amp_lint.flow.conditions import text
from amp_lint.model import Model
from amp_lint.vocabulary.frameworks import SYNC_GRADIENTS
from amp_lint.vocabulary.meaning import Role


def unsynced(model: Model) -> Iterator[tuple[cst.Call, str, cst.With]]:
    """Calls that unscale in every round, each with the framework's object and the round."""
    for call in model.tree.nodes(cst.Call):
        meaning = model.steps.recognizer.meaning(call)
        if meaning is None or not meaning.every or not isinstance(call.func, cst.Attribute):
            continue
        around = next(model.roles.frameworks.rounds(call), None)
        if around is None or not _is_in_each(model, call, around):
            continue
        if _accumulates_in_fp16(model, call.func.value):
            yield call, text(call.func.value), around


def _is_in_each(model: Model, call: cst.Call, around: cst.With) -> bool:
    """Whether no test says which rounds a call is run in."""
    tests = (test for test, _ in deciding(model.tree, call) if model.tree.contains(around, test))
    synced = any(SYNC_GRADIENTS in text(test) for test in tests)
    return not synced and not model.mistakes.rounds.picks(call)


def _accumulates_in_fp16(model: Model, owner: cst.BaseExpression) -> bool:
    frameworks, role = model.roles.frameworks, Role.ACCELERATOR
    return frameworks.may_scale(role, owner) and frameworks.accumulates(owner, role)
