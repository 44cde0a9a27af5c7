"""AMP107: a loss goes backward without being scaled, and the scaler steps."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from amp_lint._lazy import cst
from amp_lint.edit import edits
from amp_lint.mistake import Account, At, Mistake
from amp_lint.rule import Rule
from amp_lint.text.diagnostic import Applicability, Diagnostic, Fix, Severity, quoted
from amp_lint.vocabulary import written

if TYPE_CHECKING:
    from amp_lint.model import Model
    from amp_lint.walk.found import Found

_MESSAGE = (
    "this loss is not scaled: the first `scaler.step` raises, later updates are {:g} times too "
    "small"
)
_BESIDE = "this loss is not scaled, as the other one is: its gradients count {:g} times too little"
_RAISES = "this loss is not scaled, nor any before it: `scaler.step` raises"
_HELP = "call `scaler.scale(loss).backward()`"


class UnscaledBackward(Rule):
    """``loss.backward()`` on a path that ends in ``scaler.step(optimizer)``."""

    code = "AMP107"
    name = "unscaled-backward"
    severity = Severity.ERROR
    fixes = (Applicability.UNSAFE,)
    given = written.SCALED
    requires = (written.BACKWARD, written.STEPS, written.UPDATES)
    pattern = written.SCALES
    observed = (
        Account(
            Mistake.UNSCALED,
            "this loss is not scaled, and `scaler.step` divides by {scale:g}: the update "
            "is that much too small",
            _HELP,
            {At.EVENT: "divided by the scale here"},
            at=At.CAUSE,
        ),
        Account(Mistake.UNSCALED, _RAISES, _HELP, {At.EVENT: "raises here"}, at=At.CAUSE),
    )

    def check(self, model: Model) -> Iterator[Diagnostic]:
        """Report every plain backward whose gradients only the scaler steps."""
        for found in model.mistakes.unscaled_backwards:
            message = _BESIDE if found.beside_scaled else _MESSAGE
            related = [(found.event.node, "divided by the scale here")]
            said, fix = message.format(model.clips.initial_scale), _fix(model, found)
            yield self.report(model, found.cause.node, said, related, fix, help=_HELP)


def _fix(model: Model, found: Found) -> Fix | None:
    call, step = found.cause.node, found.event.node
    assert isinstance(call, cst.Call)
    if not isinstance(call.func, cst.Attribute) or not isinstance(step, cst.Call):
        return None
    same = model.tree.ancestor(call, cst.FunctionDef) is model.tree.ancestor(step, cst.FunctionDef)
    if not same or not isinstance(step.func, cst.Attribute):
        return None
    scaler, loss = model.tree.source(step.func.value), call.func.value
    edit = edits.replace_node(model.tree, loss, f"{scaler}.scale({model.tree.source(loss)})")
    return Fix(f"Scale the loss by {quoted(scaler)}", (edit,), Applicability.UNSAFE)
