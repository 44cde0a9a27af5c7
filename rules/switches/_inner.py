"""Regions that cast to float16 inside of regions of bfloat16, as they get no dtype."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import libcst as cst

from amp_lint.amp.regions import Region
from amp_lint.flow.values import literal
from amp_lint.model import Model
from amp_lint.vocabulary.amp import DEVICE_AUTOCAST
from amp_lint.vocabulary.operations import DTYPES

_CUDA = frozenset(name for name, device in DEVICE_AUTOCAST.items() if device == "cuda")
"""What makes regions whose default is float16, whatever is around them."""


@dataclass(frozen=True, slots=True)
class Inner:
    """One such region, what is around it, and the calls that lead from there to it."""

    region: Region
    outer: Region
    calls: tuple[cst.Call, ...]


def in_bfloat16(model: Model) -> Iterator[Inner]:
    """The regions of a file that only its callers' regions, or its own, show to be wrong."""
    for region in {id(e.region.node): e.region for e in model.regions.entries}.values():
        if not model.tree.is_own(region.node) or not _is_float16(region):
            continue
        for chain in model.reach.running(region.node):
            outer = chain.entered[0].region
            if outer.node is not region.node and _may_be_bfloat16(model, outer):
                yield Inner(region, outer, chain.calls)
                break


def _is_float16(region: Region) -> bool:
    """Whether a region casts to float16 for certain, where it is on."""
    alone = not (region.starred or region.of_several or region.conditional)
    is_on = literal(region.enabled) is not False
    return alone and is_on and region.dtype is None and region.function in _CUDA


def _may_be_bfloat16(model: Model, region: Region) -> bool:
    """Whether a region has a dtype that is written out, of several perhaps, and one is bfloat16."""
    if region.dtype is None or region.of_several:
        return False
    values = model.values.alternatives(region.dtype)
    return any(DTYPES.get(n) == "bfloat16" for v in values for n in model.names.qualified(v))
