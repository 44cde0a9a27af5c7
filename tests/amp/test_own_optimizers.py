"""Optimizers that a program defines itself: their steps are steps, and are not looked into."""

from __future__ import annotations

import libcst as cst
import pytest

from amp_lint.amp.events import Kind
from tests.programs import model_of

PROGRAM = """\
import torch
from torch.optim import Adam, Optimizer
class Sign(BASE):
    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                BODY
def train(model, loader):
    rule = Sign(model.parameters())
    for x in loader:
        model(x).mean().backward()
        rule.step()
"""


def kind(base: str, body: str) -> Kind | None:
    """What the step of a training loop is, with such a class."""
    model = model_of(PROGRAM.replace("BASE", base).replace("BODY", body))
    steps = [
        call for call in model.tree.nodes(cst.Call) if model.tree.source(call.func) == "rule.step"
    ]
    return model.steps.recognizer.kind(steps[0])


@pytest.mark.parametrize("base", ["Optimizer", "Adam", "torch.optim.SGD"])
@pytest.mark.parametrize(
    "body",
    [
        "p.add_(p.grad.sign(), alpha=-group['lr'])",
        "p.grad.mul_(0.5); p.sub_(p.grad)",
        "p.sub_(p.grad * self.rms_scaling)",
        "p.sub_(p.grad); super().step(closure)",
    ],
)
def test_a_step(base: str, body: str) -> None:
    assert kind(base, body) is Kind.STEP


@pytest.mark.parametrize(
    ("base", "body"),
    [
        ("object", "p.sub_(p.grad)"),
        ("torch.nn.Module", "p.sub_(p.grad)"),
        ("Optimizer", "self.inner.step()"),
        ("Optimizer", "self.scaler.step(self.inner)"),
        ("Optimizer", "p.sub_(p.grad / self.loss_scale)"),
        ("Optimizer", "self.unscale_grads(); p.sub_(p.grad)"),
        ("Optimizer", "p.sub_(p.grad / self.grad_scale.item())"),
        ("Optimizer", "p.sub_(p.grad / group['scale'] if scale is None else p.grad / scale)"),
    ],
)
def test_what_does_something_else_is_followed(base: str, body: str) -> None:
    assert kind(base, body) is None
