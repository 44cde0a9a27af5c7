"""What is the same text in another region, and is not the same for it."""

from __future__ import annotations

import textwrap

import pytest

from amp_lint.verify.compare import compare


def reasons(text: str, *, moved: str) -> str:
    """What is said where a statement moves out of the region that it is the last one of."""
    before = textwrap.dedent(text)
    head, found, tail = before.rpartition(textwrap.indent(moved, " " * 8))
    assert found
    after = f"{head}{textwrap.indent(moved, ' ' * 4)}{tail}"
    return " ".join(compare(before, after).reasons)


ASKING = """
    import torch
    from torch import get_autocast_dtype as region_dtype

    def is_low():
        return torch.is_autocast_enabled("cuda")

    def note(report):
        report.append(is_low())

    class Probe:
        def step(self, report):
            report.append(torch.is_autocast_enabled())

    def train_step(model, optimizer, scaler, x, report):
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = model(x).mean()
            ASKED
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
"""


@pytest.mark.parametrize(
    "asked",
    [
        "report.append(torch.is_autocast_enabled())",
        'report.append(str(region_dtype("cuda")))',
        "report.append(torch._C.is_autocast_enabled())",
        "assert torch.is_autocast_enabled()",
        "note(report)",
    ],
)
def test_what_asks_for_the_state_stays_in_its_region(asked: str) -> None:
    found = reasons(ASKING.replace("ASKED", asked), moved=asked)
    assert "runs in another region" in found


def test_what_asks_for_nothing_may_leave() -> None:
    assert not reasons(ASKING.replace("ASKED", "optimizer.step()"), moved="optimizer.step()")
