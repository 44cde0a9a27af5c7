"""AMP401: the device-specific modules torch.cuda.amp and torch.cpu.amp."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from amp_lint.rule import Rule
from amp_lint.text.diagnostic import Applicability, Diagnostic, Severity
from amp_lint.vocabulary.amp import DEPRECATED
from amp_lint.vocabulary.meaning import Role
from amp_lint.vocabulary.table import BY_NAME
from amp_lint.vocabulary.written import pattern

from ._arguments import DECORATORS, DEVICE_TYPE, around

if TYPE_CHECKING:
    from amp_lint.model import Model
    from amp_lint.syntax.references import Reference

_ONE_MODULE = (2, 0)  # torch.amp.autocast is there for certain; before, torch.autocast
_OLD = {name: new for old, new in DEPRECATED.items() for name in old.names}
_SINCE = {new.word: new.since for new in _OLD.values() if new.since}
_WRITTEN = pattern(
    r"(?:cuda|cpu)(?:\s*\.\s*amp|[\s\\]+as\b|[\s\\]+import)\b|[\"'](?:cuda|cpu)[\"']",
    "cuda",
    "cpu",
)
"""How a file names one of the modules, or gets at it."""
_NEW = frozenset({"torch.amp", *(name for new in _OLD.values() for name in new.names)})


class DeprecatedCudaAmp(Rule):
    """A use of an API that torch.amp replaces."""

    code = "AMP401"
    name = "deprecated-cuda-amp"
    severity = Severity.WARNING
    fixes = (Applicability.SAFE, Applicability.UNSAFE)
    requires = (frozenset({"amp"}), frozenset({"cuda", "cpu"}), frozenset(_SINCE))
    pattern = _WRITTEN
    since = _SINCE
    moves_names = True
    respells = True

    def check(self, model: Model) -> Iterator[Diagnostic]:
        """Report every use, except where it is there for want of the new API."""
        from amp_lint.flow.guards import Guards

        from ._moved import moved

        renames = _renames(model.target_torch)
        guards = Guards(model.tree, model.names, model.values, _NEW, _ONE_MODULE)
        names = frozenset(renames) & frozenset(_OLD)
        for reference, fix in moved(model, renames, names, guards, around, "Use `torch.amp`"):
            message, help = _message(reference), _help(reference, renames[reference.name])
            diagnostic = self.report(model, reference.node, message, fix=fix, help=help)
            yield replace(diagnostic, deprecated=reference.name.rpartition(".")[0])


def _renames(target: tuple[int, int] | None) -> dict[str, str]:
    """Old name -> new name, for all that the oldest torch to be supported has."""
    if target is None or target >= _ONE_MODULE:
        new, renames = "torch.amp", {"torch.cuda.amp": "torch.amp", "torch.cpu.amp": "torch.amp"}
    else:
        new, renames = "torch", {}
    for old, row in _OLD.items():
        if target is None or row.since is None or target >= row.since:
            renames[old] = f"{new}.{row.word}"
    return renames


def _message(reference: Reference) -> str:
    effect = " and warns at every call" if reference.role in ("call", "decorator") else ""
    return f"`{reference.name}` is deprecated since torch 2.4{effect}"


def _help(reference: Reference, new: str) -> str:
    """The new name, and its arguments where the reference can have some."""
    if reference.role in ("annotation", "type"):
        return f"use `{new}`"
    old = BY_NAME[reference.name]
    keyword = f"{DEVICE_TYPE}=" if old in DECORATORS else ""
    use = f'use `{new}({keyword}"{old.device}", ...)`'
    return f"{use} and name the other arguments" if old.gives is Role.REGION else use
