"""Decompositions whose vectors have a sign that nothing decides, with one that a rule decides.

``eigh``, ``svd`` and ``qr`` give vectors that may all be multiplied by -1: which of the two comes
depends on the kernel, and on the last digits of what it is given. Whoever uses them must not depend
on it, so an experiment that compares two precisions may choose. Where two values are one, any
mixture of their vectors is as good: in float64, which says what is meant, they are NaN there, which
asks for nothing.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch

Function = Callable[..., Any]
_APART = 2**-6
"""How far two values must be apart, as a part of the largest, for their vectors to be told apart by
16 bits."""


def signed(name: str, function: Function) -> Function:
    """A function of torch, by its qualified name, with signs that are decided if it decomposes."""
    choose = _CHOOSE.get(name)
    return function if choose is None else functools.partial(_chosen, choose, function)


def _chosen(choose: Function, function: Function, *args: object, **keywords: object) -> object:
    return choose(*function(*args, **keywords))


def _eigh(values: torch.Tensor, vectors: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return values, _meant(vectors * _signs(vectors), values)


def _svd(left: torch.Tensor, values: torch.Tensor, right: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Of ``right`` the rows are vectors."""
    count = values.shape[-1]
    signs = _signs(left)[..., :count]
    return (
        _meant(torch.cat([left[..., :count] * signs, left[..., count:]], -1), values),
        values,
        _meant(torch.cat([right[..., :count, :] * signs.mT, right[..., count:, :]], -2), values),
    )


def _qr(basis: torch.Tensor, upper: torch.Tensor) -> tuple[torch.Tensor, ...]:
    count = min(basis.shape[-1], upper.shape[-2])
    signs = _signs(basis)[..., :count]
    return (
        torch.cat([basis[..., :count] * signs, basis[..., count:]], -1),
        torch.cat([upper[..., :count, :] * signs.mT, upper[..., count:, :]], -2),
    )


def _meant(vectors: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    """Vectors of a matrix; NaN, in float64, where its values, of shape (..., n), are not apart."""
    if vectors.dtype is not torch.float64 or values.shape[-1] < 2:
        return vectors
    found = values.detach()
    gaps = found.diff(dim=-1).abs().amin(-1)
    apart = gaps > _APART * found.abs().amax(-1)
    return vectors * torch.where(apart, 1.0, torch.nan)[..., None, None]


def _signs(vectors: torch.Tensor) -> torch.Tensor:
    """1 or -1 for each column, of shape (..., 1, columns): that of a sum that is hardly ever 0."""
    rows = torch.arange(1, vectors.shape[-2] + 1, device=vectors.device)
    weights = torch.cos(rows.double()).to(vectors.dtype)
    sums = (vectors.detach() * weights[:, None]).sum(-2, keepdim=True)
    return torch.where(sums < 0, -1.0, 1.0).to(vectors.dtype)


_CHOOSE: dict[str, Function] = {
    "torch.linalg.eigh": _eigh,
    "torch.linalg.svd": _svd,
    "torch.linalg.qr": _qr,
}
