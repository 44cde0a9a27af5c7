"""Fixes that are offered at one place and not at one that looks like it."""

from __future__ import annotations

import textwrap

import pytest

from amp_lint import engine
from amp_lint.registry import every_rule
from amp_lint.selection import Selection
from amp_lint.text.source import Source

OPTIONAL = """\
import torch

class Box:
    def step(self, loss):
        if self.accelerator is not None:
            self.accelerator.backward(loss)
        else:
            loss.backward()
        torch.nn.utils.clip_grad_norm_(self.parameters, 1.0)
        self.optimizer.step()
"""
CHOSEN = """\
import torch

def train(model, optimizer, loader):
    for x in loader:
        with torch.autocast("cuda", dtype=torch.float16):
            loss = model(x).mean()
        loss.backward()
        optimizer.step()
"""


def offered(code: str, text: str) -> list[bool]:
    """Whether each finding of a rule has a fix."""
    rule = next(rule for rule in every_rule() if rule.code == code)
    selection = Selection((rule,), preview=True)
    found = engine.check(Source(textwrap.dedent(text).encode(), "train.py"), selection)
    return [each.fix is not None for each in found]


@pytest.mark.parametrize(
    ("old", "new", "fixes"),
    [
        ("", "", [False]),  # where there is none, it clips nothing
        ("if self.accelerator is not None:", "if loss is not None:", [True]),
        ("        torch.nn", "        if self.accelerator:\n            torch.nn", [False]),
    ],
)
def test_a_clip_of_an_accelerator_that_there_may_not_be(
    old: str, new: str, fixes: list[bool]
) -> None:
    text = OPTIONAL.replace(old, new)
    assert offered("AMP502", text) == fixes


@pytest.mark.parametrize(
    ("dtype", "fixes"),
    [
        ("torch.float16", [True]),
        ("torch.bfloat16 if torch.cuda.is_bf16_supported() else torch.float16", [False]),
    ],
)
def test_a_dtype_that_somebody_chose(dtype: str, fixes: list[bool]) -> None:
    assert offered("AMP110", CHOSEN.replace("torch.float16", dtype)) == fixes


LEFT = """\
import torch
import torch.nn.functional as F

def score(model, x, values):
    with torch.autocast("cuda", dtype=torch.float16):
        dots = model.linear(x) @ x.mT
    return CALL
"""


@pytest.mark.parametrize(
    ("call", "fixes"),
    [
        ("F.log_softmax(dots, -1)", [True]),
        ("(dots - torch.logsumexp(dots, -1, keepdim=True)).exp() @ values", [False]),
    ],
)
def test_what_becomes_wider_and_meets_what_is_not(call: str, fixes: list[bool]) -> None:
    assert offered("AMP318", LEFT.replace("CALL", call)) == fixes
