"""AMP106: the scaler is updated before the last step of the same gradients."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from amp_lint._lazy import cst
from amp_lint.edit import edits
from amp_lint.mistake import Account, At, Mistake
from amp_lint.rule import Rule
from amp_lint.text.diagnostic import Applicability, Diagnostic, Fix, Severity
from amp_lint.vocabulary import written
from amp_lint.vocabulary.meaning import Kind, Role
from amp_lint.vocabulary.table import words

if TYPE_CHECKING:
    from amp_lint.model import Model
    from amp_lint.walk.found import Found

_BEFORE_STEP = (
    "`update` comes before the last `step`: that one divides the gradients again, or by a new scale"
)
_TWICE = (
    "the second `update` raises AssertionError: nothing was unscaled or stepped since the first"
)
_EMPTY = "`update` raises AssertionError: nothing was unscaled or stepped before it"
_EMPTY_HELP = "leave it out here: `update` belongs to the rounds that unscale or step"
_HELP = "update once, after the last step"


class EarlyScalerUpdate(Rule):
    """``update`` between ``unscale_`` and ``step``, between two steps, twice, or for nothing."""

    code = "AMP106"
    name = "early-scaler-update"
    severity = Severity.ERROR
    fixes = (Applicability.SAFE, Applicability.SUGGEST)
    given = written.SCALED
    requires = (words(Role.SCALED_LOSS), words(Kind.STEP), words(Kind.UPDATE))
    pattern = written.UPDATED
    observed = (
        Account(Mistake.EARLY_UPDATE, _BEFORE_STEP, _HELP, {At.CAUSE: "stepped here"}),
        Account(Mistake.EMPTY_UPDATE, _EMPTY, _HELP, {At.CAUSE: "gradients are scaled here"}),
    )

    def check(self, model: Model) -> Iterator[Diagnostic]:
        """Report the update that comes too early, for nothing, or a second time."""
        for found in model.mistakes.early_updates:
            related = [(found.cause.node, "stepped here")]
            fix = _move(model, found)
            yield self.report(model, found.event.node, _BEFORE_STEP, related, fix, help=_HELP)
        for found in model.mistakes.second_updates:
            related = [(found.event.node, "updated here already")]
            yield self.report(model, found.cause.node, _TWICE, related, help=_HELP)
        for found in model.mistakes.empty_updates:
            related = [(found.cause.node, "the gradients are from here")]
            yield self.report(model, found.event.node, _EMPTY, related, help=_EMPTY_HELP)


def _move(model: Model, found: Found) -> Fix | None:
    """Put ``update`` behind the step, where both are lines of one block and it is not repeated."""
    update, step = found.event.node, model.step_places.last_step_after(found.event)
    if model.tree.order(found.cause.node) < model.tree.order(update):
        return _move_behind_loop(model, update)
    if step is None or not model.step_places.follows(update, step):
        return None
    small, after = model.tree.parent(update), model.tree.statement(step)
    removed = edits.remove_statement(model.tree, small) if isinstance(small, cst.Expr) else None
    if removed is None or after is None:
        return None
    again = model.step_places.next_update(found.event)
    if again is not None:
        if not model.step_places.follows(step, again):
            return None
        return Fix("Remove the first `update`", (removed,), Applicability.SAFE)
    inserted = edits.insert_after(model.tree, after, model.tree.source(update))
    return Fix("Update after the last step", (removed, inserted), Applicability.SAFE)


def _move_behind_loop(model: Model, update: cst.CSTNode) -> Fix | None:
    """Put ``update`` behind the loop over optimizers that it is a line of, if that has one end."""
    from amp_lint.amp.events import is_made_from_scale

    small, loop = model.tree.parent(update), model.program.loop(update)
    line = model.tree.parent(small) if isinstance(small, cst.Expr) else None
    if not isinstance(line, cst.SimpleStatementLine) or not isinstance(loop, cst.For):
        return None
    body, is_line = loop.body, model.tree.parent(line) is loop.body
    leaves = any(model.tree.below(body, kind) for kind in (cst.Break, cst.Continue, cst.Return))
    asks = any(is_made_from_scale(call, model.values) for call in model.tree.below(body, cst.Call))
    if not is_line or line is body.body[0] or loop.orelse is not None or leaves or asks:
        return None
    moved = edits.move_behind(model.tree, line, loop)
    return Fix("Update after the loop", moved, Applicability.SUGGEST) if moved else None
