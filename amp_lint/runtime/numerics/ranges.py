"""Where the first inf or NaN of a step comes from: each result and what it was made of."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.multiprocessing.reductions import StorageWeakRef

from amp_lint.runtime.frames import Place
from amp_lint.runtime.numerics.operations import Operation, Phase
from amp_lint.runtime.numerics.scalars import Scalars, is_plain, name_of
from amp_lint.runtime.record import Numbers
from amp_lint.runtime.regions import Regions
from amp_lint.vocabulary import kernels

_MOST_INPUTS = 8
"""Tensors of an operation that are followed."""
_MOST_ASIDE = 2000
"""Operations without gradients that are measured: an evaluation has many."""


@dataclass(slots=True)
class Result:
    """What is known of a tensor that was made or, with no operation, was there before."""

    scalar: int
    """The number of its largest absolute value."""
    operation: str
    place: Place
    phase: Phase
    dtype: torch.dtype
    source: torch.dtype | None
    """Of what was read first."""
    inputs: tuple[int, ...]
    chosen: bool
    """Whether somebody has written inf there, as a mask has."""
    region: str
    single: bool
    """Whether it is one number, as a loss is."""


@dataclass(slots=True, eq=False)
class Root:
    """The first result that is not finite."""

    result: Result
    kind: str
    largest: float
    """Of its inputs."""

    @property
    def is_cast(self) -> bool:
        """Whether a float16 number could not hold what was cast to it."""
        return self.result.operation == kernels.CAST and self.result.dtype is torch.float16

    @property
    def is_of_scale(self) -> bool:
        """Whether a float16 loss, or its gradient, cannot hold the scale."""
        result = self.result
        scaled = result.phase is Phase.SCALING and result.dtype is torch.float16
        return scaled or (self.is_cast and result.phase is Phase.BACKWARD and result.single)

    def numbers(self) -> Numbers:
        """What messages tell of it."""
        result = self.result
        named = {"operation": result.operation.strip("_"), "dtype": name_of(result.dtype)}
        told: Numbers = {**named, "kind": self.kind, "largest": self.largest}
        return {**told, "phase": result.phase.value, "region": result.region}


@dataclass(slots=True)
class _Step:
    """What a step has made so far."""

    results: list[Result] = field(default_factory=list)
    latest: dict[int, int] = field(default_factory=dict)
    """By the address of a storage, the number of its latest result."""
    alive: list[StorageWeakRef] = field(default_factory=list)
    """As long as these are there, no address is given to another storage."""
    losses: list[int] = field(default_factory=list)
    aside: int = 0
    """Operations without gradients so far."""


class Ranges:
    """Follows the largest value of each tensor through a step."""

    def __init__(self, scalars: Scalars, regions: Regions) -> None:
        self._scalars, self._regions = scalars, regions
        self._step = _Step()

    def forget(self) -> None:
        """A step begins."""
        self._step = _Step()

    def look(self, operation: Operation) -> None:
        """Take note of an operation."""
        step = self._step
        step.aside += operation.phase is Phase.ASIDE
        if operation.kernel.is_fresh or (
            operation.phase is Phase.ASIDE and step.aside > _MOST_ASIDE
        ):
            for made in operation.made:
                step.latest.pop(_address(made), None)
            return
        inputs = self._inputs(operation)
        source = operation.given[0].dtype if operation.given else None
        chosen = _is_chosen(operation)
        for made in operation.made:
            kernel = operation.kernel
            self._add(made, kernel.name, operation.place, operation.phase, source, inputs, chosen)

    def loss(self, losses: Iterable[torch.Tensor]) -> None:
        """A backward begins with these."""
        found = (self._step.latest.get(_address(each)) for each in losses if is_plain(each))
        self._step.losses += [number for number in found if number is not None]

    def result(self, tensor: torch.Tensor) -> int | None:
        """The number of what a tensor holds, if it was made in this step."""
        return self._step.latest.get(_address(tensor)) if is_plain(tensor) else None

    def scalar(self, number: int) -> int:
        """The number of its largest value among all scalars."""
        return self._step.results[number].scalar

    def root_of_loss(self, values: Sequence[float]) -> Root | None:
        """Why a loss of this step is not finite."""
        return self._first_root(self._step.losses, values)

    def root_of_gradients(
        self, gradients: Iterable[torch.Tensor], values: Sequence[float]
    ) -> Root | None:
        """Why gradients are not finite that this step has written."""
        found = [self.result(each) for each in gradients]
        return self._first_root([each for each in found if each is not None], values)

    def root_of_last(self, values: Sequence[float]) -> Root | None:
        """Why the last number of a step is not finite that was left in the middle."""
        for number in range(len(self._step.results) - 1, -1, -1):
            result = self._step.results[number]
            if (
                result.single
                and result.phase is Phase.FORWARD
                and result.operation not in kernels.COPIES
                and not math.isfinite(values[result.scalar])
            ):
                return self._first_root([number], values)
        return None

    def _first_root(self, numbers: Iterable[int], values: Sequence[float]) -> Root | None:
        bad = (each for each in numbers if not math.isfinite(values[self.scalar(each)]))
        return next((root for each in bad if (root := self._root(each, values))), None)

    def _root(self, number: int, values: Sequence[float]) -> Root | None:
        """Go back from a result to where it ceased to be finite; inf that was chosen is right."""
        results = self._step.results
        while True:
            result = results[number]
            value = values[result.scalar]
            bad = self._bad(result, values)
            same = [e for e in bad if math.isnan(values[self.scalar(e)]) or not math.isnan(value)]
            following = next(iter(same or [e for e in bad if self._is_made(e, values)]), None)
            if following is None:
                break
            number = following
        if result.chosen:
            return None
        finite = [values[self.scalar(each)] for each in result.inputs]
        return Root(result, "NaN" if math.isnan(value) else "inf", max(finite, default=value))

    def _bad(self, result: Result, values: Sequence[float]) -> list[int]:
        return [each for each in result.inputs if not math.isfinite(values[self.scalar(each)])]

    def _is_made(self, number: int, values: Sequence[float]) -> bool:
        """Whether an operation has given inf, and nobody has put it there."""
        result = self._step.results[number]
        while bad := self._bad(result, values):
            result = self._step.results[bad[0]]
        return bool(result.operation) and not result.chosen

    def _inputs(self, operation: Operation) -> tuple[int, ...]:
        known = []
        for each in operation.given[:_MOST_INPUTS]:
            number = self._step.latest.get(_address(each))
            if number is None:
                phase = operation.phase
                number = self._add(each, "", operation.place, phase, None, (), chosen=False)
            known.append(number)
        return tuple(known)

    def _add(
        self,
        tensor: torch.Tensor,
        operation: str,
        place: Place,
        phase: Phase,
        source: torch.dtype | None,
        inputs: tuple[int, ...],
        chosen: bool,
    ) -> int:
        step, number = self._step, len(self._step.results)
        scalar = self._scalars.put_largest(tensor)
        names = (tensor.dtype, source, inputs, chosen, self._region(), tensor.numel() == 1)
        step.results.append(Result(scalar, operation, place, phase, *names))
        address = _address(tensor)
        if address not in step.latest:
            step.alive.append(StorageWeakRef(tensor.untyped_storage()))  # type: ignore[no-untyped-call]
        step.latest[address] = number
        return number

    def _region(self) -> str:
        inner = self._regions.innermost
        if inner is None or not inner.region._enabled:
            return "no autocast"
        return f"autocast to {name_of(inner.region.fast_dtype)}"


def _address(tensor: torch.Tensor) -> int:
    storage: Any = tensor.untyped_storage()
    address: int = storage._cdata
    return address


def _is_chosen(operation: Operation) -> bool:
    """Whether inf stands in the call, or what is written is a constant."""
    given = [*operation.args, *operation.keywords.values()]
    numbers = [each for each in given if isinstance(each, float)]
    if numbers:
        return not all(map(math.isfinite, numbers))
    return operation.kernel.name in kernels.FILLS and all(
        each.ndim == 0 for each in operation.given
    )
