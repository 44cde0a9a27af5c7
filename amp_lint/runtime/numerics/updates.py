"""What an optimizer's step does with numbers: how large gradients are, and what does not move."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from amp_lint.mistake import At, Mistake
from amp_lint.runtime.findings import Findings
from amp_lint.runtime.frames import Place
from amp_lint.runtime.numerics.scalars import LOW, Scalars, is_plain, name_of

_MOST = 1 << 14
"""Elements of a gradient whose exponents are counted, spread over all."""
_TOGETHER = 1 << 18
"""Elements whose exponents are counted together."""
LEAST, MOST = -60, 40
"""Exponents beyond these are counted as these."""
_STEPS, _SHARE = 2, 0.3
"""Steps that must show that updates are lost, and the share of elements that do not move."""
_TORCH = "torch.optim."
"""Others may keep a copy in float32, or what rounding has lost."""


@dataclass(slots=True)
class _Moved:
    """What became of the parameters of an optimizer, in low precision, in all steps."""

    dtype: torch.dtype
    first: int
    steps: int = 0
    due: float = 0
    lost: float = 0


class Updates:
    """Looks at gradients before a step, and at parameters after it."""

    def __init__(self, scalars: Scalars, findings: Findings) -> None:
        self._scalars, self._findings = scalars, findings
        self._before: list[tuple[torch.Tensor, torch.Tensor]] = []
        self._step: list[tuple[Place, torch.dtype, int, int]] = []
        self._waiting: list[torch.Tensor] = []
        """Parts of gradients whose exponents are not counted yet."""
        self._histograms: list[torch.Tensor] = []
        self._moved: dict[Place, _Moved] = {}
        self.clipped: dict[int, tuple[torch.Tensor, float]] = {}
        """Id of a parameter -> the norm before its gradient was clipped in this step, the limit."""
        self.exponents = Counter[int]()
        """Of gradients without their scale, and before a norm was clipped: how much of their sum
        has which exponent, in ppm."""

    def forget(self) -> None:
        """A step begins."""
        self.clipped.clear()
        self._before.clear()
        self._step.clear()
        self._histograms.clear()

    def before(self, optimizer: torch.optim.Optimizer) -> None:
        """An optimizer is about to step."""
        scale = getattr(optimizer, "grad_scale", None)  # what a fused one divides by itself
        known = type(optimizer).__module__.startswith(_TORCH)
        for param, rate in _parameters(optimizer):
            if not is_plain(param.grad):
                continue
            self._count(param.grad, scale, self.clipped.get(id(param)))
            if known and rate and param.dtype in LOW:
                self._before.append((param, param.detach().clone()))
        self._count_waiting()

    def after(self, place: Place) -> None:
        """It has stepped."""
        for param, old in self._before:
            if param.grad is None:
                continue
            wanted = param.grad != 0
            numbers = wanted.sum(), (wanted & (param.detach() == old)).sum()
            due, lost = map(self._scalars.put, numbers)
            self._step.append((place, param.dtype, due, lost))
        self._before.clear()

    def _count(
        self,
        gradient: torch.Tensor,
        scale: torch.Tensor | None,
        clipped: tuple[torch.Tensor, float] | None,
    ) -> None:
        stride = max(1, gradient.numel() // _MOST)
        values = gradient.detach().flatten()[::stride].float()
        if scale is not None:
            values = values / scale
        if clipped is not None:
            norm, limit = clipped
            values = values * (norm.detach().to(values.device) / limit).clamp(min=1)
        other = bool(self._waiting) and self._waiting[0].device != values.device
        if other or stride > 1 or sum(map(len, self._waiting)) > _TOGETHER:
            self._count_waiting()
        self._waiting.append(values)
        if stride > 1:
            self._count_waiting(gradient.numel() / values.numel())

    def _count_waiting(self, weight: float = 1.0) -> None:
        """Count what waits; ``weight``: how many elements each of them stands for."""
        if not self._waiting:
            return
        values = torch.cat(self._waiting).abs_().nan_to_num_(0, 0, 0)
        self._waiting.clear()
        exponents = (torch.frexp(values).exponent - 1).clamp_(LEAST, MOST) - LEAST
        found = torch.zeros(MOST - LEAST + 1, device=values.device)
        self._histograms.append(found.scatter_add_(0, exponents.long(), values).mul_(weight))

    def judge(self, values: Sequence[float], step: int) -> None:
        """A step is over."""
        seen = set[Place]()
        for place, dtype, due, lost in self._step:
            moved = self._moved.setdefault(place, _Moved(dtype, step))
            moved.steps += place not in seen
            moved.due += values[due]
            moved.lost += values[lost]
            seen.add(place)
        self._add_exponents()

    def _add_exponents(self) -> None:
        if not self._histograms:
            return
        whole = torch.stack([each.cpu() for each in self._histograms]).double().sum(0)
        if total := float(whole.sum()):
            for index, part in enumerate((whole / total * 1e6).round().tolist()):
                if part:
                    self.exponents[index + LEAST] += int(part)

    def finish(self) -> None:
        """See which optimizers lose too many updates."""
        for place, moved in self._moved.items():
            if moved.steps < _STEPS or moved.lost <= _SHARE * moved.due:
                continue
            share, name = round(100 * moved.lost / moved.due), name_of(moved.dtype)
            self._findings.see(
                Mistake.LOST_UPDATES,
                {At.EVENT: place},
                lambda share=share, name=name: {"share": share, "dtype": name},  # type: ignore[misc]
                moved.first,
            )


def _parameters(optimizer: torch.optim.Optimizer) -> Iterator[tuple[Any, float]]:
    for group in optimizer.param_groups:
        for param in group["params"]:
            yield param, float(group.get("lr", 1.0))
