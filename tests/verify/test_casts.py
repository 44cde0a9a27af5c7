"""Values that get another dtype, where nothing else differs: never proven, and told."""

from __future__ import annotations

import pytest

from amp_lint.verify import Change, ProofSettings, Prover, Verdict
from amp_lint.verify.compare import compare
from amp_lint.verify.experiments.casts import judge
from amp_lint.verify.obligations import Cast, Place

TEXT = """
import torch
import kernels

def warp(flow, image, config, on):
    grid = kernels.grid(flow)
    grid = kernels.flip(grid) if on else grid
    result = kernels.sample(image, grid)
    size = torch.zeros(2, device=image.device)
    if on:
        result = kernels.blur(result)
    return result, size
"""
SAMPLE = "    result = kernels.sample(image, grid)\n"


def casts(old: str, new: str) -> tuple[list[Cast], tuple[str, ...]]:
    """What is cast otherwise where a piece of the text becomes another, and what else differs."""
    assert TEXT.count(old) == 1
    found = compare(TEXT, TEXT.replace(old, new))
    return [each for each in found.obligations if isinstance(each, Cast)], found.reasons


@pytest.mark.parametrize(
    ("old", "new", "text"),
    [
        ("sample(image, grid)", "sample(image, grid.float())", "`grid` in float32"),
        ("sample(image, grid)", "sample(image, grid.to(torch.float64))", "`grid` in float64"),
        ("sample(image, grid)", "sample(image, grid.type_as(image))", "in the dtype of `image`"),
        ("sample(image, grid)", "sample(image, grid.to(image.dtype))", "in the dtype of `image`"),
        ("return result,", "return result.type(image.dtype),", "`result` in the dtype of `image`"),
        (
            "zeros(2, device=image.device)",
            "zeros(2, device=image.device, dtype=flow.dtype)",
            "what `torch.zeros` makes in the dtype of `flow`",
        ),
        (
            "sample(image, grid)",
            "sample(image, grid.to(dtype=config.dtype_of()))",
            "`grid` in the dtype `config.dtype_of()`",
        ),
        (SAMPLE, f"    grid = grid.type_as(image)\n{SAMPLE}", "`grid` in the dtype of `image`"),
        (
            SAMPLE,
            f"    if grid.dtype != torch.float32:\n        grid = grid.float()\n{SAMPLE}",
            "`grid` in float32",
        ),
        (
            SAMPLE,
            f"    if torch.is_autocast_enabled() and grid.dtype in (torch.half, torch.bfloat16):\n"
            f"        grid, = grid,\n{SAMPLE}",
            "",
        ),
    ],
)
def test_a_cast_is_told(old: str, new: str, text: str) -> None:
    found, reasons = casts(old, new)
    assert bool(text) != bool(reasons)
    assert text in " ".join(each.after for each in found)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("sample(image, grid)", "sample(image, grid.half())"),
        ("sample(image, grid)", "sample(image, grid.to(torch.bfloat16))"),
        ("sample(image, grid)", "sample(image, grid.long())"),
        ("sample(image, grid)", "sample(image, flow.float())"),
        ("sample(image, grid)", "sample(image, grid.to(config))"),
        ("sample(image, grid)", "sample(image, grid.float(), on)"),
        ("sample(image, grid)", "sample(grid.float(), image)"),
        ("zeros(2, device=image.device)", "zeros(3, device=image.device, dtype=flow.dtype)"),
        ("zeros(2, device=image.device)", "ones(2, device=image.device, dtype=flow.dtype)"),
        (SAMPLE, f"    grid = flow.type_as(grid)\n{SAMPLE}"),
        (SAMPLE, f"    if on:\n        grid = grid.float()\n{SAMPLE}"),
        (SAMPLE, f"    if kernels.ready(grid.dtype):\n        grid = grid.float()\n{SAMPLE}"),
        (SAMPLE, f"    if grid.dtype:\n        grid = grid.float()\n        on = 0\n{SAMPLE}"),
    ],
)
def test_what_is_more_than_a_cast(old: str, new: str) -> None:
    _, reasons = casts(old, new)
    assert reasons


def test_a_cast_that_goes_may_lose_numbers() -> None:
    assert compare(TEXT.replace("grid)", "grid.float())"), TEXT).reasons
    assert not compare(TEXT.replace("grid)", "grid.half())"), TEXT).reasons


def test_a_cast_is_never_proven(proving_quickly: Prover) -> None:
    proof = proving_quickly.prove(Change(TEXT, TEXT.replace("grid)", "grid.float())")))
    assert proof.verdict is Verdict.CHANGES
    assert [hunk.verdict for hunk in proof.hunks] == [Verdict.CHANGES]


def test_whether_a_cast_mends_a_finding_is_not_known() -> None:
    obligation = Cast(Place(1, 1), "`x` as it is", "`x` in float32")
    assert judge(obligation, ProofSettings()).verdict is Verdict.NOT_COMPARABLE
