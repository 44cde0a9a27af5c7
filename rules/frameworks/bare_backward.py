"""AMP501: a backward and the step after it, only one of which is a framework's."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from amp_lint.rule import Rule
from amp_lint.text.diagnostic import Applicability, Diagnostic, Severity, quoted
from amp_lint.vocabulary import written
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
_OWN_SCALER = "{} scales by a scaler of its own: in fp16 {}"
_NO_STEP = "{} steps in its own backward, by DeepSpeed: {} does nothing, and no weight moves"
_UNPREPARED = (
    "this optimizer is not prepared, its loss is scaled: in fp16 it moves {:g} times too far"
)
_NAMES = {Role.LIGHTNING: "Lightning", Role.TRAINER: "the Trainer"}


class BareBackward(Rule):
    """A backward and a step of which only one is a framework's."""

    code = "AMP501"
    name = "bare-backward"
    severity = Severity.ERROR
    preview = True
    fixes = (Applicability.UNSAFE, Applicability.SUGGEST)
    given = written.RUN_BACK
    requires = (words(Kind.BACKWARD), words(Role.PREPARED, Role.TRAINER))

    def check(self, model: Model) -> Iterator[Diagnostic]:
        """Report every plain backward whose gradients only a framework steps."""
        from amp_lint.flow.conditions import text

        from ._owners import ACCELERATOR_OF_TRAINER, owner_of, trust_in

        seen: set[int] = set()
        for found in model.mistakes.bare_backwards:
            role = found.event.framework
            if role is not None and id(found.cause.node) not in seen:
                seen.add(id(found.cause.node))
                related = [(found.event.node, "stepped here")]
                owner = owner_of(model, found.event)
                trust = trust_in(model, role, owner)
                engine = model.roles.frameworks.steps_itself(role, owner)
                yield self._found(model, found.cause, role, text(owner), related, trust, engine)
        for event, role in model.mistakes.handovers.bare_hooks:
            yield self._found(model, event, role, ACCELERATOR_OF_TRAINER, [])

        yield from self._own_scalers(model)
        yield from self._unprepared(model)

    def _own_scalers(self, model: Model) -> Iterator[Diagnostic]:
        from amp_lint.flow.conditions import text

        from ._owners import owner_of

        for found in model.mistakes.own_scalers:
            made = owner_of(model, found.event)
            owner = text(made)
            message = _OWN_SCALER.format(quoted(owner), _STEP_RAISES)
            if model.roles.frameworks.steps_itself(Role.ACCELERATOR, made):
                message = _NO_STEP.format(quoted(owner), "this step")
            related = [(found.cause.node, "scaled here")]
            help = f"leave it to {quoted(f'{owner}.backward')} and the optimizer's `step`"
            yield self.report(model, found.event.node, message, related, help=help)

    def _unprepared(self, model: Model) -> Iterator[Diagnostic]:
        for found in model.mistakes.unprepared_steps:
            message = _UNPREPARED.format(model.clips.initial_scale)
            related = [(found.cause.node, "scaled here")]
            help = "prepare it with the model"
            yield self.report(model, found.event.node, message, related, help=help)

    def _found(
        self,
        model: Model,
        bare: Event,
        role: Role,
        owner: str,
        related: _Related,
        trust: Applicability = Applicability.SUGGEST,
        engine: bool = False,
    ) -> Diagnostic:
        from ._owners import backward_of, instead

        message = _MESSAGE.format(
            _NAMES.get(role) or quoted(owner), _RAISES.get(role, _STEP_RAISES)
        )
        if engine:
            message = _NO_STEP.format(quoted(owner), "the step after this one")
        code = backward_of(model, bare, role, owner)
        fix = instead(model, bare.node, owner, code, trust)
        return self.report(model, bare.node, message, related, fix, help=f"call {quoted(code)}")
