"""What an autocast call takes over from the code around it when it does not say."""

from __future__ import annotations

import libcst as cst

from amp_lint.amp.regions import Region, Regions
from amp_lint.flow.values import literal
from amp_lint.syntax.names import Names
from amp_lint.vocabulary.amp import DEVICE_AUTOCAST
from amp_lint.vocabulary.meaning import Part

_CALLED_ANYWHERE = frozenset({"forward"})
"""Methods that usually run inside a region which somebody else opened."""


def inherited(
    regions: Regions, names: Names, call: cst.Call, device: str, default: str
) -> set[Part]:
    """The parameters of autocast whose ambient value may differ from the default.

    Args:
        regions: the regions of the file.
        names: its names.
        call: the autocast call.
        device: its device type.
        default: what it casts to by default, outside any region.

    Returns:
        The dtype, the cache, or both. Looked at are the regions around the call in its own
        function; in a ``forward`` there may be others.
    """
    found: set[Part] = set()
    for region in regions.around(call):
        if device_of(region) not in (device, None):
            continue
        if changes_dtype(region, names, device, default):
            found.add(Part.DTYPE)
        if region.cache_enabled is not None and literal(region.cache_enabled) is not True:
            found.add(Part.CACHE)
        if not region.conditional and (region.dtype is not None or _sets_dtype(region)):
            return found
    function = regions.tree.ancestor(call, cst.FunctionDef)
    if function is not None and function.name.value in _CALLED_ANYWHERE:
        found.add(Part.DTYPE)
    return found


def changes_dtype(region: Region, names: Names, device: str, default: str) -> bool:
    """Whether what a device casts to in a region may be another dtype than its default."""
    if device_of(region) not in (device, None):
        return False
    if region.dtype is not None:
        return not names.is_only(region.dtype, {f"torch.{default}"})
    return region.starred or not region.function


def device_of(region: Region) -> str | None:
    """The device type of a region; None if unknown."""
    if region.function in DEVICE_AUTOCAST:
        return DEVICE_AUTOCAST[region.function]
    device = literal(region.device)
    return device.split(":")[0] if isinstance(device, str) else None


def _sets_dtype(region: Region) -> bool:
    """Whether a region has a dtype of its own even when none is given."""
    return region.function in DEVICE_AUTOCAST
