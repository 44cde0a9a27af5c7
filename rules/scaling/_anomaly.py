"""Where anomaly mode is on for a loss that a scaler scales, and raises at NaN."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from amp_lint.amp.events import Event
from amp_lint.flow.branches import deciding
from amp_lint.flow.values import arguments, literal
from amp_lint.model import Model

RAISES = (
    "anomaly mode ends the run at the first NaN that an overflow makes in backward, where a scaler "
    "would skip the step"
)
LOOK = "turn it on to look for a NaN alone: without a scaler, or with `check_nan=False`"
_SETS = frozenset({"torch.autograd.set_detect_anomaly"})
_ENTERS = frozenset({"torch.autograd.detect_anomaly"})
_MODE, _CHECK = (0, "mode"), "check_nan"
_MAIN = "__name__"


def anomalies(model: Model) -> Iterator[tuple[cst.CSTNode, Event]]:
    """Each call that turns it on, under no test, with the scaled backward that it is on for."""
    scaled = [e for e in model.steps.backwards if e.scaler is not None and e.enabled is not False]
    for call in model.tree.nodes(cst.Call) if scaled else ():
        given = arguments(call)
        check = given.get(1, _CHECK)
        if check is not None and literal(check) is not True:
            continue
        mode = given.get(*_MODE)
        sets = mode is not None and literal(mode) is True and model.names.is_only(call.func, _SETS)
        backward = scaled[0] if sets else _within(model, call, scaled)
        if backward is not None and not any(map(_asks, deciding(model.tree, call))):
            yield call, backward


def _within(model: Model, call: cst.Call, scaled: list[Event]) -> Event | None:
    """The backward in a block that a call is entered for."""
    item = model.tree.parent(call)
    block = model.tree.parent(item) if isinstance(item, cst.WithItem) else None
    if block is None or not model.names.is_only(call.func, _ENTERS):
        return None
    return next((each for each in scaled if model.linked.contains(block, each.node)), None)


def _asks(test: tuple[cst.BaseExpression, bool]) -> bool:
    """Whether a test is about more than that the file is the program."""
    match test[0]:
        case cst.Comparison(left=cst.Name(value=name)):
            return name != _MAIN
    return True
