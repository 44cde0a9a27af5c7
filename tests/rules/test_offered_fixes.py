"""Fixes that are offered at one place and not at one that looks like it."""

from __future__ import annotations

import textwrap
from typing import Any
from unittest.mock import Mock

import pytest

from amp_lint import engine
from amp_lint.edit import edits
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


class Scaler:
    """Skips every second step."""

    def __init__(self) -> None:
        self.taken, self.value, self.rounds = 0, 8.0, 0

    def scale(self, loss: Mock) -> Mock:
        return loss

    def get_scale(self) -> float:
        return self.value

    def step(self, optimizer: Mock) -> None:
        self.rounds += 1
        self.taken += self.rounds % 2

    def update(self) -> None:
        self.value /= 1 if self.rounds % 2 else 2


SCHEDULED = """\
import torch

def train(model, optimizer, scheduler, loader, amp):
    scaler = torch.amp.GradScaler("cuda")
    for index, x in enumerate(loader):
        {}
"""
PLAIN = """
if amp:
    scaler.scale(model(x)).backward()
    scaler.step(optimizer)
    scaler.update()
else:
    optimizer.step()
"""
UPDATED = "scaler.scale(model(x)).backward()\nscaler.step(optimizer)\nscaler.update()\n"


@pytest.mark.parametrize(
    ("body", "steps"),
    [
        (f"{UPDATED}optimizer.zero_grad()\nscheduler.step()  # each time", 3),
        (f"{UPDATED}if scheduler is not None:\n    scheduler.step()", 3),
        (f"{UPDATED}for each in [scheduler]:\n    each.step()", 3),
        (UPDATED.replace("scaler.update", "scheduler.step()\nscaler.update"), 3),
        (f"{PLAIN}# the rate\nscheduler.step()", 3),
        (f"{UPDATED}old_scale = 1\nscheduler.step()", 3),
        (f"{UPDATED}scheduler.step(); print(x)", None),
        (PLAIN.replace("else", "    scaler.update()\nelse") + "scheduler.step()", None),
    ],
)
def test_a_scheduler_counts_the_steps_that_were_taken(body: str, steps: int | None) -> None:
    text = SCHEDULED.format(body.replace("\n", "\n        "))
    rule = next(rule for rule in every_rule() if rule.code == "AMP112")
    found = engine.check(Source(text.encode(), "train.py"), Selection((rule,), preview=True))
    fixes = [each.fix for each in found]
    assert [each.code for each in found] == ["AMP112"]
    (fix,) = fixes
    assert (fix is not None) is (steps is not None)
    if fix is None:
        return
    scaler, scheduler = Scaler(), Mock()
    module: dict[str, Any] = {}
    exec(edits.splice(text, fix.edits).replace("import torch", ""), module)
    module["torch"] = Mock(amp=Mock(GradScaler=lambda device: scaler))
    module["train"](Mock(), Mock(), scheduler, range(6), True)
    assert (scaler.rounds, scaler.taken, scheduler.step.call_count) == (6, 3, steps)
