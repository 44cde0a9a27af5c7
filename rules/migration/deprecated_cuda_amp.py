"""AMP401: the device-specific modules torch.cuda.amp and torch.cpu.amp."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from amp_lint._lazy import cst
from amp_lint.edit import call_edits
from amp_lint.rule import Rule
from amp_lint.text.diagnostic import Applicability, Diagnostic, Edit, Severity

if TYPE_CHECKING:
    from amp_lint.model import Model
    from amp_lint.syntax.references import Reference

_SINCE = {"autocast": (1, 10), "GradScaler": (2, 3), "custom_fwd": (2, 4), "custom_bwd": (2, 4)}
_ONE_MODULE = (2, 0)  # torch.amp.autocast is there for certain; before, torch.autocast
_CPU = ("autocast", "GradScaler")
_OLD = {f"torch.cuda.amp.{member}": member for member in _SINCE}
_OLD |= {f"torch.cpu.amp.{member}": member for member in _CPU}
_NEW = frozenset(
    {"torch.amp", "torch.autocast", "torch.GradScaler", *(f"torch.amp.{m}" for m in _SINCE)}
)
_PARAMETERS = {
    "autocast": ("enabled", "dtype", "cache_enabled"),
    "GradScaler": ("init_scale", "growth_factor", "backoff_factor", "growth_interval", "enabled"),
    "custom_fwd": ("fwd", "cast_inputs"),
    "custom_bwd": ("bwd",),
}
_DTYPE = {"cuda": "float16", "cpu": "bfloat16"}  # what the old autocast casts to by default

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
    for old, member in _OLD.items():
        if target is None or target >= _SINCE[member]:
            renames[old] = f"{new}.{member}"
    return renames


def _message(reference: Reference) -> str:
    effect = " and warns at every call" if reference.role in ("call", "decorator") else ""
    return f"`{reference.name}` is deprecated since torch 2.4{effect}"


def _help(reference: Reference, new: str) -> str:
    """The new name, and its arguments where the reference can have some."""
    if reference.role in ("annotation", "type"):
        return f"use `{new}`"
    keyword = "device_type=" if "custom_" in new else ""
    use = f'use `{new}({keyword}"{_device(reference)}", ...)`'
    return f"{use} and name the other arguments" if new.endswith(".autocast") else use


def _device(reference: Reference) -> str:
    return "cuda" if reference.name.startswith("torch.cuda.") else "cpu"


# --- what changes around the name -----------------------------------------------------------------


def _around(model: Model, reference: Reference) -> Around:
    member, call = _OLD[reference.name], reference.call
    keyword = f'device_type="{_device(reference)}"'
    if reference.role in ("type", "annotation", "alias"):
        return (), True
    if reference.role == "decorator" and member.startswith("custom_"):
        end = model.tree.span(reference.node)[1]
        return (Edit(end, end, f"({keyword})"),), True
    if reference.role not in ("call", "partial") or call is None:
        return None, True
    given, skip = call.args[reference.skipped :], reference.skipped
    if not call_edits.fits(given, _PARAMETERS[member]) or _names_device(given):
        return None, True
    if member == "autocast":
        return _around_autocast(model, reference, call)
    if member == "GradScaler":
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
        names=_PARAMETERS["autocast"], last=pinned or (),
    )  # fmt: skip
    return edits, pinned is not None and reference.role != "partial"


def _pinned(model: Model, reference: Reference, call: cst.Call) -> list[str] | None:
    """Arguments for what the old call sets by itself and the new one takes from around it.

    None if that cannot be written down.
    """
    from amp_lint.amp.ambient import inherited

    device, given = _device(reference), call.args[reference.skipped :]
    positional = [arg.value for arg in given if arg.keyword is None and not arg.star]
    values = dict(zip(_PARAMETERS["autocast"], positional, strict=False))
    values |= {arg.keyword.value: arg.value for arg in given if arg.keyword is not None}
    enabled = values.get("enabled")
    if isinstance(enabled, cst.Name) and enabled.value == "False":
        return []  # nothing is cast
    needed = inherited(model.regions, model.names, call, device, _DTYPE[device]) - values.keys()
    torch = model.names.spelling(call, "torch")
    if needed and (torch is None or any(arg.star for arg in given)):
        return None
    own = {"dtype": f"{torch}.{_DTYPE[device]}", "cache_enabled": "True"}
    return [f"{name}={own[name]}" for name in sorted(needed, reverse=True)]
