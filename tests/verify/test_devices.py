"""Experiments on a device whose kernels assert: a failed assertion ends all that a process does."""

from __future__ import annotations

import os

import pytest
import torch

from amp_lint.verify import Judgement, ProofSettings, Verdict, worker
from amp_lint.verify.experiments.operations import Setting, build
from amp_lint.verify.obligations import Expression, Place
from amp_lint.verify.terms import Const, Form, Input, Op

CUDA = Setting(torch.float16, "cuda")
"""A program for it can be built without a device; what it is given here lies on the CPU."""
X, Y = Input("x"), Input("y")
F = "torch.nn.functional."
HALF = torch.tensor([0.25, 0.5, 0.75], dtype=torch.float16)
LOGITS = torch.zeros(2, 3, dtype=torch.float16)
OUTSIDE = torch.tensor([7, 1])
ASSERTED = {
    "probabilities": (Op(Form.FUNCTION, f"{F}binary_cross_entropy", (X, Y)), HALF + 1, HALF),
    "classes": (Op(Form.FUNCTION, f"{F}cross_entropy", (X, Y)), LOGITS, OUTSIDE),
    "index": (Op(Form.OPERATOR, "getitem", (X, Y)), HALF, OUTSIDE),
    "method": (Op(Form.METHOD, "gather", (X, Const(0), Y)), HALF, OUTSIDE),
    "module": (
        Op(Form.APPLY, "", (Op(Form.MODULE, "torch.nn.CrossEntropyLoss", ()), X, Y)),
        LOGITS,
        OUTSIDE,
    ),
}


@pytest.mark.parametrize("case", ASSERTED)
def test_what_a_kernel_would_assert_is_an_error_of_the_cpu(
    case: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    op, x, y = ASSERTED[case]
    moved: list[torch.Tensor] = []
    old = torch.Tensor.cpu

    def cpu(one: torch.Tensor) -> torch.Tensor:
        moved.append(one)
        return old(one)

    monkeypatch.setattr(torch.Tensor, "cpu", cpu)
    with pytest.raises((RuntimeError, IndexError), match=r"out of bounds|between 0 and 1"):
        build(op, CUDA)({"x": x, "y": y})
    assert len(moved) == 2
    with pytest.raises((RuntimeError, IndexError)):
        build(op, Setting(torch.float16, "cpu"))({"x": x, "y": y})
    assert len(moved) == 2  # not tried twice on the CPU itself


def test_what_no_kernel_asserts_is_computed_as_it_is() -> None:
    program = build(Op(Form.FUNCTION, f"{F}binary_cross_entropy", (X, Y)), CUDA)
    assert program({"x": HALF, "y": HALF}).dtype is torch.float16


class _Ended(BaseException):
    """In place of the end of the process."""


@pytest.mark.parametrize(("device", "raises"), [("cpu", False), ("cuda", False), ("cuda", True)])
def test_a_process_whose_device_has_stopped_ends(
    device: str, raises: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What it has shown before is void: any result may have come after the failed assertion."""

    def stopped(_: object) -> None:
        raise RuntimeError("CUDA error: device-side assert triggered\nSearch for `cudaErrorAssert'")

    def end(code: int) -> None:
        raise _Ended(code)

    def judge(*_: object) -> Judgement:
        if raises:
            stopped(None)
        return found

    found = Judgement(Verdict.PROVEN, "")
    monkeypatch.setattr("amp_lint.verify.experiments.expressions.levels.judge", judge)
    monkeypatch.setattr(torch.cuda, "synchronize", stopped)
    monkeypatch.setattr(os, "_exit", end)
    asked = Expression(Place(1, 1), X, X)
    if device == "cpu":
        assert worker.judge(asked, ProofSettings(device=device)) is found
        return
    with pytest.raises(_Ended):
        worker.judge(asked, ProofSettings(device=device))
    assert capsys.readouterr().err == "CUDA error: device-side assert triggered\n"
