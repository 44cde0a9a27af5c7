"""AMP206: an argument of autocast or GradScaler that lands in another parameter."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from amp_lint._lazy import cst
from amp_lint.amp.plain_regions import are_given_what_fits
from amp_lint.mistake import Account, Mistake
from amp_lint.rule import Rule
from amp_lint.text.diagnostic import Applicability, Diagnostic, Fix, Severity
from amp_lint.vocabulary.meaning import Role
from amp_lint.vocabulary.table import BY_NAME, words

from . import _misfits as misfits

if TYPE_CHECKING:
    from amp_lint.model import Model
    from amp_lint.syntax.facts import Facts

    from ._misfits import Misfit


class AutocastArguments(Rule):
    """A call that raises, or does something else than it says, whatever else happens."""

    code = "AMP206"
    name = "autocast-arguments"
    severity = Severity.ERROR
    fixes = (Applicability.SAFE, Applicability.UNSAFE)
    requires = (words(Role.REGION, Role.SCALER),)
    calls = frozenset(name for row in misfits.JUDGED for name in row.names)
    observed = (
        Account(
            Mistake.MISPLACED_ARGUMENT,
            "`{argument}` lands in `{parameter}` of `{function}`, which is for something else",
            "pass it by keyword",
        ),
    )

    def may(self, facts: Facts) -> bool:
        """Whether an argument may be misplaced."""
        return not are_given_what_fits(facts)

    def visit_call(self, call: cst.Call, name: str, model: Model) -> Iterator[Diagnostic]:
        """Report the first argument that does not fit."""
        from amp_lint.amp.kinds import certain
        from amp_lint.flow.attempts import is_attempt

        alone = certain(model.names, call.func, self.calls) is not None
        if is_attempt(model.tree, call) or not (alone or _is_modern(model, call, name)):
            return
        misfit = next(misfits.misfits(model, call, name), None)
        if misfit is not None:
            fix = _fix(model, misfit) if alone else None
            found = self.report(model, misfit.node, misfit.message, fix=fix, help=misfit.help)
            yield replace(found, severity=misfit.severity)


def _is_modern(model: Model, call: cst.Call, name: str) -> bool:
    """Whether a name of several imports, one for each version of torch, is the newest there."""
    from amp_lint.amp.kinds import imported_as

    if BY_NAME[name].device or not isinstance(call.func, (cst.Name, cst.Attribute)):
        return False
    return name in imported_as(model.names, model.tree, call.func, AutocastArguments.calls)


def _fix(model: Model, misfit: Misfit) -> Fix | None:
    if not misfit.edits:
        return None
    guessed = any(misfits.GUESS in edit.content for edit in misfit.edits)
    safe = not guessed or model.devices.only_cuda
    trust = Applicability.SAFE if safe else Applicability.UNSAFE
    return Fix(misfit.help[:1].upper() + misfit.help[1:], misfit.edits, trust)
