"""AMP501: a loss goes backward past the framework that steps its optimizer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from amp_lint.rule import Rule
from amp_lint.text.diagnostic import Applicability, Diagnostic, Severity, quoted
from amp_lint.vocabulary.meaning import Kind, Role
from amp_lint.vocabulary.table import words

if TYPE_CHECKING:
    from amp_lint._lazy import cst
    from amp_lint.amp.events import Event
    from amp_lint.model import Model

    _Related = list[tuple[cst.CSTNode, str]]

_MESSAGE = "{} does not scale this loss: in fp16 {}"
_STEP_RAISES = "the first step raises AssertionError"
_RAISES = {Role.FABRIC: "it raises RuntimeError"}
_NAMES = {Role.LIGHTNING: "Lightning", Role.TRAINER: "the Trainer"}


class BareBackward(Rule):
    """``loss.backward()`` before a step that Accelerate, Lightning, Fabric or a Trainer takes."""

    code = "AMP501"
    name = "bare-backward"
    severity = Severity.ERROR
    preview = True
    fixes = (Applicability.SUGGEST,)
    requires = (words(Kind.BACKWARD), words(Role.PREPARED, Role.TRAINER))

    def check(self, model: Model) -> Iterator[Diagnostic]:
        """Report every plain backward whose gradients only a framework steps."""
        from ._owners import ACCELERATOR_OF_TRAINER, owner_of

        seen: set[int] = set()
        for found in model.mistakes.bare_backwards:
            role = found.event.framework
            if role is not None and id(found.cause.node) not in seen:
                seen.add(id(found.cause.node))
                related = [(found.event.node, "stepped here")]
                yield self._found(model, found.cause, role, owner_of(model, found.event), related)
        for event, role in model.mistakes.bare_hooks:
            yield self._found(model, event, role, ACCELERATOR_OF_TRAINER, [])

    def _found(
        self, model: Model, bare: Event, role: Role, owner: str, related: _Related
    ) -> Diagnostic:
        from ._owners import backward_of, suggested

        message = _MESSAGE.format(
            _NAMES.get(role) or quoted(owner), _RAISES.get(role, _STEP_RAISES)
        )
        code = backward_of(model, bare, role, owner)
        fix = suggested(model, bare.node, owner, code)
        return self.report(model, bare.node, message, related, fix, help=f"call {quoted(code)}")
