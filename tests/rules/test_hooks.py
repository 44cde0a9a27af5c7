"""Limits of gradients in hooks of tensors, in code that scales losses."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.programs import model_of

if TYPE_CHECKING:  # where mypy finds what is installed below `amp_lint.rules`
    from rules.protocol._hooks import Hooks
else:
    from amp_lint.rules.protocol._hooks import Hooks

PROGRAM = """\
import torch
def limit(grad, size=3.0):
    return {limit}
def train(net, optimizer, data):
    scaler = torch.amp.GradScaler("cuda")
    for p in net.parameters():
        p.{register}({hook})
    for x in data:
        scaler.scale(net(x)).backward()
        scaler.step(optimizer)
        scaler.update()
"""


def limits(hook: str, limit: str = "grad", register: str = "register_hook") -> list[float | None]:
    program = PROGRAM.format(hook=hook, limit=limit, register=register)
    return [found.limit for found in model_of(program).part(Hooks).limiting]


@pytest.mark.parametrize(
    ("limit", "expected"),
    [
        ("torch.clamp(g, -2.0, 2.0)", 2.0),
        ("g.clamp(-2.0, max=2)", 2.0),
        ("g.clip_(-2, 2)", 2.0),
        ("torch.clip(g, -c, c) * 0.5", None),
    ],
)
def test_limits_in_a_lambda(limit: str, expected: float | None) -> None:
    assert limits(f"lambda g: {limit}") == [expected]


def test_other_hooks() -> None:
    assert limits("limit", "grad.clamp(-1, 1)") == [1.0]
    assert limits("limit", "size.clamp(-1, 1)") == []
    assert limits("lambda p: p.grad.clamp_(-1, 1)", register=AFTER) == [1.0]
    assert limits("lambda p: torch.nn.utils.clip_grad_norm_([p], 4)", register=AFTER) == [4.0]


AFTER = "register_post_accumulate_grad_hook"


@pytest.mark.parametrize(
    "limit",
    [
        "g * 0.5",
        "g.clamp(min=0)",
        "g.clamp(-1e9, float('inf'))",
        "torch.clamp(g, -scaler.get_scale(), scaler.get_scale())",
        "g + net.weight.clamp(-1, 1)",
        "print(g)",
    ],
)
def test_no_limits(limit: str) -> None:
    assert limits(f"lambda g: {limit}") == []


def test_nothing_is_scaled() -> None:
    program = PROGRAM.format(
        hook="lambda g: g.clamp(-1, 1)", limit="grad", register="register_hook"
    )
    plain = program.replace("scaler.scale(net(x))", "net(x)").replace("scaler.step", "print")
    assert model_of(program).part(Hooks).limiting
    assert not model_of(plain).part(Hooks).limiting
