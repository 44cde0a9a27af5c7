"""Clips of the branch without a scaler, in functions with more paths than are followed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.programs import model_of

if TYPE_CHECKING:  # where mypy finds what is installed below `amp_lint.rules`
    from rules.protocol.clip_without_scaler import ClipWithoutScaler
else:
    from amp_lint.rules.protocol.clip_without_scaler import ClipWithoutScaler

PROGRAM = """\
from torch.nn.utils import clip_grad_norm_, clip_grad_value_
def fit(model, opt, scaler, batches, cfg, limits):
    for number, batch in enumerate(batches):
        loss = model(batch)
        if cfg.clear:
            opt.zero_grad()
        if cfg.half:
            scaler.scale(loss).backward()
            SCALED
            scaler.step(opt)
            scaler.update()
        else:
            loss.backward()
TESTS
            clip_grad_norm_(model.parameters(), 1.0)
            opt.step()
def limit(model, most):
    clip_grad_norm_(model.parameters(), most)
def clear(opt):
    opt.zero_grad()
"""
ASKED = "".join(
    f"            if cfg.way{i}: {done}(model.parameters(), {i})\n"
    for done in ("clip_grad_norm_", "clip_grad_value_")
    for i in range(12)
)
"""Two tests of each of some settings, so that no path may forget one."""


def found(scaled: str, tests: str = ASKED) -> int:
    """How many steps of the scaler are reported, with this in its branch."""
    model = model_of(PROGRAM.replace("SCALED", scaled).replace("TESTS", tests))
    assert tests != ASKED or any(root.truncated for root in model.steps.roots)
    return len([*ClipWithoutScaler().check(model)])


@pytest.mark.parametrize("scaled", ["pass", "clear(opt)", "print(scaler.get_scale())"])
def test_no_path_that_was_not_met_can_have_a_clip(scaled: str) -> None:
    assert found(scaled) == 1
    assert found(scaled, "") == 1


@pytest.mark.parametrize(
    "scaled",
    [
        "if cfg.limit: clip_grad_norm_(model.parameters(), 1.0)",
        "if cfg.limit: limit(model, 1.0)",
        "limits.apply(scaler, opt)",
        "for p in model.parameters(): p.grad = p.grad.clamp(-1, 1)",
    ],
)
def test_one_may(scaled: str) -> None:
    assert not found(scaled)
