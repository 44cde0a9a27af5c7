"""Float64 with a wider exponent gives what float64 gives, and goes on where that ends."""

from __future__ import annotations

import math

import pytest
import torch

from amp_lint.verify.experiments import operations, wide
from amp_lint.verify.experiments.operations import Setting
from tests.verify.test_expression import term

EXPRESSIONS = [
    "torch.log(F.softmax(x, 1))",
    "x.softmax(dim=1).log()",
    "torch.log(nn.Softmax(dim=1)(x))",
    "F.softmin(x, 1).log2()",
    "torch.log10(torch.exp(x))",
    "torch.log(torch.sigmoid(x))",
    "torch.log(1 - torch.sigmoid(x))",
    "(1 - torch.sigmoid(x)) ** 2 * torch.log(torch.sigmoid(x))",
    "torch.log(1 + torch.exp(x))",
    "torch.log1p(x.exp())",
    "torch.log(torch.exp2(x))",
    "torch.log(torch.exp(x) / torch.exp(x).sum(1, keepdim=True))",
    "torch.log(torch.exp(x).mean(1))",
    "torch.log(torch.exp(x).sum())",
    "torch.exp(x).sqrt().reciprocal().square().log()",
    "torch.log(torch.exp(x).pow(2) * 3.0)",
    "-(x.softmax(1) * x.softmax(1).log()).sum(1)",
    "torch.log(x.softmax(1)[:, 0])",
    "torch.log(x.softmax(1).transpose(0, 1).chunk(2)[0])",
    "torch.log(x.softmax(1).amax(1))",
    "torch.log(x.softmax(1).gather(1, y))",
    "F.nll_loss(torch.log(torch.softmax(x, 1)), y[:, 0])",
    "torch.cat((x.softmax(1), x.sigmoid()), 1)",
    "x.exp() - x.exp() * 0.5",
    "torch.where(torch.isnan(x), x, x.sigmoid()).log()",
]


def computed(source: str, scale: float) -> tuple[tuple[torch.Tensor, torch.Tensor], ...]:
    """Values and gradients, in plain float64 and with wide exponents."""
    generator = torch.Generator().manual_seed(1)
    x = (torch.randn(4, 4, generator=generator, dtype=torch.float64) * scale).requires_grad_()
    found = []
    for build in (operations.build, wide.build):
        value = build(term(source), Setting())({"x": x, "y": torch.tensor([[0], [1], [2], [3]])})
        (gradient,) = torch.autograd.grad(value.sum(), x)
        found.append((value.detach(), gradient))
    return tuple(found)


@pytest.mark.parametrize("source", EXPRESSIONS)
def test_where_float64_has_an_answer_it_is_the_same(source: str) -> None:
    for plain, widened in zip(*computed(source, 1.0), strict=True):
        assert plain.isfinite().all()
        torch.testing.assert_close(widened, plain, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("source", EXPRESSIONS)
def test_elsewhere_it_agrees_wherever_float64_is_finite(source: str) -> None:
    (plain, _), (widened, _) = computed(source, 1000.0)
    known = plain.isfinite()
    torch.testing.assert_close(widened[known], plain[known], rtol=1e-6, atol=1e-6)
    assert (widened.isfinite() | ~known).all()


def test_logarithms_go_on_where_float64_ends() -> None:
    x = torch.tensor([[0.0, -5000.0]], dtype=torch.float64, requires_grad=True)
    value = wide.build(term("torch.log(F.softmax(x, 1))"), Setting())({"x": x})
    assert value.tolist() == [[0.0, -5000.0]]
    (gradient,) = torch.autograd.grad(value[0, 1], x)
    assert gradient.tolist() == [[-1.0, 1.0]]
    one = wide.build(term("torch.log(1 - torch.sigmoid(x))"), Setting())({"x": -x})
    assert one.tolist() == [[pytest.approx(-math.log(2)), -5000.0]]


def test_each_operation_is_run_once() -> None:
    nested = "x"
    for _ in range(30):
        nested = f"torch.tanh({nested} + 1)"
    seen: list[str] = []

    def watch(name: str, tensor: torch.Tensor) -> torch.Tensor:
        seen.append(name)
        return tensor

    x = torch.zeros(2, 2, dtype=torch.float64)
    wide.build(term(nested), Setting(watch=watch))({"x": x})
    assert len(seen) == 60
