"""Moving averages in low precision: what is far from what it follows, and does not move."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from amp_lint.mistake import At, Mistake
from amp_lint.runtime.findings import Findings
from amp_lint.runtime.frames import Place
from amp_lint.runtime.numerics.operations import Kernel, Operation
from amp_lint.runtime.numerics.scalars import LOW, Scalars, is_plain, name_of
from amp_lint.runtime.record import Numbers
from amp_lint.vocabulary import kernels

_FAR = 1 / 8
"""Of an element, by how much it has to differ from what it follows: less is soon rounding."""
_SHARE, _FEWEST = 0.5, 0.1
"""Of the elements that are far, those that do not move; and of all, those that are far."""
_SLOW = 0.1
"""The largest weight of what is followed."""
_MOST = 64
"""Tensors of a step that are looked at."""
_KEPT = 1 << 16
"""Elements of one, spread over all."""


@dataclass(frozen=True, slots=True)
class _Old:
    """An average before it is updated."""

    tensor: torch.Tensor
    """Itself, which is kept, and so its address."""
    values: torch.Tensor
    weight: float
    """Of what it follows."""


class Averages:
    """Looks at updates in place, by one operation or by a product and a sum."""

    def __init__(self, scalars: Scalars, findings: Findings) -> None:
        self._scalars, self._findings = scalars, findings
        self._old: dict[int, _Old] = {}
        self._updated: dict[Place, list[tuple[torch.dtype, int, int, int]]] = {}

    def forget(self) -> None:
        """A step begins."""
        self._old.clear()
        self._updated.clear()

    def before(self, kernel: Kernel, args: Sequence[Any]) -> None:
        """An operation is about to write to its first argument, or to those in it."""
        name = kernel.name.removeprefix(kernels.EACH)
        number = _number(args[-1]) if len(args) > 1 else None
        if name not in (kernels.INTERPOLATE, kernels.MULTIPLY) or number is None:
            return
        weight = number if name == kernels.INTERPOLATE else 1 - number
        if 0 < weight <= _SLOW:
            for each in _listed(args[0]):
                low = is_plain(each) and each.dtype in LOW and not each.requires_grad
                if low and len(self._old) < _MOST:
                    self._old[each.data_ptr()] = _Old(each, _some(each).clone(), weight)

    def look(self, operation: Operation) -> None:
        """One has been written."""
        name = operation.kernel.name.removeprefix(kernels.EACH)
        if name not in (kernels.INTERPOLATE, kernels.ADD) or len(operation.args) < 2:
            return
        factor = operation.keywords.get("alpha", 1) if name == kernels.ADD else None
        for new, followed in zip(
            _listed(operation.args[0]), _listed(operation.args[1]), strict=False
        ):
            old = self._old.pop(new.data_ptr(), None) if is_plain(new) else None
            if old is not None and old.tensor.shape == new.shape and is_plain(followed):
                scale = 1.0 if factor is None else float(factor) / old.weight
                self._count(operation.place, old, new, followed.expand(new.shape), scale)

    def _count(
        self, place: Place, old: _Old, new: torch.Tensor, followed: torch.Tensor, scale: float
    ) -> None:
        before = old.values.float()
        far = (_some(followed).float() * scale - before).abs() > _FAR * before.abs()
        numbers = far.sum(), (far & (_some(new) == old.values)).sum()
        due, lost = map(self._scalars.put, numbers)
        self._updated.setdefault(place, []).append((new.dtype, far.numel(), due, lost))

    def judge(self, values: Sequence[float], step: int) -> None:
        """A step is over."""
        for place, updated in self._updated.items():
            of = sum(number for _, number, _, _ in updated)
            due = sum(values[number] for _, _, number, _ in updated)
            lost = sum(values[number] for _, _, _, number in updated)
            if due > _FEWEST * of and lost > _SHARE * due:
                numbers: Numbers = {
                    "share": round(100 * lost / due),
                    "dtype": name_of(updated[0][0]),
                }
                self._findings.see(
                    Mistake.STUCK_AVERAGE,
                    {At.EVENT: place},
                    lambda numbers=numbers: numbers,  # type: ignore[misc]
                    step,
                )


def _some(tensor: torch.Tensor) -> torch.Tensor:
    """Some elements, the same ones of all tensors of one shape."""
    return tensor.detach().flatten()[:: max(1, tensor.numel() // _KEPT)]


def _listed(given: object) -> Sequence[Any]:
    return given if isinstance(given, (list, tuple)) else [given]


def _number(given: object) -> float | None:
    """A number that is known without waiting for the device."""
    if isinstance(given, torch.Tensor):
        known = given.ndim == 0 and given.device.type == "cpu" and given.is_floating_point()
        return float(given) if known else None
    return float(given) if isinstance(given, (int, float)) else None
