"""Random edits that once were proven, one of each class, found by ``benchmarks/mutations.py``."""

from __future__ import annotations

import textwrap

import pytest

from amp_lint.verify import Change, Prover, Verdict
from amp_lint.verify.compare import compare
from amp_lint.verify.obligations import Unbound

FILE = textwrap.dedent(
    """
    import functools
    import torch
    from torch.cuda.amp import autocast


    class Net(torch.nn.Module):
        @autocast()
        def forward(self, x):
            return x


    kept = torch.amp.GradScaler("cuda")


    class Trainer:
        def __init__(self, model):
            self.grad_scaler = torch.amp.GradScaler("cuda")
            self.model = model

        def step(self, x):
            self.grad_scaler.scale(self.model(x).mean()).backward()
            self.grad_scaler.update()


    def train(model, optimizer, scaler, x):
        make = functools.partial(torch.autocast, "cuda")
        with make():
            loss = model(x).mean()
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        scaler.step(optimizer)
        scaler.update()


    def save(model, scaler):
        return {"model": model.state_dict(), "scaler": scaler.state_dict()}


    def load(model, scaler, state, other):
        model.load_state_dict(state["model"])
        scaler.load_state_dict(state["scaler"])
        return other["epoch"], other["rate"]
    """
)
LOAD = '    scaler.load_state_dict(state["scaler"])\n'
RETURN = '    return other["epoch"], other["rate"]\n'


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("scaler.unscale_(optimizer)", "scaler.unscale_()"),
        ('state["scaler"]', 'print["scaler"]'),
        ('state["scaler"]', 'other["scaler"]'),
        ("scaler.state_dict()}", "torch.scaler.state_dict()}"),
        (LOAD + RETURN, RETURN + LOAD),
        ('kept = torch.amp.GradScaler("cuda")\n', ""),
        ('        self.grad_scaler = torch.amp.GradScaler("cuda")\n', ""),
        ("self.grad_scaler = ", "print.grad_scaler = "),
        ('(torch.autocast, "cuda")', '("cuda", torch.autocast)'),
    ],
)
def test_what_a_text_alone_tells(old: str, new: str) -> None:
    assert FILE.count(old) == 1
    assert compare(FILE, FILE.replace(old, new)).reasons


STEP = """
    import torch

    def step(model, optimizer, scaler, batch):
        scaler.scale(model(batch).mean()).backward()
        scaler.unscale_(optimizer)
        if not all(torch.isfinite(p.grad).all() for p in model.parameters()):
            scaler.update()
            return False
        scaler.step(optimizer)
        scaler.update()
        return True

    def alone(accelerator, model, x):
        accelerator.backward(model(x).mean())

    def shaped(x, size):
        return torch.softmax(x.reshape(size, 4), -1)

    def normal(x):
        return torch.nn.functional.layer_norm(x, (64,), eps=1e-5)

    def masked(scores, mask):
        return torch.softmax(scores.masked_fill(mask, torch.finfo(scores.dtype).min), -1)

    def optional(model, optimizer, x, amp):
        scaler = torch.amp.GradScaler("cuda", enabled=amp)
        scaler.scale(model(x).mean()).backward()
        scaler.step(optimizer)
        scaler.update()
"""


ARMS = textwrap.dedent(
    """
    import torch


    def step(args, model, optimizer, scaler, loss):
        print("a text of "
              "two lines")
        if args.half:
            scaler.scale(loss).backward()
            if args.clip:
                torch.nn.utils.clip_grad_norm_(model.parameters(), args.clip)
            scaler.step(optimizer)
            scaler.update()
        else:
            loss.backward()
            if args.clip:
                torch.nn.utils.clip_grad_norm_(model.parameters(), args.clip)
            optimizer.step()
    """
)


def test_unscale_in_the_arm_of_one_clip_of_two() -> None:
    clip = "            torch.nn.utils.clip"
    assert not compare(
        ARMS, ARMS.replace(clip, f"            scaler.unscale_(optimizer)\n{clip}", 1)
    ).reasons


def test_a_name_that_a_class_needs_before_it_is_bound() -> None:
    line = "from torch.cuda.amp import autocast\n"
    found = compare(FILE, f"{FILE.replace(line, '')}{line}")
    assert [each for each in found.obligations if isinstance(each, Unbound)]


@pytest.mark.parametrize(
    ("old", "new", "wanted"),
    [
        ("        scaler.unscale_(optimizer)\n", "", Verdict.REFUTED),
        ("accelerator.backward(model(x).mean())", "pass", Verdict.NOT_COMPARABLE),
        ("reshape(size, 4)", "reshape(print, 4)", Verdict.NOT_COMPARABLE),
        ("eps=1e-5", "eps=1e-4", Verdict.CHANGES),
        ("finfo(scores.dtype)", "finfo()", Verdict.REFUTED),
        ("return True", "scaler.step(optimizer); scaler.update(); return True", Verdict.REFUTED),
        (", enabled=amp", "", Verdict.CHANGES),
    ],
)
def test_what_has_to_be_tried(proving: Prover, old: str, new: str, wanted: Verdict) -> None:
    before = textwrap.dedent(STEP)
    proof = proving.prove(Change(before, textwrap.dedent(STEP.replace(old, new))))
    assert proof.verdict is wanted, proof
