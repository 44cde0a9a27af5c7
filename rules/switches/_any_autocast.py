"""Casts to float16 wherever autocast is on, whatever that casts to."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from amp_lint.flow.branches import arms
from amp_lint.flow.values import arguments, literal
from amp_lint.model import Model
from amp_lint.syntax.tree import descendants
from amp_lint.vocabulary.operations import CASTS, DTYPES, FLOAT16

_IS_ON = frozenset({"torch.is_autocast_enabled"})
_GIVES_DTYPE = frozenset({"torch.get_autocast_dtype", "torch.get_autocast_gpu_dtype"})
_TO = frozenset({"to", "type"})
_HALF = frozenset(method for method, dtype in CASTS.items() if dtype == "float16")
_DTYPE = "dtype"


def casts(model: Model) -> Iterator[tuple[cst.Call, cst.Call]]:
    """Each such cast of a file that never asks for autocast's dtype, with the test of autocast."""
    calls = model.tree.nodes(cst.Call)
    if any(model.names.is_any(call.func, _GIVES_DTYPE) for call in calls):
        return
    tests = [call for call in calls if _is_on(model, call)]
    for call in calls if tests else ():
        if not _is_to_float16(model, call):
            continue
        around = [test for test, holds in arms(model.tree, call) if holds]
        found = [each for each in tests if any(_needs(model, test, each) for test in around)]
        if found and not any(_asks_dtype(model, test) for test in around):
            yield call, found[0]


def _is_on(model: Model, call: cst.Call) -> bool:
    given = [literal(arg.value) for arg in call.args]
    return model.names.is_only(call.func, _IS_ON) and given in ([], ["cuda"])


def _needs(model: Model, test: cst.BaseExpression, part: cst.Call) -> bool:
    """Whether a test only holds where a part of it does."""
    while isinstance(test, cst.BooleanOperation) and isinstance(test.operator, cst.And):
        test = test.left if model.tree.contains(test.left, part) else test.right
    return test is part


def _is_to_float16(model: Model, call: cst.Call) -> bool:
    if not isinstance(call.func, cst.Attribute) or model.names.qualified(call.func):
        return False
    if call.func.attr.value in _HALF:
        return not call.args
    given = arguments(call).get(0, _DTYPE) if call.func.attr.value in _TO else None
    return given is not None and model.names.is_only(given, FLOAT16)


def _asks_dtype(model: Model, test: cst.BaseExpression) -> bool:
    """Whether a test says something of a dtype besides: of torch's, or of a tensor's."""
    parts = [part for part in descendants(test) if isinstance(part, (cst.Name, cst.Attribute))]
    asked = (p.attr.value == _DTYPE for p in parts if isinstance(p, cst.Attribute))
    return any(asked) or any(not model.names.qualified(p).isdisjoint(DTYPES) for p in parts)
