"""Decompositions as experiments run them: the same matrix again, with signs that are decided."""

from __future__ import annotations

import pytest
import torch

from amp_lint.verify.experiments.decompositions import signed


def matrix(rows: int, columns: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(0)
    return torch.randn(rows, columns, generator=generator, dtype=torch.float64)


@pytest.fixture
def symmetric() -> torch.Tensor:
    drawn = matrix(5, 5)
    return drawn + drawn.mT


def test_eigenvectors_are_those_of_the_matrix(symmetric: torch.Tensor) -> None:
    values, vectors = signed("torch.linalg.eigh", torch.linalg.eigh)(symmetric)
    torch.testing.assert_close(vectors * values @ vectors.mT, symmetric)


def test_eigenvectors_do_not_depend_on_the_sign_that_a_kernel_gives(
    symmetric: torch.Tensor,
) -> None:
    def turned(given: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        values, vectors = torch.linalg.eigh(given)
        return values, -vectors

    found = [
        signed("torch.linalg.eigh", each)(symmetric)[1] for each in (torch.linalg.eigh, turned)
    ]
    torch.testing.assert_close(found[0], found[1])


@pytest.mark.parametrize(("rows", "columns"), [(5, 3), (3, 5), (4, 4)])
def test_singular_vectors_are_those_of_the_matrix(rows: int, columns: int) -> None:
    given, count = matrix(rows, columns), min(rows, columns)
    left, values, right = signed("torch.linalg.svd", torch.linalg.svd)(given)
    torch.testing.assert_close(left[:, :count] * values @ right[:count], given)


@pytest.mark.parametrize(("rows", "columns"), [(5, 3), (3, 5), (4, 4)])
@pytest.mark.parametrize("mode", ["reduced", "complete"])
def test_a_basis_is_that_of_the_matrix(rows: int, columns: int, mode: str) -> None:
    given = matrix(rows, columns)
    basis, upper = signed("torch.linalg.qr", torch.linalg.qr)(given, mode=mode)
    torch.testing.assert_close(basis @ upper, given)


def test_vectors_of_equal_values_mean_nothing() -> None:
    decompose = signed("torch.linalg.eigh", torch.linalg.eigh)
    values, vectors = decompose(torch.eye(3, dtype=torch.float64))
    assert values.tolist() == [1.0, 1.0, 1.0]
    assert vectors.isnan().all()
    assert decompose(torch.eye(3))[1].isfinite().all(), "a precision that is tried gives numbers"


def test_other_functions_are_left_as_they_are() -> None:
    assert signed("torch.linalg.inv", torch.linalg.inv) is torch.linalg.inv
    assert signed("torch.svd", torch.svd) is torch.svd, "whose V has its vectors as columns"
