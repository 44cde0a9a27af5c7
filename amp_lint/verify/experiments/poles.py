"""Quotients that no precision knows: of a divisor that roundings take past 0.

Of ``x / (a + b)`` with ``a`` next to ``-b`` each order of the sum gives another number, of another
sign perhaps, or none at all. There an old program and a new one differ though both are right.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import torch

from amp_lint.verify.experiments.inputs import Scenario
from amp_lint.verify.experiments.modes import EXACT, Tensors, flat, program
from amp_lint.verify.experiments.names import words
from amp_lint.verify.experiments.operations import NotLiftedError, Program
from amp_lint.verify.experiments.tolerance import FACTOR, Noise, rounded_at_random
from amp_lint.verify.terms import Op, Term, children, walk

_QUOTIENTS = words("div divide reciprocal true_divide truediv")
_SEEDS = range(0, 800, 100)


def is_at_pole(term: Term, scenario: Scenario, given: Tensors, eps: float) -> bool:
    """Whether an expression divides by something that roundings within tolerance take past 0.

    Args:
        term: the expression.
        scenario: with its dtypes raised to float64.
        given: the inputs, in float64.
        eps: what an operation rounds by.
    """
    device = next((str(tensor.device) for tensor in given.values()), "cpu")
    divisors = dict.fromkeys(_divisors(term))
    return any(_passes_zero(part, scenario, given, eps, device) for part in divisors)


def _divisors(term: Term) -> Iterator[Term]:
    """What is computed and then divided by."""
    for part in walk(term):
        if isinstance(part, Op) and part.last in _QUOTIENTS:
            divisor = children(part)[:2][-1]
            if isinstance(divisor, Op):
                yield divisor


def _passes_zero(term: Term, scenario: Scenario, given: Tensors, eps: float, device: str) -> bool:
    noise = Noise(FACTOR * eps)
    try:
        (exact,) = _values(program(term, scenario, EXACT, device, None), given)
        noisy = program(term, scenario, EXACT, device, noise)
        for seed in _SEEDS:
            noise.draw = seed
            near = {key: _near(tensor, noise.eps, seed) for key, tensor in given.items()}
            (moved,) = _values(noisy, near)
            if bool((exact * moved < 0).any()):
                return True
    except NotLiftedError:
        raise
    except Exception:  # torch raises what it likes
        return False
    return False


def _values(run: Program, given: Mapping[str, torch.Tensor]) -> tuple[torch.Tensor, ...]:
    with torch.no_grad():
        return flat(run(given))


def _near(tensor: torch.Tensor, eps: float, seed: int) -> torch.Tensor:
    return rounded_at_random(tensor, eps, seed) if tensor.is_floating_point() else tensor
