"""Where gradients are taken of what is computed, as far as one file tells."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from amp_lint._lazy import cst
from amp_lint.vocabulary.meaning import Part
from amp_lint.vocabulary.training import AUTOGRAD_GRAD

from ._fuse import last_name

if TYPE_CHECKING:
    from amp_lint.model import Model

_MODULE = "Module"
_LOSS = re.compile(r"(?<![a-z])(?:loss|penalty)(?![a-z])", re.IGNORECASE)
"""In the name of a function of whose result gradients are taken."""


def is_differentiated(model: Model, node: cst.CSTNode) -> bool:
    """Whether a place is in a module, in a loss, or takes gradients of gradients."""
    functions = [f for f in model.tree.ancestors(node) if isinstance(f, cst.FunctionDef)]
    return (
        _is_of_a_module(model, node)
        or any(_LOSS.search(function.name.value) for function in functions)
        or any(
            _keeps_graph(model, call) for f in functions for call in model.tree.below(f, cst.Call)
        )
    )


def is_never_differentiated(model: Model, node: cst.BaseExpression) -> bool:
    """Whether no gradient goes through a value, as far as the file tells.

    As under ``no_grad``, in the costs of matchers, in tests, and in what is read as a number.
    """
    from amp_lint.amp import gradient_values as values

    program = model.program
    return (
        values.is_never_tracked(program, node)
        or values.is_matching_cost(program, node)
        or values.is_in_test(program, node)
        or values.is_cut_off(program, node)
        or values.is_read_out(program, model.operations, node)
    )


def _keeps_graph(model: Model, call: cst.Call) -> bool:
    """Whether a call takes gradients of which others are taken."""
    graph = model.values.argument(call, *AUTOGRAD_GRAD.place(Part.GRAPH))
    known = graph is not None and model.values.constants(graph) == [True]
    return known and model.names.is_any(call.func, AUTOGRAD_GRAD.names)


def _is_of_a_module(model: Model, node: cst.CSTNode) -> bool:
    """Whether a place is in a class that is a module, or in a function that such a class calls."""
    function = model.tree.ancestor(node, cst.FunctionDef)
    own = model.tree.ancestor(node, cst.ClassDef)
    if own is not None:
        return _is_module(model, own)
    return function is not None and any(
        _is_module(model, owner)
        for call in model.tree.nodes(cst.Call)
        if model.values.function(call.func) is function
        and (owner := model.tree.ancestor(call, cst.ClassDef)) is not None
    )


def _is_module(model: Model, owner: cst.ClassDef) -> bool:
    bases = [base.value for each in model.values.lineage(owner) for base in each.bases]
    return any(
        (name := last_name(base)) is not None and name.value.endswith(_MODULE) for base in bases
    )
