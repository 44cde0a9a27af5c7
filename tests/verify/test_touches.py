"""What may change between two readings of a value, so that it is not computed again later."""

from __future__ import annotations

import textwrap

import pytest

from amp_lint.verify import Change, Prover, Verdict

PROGRAM = """
    import torch
    import torch.distributed as dist
    from torch import nn


    def double_all(values, by):
        for value in values:
            row = value
            row.mul_(by)


    def through(value):
        double_all([value], 2)


    class Bank(nn.Module):
        def __init__(self, net, other):
            super().__init__()
            self.net = net
            self.head = nn.Linear(4, 4)
            self.kept = nn.Parameter(torch.zeros(4, 4))

        def shrink(self):
            self.kept.mul_(0.5)

        def forward(self, x, y, bank, hook, log):
            z = MADE
            scale = torch.ones(())

            def grow(module):
                nonlocal scale
                scale = scale * 2

            p = torch.softmax(READ, dim=-1)
            DONE
            return torch.log(p), p, z
"""


@pytest.mark.parametrize(
    ("made", "read", "done", "same"),
    [
        ("self.net(x)", "z", "hook(z)", False),
        ("self.net(x)", "z", "bank.parts.shift({'rows': z})", False),
        ("self.net(x)", "z", "dist.all_reduce(z)", False),
        ("self.net(x)", "z", "double_all([y, z], 3)", False),
        ("self.net(x)", "z", "through(z)", False),
        ("torch.atleast_3d(x)", "x", "z.add_(1)", False),
        ("x.view_as_real()", "x", "z.add_(1)", False),
        ("bank.kept", "z", "bank.shrink()", False),
        ("bank.inner.kept", "z", "bank.inner.turn(y)", False),
        ("self.kept", "z", "self.shrink()", False),
        ("self.rows()", "z", "self.shrink()", False),
        ("bank.rows()", "z", "bank.shrink()", False),
        ("self.net(x)", "z", "_ = hook(z)", False),
        ("self.net(x)", "z", "with hook(z): y = y + 1", False),
        ("self.net(x)", "z * scale", "self.net.apply(grow)", False),
        ("self.net(x)", "z", "y = self.head(z)", True),
        ("self.net(x)", "z", "y = self.net(y)", True),
        ("self.net(x)", "z", "log.info(z)", True),
        ("self.net(x)", "z", "log.append(p)", True),
        ("self.net(x)", "z", "hook(y)", True),
        ("self.net(x)", "z", "double_all([y], 3)", True),
        ("self.kept", "z", "y = self.head(y)", True),
    ],
)
def test_what_is_computed_again(
    proving_quickly: Prover, made: str, read: str, done: str, same: bool
) -> None:
    text = textwrap.dedent(PROGRAM).replace("MADE", made).replace("DONE", done)
    before = text.replace("READ", read)
    after = before.replace("torch.log(p), p", f"torch.log_softmax({read}, dim=-1), p")
    verdict = proving_quickly.prove(Change(before, after)).verdict
    assert (verdict is Verdict.PROVEN) is same
