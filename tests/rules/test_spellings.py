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
    "AMP319": ("torch.linalg.inv(y)", "torch.linalg.inv(A=y)", "y.inverse()", "torch.inverse(y)"),
}  # fmt: skip
SILENT = "y = (x @ w).float()"


def codes(low: str, line: str, code: str) -> list[str]:
    text = f"{HEAD}        {low}\n        return {line}\n"
    rule = next(rule for rule in all_rules() if rule.code == code)
    selection = Selection((rule,), preview=True)
    return [found.code for found in engine.check(Source(text.encode(), "x.py"), selection)]


@pytest.mark.parametrize("code", FOUND)
def test_what_is_low_is_low_in_every_spelling(code: str) -> None:
    for low in LOW:
        assert codes(low, FOUND[code][0], code) == [code], low


@pytest.mark.parametrize("code", FOUND)
def test_every_spelling_is_found(code: str) -> None:
    for line in FOUND[code]:
        assert codes(LOW[0], line, code) == [code], line
        assert codes(SILENT, line, code) == [], line
