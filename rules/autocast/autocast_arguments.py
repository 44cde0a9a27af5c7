"""AMP206: an argument of autocast or GradScaler that lands in another parameter."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from amp_lint._lazy import cst
from amp_lint.amp.plain_regions import are_given_what_fits
from amp_lint.mistake import Account, Mistake
from amp_lint.rule import Rule
from amp_lint.text.diagnostic import Applicability, Diagnostic, Fix, Severity
from amp_lint.vocabulary import written
from amp_lint.vocabulary.amp import MISNAMED, REFUSED_IN_STEP
from amp_lint.vocabulary.meaning import Kind, Part, Role
from amp_lint.vocabulary.table import BY_NAME, words

from . import _misfits as misfits

if TYPE_CHECKING:
    from amp_lint.model import Model
    from amp_lint.syntax.facts import Facts

    from ._misfits import Misfit


_MISNAMED = frozenset(name.rpartition(".")[2] for name in MISNAMED)
_KNOWN = frozenset(row.word for row in MISNAMED.values())


class AutocastArguments(Rule):
    """A call that raises, or does something else than it says, whatever else happens."""

    code = "AMP206"
    name = "autocast-arguments"
    severity = Severity.ERROR
    fixes = (Applicability.SAFE, Applicability.UNSAFE)
    given = written.SCALED
    requires = (words(Role.REGION, Role.SCALER) | _MISNAMED | REFUSED_IN_STEP,)
    calls = frozenset(name for row in misfits.JUDGED for name in row.names) | MISNAMED.keys()
    observed = (
        Account(
            Mistake.MISPLACED_ARGUMENT,
            "`{argument}` lands in `{parameter}` of `{function}`, which is for something else",
            "pass it by keyword",
        ),
    )

    def may(self, facts: Facts) -> bool:
        """Whether an argument may be misplaced, or a name be one that torch lacks."""
        doubted = facts.asked(_mixes_names_up) or facts.asked(_steps_with_refused)
        return doubted or not are_given_what_fits(facts)

    def visit_call(self, call: cst.Call, name: str, model: Model) -> Iterator[Diagnostic]:
        """Report the first argument that does not fit."""
        from amp_lint.amp.kinds import certain
        from amp_lint.flow.attempts import is_attempt

        alone = certain(model.names, call.func, self.calls) is not None
        if is_attempt(model.tree, call) or not (alone or _is_modern(model, call, name)):
            return
        if name in MISNAMED:
            yield from () if _is_asked_for(model, call) else [self._misnamed(model, call, name)]
            return
        misfit = next(misfits.misfits(model, call, name), None)
        if misfit is not None:
            fix = _fix(model, misfit) if alone else None
            found = self.report(model, misfit.node, misfit.message, fix=fix, help=misfit.help)
            yield replace(found, severity=misfit.severity)

    def check(self, model: Model) -> Iterator[Diagnostic]:
        """Report what a scaler's step does not take."""
        for misfit in misfits.refused(model):
            yield self.report(model, misfit.node, misfit.message, help=misfit.help)

    def _misnamed(self, model: Model, call: cst.Call, name: str) -> Diagnostic:
        """A name that is made of an old one and a new one."""
        meant = MISNAMED[name]
        device = name.removeprefix("torch.amp.").partition(".")[0].partition("_")[0]
        by_keyword = f"{meant.keyword(Part.DEVICE)}=" if meant.parameters[0].part is None else ""
        message = f"`{name}` raises AttributeError, and its import ImportError: no torch has it"
        help = f'write `{meant.names[0]}({by_keyword}"{device}", ...)`'
        return self.report(model, call.func, message, help=help)


def _mixes_names_up(facts: Facts) -> bool:
    """Whether a name may be one that no torch has."""
    if not _MISNAMED.isdisjoint(facts.words - _KNOWN):
        return True
    parts = {part for name in MISNAMED for part in name.split(".")[2:-1]}
    modules = {name.rpartition(".")[0] for name in MISNAMED}
    return any(
        (isinstance(node, ast.Attribute) and node.attr in parts and _is_amp(node.value))
        or (isinstance(node, ast.ImportFrom) and node.module in modules - {"torch.amp"})
        for node in facts.nodes
    )


def _steps_with_refused(facts: Facts) -> bool:
    """Whether a step gets what no scaler takes."""
    steps = (call for name in words(Kind.STEP) for call in facts.calls.get(name, ()))
    given = (keyword.arg for call in steps for keyword in call.keywords if call.args)
    return not REFUSED_IN_STEP.isdisjoint(given)


def _is_asked_for(model: Model, call: cst.Call) -> bool:
    """Whether a test asks before whether there is such a thing."""
    holders = (each for each in model.tree.ancestors(call) if isinstance(each, (cst.If, cst.IfExp)))
    return any("hasattr" in model.tree.source(holder.test) for holder in holders)


def _is_amp(node: ast.expr) -> bool:
    return getattr(node, "attr", getattr(node, "id", "")) == "amp"


def _is_modern(model: Model, call: cst.Call, name: str) -> bool:
    """Whether a name of several imports, one for each version of torch, is the newest there."""
    from amp_lint.amp.kinds import imported_as

    if (
        name in MISNAMED
        or BY_NAME[name].device
        or not isinstance(call.func, (cst.Name, cst.Attribute))
    ):
        return False
    return name in imported_as(model.names, model.tree, call.func, AutocastArguments.calls)


def _fix(model: Model, misfit: Misfit) -> Fix | None:
    if not misfit.edits:
        return None
    guessed = any(misfits.GUESS in edit.content for edit in misfit.edits)
    safe = not guessed or model.devices.only_cuda
    trust = Applicability.SAFE if safe else Applicability.UNSAFE
    return Fix(misfit.help[:1].upper() + misfit.help[1:], misfit.edits, trust)
