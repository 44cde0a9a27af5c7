"""Logarithms of what a label chooses from: a probability, or 1 minus it."""

from __future__ import annotations

import pytest

from amp_lint import engine
from amp_lint.registry import find
from amp_lint.selection import Selection
from amp_lint.text.source import Source

HEAD = "import torch\nimport torch.nn.functional as F\n\n\ndef loss(x, y, g, a, b):\n"
SIGMOID = "    p = x.sigmoid()\n"
ON_ONE_WAY = "    if x.min() < 0:\n        p = x.sigmoid()\n    else:\n        p = x\n"
OF_CLASSES = "    p = F.softmax(x, 1)[:, 0]\n"
FOUND = {
    "where": ("AMP302", SIGMOID, "torch.where(y == 1, p, 1 - p)"),
    "where, the other way round": ("AMP302", SIGMOID, "torch.where(y == 0, 1 - p, p)"),
    "products": ("AMP302", SIGMOID, "p * y + (1 - p) * (1 - y)"),
    "products, the other way round": ("AMP302", SIGMOID, "(1 - y) * (1 - p) + y * p"),
    "on one way": ("AMP302", ON_ONE_WAY, "torch.where(y == 1, p, 1 - p)"),
    "of classes": ("AMP301", OF_CLASSES, "torch.where(y == 1, p, 1 - p)"),
}
SILENT = {
    "a gate": ("AMP302", SIGMOID, "p * a + (1 - p) * b"),
    "a guard": ("AMP302", SIGMOID, "torch.where(p > 1e-3, p, torch.ones_like(p))"),
    "given": ("AMP302", "    p = a\n", "torch.where(y == 1, p, 1 - p)"),
    "from 2": ("AMP302", SIGMOID, "torch.where(y == 1, 2 - p, p - 2)"),
    "another one": ("AMP302", SIGMOID, "torch.where(y == 1, b, 1 - a)"),
    "rebound": ("AMP302", SIGMOID + "    p = a\n", "torch.where(y == 1, p, 1 - p)"),
}


def codes(code: str, made: str, chosen: str) -> list[tuple[str, bool, bool]]:
    """(Code, whether in preview, whether there is a fix) of what is found."""
    rule = find(code)
    assert rule is not None
    text = f"{HEAD}{made}    chosen = {chosen}\n    return -torch.log(chosen + 1e-8).mean()\n"
    found = engine.check(Source(text.encode(), "x.py"), Selection((rule,), preview=True))
    return [(each.code, each.preview, each.fix is not None) for each in found]


@pytest.mark.parametrize("case", FOUND)
def test_what_a_label_chooses_is_found_in_preview(case: str) -> None:
    assert codes(*FOUND[case]) == [(FOUND[case][0], True, False)]


@pytest.mark.parametrize("case", SILENT)
def test_other_choices_are_silent(case: str) -> None:
    assert codes(*SILENT[case]) == []
