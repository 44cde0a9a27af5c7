"""What TorchScript compiles, and what it cannot compile: a file with that cannot be imported."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from amp_lint.verify.compare.side import Side
from amp_lint.verify.compare.units import name_of
from amp_lint.verify.terms import Form, Global, Op, Term, show, walk

_SCRIPTING = frozenset(
    {
        "torch.jit.export", "torch.jit.script", "torch.jit.script_if_tracing",
        "torch.jit.script_method",
    }
)  # fmt: skip
"""What compiles a function, or what it is given."""
_UNKNOWN = frozenset(
    {
        "finfo", "gaussian_nll_loss", "iinfo", "interpolate", "is_floating_point", "itemsize",
        "lstsq", "max_pool1d", "max_pool2d", "norm", "solve", "tensordot",
    }
)  # fmt: skip
"""Of what the verifier runs, and of dtypes: what is not compiled, or not however it is called."""
_WITHOUT_VALUE = "Tensor"
"""At the end of a type, such as ``torch.FloatTensor``."""


def scripted(side: Side) -> frozenset[str]:
    """The names of the units that TorchScript compiles: those it is given, and what they run."""
    roots = {*_roots(side)}
    todo = [node for node in side.model.tree.nodes(cst.FunctionDef) if id(node) in roots]
    found: dict[int, cst.FunctionDef] = {}
    while todo:
        each = todo.pop()
        if id(each) not in found:
            found[id(each)] = each
            calls = side.model.tree.below(each, cst.Call)
            targets = map(side.model.program.target, calls)
            todo += [target for target in targets if target is not None]
    return frozenset(name_of(side.model, function.body) for function in found.values())


def _roots(side: Side) -> Iterator[int]:
    """The ids of the functions that are compiled by themselves; all if an object is compiled."""
    model = side.model
    functions = model.tree.nodes(cst.FunctionDef)
    for function in functions:
        owner = model.values.enclosing_class(function)
        decorators = [*function.decorators, *(owner.decorators if owner is not None else ())]
        if any(model.names.is_any(each.decorator, _SCRIPTING) for each in decorators):
            yield id(function)
    for call in model.tree.nodes(cst.Call):
        if model.names.is_any(call.func, _SCRIPTING) and call.args:
            given = model.names.definition(call.args[0].value)
            known = [given] if isinstance(given, cst.FunctionDef) else functions
            yield from map(id, known)


def uncompiled(old: Term, new: Term) -> str:
    """The first part of a new expression that TorchScript may not compile; "" if there is none."""
    known = {_word(part) for part in walk(old)}
    parts = (part for part in walk(new) if _word(part) not in known)
    return next((show(part) for part in parts if _is_uncompiled(part)), "")


def _word(part: Term) -> str:
    """What is called or asked for."""
    if isinstance(part, Global):
        return part.name
    return part.last if isinstance(part, Op) else ""


def _is_uncompiled(part: Term) -> bool:
    if isinstance(part, Global):
        return part.name.endswith(_WITHOUT_VALUE)
    if not isinstance(part, Op):
        return False
    return part.form in (Form.MODULE, Form.OTHER) or part.last in _UNKNOWN
