"""Gradients of which gradients are taken, as gradient penalties are."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from amp_lint._lazy import cst
from amp_lint.text.diagnostic import Applicability, Edit, Fix
from amp_lint.vocabulary.amp import GET_SCALE, SCALE
from amp_lint.vocabulary.expressions import CASTS, SELECTS
from amp_lint.vocabulary.meaning import Part
from amp_lint.vocabulary.operations import FILLED, ONES
from amp_lint.vocabulary.training import AUTOGRAD_GRAD

if TYPE_CHECKING:
    from amp_lint.amp.dtypes import Ambient
    from amp_lint.model import Model

_SAME = SELECTS | CASTS | {"sum", "mean", "neg", "add", "sub"}
"""What does not make gradients larger."""
Forward = tuple["cst.CSTNode", "Ambient"]


def in_float16(model: Model, call: cst.Call) -> Forward | None:
    """What autocast may have computed in float16 that gradients are taken of, and its state.

    None where it is not known, where it is scaled, and where no gradient is taken of them again.
    """
    outputs, incoming, graph = (
        model.values.argument(call, *AUTOGRAD_GRAD.place(part))
        for part in (Part.LOSS, Part.INCOMING, Part.GRAPH)
    )
    if outputs is None or graph is None or model.values.constants(graph) != [True]:
        return None
    sources = [*model.sources.of(outputs, _SAME)]
    if not _is_one(model, incoming) or any(_is_scaled(model, each) for each in sources):
        return None
    return next((found for each in sources for found in _forwards(model, each)), None)


def _is_one(model: Model, incoming: cst.BaseExpression | None) -> bool:
    """Whether the gradient that comes in is 1, as it is if none is given."""
    from amp_lint.amp.sources import last_name

    if incoming is None or model.values.constants(incoming) == [None]:
        return True
    return any(
        last_name(each) in ONES or _is_filled_by_one(each)
        for each in model.sources.of(incoming, _SAME)
    )


def _is_filled_by_one(node: cst.CSTNode) -> bool:
    """``torch.full_like(outputs, 1.0)``."""
    from amp_lint.amp.sources import last_name
    from amp_lint.flow.values import arguments, literal

    place = FILLED.get(last_name(node))
    if not isinstance(node, cst.Call) or place is None:
        return False
    return literal(arguments(node).get(place, "fill_value")) == 1


def _is_scaled(model: Model, node: cst.CSTNode) -> bool:
    if isinstance(node, cst.AugAssign):
        return not isinstance(node.operator, (cst.AddAssign, cst.SubtractAssign))
    made = model.operations.of(node)
    by_scaler = isinstance(node, cst.Call) and model.steps.recognizer.is_scale(node)
    return by_scaler or (made is not None and made.name == "mul")


def _forwards(model: Model, node: cst.CSTNode) -> Iterator[Forward]:
    """The node itself in each float16 region that it runs in."""
    for run in model.dtypes.reaching(node):
        state = run.state(node)
        if state is not None and "float16" in state.dtypes and model.dtypes.lowers(node, run):
            yield node, state


def fix(model: Model, call: cst.Call) -> Fix | None:
    """A scale before and its inverse after, by the scaler that scales something beside it."""
    tree, first = model.tree, model.tree.parent(call)
    outputs = model.values.argument(call, *AUTOGRAD_GRAD.place(Part.LOSS))
    function = tree.ancestor(call, cst.FunctionDef)
    if function is None or outputs is None or not isinstance(first, cst.Subscript):
        return None
    scales = filter(model.steps.recognizer.is_scale, tree.below(function, cst.Call))
    scalers = {tree.source(scale.func).rpartition(".")[0] for scale in scales}
    is_value = isinstance(tree.parent(first), (cst.Assign, cst.Return))
    if len(scalers) != 1 or not is_value or isinstance(outputs, (cst.List, cst.Tuple)):
        return None
    (scaler,), (start, end) = scalers, tree.outer_span(outputs)
    after = tree.outer_span(first)[1]
    edits = (
        Edit(start, start, f"{scaler}.{SCALE.word}("),
        Edit(end, end, ")"),
        Edit(after, after, f" / {scaler}.{GET_SCALE.word}()"),
    )
    return Fix("Scale what the gradient is taken of", edits, Applicability.SUGGEST)
