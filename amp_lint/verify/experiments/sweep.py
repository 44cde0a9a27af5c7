"""The figures of a picture: errors of the old and the new code against the size of the input."""

from __future__ import annotations

import math

import torch

from amp_lint.verify.experiments.inputs import InputCase
from amp_lint.verify.experiments.modes import Precision
from amp_lint.verify.experiments.trial import Trial
from amp_lint.verify.proof import Point
from amp_lint.verify.terms import Op, walk

_COUNT = 40


def sweep(trial: Trial, precision: Precision, incoming: str) -> tuple[str, tuple[Point, ...]]:
    """What the magnitude is, and the relative errors at each of them.

    ``incoming`` names the gradient that comes in.
    """
    is_norm = trial.pair.bare is not None
    axis = "1 / standard deviation of a row" if is_norm else _axis(trial)
    powers = (
        8.0 * at / (_COUNT - 1) if is_norm else 4.0 * at / (_COUNT - 1) for at in range(_COUNT)
    )
    points = tuple(_point(trial, 10.0**power, precision, incoming) for power in powers)
    return f"{axis} ({precision.name})", points


def _axis(trial: Trial) -> str:
    names = (part.name.lower() for part in walk(trial.pair.before) if isinstance(part, Op))
    compares = any("softm" in name or "cross_entropy" in name for name in names)
    return "gap between two logits" if compares else "size of a negative input"


def _point(trial: Trial, magnitude: float, precision: Precision, incoming: str) -> Point:
    is_norm = trial.pair.bare is not None
    numbers = (0.0, 1.0 / magnitude) if is_norm else (0.0, -magnitude)
    case = InputCase(numbers, cotangent=incoming)
    before = _error(trial, "before", "meant", case, precision)
    after = _error(trial, "after", "oracle", case, precision)
    return Point(magnitude, before, after)


def _error(trial: Trial, which: str, oracle: str, case: InputCase, precision: Precision) -> float:
    """The largest error relative to the largest number of the reference; inf if not finite."""
    got, want = trial.outcome(which, case, precision), trial.widely(oracle, case, precision)
    if got.error or want.error:
        return math.inf
    errors = [
        _relative(a, b)
        for results in (_pairs(got.values, want.values), _pairs(got.gradients, want.gradients))
        for a, b in results
    ]
    return max(errors, default=0.0)


def _pairs(
    got: tuple[torch.Tensor, ...], want: tuple[torch.Tensor, ...]
) -> list[tuple[torch.Tensor, torch.Tensor]]:
    return [(a.double(), b) for a, b in zip(got, want, strict=False) if a.shape == b.shape]


def _relative(got: torch.Tensor, want: torch.Tensor) -> float:
    known = want.isfinite()
    if not bool(got[known].isfinite().all()):
        return math.inf
    error = (got - want)[known].abs()
    scale = max(1.0, float(want[known].abs().max()) if bool(known.any()) else 1.0)
    return float(error.max()) / scale if error.numel() else 0.0
