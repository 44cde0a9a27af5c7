"""The user's own optimizer: does it move parameters as it would in float64?"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch

from amp_lint.verify.experiments.literals import Unknown, bound
from amp_lint.verify.experiments.training.replay import parameter_dtype
from amp_lint.verify.obligations import Construct, Program
from amp_lint.verify.proof import Failure, Point
from amp_lint.verify.terms import Const

OPTIMIZER = "optimizer"
UNKNOWN_RATE = 1e-4
GRADIENTS = (1.0, 1e-2, 1e-4, 0.0)
"""One for each weight, in every step. Rows of an embedding that are not used have 0."""
STEPS = 200
START = 1.0
TOLERANCE = 0.02
"""Relative error of the whole change; float32 stays below 1e-3 at the rates in use."""
_ROUNDING = STEPS * START * torch.finfo(torch.float32).eps
_DRAWN = tuple(10.0 ** (power / 2) for power in range(-16, 5))
"""Gradients of a picture: from those that float16 rounds to 0 to those of a large loss."""


@dataclass(frozen=True, slots=True)
class Moved:
    """By how much some steps moved the weights, one for each of `GRADIENTS`."""

    change: torch.Tensor
    raised: str = ""


def arguments(construct: Construct) -> dict[str, Any]:
    """The arguments but the parameters, with the defaults; an `Unknown` where not literal.

    Raises:
        TypeError: the constructor does not take them.
    """
    given = bound(kind(construct), (Const(None), *construct.args), construct.keywords)
    given.pop("params", None)
    return given


def kind(construct: Construct | None) -> type[torch.optim.Optimizer]:
    """The class of that name; SGD if it is not one of torch."""
    name = "" if construct is None else construct.name
    found = getattr(torch.optim, name.removeprefix("torch.optim."), None)
    if isinstance(found, type) and issubclass(found, torch.optim.Optimizer):
        return found
    return torch.optim.SGD


def moved(
    construct: Construct | None,
    dtype: torch.dtype,
    device: str,
    gradients: tuple[float, ...] = GRADIENTS,
) -> Moved:
    """What `STEPS` steps with the user's literal arguments do to weights of a dtype."""
    weight = torch.full((len(gradients),), START, dtype=dtype, device=device, requires_grad=True)
    weight.grad = torch.tensor(gradients, dtype=dtype, device=device)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            optimizer = kind(construct)([weight], **_literal(construct))
            for _ in range(STEPS):
                optimizer.step()
    except (RuntimeError, TypeError, ValueError) as error:
        return Moved(torch.empty(0), f"{type(error).__name__}: {str(error).splitlines()[0]}")
    return Moved(weight.detach().double().cpu() - START)


def _literal(construct: Construct | None) -> dict[str, Any]:
    given = {} if construct is None or not construct.name else arguments(construct)
    literal = {name: found for name, found in given.items() if not isinstance(found, Unknown)}
    literal.setdefault("lr", UNKNOWN_RATE)
    return literal


def failure(
    construct: Construct | None, dtype: torch.dtype, oracle: Moved, device: str
) -> Failure | None:
    """How weights of a dtype go elsewhere than in float64."""
    made = moved(construct, dtype, device)
    name = kind(construct).__name__
    if made.raised:
        return Failure(OPTIMIZER, made.raised, name)
    rows = [*zip(GRADIENTS, made.change.tolist(), oracle.change.tolist(), strict=True)]
    for gradient, change, wanted in sorted(rows, key=lambda row: math.isfinite(row[1])):
        if not error_of(change, wanted) <= TOLERANCE:
            text = f"{STEPS} steps of {name} move a weight by {change:.4g} instead of {wanted:.4g}"
            given = f"a gradient of {gradient:g}, {str(dtype).removeprefix('torch.')} parameters"
            return Failure(OPTIMIZER, text, given)
    return None


def error_of(change: float, wanted: float) -> float:
    """Relative error of a change, above what rounding to float32 costs; inf if not finite."""
    if not math.isfinite(change):
        return math.inf
    error = max(abs(change - wanted) - _ROUNDING, 0.0)
    return error / abs(wanted) if wanted else error


def compared(
    before: Program, after: Program, device: str
) -> Iterator[tuple[Failure | None, Failure | None]]:
    """For each optimizer that was changed, or has 16-bit parameters: how both programs fail."""
    old, new = dict(before.optimizers), dict(after.optimizers)
    for key in dict.fromkeys((*old, *new)) or ("",):
        one, other = old.get(key), new.get(key)
        dtypes = parameter_dtype(before, key), parameter_dtype(after, key)
        if same(one, other) and dtypes == (torch.float32, torch.float32):
            continue
        oracle = moved(one, torch.float64, device)
        if oracle.raised:
            continue  # needs a closure, or other gradients
        yield failure(one, dtypes[0], oracle, device), failure(other, dtypes[1], oracle, device)


def same(one: Construct | None, other: Construct | None) -> bool:
    """Whether two optimizers were made alike."""
    if one is None or other is None or not one.name or not other.name:
        return one == other
    return kind(one) is kind(other) and known(one) == known(other)


def known(construct: Construct) -> dict[str, Any]:
    """The arguments; none if the constructor does not take them."""
    try:
        return arguments(construct) if construct.name else {}
    except TypeError:
        return {}


def points(before: Program, after: Program, device: str) -> tuple[str, tuple[Point, ...]]:
    """What the magnitude is, and the error of the whole change of a weight at each gradient.

    Of the first optimizer.
    """
    key, construct = next(iter(before.optimizers), ("", None))
    wanted = moved(construct, torch.float64, device, _DRAWN)
    old, new = (
        _errors(moved(construct, parameter_dtype(p, key), device, _DRAWN), wanted)
        for p in (before, after)
    )
    name, rate = kind(construct).__name__, _literal(construct)["lr"]
    axis = f"gradient of a weight of {START:g}, the same in {STEPS} steps of {name}, lr {rate:g}"
    return axis, tuple(map(Point, _DRAWN, old, new))


def _errors(made: Moved, wanted: Moved) -> list[float]:
    if made.raised or wanted.raised:
        return [math.inf] * len(_DRAWN)
    return [*map(error_of, made.change.tolist(), wanted.change.tolist())]
