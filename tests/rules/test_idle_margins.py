"""Logarithms of a sum with a setting that is 0 by default."""

from __future__ import annotations

import pytest

from amp_lint import engine
from amp_lint.registry import find
from amp_lint.selection import Selection
from amp_lint.text.source import Source

RANKING = """\
import torch
from torch import nn


class Ranking(nn.Module):
    def __init__(self, margin{}, scale=1.0):
        super().__init__()
        self.margin = margin
        self.scale = scale

    def forward(self, better, worse):
        total = 0.0
        apart = torch.sigmoid(self.scale * (better - worse))
        return -torch.log({}).mean()

    def move(self, margin):
        self.margin = margin
"""


def codes(default: str, inside: str) -> list[tuple[str, bool, bool]]:
    """(Code, whether in preview, whether there is a fix) of what is found."""
    rule = find("AMP302")
    assert rule is not None
    source = Source(RANKING.format(default, inside).encode(), "x.py")
    found = engine.check(source, Selection((rule,), preview=True))
    return [(each.code, each.preview, each.fix is not None) for each in found]


@pytest.mark.parametrize("default", ["=0.0", "=0", ": float = 0.0"])
@pytest.mark.parametrize("inside", ["apart + self.margin", "apart.add(self.margin)"])
def test_what_is_0_by_default_keeps_nothing_from_0(default: str, inside: str) -> None:
    assert codes(default, inside) == [("AMP302", True, False)]


@pytest.mark.parametrize(
    ("default", "inside"),
    [
        ("=0.1", "apart + self.margin"),
        ("", "apart + self.margin"),
        ("=None", "apart + self.margin"),
        ("=False", "apart + self.margin"),
        ("=0.0", "apart + self.scale"),
        ("=0.0", "apart + total"),
        ("=0.0", "apart + self.margin + better.exp()"),
    ],
)
def test_what_may_be_more_is_silent(default: str, inside: str) -> None:
    assert codes(default, inside) == []
