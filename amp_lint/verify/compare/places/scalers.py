"""What scales a loss: the scaler that also steps, whatever else has such a method.

And scalers that may do something else than torch's, with which steps are replayed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import libcst as cst

from amp_lint.amp.roles import SCALERS
from amp_lint.verify.compare.regions import shown
from amp_lint.verify.compare.side import Side
from amp_lint.verify.obligations import Step
from amp_lint.vocabulary.amp import SCALE
from amp_lint.vocabulary.meaning import Kind
from amp_lint.vocabulary.written import PROTOCOL, STEPS, UPDATES

_BY_SCALER = (Kind.STEP, Kind.UPDATE, Kind.UNSCALE)
_SCALING = PROTOCOL - STEPS - UPDATES
_STEPPING = PROTOCOL - SCALE.words - UPDATES


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


def own_scalers(side: Side, steps: Sequence[Step]) -> Iterator[str]:
    """Classes that a scaler of some steps may be of, and methods of scalers that are replaced."""
    if not any(step.before.scalers or step.after.scalers for step in steps):
        return
    for target in side.model.tree.nodes(cst.AssignTarget):
        if isinstance(target.target, cst.Attribute) and _is_method(side, target.target):
            yield f"line {side.line(target)}: `{shown(side, target)}` is made another function"
    roles = side.model.roles
    used = [*_scaling(side), *_stepping(side)]
    if all(roles.scaler_origins(owner) or roles.given_scalers(owner) for owner in used):
        return
    for owner in side.model.tree.nodes(cst.ClassDef):
        if _is_own_scaler(side, owner):
            name = owner.name.value
            yield f"line {side.line(owner)}: what a scaler of class `{name}` does is not known"


def kept_events(side: Side, steps: Sequence[Step]) -> Iterator[str]:
    """That whoever has a ``lambda`` or a bound method runs events beside those replayed."""
    if side.has_kept_events and any(step.before.scalers or step.after.scalers for step in steps):
        yield "what a scaler does in a lambda, or a method that others run, is not replayed"


def _is_method(side: Side, node: cst.Attribute) -> bool:
    """Whether something is a method of a scaler, or of torch's class of them."""
    is_scaler = side.model.roles.is_scaler(node.value)
    is_class = side.model.names.is_any(node.value, SCALERS)
    return node.attr.value in PROTOCOL and (is_scaler or is_class)


def _is_own_scaler(side: Side, owner: cst.ClassDef) -> bool:
    """Whether a class overrides what torch's scalers do, or does the same by itself."""
    lineage = side.model.values.lineage(owner)
    methods = {
        function.name.value
        for function in side.model.tree.nodes(cst.FunctionDef)
        if side.model.values.enclosing_class(function) in lineage
    }
    bases = [base.value for each in lineage for base in each.bases]
    if any(side.model.names.is_any(base, SCALERS) for base in bases):
        return any(name in PROTOCOL or name.startswith("_") for name in methods)
    return bool(methods & _SCALING) and bool(methods & _STEPPING)
