"""Which scale float16 needs for the gradients of a run: their exponents against its window."""

from __future__ import annotations

import math
from bisect import bisect_left
from itertools import accumulate
from typing import NamedTuple

from amp_lint.runtime.record import Record

SMALLEST, LARGEST = -24, 15
"""Exponents of float16's numbers, those with fewer digits included."""
_HELD = 0.999
"""The share of the gradients' sum that has to stay."""


class Window(NamedTuple):
    """The exponents of the least and of the largest scale that holds the gradients."""

    least: int
    most: int

    @property
    def is_open(self) -> bool:
        """Whether there is such a scale."""
        return self.least <= self.most


def window(record: Record) -> Window | None:
    """The scales that are right; None where no gradient was looked at."""
    powers = sorted(record.exponents, reverse=True)
    if not powers:
        return None
    held = [*accumulate(record.exponents[power] for power in powers)]
    lowest = powers[bisect_left(held, _HELD * held[-1])]
    return Window(SMALLEST - lowest, LARGEST - 1 - powers[0])  # one to spare


def advice(record: Record) -> str | None:
    """One sentence on the scale; None where there was no scaler."""
    found, last = window(record), record.summary.last_scale
    if found is None or not last or not math.isfinite(last):
        return None
    if not found.is_open:
        return "No scale holds the gradients of all weights in float16; bfloat16 holds them."
    if found.least <= 0 <= found.most:
        return "The gradients of the weights fit into float16 without a scale."
    return (
        f"The gradients of the weights fit into float16 at a scale of 2**{found.least} to "
        f"2**{found.most}, which was 2**{math.log2(last):.0f} at last; bfloat16 needs none."
    )
