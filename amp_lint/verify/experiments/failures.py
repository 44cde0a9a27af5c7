"""Failures in words: what came out instead of what, at which input."""

from __future__ import annotations

import math

import torch

from amp_lint.verify.experiments.inputs import LARGEST, InputCase, Scenario, bindings
from amp_lint.verify.experiments.modes import Precision
from amp_lint.verify.experiments.tolerance import Miss

_MOST_SHOWN = 16
_PLAIN = (int, float, bool)


def describe(miss: Miss, case: InputCase) -> str:
    """``-inf instead of -18 at [0, -18]``."""
    got, want = different(miss.got, miss.want)
    instead = f" instead of {want}" if math.isfinite(miss.want) else ""
    if not miss.is_gradient:
        return f"{got}{instead} at {case.show()}"
    incoming = {"one-hot": "one 1", "large": f"+-{LARGEST:g}"}.get(case.cotangent, "random")
    return f"gradient {got}{instead} at {case.show()}, incoming gradient {incoming}"


def setting(scenario: Scenario) -> str:
    """The numbers among the inputs that are no tensors: ``, T = 0.07``."""
    plain = ((key, value) for key, value in scenario.static.items() if type(value) in _PLAIN)
    return "".join(f", {key} = {value!r}" for key, value in plain)


def different(first: float, second: float) -> tuple[str, str]:
    """Two numbers, with as many digits as it takes to tell them apart."""
    shown = ((number(first, digits), number(second, digits)) for digits in range(4, 17))
    return next((pair for pair in shown if pair[0] != pair[1]), (number(first), number(second)))


def number(value: float, digits: int = 4) -> str:
    """A number with as many digits as a reader needs."""
    if math.isnan(value):
        return "NaN"
    return f"{value:.{digits}g}" if math.isfinite(value) else str(value)


def shown_input(scenario: Scenario, case: InputCase, precision: Precision) -> str:
    """The input as it could be typed: ``x = torch.tensor([[0., -18.]], dtype=torch.float16)``."""
    tensors = bindings(scenario, case, precision.dtype, "cpu")
    shown = [f"{key} = {_tensor(tensor, case)}" for key, tensor in tensors.items()]
    shown += [f"{key} = {value!r}" for key, value in scenario.static.items()]
    return "; ".join(shown)


def _tensor(tensor: torch.Tensor, case: InputCase) -> str:
    dtype = str(tensor.dtype)
    if tensor.numel() <= _MOST_SHOWN:
        return f"torch.tensor({tensor.tolist()}, dtype={dtype})"
    shape = tuple(tensor.shape)
    if bool((tensor == tensor.flatten()[0]).all()):
        return f"torch.full({shape}, {tensor.flatten()[0].item()}, dtype={dtype})"
    return f"{case.show()}, shape {shape}, {dtype}"
