"""What a name that moves into ``torch.amp`` changes around it: its arguments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from amp_lint._lazy import cst
from amp_lint.edit import call_edits
from amp_lint.text.diagnostic import Edit
from amp_lint.vocabulary.amp import (
    CUDA_AUTOCAST,
    CUDA_CUSTOM_BWD,
    CUDA_CUSTOM_FWD,
    CUSTOM_BWD,
    DEFAULT_DTYPES,
)
from amp_lint.vocabulary.meaning import Part, Role
from amp_lint.vocabulary.table import BY_NAME

if TYPE_CHECKING:
    from amp_lint.model import Model
    from amp_lint.syntax.references import Reference

    from ._moved import Around

DECORATORS = CUDA_CUSTOM_FWD, CUDA_CUSTOM_BWD
DEVICE_TYPE = CUSTOM_BWD.keyword(Part.DEVICE)
"""The keyword by which their successors take the device."""


def around(model: Model, reference: Reference) -> Around:
    """What changes around one use of the old name."""
    old, call = BY_NAME[reference.name], reference.call
    keyword = f'{DEVICE_TYPE}="{_device(reference)}"'
    if reference.role in ("type", "annotation", "alias"):
        return (), True
    if reference.role == "decorator" and old in DECORATORS:
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
    enabled = values.get(CUDA_AUTOCAST.keyword(Part.ENABLED))
    if isinstance(enabled, cst.Name) and enabled.value == "False":
        return []  # nothing is cast
    taken = inherited(model.regions, model.names, call, device, default)
    torch = model.names.spelling(call, "torch")
    own = {Part.DTYPE: f"{torch}.{default}", Part.CACHE: "True"}
    words = {CUDA_AUTOCAST.keyword(part): value for part, value in own.items() if part in taken}
    needed = words.keys() - values.keys()
    if needed and (torch is None or any(arg.star for arg in given)):
        return None
    return [f"{name}={words[name]}" for name in sorted(needed, reverse=True)]


def _device(reference: Reference) -> str:
    return BY_NAME[reference.name].device
