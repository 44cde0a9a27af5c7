"""Which numbers are certainly at most 0, and how large numbers can be."""

from __future__ import annotations

import math
import textwrap

import libcst as cst
import pytest

from amp_lint.model import Model
from amp_lint.text.source import Source

HEAD = "import torch\nimport torch.nn.functional as F\nTWO = 2.0\n"


def is_never_positive(body: str) -> bool:
    """What is said of that which the function with this body returns."""
    text = f"{HEAD}def f(x, y, n, far):\n{textwrap.indent(textwrap.dedent(body).strip(), '    ')}\n"
    model = Model(Source(text.encode(), "signs.py"))
    (last,) = model.tree.nodes(cst.Return)
    assert last.value is not None
    return model.signs.is_never_positive(last.value)


@pytest.mark.parametrize(
    "value",
    [
        "-(x**2)", "-0.5 * (x - y) ** 2", "-x.abs() / TWO", "x.pow(4) * -1", "-(x * x)",
        "-((x - y) / n) ** 2 / (2 * n**2)", "-F.softplus(x)", "torch.mul(x.square(), -2)",
        "-(x - y).square().sum(-1).float()", "-x.abs() - y.abs()", "-1 - torch.norm(x)",
        "-(-x.abs()) * -3", "-torch.cdist(x, y)[0]", "0 * -1",
    ],
)  # fmt: skip
def test_is_never_positive(value: str) -> None:
    assert is_never_positive(f"return {value}")
    assert is_never_positive(f"z = {value}\nreturn z")


@pytest.mark.parametrize(
    "value",
    [
        "x", "-x", "x**2", "-(x**3)", "-0.5 * (x - y)", "(x - y) ** 2 * n", "-x.abs() / n",
        "1 - x**2", "-x.abs() + y.abs()", "-(-x.abs())", "x - y", "-(x**n)", "-x.square() + 1",
        "torch.add(-x.abs(), -y.abs(), alpha=n)",
    ],
)  # fmt: skip
def test_may_be_positive(value: str) -> None:
    assert not is_never_positive(f"return {value}")


SWAP = "if x < y:\n    x, y = y, x\n"


@pytest.mark.parametrize(
    ("body", "found"),
    [
        (f"{SWAP}return y - x", True),
        (f"{SWAP}return (y - x) / 3", True),
        (f"{SWAP}return x - y", False),
        (f"{SWAP}return -(x - y)", True),
        (f"{SWAP.replace('<', '>=')}return x - y", True),
        (f"{SWAP.replace('<', '>=')}return y - x", False),
        (f"{SWAP.replace('<', '!=')}return y - x", False),
        (f"{SWAP}x = x * 2\nreturn y - x", False),
        (f"{SWAP}if n:\n    y = n\nreturn y - x", False),
        ("if n:\n    if x < y:\n        x, y = y, x\nreturn y - x", False),
        (f"{SWAP.replace('y, x', 'y, n')}return y - x", False),
        (f"{SWAP}else:\n    x = n\nreturn y - x", False),
    ],
)
def test_two_that_are_swapped(body: str, found: bool) -> None:
    assert is_never_positive(body) is found


@pytest.mark.parametrize(
    ("value", "largest"),
    [
        ("x.tanh() / 2", 0.5),
        ("torch.add(x.sin(), y.cos())", 2.0),
        ("torch.add(x.sin(), y.cos(), alpha=n)", math.inf),
        ("torch.sub(x.sin(), y.cos(), alpha=9)", math.inf),
        ("x.clamp(-3, 2)", 3.0),
        ("x.clamp(max=2)", math.inf),
    ],
)
def test_bounds(value: str, largest: float) -> None:
    text = f"{HEAD}def f(x, y, n):\n    return {value}\n"
    model = Model(Source(text.encode(), "bounds.py"))
    (last,) = model.tree.nodes(cst.Return)
    assert model.bounds.largest(last.value) == largest


SHARES = """\
import torch
from torch import nn


class Head(nn.Module):
    def __init__(self):
        super().__init__()
        self.last = nn.Sequential(nn.Linear(8, 5), {})

    def forward(self, x):
        return self.last(x)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.head = Head()

    def both(self, x):
        return x, self.head(x)


def loss(net: Net, x, rounds):
    _, logits = Net().both(x)
    for _ in range(rounds):
        print(logits * 2)
        x, logits = Net().both(x)
"""


@pytest.mark.parametrize(
    ("last", "largest"), [("nn.Softmax(1)", 2.0), ("nn.Tanh()", 2.0), ("nn.ReLU()", math.inf)]
)
def test_bounds_of_what_modules_give(last: str, largest: float) -> None:
    model = Model(Source(SHARES.format(last).encode(), "signs.py"))
    (result,) = model.tree.nodes(cst.BinaryOperation)
    assert model.bounds.largest(result) == largest
