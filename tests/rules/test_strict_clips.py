"""Clips that raise at an overflow, and whether a scaler could have provoked it."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

import pytest

from tests.programs import model_of

if TYPE_CHECKING:  # where mypy finds what is installed below `amp_lint.rules`
    from rules.scaling._anomaly import anomalies
    from rules.scaling._refusals import Refusals
    from rules.scaling._strict_clips import StrictClips
else:
    from amp_lint.rules.scaling._anomaly import anomalies
    from amp_lint.rules.scaling._refusals import Refusals
    from amp_lint.rules.scaling._strict_clips import StrictClips

PROGRAM = """\
from torch.amp import GradScaler
from torch.nn.utils import clip_grad_norm_, get_total_norm
def train(data, opt, amp):
    s = GradScaler()
    for x in data:
        s.scale(loss(x)).backward()
        s.unscale_(opt)
        clip_grad_norm_(x.parameters(), 1.0, error_if_nonfinite=True)
        s.step(opt)
        s.update()
"""


def strict(old: str = "", new: str = "") -> list[str]:
    """The arguments reported after a change of the program."""
    assert old in PROGRAM
    model = model_of(PROGRAM.replace(old, textwrap.dedent(new)) if old else PROGRAM)
    return [model.tree.source(clip.argument) for clip in model.part(StrictClips).all]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("", ""),
        ("        s.unscale_(opt)\n", ""),
        ("s.unscale_(opt)", "if amp: s.unscale_(opt)"),
        ("s = GradScaler()", "s = GradScaler(enabled=amp)"),
    ],
)
def test_found(old: str, new: str) -> None:
    assert strict(old, new) == ["error_if_nonfinite=True"]


@pytest.mark.parametrize(
    ("call", "found"),
    [
        ("clip_grad_norm_(p, 1.0, 2.0, True)", ["True"]),
        ("clip_grad_norm_(p, 1.0, 2.0, False)", []),
        ("clip_grad_norm_(p, 1.0, True)", []),
        ("clip_grad_norm_(*p, error_if_nonfinite=True)", []),
        ("clip_grad_norm_(p, error_if_nonfinite=amp)", []),
        ("clip_grad_norm_(p, 1.0, foreach=True)", []),
        ("get_total_norm(p, 2.0, True)", ["True"]),
        ("get_total_norm(p, 2.0, False, True)", []),
    ],
)
def test_argument(call: str, found: list[str]) -> None:
    own = "clip_grad_norm_(x.parameters(), 1.0, error_if_nonfinite=True)"
    assert strict(own, call) == found


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("s = GradScaler()", "s = GradScaler(enabled=False)"),
        ("s.scale(loss(x)).backward()", "loss(x).backward()"),
        ("s.unscale_(opt)", "x.grad.mul_(0)"),
        ("clip_grad_norm_(", "helper("),
    ],
)
def test_silent(old: str, new: str) -> None:
    assert not strict(old, new)


@pytest.mark.parametrize(
    ("clause", "found"), [("except E", 0), ("except (A, B) as e", 0), ("finally", 1)]
)
def test_caught(clause: str, found: int) -> None:
    text = PROGRAM.replace("        clip", "        try: clip")
    text = text.replace("        s.step", f"        {clause}: pass\n        s.step")
    assert len(model_of(text).part(StrictClips).all) == found


ANOMALY = """\
import torch
if __name__ == "__main__":
    torch.autograd.set_detect_anomaly(True)
def train(net, opt, batches, debug):
    scaler = torch.amp.GradScaler("cuda")
    for x in batches:
        with torch.autocast("cuda"):
            loss = net(x)
        scaler.scale(loss).backward()
        scaler.step(opt)
        scaler.update()
"""
BACKWARD = "        scaler.scale(loss).backward()\n"
AROUND = (
    "        with torch.autograd.detect_anomaly():\n            scaler.scale(loss).backward()\n"
)


@pytest.mark.parametrize(
    ("old", "new", "count"),
    [
        ("", "", 1),
        ("(True)", "(mode=True)", 1),
        ("(True)", "(True, check_nan=False)", 0),
        ("(True)", "(False)", 0),
        ("(True)", "(debug)", 0),
        ('__name__ == "__main__"', "debug", 0),
        ("scaler.scale(loss)", "loss", 0),
        ('GradScaler("cuda")', 'GradScaler("cuda", enabled=False)', 0),
        (BACKWARD, AROUND, 2),
        (BACKWARD, BACKWARD + AROUND.replace("scaler.scale(loss)", "loss"), 1),
    ],
)
def test_anomaly_mode(old: str, new: str, count: int) -> None:
    assert old in ANOMALY
    model = model_of(ANOMALY.replace(old, new) if old else ANOMALY)
    assert len([*anomalies(model)]) == count


CHECKED = """\
import os, sys, torch
from torch.amp import GradScaler
from torch.nn.utils import clip_grad_norm_
def train(data, opt, amp):
    s = GradScaler() if amp else None
    for x in data:
        if amp:
            s.scale(loss(x)).backward()
            s.unscale_(opt)
        else:
            loss(x).backward()
        norm = clip_grad_norm_(x.parameters(), 1.0)
        if not torch.isfinite(norm):
            raise ValueError(norm)
        if amp:
            s.step(opt)
            s.update()
        else:
            opt.step()
"""
TEST, RAISE = "not torch.isfinite(norm)", "raise ValueError(norm)"


def refused(program: str) -> list[str]:
    """The statements reported that end the run."""
    model = model_of(program)
    return [model.tree.source(end) for end, _ in model.part(Refusals).all()]


@pytest.mark.parametrize(
    ("old", "new", "count"),
    [
        ("", "", 1),
        (TEST, "norm.isnan() or torch.isinf(norm)", 1),
        (TEST, "amp and not torch.isfinite(norm).all()", 1),
        (TEST, "torch.isfinite(norm)", 0),
        (TEST, "amp or not torch.isfinite(norm)", 0),
        (TEST, "not torch.isfinite(x)", 0),
        (TEST, "norm > 100", 0),
        (f"if {TEST}:\n            {RAISE}", "assert torch.isfinite(norm)", 1),
        (f"if {TEST}:\n            {RAISE}", "assert not torch.isfinite(norm)", 0),
        (f"{TEST}:", "torch.isfinite(norm):\n            pass\n        else:", 1),
        (RAISE, "sys.exit(1)", 1),
        (RAISE, "os._exit(1)", 1),
        (RAISE, "print(norm)", 0),
        (RAISE, "if x: raise ValueError(norm)", 0),
        (f"            {RAISE}", f"            try: {RAISE}\n            except E: pass", 0),
        ("GradScaler() if amp", "GradScaler(enabled=False) if amp", 0),
        ("s.scale(loss(x)).backward()", "loss(x).backward()", 0),
    ],
)
def test_a_norm_that_is_tested_by_hand(old: str, new: str, count: int) -> None:
    assert old in CHECKED
    assert len(refused(CHECKED.replace(old, new) if old else CHECKED)) == count


LOOKED = """\
import torch
class Trainer:
    def __init__(self, net, opt):
        self.net, self.opt = net, opt
        self.scaler = torch.amp.GradScaler("cuda")
    def backward(self, loss):
        self.scaler.scale(loss).backward()
        for name, p in self.net.named_parameters():
            if p.grad is not None and not torch.isfinite(p.grad).all():
                raise ValueError(name)
    def step(self):
        self.scaler.step(self.opt)
        self.scaler.update()
"""
OF_GRADIENT = "not torch.isfinite(p.grad).all()"


@pytest.mark.parametrize(
    ("old", "new", "count"),
    [
        ("", "", 1),
        (OF_GRADIENT, "(p.grad.isnan().any() or p.grad.isinf().any())", 1),
        (OF_GRADIENT, "torch.isfinite(p.grad).all()", 0),
        (OF_GRADIENT, "not torch.isfinite(p.data).all()", 0),
        ("raise ValueError(name)", "print(name)", 0),
        ("self.scaler.scale(loss).backward()", "loss.backward()", 0),
        ("self.scaler.step(self.opt)", "self.opt.step()", 0),
        ("        for name", "        self.scaler.step(self.opt)\n        for name", 0),
    ],
)
def test_gradients_that_are_tested_by_hand(old: str, new: str, count: int) -> None:
    assert old in LOOKED
    assert len(refused(LOOKED.replace(old, new) if old else LOOKED)) == count


ASKED = """\
import torch
from torch.amp import GradScaler
from torch.nn.utils import clip_grad_norm_
class Trainer:
    def __init__(self, net, opt, amp):
        self.net, self.opt, self.amp = net, opt, amp
        self.s = GradScaler() if amp else None
    def clip(self):
        norm = clip_grad_norm_(self.net.parameters(), 1.0)
        if not torch.isfinite(norm):
            print(norm)
            return False
        return True
    def step(self, x, skip):
        loss = self.net(x).mean()
        if self.amp:
            self.s.scale(loss).backward()
            self.s.unscale_(self.opt)
            if not self.clip() and not skip:
                raise ValueError("scaled")
            self.s.step(self.opt)
            self.s.update()
        else:
            loss.backward()
            if not self.clip():
                raise ValueError("plain")
            self.opt.step()
"""


@pytest.mark.parametrize(
    ("old", "new", "found"),
    [
        ("", "", True),
        ("not self.clip() and not skip", "self.clip()", False),
        ("return False", "return True", False),
        ("return False", "return norm", False),
        ("not self.clip() and not skip", "skip", False),
    ],
)
def test_a_norm_that_callers_ask_for(old: str, new: str, found: bool) -> None:
    assert old in ASKED
    program = ASKED.replace(old, new) if old else ASKED
    assert refused(program) == ['raise ValueError("scaled")'] * found
