"""AMP108: a GradScaler is made again and again, and forgets its scale each time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from amp_lint._lazy import cst
from amp_lint.edit import edits
from amp_lint.rule import Rule
from amp_lint.text.diagnostic import Applicability, Diagnostic, Fix, Severity, quoted
from amp_lint.vocabulary.meaning import Kind, Role
from amp_lint.vocabulary.table import words

if TYPE_CHECKING:
    from amp_lint.model import Model

    from ._lifetimes import Recreation

EFFECT = "each one skips steps to find the scale again"


class ScalerRecreated(Rule):
    """A scaler that lives shorter than the optimizer it steps."""

    code = "AMP108"
    name = "scaler-recreated"
    severity = Severity.WARNING
    fixes = (Applicability.UNSAFE,)
    requires = (words(Role.SCALER), words(Kind.STEP))

    def check(self, model: Model) -> Iterator[Diagnostic]:
        """Report the constructor of every such scaler."""
        from ._lifetimes import Lifetimes

        for recreation in model.part(Lifetimes).recreated:
            again = recreation.through or _head(recreation.loop)
            pass_it = ", and pass it in" if recreation.through else ""
            yield self.report(
                model,
                recreation.call,
                _message(model, recreation),
                related=[(again, "this repeats it")],
                fix=_fix(model, recreation),
                help=f"create it once, before the training{pass_it}",
            )


def _head(loop: cst.For | cst.While) -> cst.CSTNode:
    return loop.target if isinstance(loop, cst.For) else loop.test


def _message(model: Model, recreation: Recreation) -> str:
    if recreation.through is None:
        return f"`GradScaler` is new in every round: {EFFECT}"
    name = quoted(model.tree.source(recreation.through.func))
    return f"`GradScaler` is new in every call of {name}: {EFFECT}"


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
