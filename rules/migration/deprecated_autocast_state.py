"""AMP402: functions that ask for autocast's state by the device in their name."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from amp_lint.rule import Rule
from amp_lint.text.diagnostic import Applicability, Diagnostic, Severity
from amp_lint.vocabulary.amp import DEPRECATED_STATE, STATE_ARGUMENTS, STATE_BY_DEVICE

if TYPE_CHECKING:
    from amp_lint.model import Model
    from amp_lint.syntax.references import Reference

    from ._moved import Around

_RENAMES = {old: new for old, (new, _) in DEPRECATED_STATE.items()}
_NEW = frozenset(_RENAMES.values()) - STATE_ARGUMENTS.keys()
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
        from amp_lint.flow.guards import Guards

        from ._moved import moved

        if model.target_torch is not None and model.target_torch < STATE_BY_DEVICE:
            return
        since = STATE_BY_DEVICE
        guards = Guards(model.tree, model.names, model.values, _NEW, since, longer=STATE_ARGUMENTS)
        names = frozenset(_RENAMES)
        for reference, fix in moved(model, _RENAMES, names, guards, _around, "Name the device"):
            new, device = DEPRECATED_STATE[reference.name]
            message = f"`{reference.name}` is deprecated since torch 2.4"
            help = f'use `{new}("{device}"{", ..." * _takes_more(reference)})`'
            diagnostic = self.report(model, reference.node, message, fix=fix, help=help)
            yield replace(diagnostic, deprecated=reference.name)


def _around(model: Model, reference: Reference) -> Around:
    """The device, before the arguments; nothing where these, or the import, are not what moves."""
    from amp_lint.edit import call_edits

    call = reference.call
    if reference.role != "call" or call is None or call.func is reference.root:
        return None, True
    if any(arg.keyword or arg.star for arg in call.args):
        return None, True
    _, device = DEPRECATED_STATE[reference.name]
    return call_edits.rekey(model.tree, call, first=f'"{device}"'), True


def _takes_more(reference: Reference) -> bool:
    return reference.name.startswith("torch.set_")
