"""Casts of tensors whose result nothing takes."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from amp_lint.model import Model
from amp_lint.syntax.tree import descendants
from amp_lint.text.diagnostic import quoted
from amp_lint.vocabulary.amp import LOAD_STATE_DICT, STATE_DICT
from amp_lint.vocabulary.modules import CASTING, KEEPING, MODES, PARTS
from amp_lint.vocabulary.operations import CASTS, DTYPES, SIZE_METHODS, SIZES, VIEWS

_TO = frozenset({"to", "type"})
_OF_TENSORS = (VIEWS | SIZES | SIZE_METHODS) - KEEPING - CASTS.keys()
"""What tensors are asked for, and no module is."""
_STATES = STATE_DICT.words | LOAD_STATE_DICT.words
_OF_MODULES = MODES | PARTS | (KEEPING - CASTING - _TO) | _STATES
_MESSAGE = "this casts nothing: {} is a new tensor, which nothing takes"
_HELP = "assign it: {}"


def dropped(model: Model) -> Iterator[tuple[cst.Call, str, str]]:
    """``x.float()`` as a statement, where ``x`` is a tensor: modules are cast in place.

    With what happens, and what to do.
    """
    for statement in model.tree.nodes(cst.Expr):
        match statement.value:
            case cst.Call(func=cst.Attribute(value=cst.Name() as name, attr=method)) as call:
                if _casts(model, call, method.value) and _is_tensor(model, name):
                    written = model.tree.source(call)
                    assigned = quoted(f"{name.value} = {written}")
                    yield call, _MESSAGE.format(quoted(written)), _HELP.format(assigned)


def _casts(model: Model, call: cst.Call, method: str) -> bool:
    if method in _TO:
        dtypes = [arg.value for arg in call.args]
        return len(dtypes) == 1 and all(_is_dtype(model, each) for each in dtypes)
    return method in CASTS and not call.args


def _is_dtype(model: Model, node: cst.BaseExpression) -> bool:
    """``torch.float16``, or the dtype of another tensor."""
    of_tensor = isinstance(node, cst.Attribute) and node.attr.value == "dtype"
    values = [*model.values.alternatives(node)]
    return of_tensor or all(
        (isinstance(value, cst.Attribute) and value.attr.value == "dtype")
        or bool(model.names.qualified(value) & DTYPES.keys())
        for value in values
    )


def _is_tensor(model: Model, name: cst.Name) -> bool:
    """Whether a variable is a tensor by what else is done with it in its function, or is given."""
    function = model.program.function_of(name)
    if function is None:
        return False
    used: set[str] = set()
    for part in descendants(function.body):
        match part:
            case cst.Attribute(value=cst.Name(value=owner), attr=cst.Name(value=attribute)):
                used |= {attribute} if owner == name.value else set()
            case cst.Call(func=cst.Name(value=called)) if called == name.value:
                return False
    if not used.isdisjoint(_OF_MODULES):
        return False
    known = not used.isdisjoint(_OF_TENSORS) or _is_input(model, name, function)
    return known or _is_made_in_a_region(model, name)


def _is_input(model: Model, name: cst.Name, function: cst.FunctionDef) -> bool:
    """Whether a name is what a module's ``forward`` is given, and nothing else."""
    bindings = model.names.bindings(name)
    of_module = model.program.is_method(function) and function.name.value == "forward"
    return of_module and [each.kind for each in bindings] == ["parameter"] and name.value != "self"


def _is_made_in_a_region(model: Model, name: cst.Name) -> bool:
    """Whether a call in an autocast region gave it, where models compute and none is made."""
    reaching = model.flow.reaching(name)
    return bool(reaching) and all(
        each.kind == "assign"
        and isinstance(each.value, cst.Call)
        and bool(model.regions.around(each.value))
        for each in reaching
    )
