"""What is run in backward sees other gradients once the loss is scaled."""

from __future__ import annotations

import textwrap

import pytest

from amp_lint.verify.compare import compare

PLAIN = """
import torch
import wandb
from helpers import found

def halve(module, grad_input, grad_output):
    return tuple(each / 2 if each is not None else None for each in grad_input)

def keep_top(mask):
    def hook(grad):
        grad = grad.clone()
        grad[~mask] = 0
        return grad
    return hook

def shrink(p):
    if p.requires_grad:
        p.grad.mul_(0.5)

def tell_large(grad):
    if grad.abs().max() > 1:
        return grad * 0
    return grad

def add_noise(sigma):
    def hook(p):
        p.grad += sigma * torch.randn_like(p.grad)
    return hook

def descend(p):
    p.data.add_(p.grad, alpha=-0.1)
    p.grad = None

CLASSES
def train(model, mask, batches, optimizer, seen):
    for p in model.parameters():
        HOOK
    for x, y in batches:
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.float16):
            loss = torch.nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
"""
SCALED = (
    ("    for x, y", '    scaler = torch.amp.GradScaler("cuda")\n    for x, y'),
    ("loss.backward()", "scaler.scale(loss).backward()"),
    ("optimizer.step()", "scaler.step(optimizer)\n        scaler.update()"),
)
FUNCTION = """
class Through(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.sign()

    @staticmethod
    def backward(ctx, grad):
        return GIVEN
"""


def scaled(before: str) -> str:
    """The same with a scaler."""
    for old, new in SCALED:
        assert before.count(old) == 1
        before = before.replace(old, new)
    return before


def reasons(hook: str, classes: str = "") -> tuple[str, ...]:
    """What is said where the loss is scaled in a file with such a hook."""
    before = PLAIN.replace("HOOK", hook).replace("CLASSES\n", textwrap.dedent(classes))
    return compare(before, scaled(before)).reasons


@pytest.mark.parametrize(
    "hook",
    [
        "seen.append(p.shape)",
        "p.register_hook(lambda grad: grad * mask)",
        "p.register_hook(lambda grad, mask=mask: mask * grad)",
        "p.register_hook(lambda grad: -0.1 * grad)",
        "p.register_hook(lambda grad: torch.zeros_like(grad))",
        "p.register_hook(lambda grad: torch.where(mask, grad, torch.zeros_like(grad)))",
        "p.register_hook(lambda grad: seen.append(grad.shape))",
        "p.register_hook(keep_top(mask))",
        "p.register_post_accumulate_grad_hook(shrink)",
        "model.register_full_backward_hook(halve)",
        "wandb.watch(model, log='parameters')",
    ],
)
def test_a_hook_that_is_linear_may_get_scaled_gradients(hook: str) -> None:
    assert not reasons(hook)


@pytest.mark.parametrize(
    "hook",
    [
        "p.register_hook(lambda grad: grad.clip(-1, 1))",
        "p.register_hook(lambda grad: mask)",
        "p.register_hook(lambda grad: torch.ones_like(grad))",
        "p.register_hook(lambda grad: grad / (grad.norm() + 1e-6))",
        "p.register_hook(lambda grad: grad + 1e-4 * p)",
        "p.register_hook(lambda grad: seen.append(grad.norm().item()))",
        "p.register_hook(lambda grad: grad * grad)",
        "p.register_hook(tell_large)",
        "p.register_hook(torch.sign)",
        "p.register_hook(found)",
        'getattr(p, "register_hook")(found)',
        "p.register_post_accumulate_grad_hook(add_noise(0.1))",
        "p.register_post_accumulate_grad_hook(descend)",
        "p.register_post_accumulate_grad_hook(lambda p: found(p))",
        "model.register_full_backward_hook(lambda m, _, out: seen.append(out[0].abs().max()))",
        "model.register_full_backward_pre_hook(found)",
        "model.register_comm_hook(None, found)",
        "torch.autograd.graph.register_multi_grad_hook((p,), found)",
        "wandb.watch(model)",
    ],
)
def test_a_hook_that_tells_how_large_gradients_are(hook: str) -> None:
    assert any("sees gradients scaled otherwise" in each for each in reasons(hook))


@pytest.mark.parametrize(
    ("given", "linear"),
    [
        ("grad", True),
        ("(-2 * grad).contiguous()", True),
        ("grad.clamp(-1, 1)", False),
        ("torch.nan_to_num(grad)", False),
    ],
)
def test_a_backward_pass_of_the_file(given: str, linear: bool) -> None:
    assert bool(reasons("pass", FUNCTION.replace("GIVEN", given))) is not linear


def test_a_hook_whose_gradients_stay_scaled() -> None:
    hook = "p.register_hook(lambda grad: grad.clip(-1, 1))"
    before = scaled(PLAIN.replace("HOOK", hook).replace("CLASSES\n", ""))
    after = before.replace('torch.amp.GradScaler("cuda")', "torch.cuda.amp.GradScaler()")
    assert not compare(before, after).reasons
    assert compare(after.replace("GradScaler()", "GradScaler(enabled=False)"), after).reasons


@pytest.mark.parametrize(
    ("kept", "read", "right"),
    [
        ("x.requires_grad_()", "seen.append(x.grad.clone())", False),
        ("x.requires_grad = True", "seen.append(x.grad)", False),
        ("loss.retain_grad()", "seen.append(loss.grad)", False),
        ("x.requires_grad_()", "x.grad.zero_()", True),
        ("x.requires_grad_(False)", "print(x.grad is None)", True),
        ("[p.requires_grad_() for p in model.parameters()]", "print(len(seen))", True),
    ],
)
def test_gradients_that_no_step_unscales(kept: str, read: str, right: bool) -> None:
    before = PLAIN.replace("HOOK", "pass").replace("CLASSES\n", "")
    before = before.replace("        loss.back", f"        {kept}\n        loss.back")
    before = f"{before}        {read}\n"
    assert bool(compare(before, scaled(before)).reasons) is not right
