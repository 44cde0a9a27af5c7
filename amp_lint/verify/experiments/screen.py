"""Many inputs in one batched run: at which of them a program is plainly right.

What is found plain here is so to `Trial.hold` as well: no tolerance is wider than the one that it
begins with, and no less is asked for. It decides all other inputs, one by one.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import torch

from amp_lint.verify.experiments.inputs import InputCase, InputKind, Scenario
from amp_lint.verify.experiments.modes import (
    EXACT,
    ModeOutcome,
    Precision,
    Tensors,
    flat,
    largest,
    rounded,
    run_together,
)
from amp_lint.verify.experiments.operations import NotLiftedError, Program, Watch
from amp_lint.verify.experiments.tolerance import FACTOR, SUBNORMAL

_LARGEST_INPUT = 2**12
"""Numbers of an input beyond which nothing is gained."""
_MOST_AT_ONCE = 2**18
_SHARED = frozenset({InputKind.INDEX, InputKind.MASK})
"""What is the same at every input."""
_Parts = tuple[torch.Tensor, ...]


class Tried(Protocol):
    """The expressions of a trial, which run on one input."""

    scenario: Scenario
    device: str

    def bindings(self, case: InputCase, precision: Precision) -> Tensors:
        """The tensors of a case."""

    def program(self, which: str, precision: Precision, watch: Watch | None) -> Program:
        """A form to run by itself."""

    def outcome(self, which: str, case: InputCase, precision: Precision) -> ModeOutcome:
        """What a form computes of one input."""

    def eps(self, precision: Precision) -> float:
        """The rounding that is tolerated four times."""


class Errors(NamedTuple):
    """The largest of the values and of the gradients, in units of what is tolerated."""

    value: float
    gradient: float


@dataclass(frozen=True, slots=True)
class _Batch:
    """Values and gradients of several inputs, which are their first axis."""

    values: _Parts
    gradients: _Parts
    lost: torch.Tensor
    """Of each input whether a number on the way had lost digits."""

    @property
    def is_plain(self) -> torch.Tensor:
        """Of each input whether all is finite, and as good as float64 is."""
        finite = [_rows(part).isfinite().all(1) for part in (*self.values, *self.gradients)]
        return functools.reduce(torch.logical_and, finite, ~self.lost)


class _Meant(NamedTuple):
    """What is meant at one input."""

    values: _Parts
    gradients: _Parts
    largest: float
    """Of the input."""


@dataclass(slots=True, eq=False)
class _Subnormal:
    """Notes whether a number of float64 that is computed has lost digits."""

    found: torch.Tensor

    def __call__(self, name: str, tensor: torch.Tensor) -> torch.Tensor:
        """Look at a result."""
        if tensor.is_floating_point():
            plain = tensor.detach()
            self.found = self.found | ((plain.abs() < SUBNORMAL) & (plain != 0)).any()
        return tensor


class Screen:
    """Of one trial: what is meant at its inputs, as far as float64 says so without more ado."""

    def __init__(self, trial: Tried) -> None:
        self._trial = trial
        self._meant: dict[tuple[object, object], _Meant | None] = {}
        self._never: set[tuple[str, str]] = set()
        """The programs that do not run on several inputs at once, or not as on each."""
        size = sum(map(math.prod, trial.scenario.shapes.values()))
        self._most = _MOST_AT_ONCE // max(1, size) if size <= _LARGEST_INPUT else 0

    def right(
        self, which: str, cases: Sequence[InputCase], precision: Precision
    ) -> Iterator[tuple[InputCase, Errors]]:
        """The inputs at which a program is plainly right.

        In a region it is run on each by itself: of an operation that is made of others, these are
        what autocast sees in a batch.
        """
        self._expect(cases, precision)
        known = [case for case in cases if self._of(case, precision) is not None]
        alone = self._trial.outcome(which, known[0], precision) if known else ModeOutcome(error="-")
        if not known or not self._has_shapes(alone, known[0], precision):
            return
        for group in self._groups(known):
            found = self._one_by_one if precision.autocast else self._at_once
            batch = found(which, group, precision)
            if batch is None or not _is_like(batch, alone):
                self._never.add((which, precision.name))
                return
            meant = [self._of(case, precision) for case in group]
            errors = self._errors(batch.values, batch.gradients, meant, group, precision)
            yield from ((c, each) for c, each in zip(group, errors, strict=True) if max(each) <= 1)

    def _at_once(
        self, which: str, cases: Sequence[InputCase], precision: Precision
    ) -> _Batch | None:
        given = [self._trial.bindings(case, precision) for case in cases]
        return self._run(which, given, cases, precision)

    def _one_by_one(
        self, which: str, cases: Sequence[InputCase], precision: Precision
    ) -> _Batch | None:
        if (which, precision.name) in self._never:
            return None
        found = [self._trial.outcome(which, case, precision) for case in cases]
        pairs = zip(found, cases, strict=True)
        if not all(self._has_shapes(outcome, case, precision) for outcome, case in pairs):
            return None
        values, gradients = (
            tuple(map(torch.stack, zip(*parts, strict=True)))
            for parts in ([one.values for one in found], [one.gradients for one in found])
        )
        return _Batch(values, gradients, torch.zeros(len(found), dtype=torch.bool))

    def plainly(self, case: InputCase, precision: Precision, got: ModeOutcome) -> Errors | None:
        """The errors of an outcome at an input that was asked about; None if they are not plain."""
        meant = self._of(case, precision)
        if meant is None or not self._has_shapes(got, case, precision):
            return None
        values, gradients = (
            tuple(part[None] for part in parts) for parts in (got.values, got.gradients)
        )
        (errors,) = self._errors(values, gradients, [meant], [case], precision)
        return errors if max(errors) <= 1 else None

    def _has_shapes(self, got: ModeOutcome, case: InputCase, precision: Precision) -> bool:
        """Whether an outcome has the shapes of what is meant."""
        meant = self._of(case, precision)
        assert meant is not None
        return not got.error and all(
            [part.shape for part in mine] == [part.shape for part in others]
            for mine, others in ((got.values, meant.values), (got.gradients, meant.gradients))
        )

    def _of(self, case: InputCase, precision: Precision) -> _Meant | None:
        return self._meant.get((precision.dtype, case.key))

    def _errors(
        self,
        values: _Parts,
        gradients: _Parts,
        meant: Sequence[_Meant | None],
        cases: Sequence[InputCase],
        precision: Precision,
    ) -> list[Errors]:
        known = [one for one in meant if one is not None]
        eps = self._trial.eps(precision)
        inputs = torch.tensor([one.largest for one in known], dtype=torch.float64)
        incoming = torch.tensor([case.incoming for case in cases], dtype=torch.float64)
        of_values = _largest_errors(values, [one.values for one in known], inputs, eps)
        found = _largest_errors(gradients, [one.gradients for one in known], incoming, eps, True)
        return [Errors(*pair) for pair in zip(of_values, found, strict=True)]

    def _expect(self, cases: Sequence[InputCase], precision: Precision) -> None:
        """Compute what is meant at some inputs, where that is plain."""
        dtype = precision.dtype
        for group in self._groups([c for c in cases if (dtype, c.key) not in self._meant]):
            given = [rounded(self._trial.bindings(case, precision)) for case in group]
            oracle, own = (self._run(which, given, group, EXACT) for which in ("oracle", "own"))
            keys = [(dtype, case.key) for case in group]
            self._meant |= dict.fromkeys(keys)
            if oracle is None or own is None:
                continue
            for at in (oracle.is_plain & own.is_plain).nonzero().flatten().tolist():
                values, gradients = (
                    tuple(part[at] for part in parts) for parts in (oracle.values, oracle.gradients)
                )
                self._meant[keys[at]] = _Meant(values, gradients, largest(given[at]))

    def _groups(self, cases: Sequence[InputCase]) -> Iterator[Sequence[InputCase]]:
        if self._most:
            yield from (cases[at : at + self._most] for at in range(0, len(cases), self._most))

    def _run(
        self,
        which: str,
        given: Sequence[Tensors],
        cases: Sequence[InputCase],
        precision: Precision,
    ) -> _Batch | None:
        """What a program gives of several inputs at once; None if it does not run so."""
        if (which, precision.name) in self._never:
            return None
        try:
            return self._together(which, given, cases, precision)
        except NotLiftedError:
            raise
        except Exception:  # torch raises what it likes, also where one of the inputs does not fit
            self._never.add((which, precision.name))
            return None

    def _together(
        self,
        which: str,
        given: Sequence[Tensors],
        cases: Sequence[InputCase],
        precision: Precision,
    ) -> _Batch:
        seen = _Subnormal(torch.zeros((), dtype=torch.bool, device=self._trial.device))
        program = self._trial.program(which, precision, seen if precision == EXACT else None)
        names, kinds = self._trial.scenario.differentiable, self._trial.scenario.kinds
        fixed = {key: part for key, part in given[0].items() if kinds[key] in _SHARED}
        stacked = {
            key: torch.stack([one[key] for one in given]) for key in given[0].keys() - fixed.keys()
        }

        def one(batch: Tensors) -> _Parts:
            seen.found = torch.zeros_like(seen.found)
            return (*flat(program(batch)), seen.found)

        made = run_together(one, stacked, fixed, names, cases)
        return _Batch(made.values[:-1], made.gradients, made.values[-1])


def _largest_errors(
    parts: _Parts, meant: Sequence[_Parts], scale: torch.Tensor, eps: float, of_all: bool = False
) -> list[float]:
    """Of each input the largest error of its parts; ``of_all``: all of a part counts as scale."""
    found = torch.zeros(len(meant), dtype=torch.float64)
    for at, part in enumerate(parts):
        exact = _rows(torch.stack([one[at] for one in meant]))
        got = _rows(part.detach().double())
        if not got.numel():
            continue
        coarse = max(eps, torch.finfo(part.dtype).eps) if of_all else eps
        least = scale.to(got.device).clamp(min=1.0)
        least = least.maximum(exact.abs().amax(1)) if of_all else least
        slack = FACTOR * coarse * exact.abs().maximum(least[:, None])
        error = torch.where(got.isfinite(), (got - exact).abs() / slack, math.inf)
        found = found.maximum(error.amax(1).cpu())
    return [float(each) for each in found]


def _is_like(batch: _Batch, alone: ModeOutcome) -> bool:
    """Whether each input gets what it does alone, as far as dtypes and shapes tell."""

    def form(parts: _Parts, skip: int) -> list[Any]:
        return [(part.dtype, part.shape[skip:]) for part in parts]

    pairs = (batch.values, alone.values), (batch.gradients, alone.gradients)
    return not alone.error and all(form(one, 1) == form(other, 0) for one, other in pairs)


def _rows(part: torch.Tensor) -> torch.Tensor:
    """One row of numbers for each input."""
    return part.reshape(len(part), math.prod(part.shape[1:]))
