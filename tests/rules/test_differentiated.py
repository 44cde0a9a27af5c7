"""Whether gradients go through a value."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

import libcst as cst
import pytest

from tests.programs import model_of

if TYPE_CHECKING:  # where mypy finds what is installed below `amp_lint.rules`
    from rules.numerics._differentiated import is_never_differentiated
else:
    from amp_lint.rules.numerics._differentiated import is_never_differentiated

HEADER = "import numpy\nimport scipy\nimport torch\nimport torch.nn.functional as F\n"


def is_never(text: str) -> bool:
    """For the only call of ``log`` in a program."""
    model = model_of(HEADER + textwrap.dedent(text))
    calls = model.tree.nodes(cst.Call)
    (log,) = (c for c in calls if isinstance(c.func, cst.Attribute) and c.func.attr.value == "log")
    return is_never_differentiated(model, log)


@pytest.mark.parametrize(
    "text",
    [
        "@torch.no_grad()\ndef f(p):\n    return p.log()",
        "def _f(p):\n    return p.log()\n\n@torch.no_grad()\ndef g(p):\n    return _f(p)",
        """
        @torch.no_grad()
        def decode(p):
            def score(p):
                return p.log()
            return score(p)
        """,
        "def test_loss(p, loss):\n    assert loss(p) == p.log().mean()",
        "def f(p, q):\n    kl = F.kl_div(p.log(), q)\n    return {'kl': float(torch.mean(kl))}",
        "def f(p):\n    return scipy.optimize.linear_sum_assignment(p.log())",
        """
        class ClassCost:
            def _cost(self, p):
                return p.log() * 2
            def __call__(self, p):
                return self._cost(p)
        """,
    ],
)
def test_what_has_no_gradient(text: str) -> None:
    assert is_never(text)


@pytest.mark.parametrize(
    "text",
    [
        "def f(p):\n    return p.log()",
        "def f(p):\n    return p.log()\n\n@torch.no_grad()\ndef g(p):\n    return f(p)",
        "def _f(p):\n    return p.log()\n\n@torch.no_grad()\ndef g(p):\n    return _f(p), run(_f)",
        "def f(p, q):\n    return F.kl_div(p.log(), q)",
        "def f(p, found):\n    found.append(p.log())\n    return found",
        """
        class Coder(torch.nn.Module):
            def forward(self, p):
                return p.log()
            @torch.no_grad()
            def codes(self, p):
                return self.forward(p)
        """,
        """
        class ClassLoss:
            def _cost(self, p):
                return p.log() * 2
            def __call__(self, p):
                return self._cost(p)
        """,
    ],
)
def test_what_may_have_one(text: str) -> None:
    assert not is_never(text)
