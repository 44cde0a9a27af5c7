"""AMP401: the device-specific modules torch.cuda.amp and torch.cpu.amp."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from amp_lint._lazy import cst
from amp_lint.edit import call_edits
from amp_lint.rule import Rule
from amp_lint.text.diagnostic import Applicability, Diagnostic, Edit, Severity
from amp_lint.vocabulary.amp import (
    CUDA_CUSTOM_BWD,
    CUDA_CUSTOM_FWD,
    CUSTOM_BWD,
    DEFAULT_DTYPES,
    DEPRECATED,
)
from amp_lint.vocabulary.meaning import Part, Role
from amp_lint.vocabulary.table import BY_NAME

if TYPE_CHECKING:
    from amp_lint.model import Model
    from amp_lint.syntax.references import Reference

_ONE_MODULE = (2, 0)  # torch.amp.autocast is there for certain; before, torch.autocast
_OLD = {name: new for old, new in DEPRECATED.items() for name in old.names}
_SINCE = {new.word: new.since for new in _OLD.values() if new.since}
_NEW = frozenset({"torch.amp", *(name for new in _OLD.values() for name in new.names)})
_DECORATORS = CUDA_CUSTOM_FWD, CUDA_CUSTOM_BWD
_DEVICE_TYPE = CUSTOM_BWD.keyword(Part.DEVICE)

Around = tuple[tuple[Edit, ...] | None, bool]
"""What changes around a name, None if nothing can be right; and whether that is safe."""


class DeprecatedCudaAmp(Rule):
    """A use of an API that torch.amp replaces."""

    code = "AMP401"
    name = "deprecated-cuda-amp"
    severity = Severity.WARNING
    fixes = (Applicability.SAFE, Applicability.UNSAFE)
    requires = (frozenset({"amp"}), frozenset({"cuda", "cpu"}), frozenset(_SINCE))
    since = _SINCE
    moves_names = True

    def check(self, model: Model) -> Iterator[Diagnostic]:
        """Report every use, except where it is there for want of the new API."""
        from amp_lint.edit.import_edits import Move, Moves
        from amp_lint.flow.guards import Guards
        from amp_lint.syntax.references import references, without_aliases

        renames = _renames(model.target_torch)
        guards = Guards(model.tree, model.names, model.values, _NEW, _ONE_MODULE)
        found = references(model.tree, model.names, frozenset(renames) & frozenset(_OLD))
        found = [reference for reference in found if not guards.chooses(reference.node)]
        moves = [Move(reference, *_around(model, reference)) for reference in found]
        fixes = Moves(model, moves, renames).fixes("Use `torch.amp`")
        for reference in without_aliases(model.names, found):
            message, help = _message(reference), _help(reference, renames[reference.name])
            fix = fixes.get(id(reference.node))
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
    keyword = f"{_DEVICE_TYPE}=" if old in _DECORATORS else ""
    use = f'use `{new}({keyword}"{old.device}", ...)`'
    return f"{use} and name the other arguments" if old.gives is Role.REGION else use


def _device(reference: Reference) -> str:
    return BY_NAME[reference.name].device


# --- what changes around the name -----------------------------------------------------------------


def _around(model: Model, reference: Reference) -> Around:
    old, call = BY_NAME[reference.name], reference.call
    keyword = f'{_DEVICE_TYPE}="{_device(reference)}"'
    if reference.role in ("type", "annotation", "alias"):
        return (), True
    if reference.role == "decorator" and old in _DECORATORS:
        end = model.tree.span(reference.node)[1]
        return (Edit(end, end, f"({keyword})"),), True
    if reference.role not in ("call", "partial") or call is None:
        return None, True
    given, skip = call.args[reference.skipped :], reference.skipped
    if not call_edits.fits(given, old.order) or _names_device(given):
        return None, True
    if old.gives is Role.REGION:
        return _around_autocast(model, reference, call)
    if old.gives is Role.SCALER:
        first = f'"{_device(reference)}"'
        return call_edits.rekey(model.tree, call, skip=skip, first=first), True
    return call_edits.add_keyword(model.tree, call, keyword), True


def _names_device(args: Sequence[cst.Arg]) -> bool:
    """Whether a string is given by position: meant as a device, taken as a switch or a scale."""
    return any(arg.keyword is None and isinstance(arg.value, cst.SimpleString) for arg in args)


def _around_autocast(model: Model, reference: Reference, call: cst.Call) -> Around:
    """The order of the parameters differs, so that all must be named.

    Through ``partial``, later positional arguments would land in other parameters.
    """
    pinned = _pinned(model, reference, call)
    edits = call_edits.rekey(
        model.tree, call, skip=reference.skipped, first=f'"{_device(reference)}"',
        names=BY_NAME[reference.name].order, last=pinned or (),
    )  # fmt: skip
    return edits, pinned is not None and reference.role != "partial"


def _pinned(model: Model, reference: Reference, call: cst.Call) -> list[str] | None:
    """Arguments for what the old call sets by itself and the new one takes from around it.

    None if that cannot be written down.
    """
    from amp_lint.amp.ambient import inherited

    device, given = _device(reference), call.args[reference.skipped :]
    default = DEFAULT_DTYPES[device]
    positional = [arg.value for arg in given if arg.keyword is None and not arg.star]
    values = dict(zip(BY_NAME[reference.name].order, positional, strict=False))
    values |= {arg.keyword.value: arg.value for arg in given if arg.keyword is not None}
    enabled = values.get("enabled")
    if isinstance(enabled, cst.Name) and enabled.value == "False":
        return []  # nothing is cast
    needed = inherited(model.regions, model.names, call, device, default) - values.keys()
    torch = model.names.spelling(call, "torch")
    if needed and (torch is None or any(arg.star for arg in given)):
        return None
    own = {"dtype": f"{torch}.{default}", "cache_enabled": "True"}
    return [f"{name}={own[name]}" for name in sorted(needed, reverse=True)]
