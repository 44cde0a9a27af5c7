"""Losses of probabilities that are one of several."""

from __future__ import annotations

import pytest

from amp_lint import engine, registry
from amp_lint.selection import Selection
from amp_lint.text.source import Source

PROGRAM = """\
import torch
from torch import nn
class Loss(nn.Module):
    def __init__(self, kind, names):
        super().__init__()
        if kind == "logits":
            self.loss = nn.BCEWithLogitsLoss()
        elif kind == "bce":
            self.loss = nn.BCELoss()
    def forward(self, x, y):
        return self.loss(x, y)
criterion = Loss()
with torch.autocast("cuda"):
    criterion(x, y)
"""


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("", "", '`kind == "bce"` chooses it'),
        ("self.loss = nn.BCEWithLogitsLoss()", "self.loss = nn.MSELoss()", "inputs"),
        ('elif kind == "bce"', "elif kind", None),
        ('elif kind == "bce"', "else", None),
        ('elif kind == "bce"', 'elif kind != "bce"', None),
        ('elif kind == "bce"', 'elif names.amp == "bce"', None),
        ('elif kind == "bce"', 'elif kind == "bce" and names', None),
    ],
)
def test_a_loss_that_a_text_chooses(old: str, new: str, told: str | None) -> None:
    rule = registry.find("AMP204")
    assert rule is not None and old in PROGRAM
    text = PROGRAM.replace(old, new) if old else PROGRAM
    found = engine.check(Source(text.encode(), "loss.py"), Selection((rule,), preview=True))
    assert [each.message.endswith(told or "") for each in found] == ([True] if told else [])
    assert [each.preview for each in found] == ([not new] if told else [])
