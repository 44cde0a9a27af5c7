"""Logarithms of a parameter, for which several calls give one thing or another."""

from __future__ import annotations

import pytest

from amp_lint import engine
from amp_lint.registry import find
from amp_lint.selection import Selection
from amp_lint.text.source import Source

LIKELIHOOD = """\
import torch
import torch.nn.functional as F


def likelihood(probs, labels, weight=None):
    if weight is None:
        weight = torch.ones(probs.shape[1], device=probs.device)
    return F.nll_loss({}, labels, weight=weight)


class Plain:
    def __call__(self, probs, labels):
        return likelihood(probs, labels)


class Both:
    def __call__(self, logits, labels):
        probs = {}
        return likelihood(probs, labels) + probs.square().mean()
"""
FOUND = {
    "of one call": ("torch.log(probs)", "logits.softmax(1)"),
    "of a view": ("torch.log(probs.flatten(1))", "F.softmax(logits.flatten(2), dim=1)"),
    "with a floor": ("(probs + 1e-8).log()", "logits.softmax(1)"),
}
SILENT = {
    "no softmax": ("torch.log(probs)", "logits.exp()"),
    "an entropy": ("(probs * torch.log(probs + 1e-8)).sum(1)", "logits.softmax(1)"),
    "rebound": ("torch.log(weight)", "logits.softmax(1)"),
    "no logarithm": ("probs", "logits.log_softmax(1)"),
    "of itself": ("torch.log(likelihood(probs[0], labels))", "logits"),
}


def codes(logarithm: str, probabilities: str) -> list[tuple[str, bool, bool]]:
    """(Code, whether in preview, whether there is a fix) of what is found."""
    rule = find("AMP301")
    assert rule is not None
    source = Source(LIKELIHOOD.format(logarithm, probabilities).encode(), "x.py")
    found = engine.check(source, Selection((rule,), preview=True))
    return [(each.code, each.preview, each.fix is not None) for each in found]


@pytest.mark.parametrize("case", FOUND)
def test_what_some_calls_give_is_found_in_preview(case: str) -> None:
    assert codes(*FOUND[case]) == [("AMP301", True, False)]


@pytest.mark.parametrize("case", SILENT)
def test_what_calls_give_otherwise_is_silent(case: str) -> None:
    assert codes(*SILENT[case]) == []
