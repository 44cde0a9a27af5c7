"""The same mistake, or none, whatever functions and objects a program is built of."""

from __future__ import annotations

import pytest

from amp_lint import engine
from amp_lint.registry import all_rules
from amp_lint.selection import Selection
from amp_lint.text.source import Source

HALF_IN_SETUP = """\
import torch
class Trainer:
    def __init__(self, model, loader):
        self.model, self.loader = model, loader
        self.setup()
    def setup(self):
        self.model.half()
    def train(self):
        optimizer = torch.optim.SGD(self.model.parameters(), 0.1)
        for x in self.loader:
            self.model(x).mean().backward()
            optimizer.step()
"""
HALF_AND_CLIPPED = """\
import torch
class Trainer:
    def __init__(self, model, optimizer, loader):
        self.model, self.optimizer, self.loader = model, optimizer, loader
    def train(self):
        self.model.half()
        for x in self.loader:
            self.model(x).mean().backward()
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
            self.optimizer.step()
"""
UNSCALED_STEP = """\
import torch
def one_step(optimizer, scaler, model, x):
    optimizer.zero_grad()
    with torch.autocast("cuda"):
        loss = model(x).mean()
    loss.backward()
    scaler.step(optimizer)
    scaler.update()
def train(model, optimizer, loader):
    scaler = torch.amp.GradScaler("cuda")
    for x in loader:
        one_step(optimizer, scaler, model, x)
"""
MADE_TOGETHER = """\
import torch
def make(optimizer):
    scaler = torch.amp.GradScaler("cuda")
    counts = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.1, 1000)
    return scaler, counts
def train(net, optimizer, loader):
    scaler, counts = make(optimizer)
    for x in loader:
        with torch.autocast("cuda"):
            loss = net(x).mean()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        counts.step()
        optimizer.zero_grad()
"""
PREPARED_FIELDS = """\
from dataclasses import dataclass
from accelerate import Accelerator
@dataclass
class State:
    model: object
    optimizer: object
def train(state, loader):
    accelerator = Accelerator(mixed_precision="fp16")
    state.model, state.optimizer = accelerator.prepare(state.model, state.optimizer)
    for x in loader:
        accelerator.backward(state.model(x).mean())
        state.optimizer.step()
        state.optimizer.zero_grad()
def main(model, optimizer, loader):
    train(State(model, optimizer), loader)
"""
DTYPE_OF_A_HELPER = """\
import torch
def make(args):
    dtype = torch.bfloat16 if args.bf16 else torch.float16
    return dtype, 1
def train(args, model, optimizer, loader):
    scaler = torch.amp.GradScaler("cuda")
    dtype, count = make(args)
    for x in loader:
        with torch.autocast("cuda", dtype=dtype):
            loss = model(x).mean()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
"""
CAST_AND_STEPPED = """\
import torch
from torch import nn
def one_step(optimizer, model, x):
    optimizer.zero_grad()
    model(x.half()).float().square().mean().backward()
    optimizer.step()
def train(loader, half):
    model = nn.Linear(64, 10)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    if half:
        model = model.half()
    for x in loader:
        one_step(optimizer, model, x)
"""
ONE_BRANCH = """\
import torch
def make():
    scaler = torch.amp.GradScaler("cuda")
    return scaler
def train(args, model, optimizer, loader):
    scaler = make()
    for x in loader:
        scaler.scale(model(x).mean()).backward()
        if args.careful:
            scaler.unscale_(optimizer)
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        else:
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
"""
BARE = "state.model(x).mean().backward()"
CLIP_OF_A_STEP = """\
import torch
from accelerate import Accelerator
def one_step(accelerator, optimizer, model, x):
    accelerator.backward(model(x).mean())
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
def train(model, optimizer, loader):
    accelerator = Accelerator(mixed_precision="fp16")
    model, optimizer = accelerator.prepare(model, optimizer)
    for x in loader:
        one_step(accelerator, optimizer, model, x)
"""
_ASKED = ("AMP112", "AMP203", "AMP501", "AMP502")


@pytest.mark.parametrize(
    ("program", "old", "new", "codes"),
    [
        (HALF_IN_SETUP, "", "", {"AMP203"}),
        (HALF_IN_SETUP, "        self.setup()\n", "", set()),
        (HALF_AND_CLIPPED, "", "", {"AMP203"}),
        (HALF_AND_CLIPPED, "        self.model.half()\n", "", set()),
        (UNSCALED_STEP, "", "", {"AMP107"}),
        (UNSCALED_STEP, '("cuda")\n    for', '("cuda", enabled=amp)\n    for', set()),
        (UNSCALED_STEP, 'torch.amp.GradScaler("cuda")\n    for', "own(loader)\n    for", set()),
        (MADE_TOGETHER, "", "", {"AMP112"}),
        (MADE_TOGETHER, "        counts.step()\n", "", set()),
        (PREPARED_FIELDS, "", "", set()),
        (PREPARED_FIELDS, "accelerator.backward(state.model(x).mean())", BARE, {"AMP501"}),
        (DTYPE_OF_A_HELPER, "", "", {"AMP109"}),
        (DTYPE_OF_A_HELPER, "return dtype, 1", "return args.dtype, 1", set()),
        (DTYPE_OF_A_HELPER, "torch.bfloat16 if args.bf16 else ", "", set()),
        (CAST_AND_STEPPED, "", "", {"AMP203"}),
        (
            CAST_AND_STEPPED,
            "    for x in loader:\n        one_step(optimizer, model, x)\n",
            "",
            set(),
        ),
        (ONE_BRANCH, "", "", {"AMP101"}),
        (
            ONE_BRANCH,
            "    return scaler",
            "    return scaler if torch.cuda.is_available() else None",
            set(),
        ),
        (CLIP_OF_A_STEP, "", "", {"AMP502"}),
        (CLIP_OF_A_STEP, '"fp16"', '"bf16"', set()),
    ],
)
def test_what_is_found(program: str, old: str, new: str, codes: set[str]) -> None:
    assert old in program
    source = Source((program.replace(old, new) if old else program).encode(), "train.py")
    rules = tuple(rule for rule in all_rules() if rule.code < "AMP110" or rule.code in _ASKED)
    assert {each.code for each in engine.check(source, Selection(rules, preview=True))} == codes
