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


LOADING = """
    import functools

    import torch
    from torch.utils import data

    class Rows(data.Dataset):
        def __init__(self, rows, basis):
            self.rows, self.basis = rows, basis

        def __getitem__(self, at):
            GIVEN

    def merge(rows, basis):
        return torch.stack(rows) @ basis

    class Merge:
        def __call__(self, rows):
            return torch.stack(rows).mm(torch.eye(3))

    def loaders(rows, basis):
        return data.DataLoader(rows, collate_fn=MERGED)

    def evaluate(model, loader, sums):
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = model(sums).mean()
            WALKED
        return loss, sums
"""
COMPUTING, PLAIN = "return self.rows[at] @ self.basis", "return self.rows[at]"
WALK = "for rows in loader: sums.append(rows)"


@pytest.mark.parametrize(
    ("given", "merged"),
    [
        (COMPUTING, "None"),
        (PLAIN, "functools.partial(merge, basis=basis)"),
        (PLAIN, "Merge()"),
        (PLAIN, "lambda rows: torch.stack(rows) @ basis"),
    ],
)
@pytest.mark.parametrize("walked", [WALK, "sums.append(next(loader))", "sums.append(list(loader))"])
def test_a_loader_computes_in_the_region_that_it_is_walked_in(
    given: str, merged: str, walked: str
) -> None:
    text = LOADING.replace("GIVEN", given).replace("MERGED", merged).replace("WALKED", walked)
    assert "runs in another region" in reasons(text, moved=walked)


@pytest.mark.parametrize("walked", [WALK, "for n in range(3): sums.append(n)"])
def test_a_loader_that_computes_nothing_is_walked_anywhere(walked: str) -> None:
    given = PLAIN if walked == WALK else COMPUTING
    text = LOADING.replace("GIVEN", given).replace("MERGED", "None").replace("WALKED", walked)
    assert not reasons(text, moved=walked)
