"""AMP108: a GradScaler is made again and again, and forgets its scale each time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from amp_lint._lazy import cst
from amp_lint.edit import edits
from amp_lint.mistake import Account, At, Mistake
from amp_lint.rule import Rule
from amp_lint.text.diagnostic import Applicability, Diagnostic, Fix, Severity, quoted
from amp_lint.vocabulary import written
from amp_lint.vocabulary.amp import LOAD_STATE_DICT
from amp_lint.vocabulary.meaning import Kind, Role
from amp_lint.vocabulary.table import words

if TYPE_CHECKING:
    from amp_lint.model import Model

    from ._lifetimes import Recreation

EFFECT = "each one skips steps to find the scale again"
LOST = "it skips steps to find its scale again"
AGAIN = "this repeats it"


class ScalerRecreated(Rule):
    """A scaler that lives shorter than the optimizer it steps."""

    code = "AMP108"
    name = "scaler-recreated"
    severity = Severity.WARNING
    fixes = (Applicability.UNSAFE,)
    called_for = written.look(written.MAKERS, after=r"\(")
    requires = (words(Role.SCALER), words(Kind.STEP))
    observed = (
        Account(
            Mistake.NEW_SCALER,
            "`GradScaler` is new for an optimizer that one from here has stepped: it "
            "skips steps to find the scale again",
            "create it once, before the training",
            {At.STEP: "stepped here"},
        ),
    )

    def check(self, model: Model) -> Iterator[Diagnostic]:
        """Report the constructor of every such scaler."""
        from ._lifetimes import Lifetimes

        for recreation in model.part(Lifetimes).recreated:
            label, help = _advice(recreation)
            yield self.report(
                model,
                recreation.call,
                _message(model, recreation),
                related=[(_place(recreation.again), label)],
                fix=_fix(model, recreation),
                help=help,
            )


def _place(again: cst.CSTNode) -> cst.CSTNode:
    match again:
        case cst.For():
            return again.target
        case cst.While():
            return again.test
        case cst.FunctionDef():
            return again.name
    return again


def _is_load(node: cst.CSTNode) -> bool:
    func = node.func if isinstance(node, cst.Call) else None
    return isinstance(func, cst.Attribute) and func.attr.value in LOAD_STATE_DICT.words


def _advice(recreation: Recreation) -> tuple[str, str]:
    """What the place that repeats it is, and what to do."""
    if _is_load(recreation.again):
        return "this is lost", "create it once, before its state is loaded"
    if isinstance(recreation.again, (cst.For, cst.While)):
        return AGAIN, "create it once, before the training"
    return AGAIN, "create it once, before the training, and pass it in"


def _message(model: Model, recreation: Recreation) -> str:
    again = recreation.again
    if _is_load(again):
        return f"`GradScaler` is new after its state was loaded: {LOST}"
    if isinstance(again, (cst.For, cst.While)):
        return f"`GradScaler` is new in every round: {EFFECT}"
    called = again.func if isinstance(again, cst.Call) else _place(again)
    return f"`GradScaler` is new in every call of {quoted(model.tree.source(called))}: {EFFECT}"


def _fix(model: Model, recreation: Recreation) -> Fix | None:
    """Move the assignment from the block of a loop to right before it, or before one around it."""
    if recreation.before is None:
        return None
    code = model.tree.source(recreation.assign)
    removed = edits.remove_statement(model.tree, recreation.assign, moved=code)
    if removed is None or "\n" in code:
        return None
    inserted = edits.insert_before(model.tree, recreation.before, code)
    return Fix("Create the scaler before the loop", (inserted, removed), Applicability.UNSAFE)
