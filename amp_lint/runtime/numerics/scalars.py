"""Numbers that stay on their device until a step is over: they are read together."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import TypeGuard

import torch

LOW = (torch.float16, torch.bfloat16)
_DTYPES = (*LOW, torch.float32, torch.float64)


def is_plain(tensor: object) -> TypeGuard[torch.Tensor]:
    """Whether something is a tensor whose numbers can be looked at."""
    return (
        isinstance(tensor, torch.Tensor)
        and tensor.dtype in _DTYPES
        and tensor.layout is torch.strided
        and tensor.device.type != "meta"
        and tensor.numel() > 0
    )


def name_of(dtype: torch.dtype) -> str:
    """What messages call a dtype."""
    return str(dtype).rpartition(".")[2]


class Scalars:
    """Tensors of one element each, by number."""

    def __init__(self) -> None:
        self._kept: list[torch.Tensor] = []
        self._highest: dict[int, torch.Tensor] = {}
        """By numbers whose absolute values, with these, have the one that is asked for."""

    def put(self, value: torch.Tensor) -> int:
        """Keep a tensor of one element; its number."""
        self._kept.append(value)
        return len(self._kept) - 1

    def put_largest(self, tensor: torch.Tensor) -> int:
        """Keep the largest absolute value of a tensor, NaN where it holds NaN; its number."""
        found = tensor.detach()
        if found.device.type == "cpu":  # where a norm of float16 takes 80 times as long
            lowest, highest = torch.aminmax(found)
            self._highest[len(self._kept)] = highest
            return self.put(lowest)
        wide = torch.promote_types(found.dtype, torch.float32)  # torch refuses to narrow float64
        return self.put(torch.linalg.vector_norm(found, float("inf"), dtype=wide))

    def __len__(self) -> int:
        return len(self._kept)

    def read(self) -> Sequence[float]:
        """All values, in one transfer from each device; nothing is kept any more."""
        kept, highest = self._kept, self._highest
        self._kept, self._highest = [], {}
        found = _values([*kept, *highest.values()])
        for number, value in zip(highest, found[len(kept) :], strict=True):
            found[number] = max(abs(found[number]), abs(value))
        return found[: len(kept)]


def _values(kept: Sequence[torch.Tensor]) -> list[float]:
    """What tensors of one element hold."""
    alike = defaultdict[tuple[torch.device, torch.dtype], list[int]](list)
    for number, value in enumerate(kept):
        alike[value.device, value.dtype].append(number)
    found = [0.0] * len(kept)
    for numbers in alike.values():
        few = [kept[number] for number in numbers]
        values = torch.stack([each if each.ndim == 0 else each.reshape(()) for each in few])
        for number, value in zip(numbers, values.float().tolist(), strict=True):
            found[number] = value
    return found
