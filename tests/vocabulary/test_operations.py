"""The table of operations against the torch that is installed."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import pytest

from amp_lint.vocabulary.operations import (
    ATTRIBUTES,
    CASTS,
    DIMENSIONED,
    DTYPES,
    HOMES,
    INTEGER_MAKERS,
    LEVEL,
    LIKE,
    MAKERS,
    MOVES,
    NEW,
    RANGES,
    REDUCTIONS,
    operations,
)

torch = pytest.importorskip("torch")
KEYS = {"cuda": "AutocastCUDA", "cpu": "AutocastCPU"}
UNTOLD = {"binary_cross_entropy", "_", "rnn", "gru", "lstm", "upsample", "norm", "linear_cross",
          "cat", "stack", "polar"}  # fmt: skip
"""Of what is listed: what raises, is private, or is reached by another name,
promotes as it does without autocast."""


def listed(device: str) -> set[str]:
    """The operations of which autocast of a device has an own kernel."""
    names = torch._C._dispatch_get_registrations_for_dispatch_key(KEYS[device])
    return {name.removeprefix("aten::").partition(".")[0] for name in names}


@pytest.mark.parametrize("device", KEYS)
def test_what_autocast_lists_has_a_policy(device: str) -> None:
    names = listed(device) & operations().gives.keys()
    told = {name for name in names if not any(word in name for word in UNTOLD)}
    assert len(told) > 20
    assert sorted(told - operations().policies[device].keys()) == []


def test_names_are_those_of_torch() -> None:
    homes = {prefix: set[str]() for prefix in HOMES.values()}
    for home, prefix in HOMES.items():
        owner = torch
        for part in home.split(".")[1:]:
            owner = getattr(owner, part)
        homes[prefix] |= set(dir(owner))
    unknown = [
        name for name in operations().gives if name.rpartition(".")[2] not in homes[_prefix(name)]
    ]
    assert unknown == []
    assert all(hasattr(torch.Tensor, n) for n in operations().methods)
    assert all(hasattr(torch.nn, name) for name in operations().modules)


def _prefix(name: str) -> str:
    home = name.rpartition(".")[0]
    return f"{home}." if home else ""


def test_dtypes_and_their_limits() -> None:
    for name, dtype in DTYPES.items():
        assert getattr(torch, name.removeprefix("torch.")) is getattr(torch, dtype)
    for name, dtype in CASTS.items():
        assert getattr(torch.ones(1), name)().dtype is getattr(torch, dtype)
    for dtype, (least, largest) in RANGES.items():
        limits = torch.finfo(getattr(torch, dtype))
        assert (limits.min, limits.max) == (least, largest)


def test_what_makes_tensors_is_there() -> None:
    assert all(hasattr(torch, name) for name in MAKERS | INTEGER_MAKERS | LIKE)
    assert all(hasattr(torch.Tensor, name) for name in NEW | MOVES | ATTRIBUTES - {"values"})
    assert {name for name in REDUCTIONS if name not in operations().gives} == set()


def results(*given: Any) -> Iterator[tuple[str, Any]]:  # noqa: ANN401
    """Each operation that takes some tensors and gives one, and what it gives."""
    for name in sorted(operations().gives):
        last = name.rpartition(".")[2]
        for home in (home for home, known in HOMES.items() if known == _prefix(name)):
            owner = torch
            for part in home.split(".")[1:]:
                owner = getattr(owner, part)
            try:
                with warnings.catch_warnings(action="ignore"):
                    made = getattr(owner, last)(*(each.clone() for each in given))
            except (AttributeError, TypeError, RuntimeError, ValueError, IndexError):
                continue
            if isinstance(made, torch.Tensor):
                yield name, made
            break


def test_what_reduces_everything() -> None:
    known = {*REDUCTIONS, *operations().fewer}
    made = [name for name, result in results(torch.rand(4, 4)) if not result.dim()]
    assert len(made) > 20
    assert [name for name in made if name not in known and name != "hash_tensor"] == []


def test_what_gives_dimensions() -> None:
    made = {name for name, result in results(torch.tensor(2.0)) if result.dim()}
    assert made - {"arange"} == DIMENSIONED - {"cat", "stack", "unsqueeze"}


def test_where_a_tensor_without_dimensions_counts() -> None:
    loose, solid = torch.tensor(2.0), torch.rand(4, 4).half()
    orders = ((loose, solid), (solid, loose))
    made = {n for pair in orders for n, result in results(*pair) if result.dtype is torch.float32}
    assert made - operations().follows_first - {"normal", "resize_as_"} == LEVEL
