"""The losses of all steps, kept on their device and read many at a time."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import torch

from amp_lint.runtime.frames import Place
from amp_lint.runtime.numerics.scalars import is_plain

AT_A_TIME = 50
"""Losses that are read together."""


@dataclass(frozen=True, slots=True)
class Bad:
    """The first loss that is not finite."""

    step: int
    place: Place
    kind: str


class Losses:
    """Finds the first that is not finite."""

    def __init__(self) -> None:
        self._kept: list[tuple[int, Place, torch.Tensor]] = []
        self._first: Bad | None = None

    def keep(self, losses: Iterable[torch.Tensor], step: int, place: Place) -> None:
        """A backward begins."""
        if self._first is not None:
            return
        self._kept += [
            (step, place, loss.detach()) for loss in losses if loss.numel() == 1 and is_plain(loss)
        ]
        if len(self._kept) >= AT_A_TIME:
            self._read()

    def first(self) -> Bad | None:
        """The first of all."""
        self._read()
        return self._first

    def _read(self) -> None:
        kept, self._kept = self._kept, []
        if self._first is not None or not kept:
            return
        values = torch.stack([loss.reshape(()).double().cpu() for _, _, loss in kept]).tolist()
        for (step, place, loss), value in zip(kept, values, strict=True):
            scaled = math.isinf(value) and loss.dtype is torch.float16  # which the scale may cause
            if not math.isfinite(value) and not scaled:
                self._first = Bad(step, place, "NaN" if math.isnan(value) else "inf")
                return
