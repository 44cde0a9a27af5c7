"""Modules that are cast, and those that are trained in their place."""

from __future__ import annotations

import textwrap

import pytest

from tests.programs import model_of

CAST = """\
import torch
def f(args, loader):
    m = Net(args.size)
    {body}
    opt = torch.optim.SGD(m.parameters(), lr=0.1)
    for x in loader:
        m(x).mean().backward()
        opt.step()
"""


@pytest.mark.parametrize(
    ("body", "found"),
    [
        ("m.half()", 1),
        ("if args.small:\n    m.half()", 1),
        ("if args.small:\n    m.half()\n    m = adapted(m, args.rank)", 0),
        (
            "if args.small:\n    m.half()\n    if args.old:\n        m = Adapter.load(m)\n"
            "    else:\n        with args.device:\n            m, c = adapted(m, args.rank), 1",
            0,
        ),
        ("if args.small:\n    m.half()\n    if args.old:\n        m = Adapter.load(m)", 1),
        ("if args.small:\n    m.half()\n    m = torch.compile(m)", 1),
        (
            "if args.small:\n    m.half()\n    for each in args.all:\n        m = adapted(m, each)",
            1,
        ),
        ("if args.small:\n    m = adapted(m, args.rank)\n    m.half()", 1),
        ("if args.small:\n    m.half()\n    other = adapted(m, args.rank)", 1),
    ],
)
def test_what_is_trained_in_place_of_a_cast_module(body: str, found: int) -> None:
    text = CAST.format(body=textwrap.indent(body, "    ").lstrip())
    assert len(model_of(text).modules.half_trainings) == found
