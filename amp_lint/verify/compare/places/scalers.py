"""What scales a loss: the scaler that also steps, whatever else has such a method."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from amp_lint.verify.compare.side import Side
from amp_lint.vocabulary.meaning import Kind

_BY_SCALER = (Kind.STEP, Kind.UPDATE, Kind.UNSCALE)


def reasons(before: Side, after: Side) -> Iterator[str]:
    """Losses that something scales which is not known to be a scaler."""
    known = {after.model.tree.source(owner) for owner in _stepping(after)}
    known |= {before.model.tree.source(owner) for owner in _scaling(before)}
    for owner in _scaling(after):
        code = after.model.tree.source(owner)
        if code not in known and not after.model.roles.scaler_origins(owner):
            yield f"line {after.line(owner)}: whether `{code}` is a scaler is not known"


def _scaling(side: Side) -> Iterator[cst.BaseExpression]:
    """What scales, at each place."""
    for call in side.model.tree.nodes(cst.Call):
        if isinstance(call.func, cst.Attribute) and side.model.steps.recognizer.is_scale(call):
            yield call.func.value


def _stepping(side: Side) -> Iterator[cst.BaseExpression]:
    """What steps optimizers, unscales gradients or is updated, at each place."""
    for call in side.model.tree.nodes(cst.Call):
        if not isinstance(call.func, cst.Attribute):
            continue
        done = side.model.steps.recognizer.kind(call) in _BY_SCALER
        if done and side.model.roles.is_scaler(call.func.value):
            yield call.func.value
