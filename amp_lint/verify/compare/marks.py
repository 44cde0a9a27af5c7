"""The events of a training step as they are written, and the arguments that no trace holds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import libcst as cst

from amp_lint.amp.events import Kind
from amp_lint.flow.conditions import text
from amp_lint.flow.values import arguments
from amp_lint.model import Model
from amp_lint.verify.terms import Term
from amp_lint.vocabulary.meaning import Part
from amp_lint.vocabulary.table import ROWS

BY_SCALER = (Kind.UNSCALE.value, Kind.UPDATE.value)
IN_ORDER = (*BY_SCALER, Kind.STEP.value, Kind.CLIP.value, Kind.ZERO_GRAD.value)
"""Events that must stand where they do, in the loops in which they do."""
_STRICT = {row.keyword(Part.STRICT) for row in ROWS} - {""}


@dataclass(frozen=True, slots=True, eq=False)
class Mark:
    """Where an event of the training step stands in the text."""

    kind: str
    """That of the event, or ``yield``."""
    about: str
    """The optimizer that it steps, clears or unscales, as it is written."""
    guards: tuple[Term, ...]
    """The tests, loops and contexts around it, outermost first, without those of AMP."""
    regions: tuple[int, ...]
    """The autocast contexts around it, by their number in the function."""
    node: cst.CSTNode


def leftover(model: Model, kind: Kind, node: cst.Call) -> Iterator[tuple[str, cst.BaseExpression]]:
    """The arguments of an event that no trace holds, by keyword, or else by place."""
    meaning = model.steps.recognizer.meaning(node) if kind is Kind.CLIP else None
    names = meaning.order if meaning is not None else ()
    skipped = _is_handed(model, kind, node)
    for place, arg in enumerate(node.args):
        name = names[place] if place < len(names) else f"{arg.star}{place}"
        name = arg.keyword.value if arg.keyword is not None else name
        if not (skipped and place == 0) and not (
            name in _STRICT and is_strict(model, node) is not None
        ):
            yield name, arg.value


def is_strict(model: Model, clip: cst.Call) -> bool | None:
    """Whether a clip raises an error where gradients are not finite; None if it is not known."""
    meaning = model.steps.recognizer.meaning(clip)
    made = arguments(model.steps.recognizer.direct(clip))
    given = made.get(*meaning.place(Part.STRICT)) if meaning is not None else None
    values = [False] if given is None else model.values.constants(given)
    return values[0] if len(values) == 1 and isinstance(values[0], bool) else None


def _is_handed(model: Model, kind: Kind, node: cst.Call) -> bool:
    """Whether the first argument is what the event is about: the optimizer, or the loss."""
    if not isinstance(node.func, cst.Attribute):
        return False
    if kind is Kind.BACKWARD:
        return model.steps.recognizer.loss(node) is not node.func.value
    meaning = model.steps.recognizer.meaning(node)
    return meaning is not None and bool(node.args) and meaning.place(Part.OPTIMIZER)[0] == 0


def about(model: Model, kind: Kind, node: cst.Call) -> str:
    """The optimizer that an event steps, clears or unscales, as it is written."""
    if kind not in (Kind.STEP, Kind.UNSCALE, Kind.ZERO_GRAD):
        return ""
    if _is_handed(model, kind, node):
        return text(node.args[0].value)
    return text(node.func.value) if isinstance(node.func, cst.Attribute) else ""
