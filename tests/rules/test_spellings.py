"""The same expression in many spellings gives the same finding."""

from __future__ import annotations

import pytest

from amp_lint import engine
from amp_lint.registry import all_rules
from amp_lint.selection import Selection
from amp_lint.text.source import Source

HEAD = """\
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import matmul as product

BIG, EPS = -1e9, 1e-8
multiply = torch.matmul


def helper(a, b):
    return a @ b


def wide(x):
    return torch.zeros(8, 8, device=x.device)


class Net(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.layer = nn.Linear(width, width)
        self.stack = nn.Sequential(nn.ReLU(), nn.Linear(width, width))
        self.big, self.eps = -1e9, 1e-8

    @torch.autocast("cuda", dtype=torch.float16)
    def forward(self, x, w, m):
"""
LOW = (
    "y = x @ w", "y = torch.matmul(x, w)", "y = x.matmul(w)", "y = product(x, w)",
    "y = multiply(x, w)", "y = helper(x, w)", "y = self.layer(x)", "y = self.stack(x)",
    "z = x @ w\n        y = z", "y = (x.bmm(w)).transpose(-2, -1).contiguous()",
    "y = torch.einsum('ij,jk->ik', x, w)", "y = F.linear(input=x, weight=w)",
    "y, z = x @ w, 1", "y = x.half()", "y = (x @ w) if m is None else (w @ x)",
    "y = x.to(dtype=torch.float16)", "f = lambda: x\n        y = x @ w", "y = (x @ w)[..., 0]",
)  # fmt: skip
FOUND = {
    "AMP312": (
        "y.abs() + 1e-8", "1e-8 + y.abs()", "torch.add(y, 1e-8)", "y.clamp(min=1e-8)",
        "y.clamp_min(EPS)", "torch.clamp(y, min=self.eps)", "y.mean(dim=-1) + 10 ** -9",
    ),
    "AMP313": (
        "y.masked_fill(m, -1e9)", "torch.masked_fill(y, m, -1e9)", "y.masked_fill_(m, value=BIG)",
        "torch.where(m, y, self.big)", "y.masked_fill(~m, -10.0 ** 9)", "y + -1e9", "y - 1e9",
        "torch.full_like(y, fill_value=-1e9)", "y.masked_fill(m, torch.finfo(torch.float32).min)",
    ),
    "AMP317": (
        "(y * y).mean(-1).sqrt()", "(y * y).sum(dim=-1, keepdim=True).sqrt()",
        "torch.mean(y * y, dim=-1).sqrt()", "torch.sqrt(torch.sum(input=y * y, dim=-1))",
        "torch.mul(y, y).mean(-1).sqrt()", "y.mul(y).sum(-1).sqrt()",
        "((y) * (y)).mean(-1, True).sqrt()", "torch.mean((y * y), -1).rsqrt()",
        "torch.multiply(y, y).mean().sqrt()", "y.multiply(other=y).mean().sqrt()",
    ),
    "AMP320": (
        "wide(x).index_copy_(0, m, y)", "wide(x).index_add_(0, m, source=y)",
        "wide(x).scatter_(0, m, y)", "wide(x).scatter_add_(dim=0, index=m, src=y)",
        "wide(x).masked_scatter_(m, y)", "wide(x).index_put_((m,), y)",
        "wide(x).scatter_reduce_(0, m, y, 'sum')", "wide(x).scatter_(0, index=m, src=y)",
        "torch.zeros(8, 8, device=x.device).index_copy_(dim=0, index=m, source=y)",
        "x.new_zeros(8, 8, dtype=torch.float32).index_add_(0, m, y)",
    ),
    "AMP319": ("torch.linalg.inv(y)", "torch.linalg.inv(A=y)", "y.inverse()", "torch.inverse(y)"),
}  # fmt: skip
SILENT = "y = (x @ w).float()"
WHATEVER_IS_LOW = {
    "AMP314": (
        "(x @ x.transpose(-2, -1) * 0.125).softmax(-1)", "((x @ x.mT) / 8).softmax(-1)",
        "torch.softmax(torch.matmul(x, x.transpose(-2, -1)) / 8.0, dim=-1)",
        "F.softmax(torch.bmm(x, x.transpose(1, 2)) * 0.125, -1)",
        "(torch.einsum('bid,bjd->bij', x, x) * 0.125).softmax(dim=-1)",
        "nn.Softmax(dim=-1)(x.matmul(x.mT).div(8))", "torch.mul(x @ x.mT, 0.125).softmax(-1)",
        "(x.bmm(x.mT) * x.shape[-1] ** -0.5).softmax(-1)", "(0.125 * (x @ x.mT)).softmax(-1)",
        "torch.softmax(input=product(x, x.mT) * 0.125, dim=-1)",
    ),
    "AMP315": (
        "torch.arange(9999, device='cuda', dtype=torch.float16)",
        "torch.arange(9999, device=x.device).half()",
        "torch.arange(0, 9999, device='cuda').to(torch.float16)",
        "torch.arange(start=0, end=9999, device='cuda').to(dtype=torch.half)",
        "torch.arange(9999, device='cuda').type(torch.float16)",
        "torch.arange(9999, device='cuda').float()[:, None].mm(w)",
        "torch.arange(9999., device='cuda')[:, None] @ w",
        "torch.einsum('i,j->ij', torch.arange(9999, device='cuda').float(), w)",
        "torch.matmul(torch.arange(9999, device=w.device, dtype=torch.float32)[:, None], w)",
        "product(torch.arange(0.0, 9999.0, device=x.device)[:, None], w)",
    ),
}  # fmt: skip
BESIDE = {
    "AMP314": ("((x * 0.125) @ x.mT).softmax(-1)", "(x @ x.mT).softmax(-1)"),
    "AMP315": (
        "torch.arange(2048, device='cuda').half()", "torch.arange(9999, device='cuda').float()",
    ),
}  # fmt: skip


def found(text: str, code: str) -> list[str]:
    """The codes of what one rule finds in a text."""
    rule = next(rule for rule in all_rules() if rule.code == code)
    selection = Selection((rule,), preview=True)
    return [each.code for each in engine.check(Source(text.encode(), "x.py"), selection)]


def codes(low: str, line: str, code: str) -> list[str]:
    return found(f"{HEAD}        {low}\n        return {line}\n", code)


@pytest.mark.parametrize("code", FOUND)
def test_what_is_low_is_low_in_every_spelling(code: str) -> None:
    for low in LOW:
        assert codes(low, FOUND[code][0], code) == [code], low


@pytest.mark.parametrize("code", FOUND)
def test_every_spelling_is_found(code: str) -> None:
    for line in FOUND[code]:
        assert codes(LOW[0], line, code) == [code], line
        assert codes(SILENT, line, code) == [], line


@pytest.mark.parametrize("code", WHATEVER_IS_LOW)
def test_every_spelling_of_what_autocast_lowers(code: str) -> None:
    for line in WHATEVER_IS_LOW[code]:
        assert codes(SILENT, line, code) == [code], line
    for line in BESIDE[code]:
        assert codes(SILENT, line, code) == [], line


AVERAGE = """\
import torch


class Average:
    def __init__(self, count):
        self.kept = torch.zeros(count, dtype=torch.bfloat16)

    @torch.no_grad()
    def update(self, new):
        {}
"""
KEPT = (
    "self.kept.mul_(0.999).add_(new, alpha=0.001)", "self.kept = self.kept * 0.999 + new * 0.001",
    "self.kept = 0.999 * self.kept + 0.001 * new", "self.kept.lerp_(new, 0.001)",
    "self.kept.copy_(self.kept * 0.999 + (1 - 0.999) * new)", "self.kept.lerp_(new, weight=0.001)",
    "self.kept = torch.lerp(self.kept, new, 0.001)",
    "self.kept = self.kept.mul(0.999).add(new, alpha=0.001)",
    "self.kept.data.mul_(0.999).add_(new.data, alpha=1 - 0.999)",
    "self.kept.data.copy_(self.kept.data * 0.999 + new.data * 0.001)",
    "self.kept += 0.001 * (new - self.kept)", "self.kept -= 0.001 * (self.kept - new)",
    "self.kept.add_((new - self.kept) * 0.001)", "self.kept.sub_((1 - 0.999) * (self.kept - new))",
    "self.kept = torch.add(self.kept * 0.999, new, alpha=0.001)",
)  # fmt: skip
NO_AVERAGE = (
    "self.kept.mul_(0.999)", "self.kept.copy_(new * 0.999)", "self.kept += 0.001 * new",
    "self.kept += 0.001 * (self.kept - new)", "self.kept = torch.lerp(new, self.kept, 0.001)",
    "self.kept.add_(new - self.kept)", "self.kept = self.kept * 0.9 + new * 0.1",
)  # fmt: skip


def averages(line: str, dtype: str = "bfloat16") -> list[str]:
    return found(AVERAGE.replace("bfloat16", dtype).format(line), "AMP316")


@pytest.mark.parametrize("line", KEPT)
def test_a_moving_average_in_every_spelling(line: str) -> None:
    assert averages(line) == ["AMP316"]
    assert averages(line, "float32") == []


@pytest.mark.parametrize("line", NO_AVERAGE)
def test_what_is_no_moving_average(line: str) -> None:
    assert averages(line) == []
