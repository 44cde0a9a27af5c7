"""How much of a gradient becomes 0 in float16: operations of backward are repeated in float32."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from amp_lint.mistake import At, Mistake
from amp_lint.runtime.findings import Findings
from amp_lint.runtime.frames import Place
from amp_lint.runtime.numerics.operations import Operation, Phase
from amp_lint.runtime.numerics.scalars import Scalars, is_plain
from amp_lint.vocabulary import kernels

_STEPS = 2
"""Steps that must show it: one alone may be that of a scale that is not found yet."""
_COUNT, _SUM = 0.25, 0.1
"""Shares of the results that are not 0, and of the sum of their absolute values."""


@dataclass(slots=True)
class _Lost:
    """What one line has lost in all steps."""

    first: int
    steps: int = 0
    of: float = 0
    zeros: float = 0
    sum: float = 0
    zeros_sum: float = 0


class Underflow:
    """Adds up, line by line, what backward has lost to 0."""

    def __init__(self, scalars: Scalars, findings: Findings) -> None:
        self._scalars, self._findings = scalars, findings
        self._step: list[tuple[Place, tuple[int, ...]]] = []
        self._lost: dict[Place, _Lost] = {}

    def forget(self) -> None:
        """A step begins."""
        self._step.clear()

    def look(self, operation: Operation) -> None:
        """Repeat an operation of backward, if it gives float16."""
        kernel = operation.kernel
        if operation.phase is not Phase.BACKWARD or kernel.in_place or kernel.is_random:
            return
        if kernel.name not in kernels.LINEAR or not operation.place.file:
            return
        if all(made.dtype is not torch.float16 for made in operation.made):
            return
        for made, exact in zip(operation.made, _repeated(operation), strict=False):
            if made.dtype is torch.float16 and made.shape == exact.shape:
                self._count(operation.place, made, exact)

    def _count(self, place: Place, made: torch.Tensor, exact: torch.Tensor) -> None:
        sizes = exact.abs()
        lost = torch.where(made == 0, sizes, 0)
        found = (sizes.count_nonzero(), lost.count_nonzero(), sizes.sum(), lost.sum())
        self._step.append((place, tuple(map(self._scalars.put, found))))

    def judge(self, values: Sequence[float], step: int) -> None:
        """A step is over that was not skipped."""
        for place in {place for place, _ in self._step}:
            self._lost.setdefault(place, _Lost(step)).steps += 1
        for place, numbers in self._step:
            lost, (of, zeros, total, gone) = self._lost[place], (values[each] for each in numbers)
            if total < float("inf"):
                lost.of += of
                lost.zeros += zeros
                lost.sum += total
                lost.zeros_sum += gone

    def finish(self) -> None:
        """See which lines lose too much."""
        for place, lost in self._lost.items():
            if lost.steps < _STEPS or lost.zeros <= _COUNT * lost.of:
                continue
            if lost.zeros_sum > _SUM * lost.sum:
                share = round(100 * lost.zeros / lost.of)
                size = round(100 * lost.zeros_sum / lost.sum)
                self._findings.see(
                    Mistake.GRADIENT_UNDERFLOW,
                    {At.EVENT: place},
                    lambda share=share, size=size: {"share": share, "size": size},  # type: ignore[misc]
                    lost.first,
                )


def _repeated(operation: Operation) -> list[torch.Tensor]:
    """What it gives in float32, of the same tensors; nothing if there is no such operation."""
    keywords = {name: _wide(value) for name, value in operation.keywords.items()}
    try:
        made = operation.function(*_wide(operation.args), **keywords)
    except (RuntimeError, TypeError, NotImplementedError):
        return []
    listed = made if isinstance(made, (list, tuple)) else [made]
    return [each for each in listed if is_plain(each)]


def _wide(value: Any) -> Any:  # noqa: ANN401
    """A value, or the values in it, with float32 for lower precision."""
    if isinstance(value, torch.Tensor):
        return value.float() if value.dtype in (torch.float16, torch.bfloat16) else value
    if value is torch.float16:
        return torch.float32
    if isinstance(value, Mapping):
        return {name: _wide(each) for name, each in value.items()}
    return type(value)(map(_wide, value)) if isinstance(value, (list, tuple)) else value
