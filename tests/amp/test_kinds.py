"""What expressions certainly are, and which devices a file names."""

from __future__ import annotations

import textwrap

import libcst as cst
import pytest

from amp_lint.amp.kinds import certain
from amp_lint.model import Model
from tests.programs import model_of

HEADER = """\
import torch
from torch import bfloat16
from torch.amp import autocast
"""


def model(text: str) -> Model:
    return model_of(HEADER + textwrap.dedent(text))


def argument(found: Model) -> cst.BaseExpression:
    """What the file gives to ``f``."""
    calls = found.tree.nodes(cst.Call)
    (call,) = (c for c in calls if isinstance(c.func, cst.Name) and c.func.value == "f")
    return call.args[0].value


def kind(text: str) -> str:
    found = model(text)
    of = found.kinds.of(argument(found))
    return of.value if of is not None else "?"


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("True", "bool"),
        ("not x", "bool"),
        ("x is None", "bool"),
        ("x in y", "bool"),
        ("device == 'cuda'", "bool"),
        ("torch.cuda.is_available()", "bool"),
        ("isinstance(x, str)", "bool"),
        ("True if x else False", "bool"),
        ("not x and not y", "bool"),
        ("1024.0", "number"),
        ("2**16", "number"),
        ("-1", "number"),
        ("'cuda'", "str"),
        ("f'cuda:{i}'", "str"),
        ("torch.float16", "torch.dtype"),
        ("bfloat16", "torch.dtype"),
        ("bfloat16 if x else torch.half", "torch.dtype"),
        ("torch.device('cuda')", "torch.device"),
        ("torch.device('cuda' if x else 'cpu')", "torch.device"),
        ("next(net.parameters()).device", "torch.device"),
        ("x == y", "?"),
        ("x", "?"),
        ("x.device", "?"),
        ("next(loader).device", "?"),
        ("g()", "?"),
        ("None", "?"),
        ("True if x else None", "?"),
        ("torch.float16 if x else 'float16'", "?"),
        ("x and True", "?"),
        ("torch.device('cuda').type", "?"),
    ],
)
def test_kinds(expression: str, expected: str) -> None:
    assert kind(f"f({expression})") == expected
    assert kind(f"a = {expression}\nf(a)") == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a = True\na = 'x'\nf(a)", "?"),
        ("a = torch.device('cuda')\na = a.type\nf(a)", "?"),
        ("def g(a):\n    a = a or True\n    f(a)", "?"),
        ("def g(a=True):\n    f(a)", "?"),
        ("class C:\n    a = 1\n    def g(self):\n        f(self.a)", "number"),
        ("class C:\n    a = 1\n    def g(self, a):\n        self.a = a\n        f(self.a)", "?"),
    ],
)
def test_every_value_counts(text: str, expected: str) -> None:
    assert kind(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("f(autocast)", True),
        ("f(torch.amp.autocast)", True),
        ("a = autocast\nf(a)", True),
        ("a = autocast\nif x:\n    a = None\nf(a)", False),
        ("def g(autocast):\n    f(autocast)", False),
        ("from contextlib import nullcontext\nf(autocast if x else nullcontext)", False),
        ("try:\n    from a import autocast\nexcept ImportError:\n    pass\nf(autocast)", False),
        ("f(torch.float16)", False),
    ],
)
def test_certain(text: str, expected: bool) -> None:
    found = model(text)
    name = certain(found.names, argument(found), {"torch.amp.autocast"})
    assert name == ("torch.amp.autocast" if expected else None)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x.cuda()", True),
        ("torch.device('cuda:1')", True),
        ("from torch.cuda import is_available", True),
        ("x.to('cuda' if y else 'cpu')", True),
        ("x.to('cuda' if y else 'mps')", False),
        ("torch.backends.mps.is_available() or x.cuda()", False),
        ("x.cpu()", False),
        ("x = 'cuda devices'", False),
        ("", False),
    ],
)
def test_only_cuda(text: str, expected: bool) -> None:
    assert model(text).devices.only_cuda is expected
