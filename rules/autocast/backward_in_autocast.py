"""AMP201: backward runs while autocast is on."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from amp_lint.edit import edits
from amp_lint.mistake import Account, At, Mistake
from amp_lint.rule import Rule
from amp_lint.text.diagnostic import Applicability, Diagnostic, Fix, Severity
from amp_lint.vocabulary.meaning import Kind, Role
from amp_lint.vocabulary.operations import INEXACT_BACKWARD
from amp_lint.vocabulary.table import words

if TYPE_CHECKING:
    from amp_lint.amp.events import Event
    from amp_lint.model import Model

MESSAGE = (
    "`backward` runs under autocast: gradients of linalg or a float32 region are off by 1e-3, not "
    "1e-7"
)
HARMLESS = (
    "`backward` runs under autocast: slower, and linalg or a float32 region would lose digits"
)
HELP = "end the autocast region before `backward`"
_ON = "autocast is on from here"
_CALLED = "`backward` is called here"


class BackwardInAutocast(Rule):
    """A backward call that some path reaches with autocast on."""

    code = "AMP201"
    name = "backward-in-autocast"
    severity = Severity.WARNING
    fixes = (Applicability.SAFE, Applicability.UNSAFE)
    requires = (words(Kind.BACKWARD), words(Role.REGION))
    observed = (Account(Mistake.BACKWARD_IN_REGION, MESSAGE, HELP, {At.REGION: _ON}),)

    def check(self, model: Model) -> Iterator[Diagnostic]:
        """Report every backward with an active region around it."""
        is_inexact = any(map(model.linked.named, INEXACT_BACKWARD)) or any(
            region.never_enabled for region in model.regions.all
        )
        for event in model.steps.backwards:
            if event.region is not None and model.steps.is_own(event):
                message = MESSAGE if is_inexact else HARMLESS
                called = [(event.node, _CALLED)] if event.through is not None else []
                related, fix = [(event.region.node, _ON), *called], _fix(model, event)
                found = self.report(model, event.place, message, related, fix, help=HELP)
                yield found if is_inexact else replace(found, severity=Severity.INFO)


def _fix(model: Model, event: Event) -> Fix | None:
    tail = model.regions.trailing(event.place)
    if tail is None or event.outer is not None:
        return None
    changes = edits.leave(model.tree, tail.holder, tail.item, tail.first, tail.rest)
    if tail.rest is not None:
        title, trust = "Close the autocast region for `backward`", Applicability.UNSAFE
    elif tail.whole:
        title = "Remove the autocast region, in which nothing but `backward` is left"
        trust = Applicability.SAFE
    else:
        title = "Move `backward` and what follows it out of the autocast region"
        trust = Applicability.SAFE
    return Fix(title, changes, trust) if changes else None
