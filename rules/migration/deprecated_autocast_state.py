"""AMP402: functions that ask for autocast's state by the device in their name."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from amp_lint.rule import Rule
from amp_lint.text.diagnostic import Applicability, Diagnostic, Edit, Severity
from amp_lint.vocabulary.amp import DEPRECATED_STATE, STATE_BY_DEVICE

if TYPE_CHECKING:
    from amp_lint.model import Model
    from amp_lint.syntax.references import Reference

_RENAMES = {old: new for old, (new, _) in DEPRECATED_STATE.items()}
_NEW = frozenset(new for new in _RENAMES.values() if new.endswith("_dtype"))
_LONGER = {
    new: 2 if new.startswith("torch.set_") else 1 for new in _RENAMES.values() if new not in _NEW
}
"""Those that an older torch has without a device -> the arguments that they take with it."""
_WORDS = frozenset(name.rpartition(".")[2] for name in _RENAMES)


class DeprecatedAutocastState(Rule):
    """A use of a function that takes the device as an argument now."""

    code = "AMP402"
    name = "deprecated-autocast-state"
    severity = Severity.WARNING
    fixes = (Applicability.SAFE,)
    requires = (_WORDS,)
    since = dict.fromkeys(_WORDS, STATE_BY_DEVICE)
    moves_names = True

    def check(self, model: Model) -> Iterator[Diagnostic]:
        """Report every use, except where it is there for want of the new function."""
        from amp_lint.edit.import_edits import Move, Moves
        from amp_lint.flow.guards import Guards
        from amp_lint.syntax.references import references, without_aliases

        if model.target_torch is not None and model.target_torch < STATE_BY_DEVICE:
            return
        since = STATE_BY_DEVICE
        guards = Guards(model.tree, model.names, model.values, _NEW, since, longer=_LONGER)
        found = references(model.tree, model.names, frozenset(_RENAMES))
        found = [reference for reference in found if not guards.chooses(reference.node)]
        moves = [Move(reference, _around(model, reference)) for reference in found]
        fixes = Moves(model, moves, _RENAMES).fixes("Name the device")
        for reference in without_aliases(model.names, found):
            new, device = DEPRECATED_STATE[reference.name]
            message = f"`{reference.name}` is deprecated since torch 2.4"
            fix = fixes.get(id(reference.node))
            help = f'use `{new}("{device}"{", ..." * _takes_more(reference)})`'
            diagnostic = self.report(model, reference.node, message, fix=fix, help=help)
            yield replace(diagnostic, deprecated=reference.name)


def _around(model: Model, reference: Reference) -> tuple[Edit, ...] | None:
    """The device, before the arguments; None where these, or the import, are not what moves."""
    from amp_lint.edit import call_edits

    call = reference.call
    if reference.role != "call" or call is None or call.func is reference.root:
        return None
    if any(arg.keyword or arg.star for arg in call.args):
        return None
    _, device = DEPRECATED_STATE[reference.name]
    return call_edits.rekey(model.tree, call, first=f'"{device}"')


def _takes_more(reference: Reference) -> bool:
    return reference.name.startswith("torch.set_")
