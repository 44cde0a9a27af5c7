"""AMP105: gradients are stepped or given up, and the scaler is not updated."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from amp_lint._lazy import cst
from amp_lint.edit import edits
from amp_lint.mistake import Account, At, Mistake
from amp_lint.rule import Rule
from amp_lint.text.diagnostic import Applicability, Diagnostic, Fix, Severity, quoted
from amp_lint.vocabulary import written
from amp_lint.vocabulary.meaning import Kind, Role
from amp_lint.vocabulary.table import words

if TYPE_CHECKING:
    from amp_lint.model import Model
    from amp_lint.walk.found import Found

_STEP = (
    "`step` raises RuntimeError in the next round: this path comes back without `update`",
    "call `update` after every step",
)
_UNSCALED = (
    "leaving here skips `update`: the next `unscale_` raises, and a `step` without it is wrong",
    "call `update` before leaving",
)
_SCALED = (
    "leaving here skips `update`: the scale never falls, so once gradients overflow, no step is "
    "taken",
    "let `scaler.step` skip it, and call `update`",
)
_TESTED = (
    "this test can skip `update`: the next `unscale_` raises, and a `step` without it is wrong",
    "call `update` after the test",
)
_TESTED_SCALED = (
    "this test skips `update` too: the scale never falls, so once gradients overflow, no step is "
    "taken",
    "let `scaler.step` skip it, and call `update`",
)
"""What happens, and what to do."""


class MissingScalerUpdate(Rule):
    """A path on which ``update`` is left out."""

    code = "AMP105"
    name = "missing-scaler-update"
    severity = Severity.ERROR
    fixes = (Applicability.SAFE, Applicability.UNSAFE)
    called_for = written.STEP_ALONE
    given = written.SCALED
    requires = (words(Role.SCALED_LOSS), words(Kind.STEP), words(Kind.BACKWARD))
    observed = (
        Account(Mistake.NO_UPDATE, *_STEP, {At.CAUSE: "stepped"}),
        Account(
            Mistake.GIVEN_UP,
            "`unscale_` raises RuntimeError: there was no `update` since it was called before",
            "call `update` after every step, and where a step is left out",
            {At.CAUSE: "unscaled here"},
        ),
        Account(
            Mistake.NEVER_UPDATED,
            "`step` is never followed by `update`: the scale stays as it is",
            _STEP[1],
        ),
    )

    def check(self, model: Model) -> Iterator[Diagnostic]:
        """Report the step that is repeated without update, and what leaves before it."""
        for found in model.mistakes.steps_without_update:
            fix = _outdent(model, found) or _append(model, found)
            related = (
                [] if found.event.node is found.cause.node else [(found.cause.node, "stepped")]
            )
            message, help = _STEP
            yield self.report(model, found.event.node, message, related, fix, help=help)
        for found in model.mistakes.left_early:
            related = [(found.cause.node, "the gradients are scaled here")]
            message, help = _left(found)
            gives_up = found.unscaled and model.step_places.gives_up_nonfinite(found)
            fix = _update_first(model, found) if gives_up else None
            yield self.report(model, found.event.node, message, related, fix, help=help)


def _left(found: Found) -> tuple[str, str]:
    if isinstance(found.event.node, (cst.Continue, cst.Return)):
        return _UNSCALED if found.unscaled else _SCALED
    return _TESTED if found.unscaled else _TESTED_SCALED


def _outdent(model: Model, found: Found) -> Fix | None:
    """Move the only ``update`` out of an ``if`` that has nothing else in it."""
    update = model.step_places.update_under_test(found.event)
    if update is None:
        return None
    edit = edits.replace_node(model.tree, update.holder, model.tree.source(update.call))
    return Fix("Update after every step", (edit,), Applicability.SAFE)


def _append(model: Model, found: Found) -> Fix | None:
    """``update`` after the last of some steps, where there is none."""
    line = model.step_places.end_of_steps(found)
    step = found.event.node
    if line is None or not isinstance(step, cst.Call) or not isinstance(step.func, cst.Attribute):
        return None
    code = f"{model.tree.source(step.func.value)}.update()"
    edit = edits.insert_after(model.tree, line, code)
    return Fix(f"Insert {quoted(code)} after the step", (edit,), Applicability.SAFE)


def _update_first(model: Model, found: Found) -> Fix | None:
    statement = model.tree.statement(found.event.node)
    scaler = model.step_places.scaler_text(found.cause, found.event)
    if scaler is None or not isinstance(statement, cst.SimpleStatementLine):
        return None
    if len(statement.body) != 1:
        return None
    edit = edits.insert_before(model.tree, statement, f"{scaler}.update()")
    return Fix(f"Insert {quoted(f'{scaler}.update()')}", (edit,), Applicability.UNSAFE)
