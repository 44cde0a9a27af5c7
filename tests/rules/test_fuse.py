"""Fixes that make one operation of two leave what a reviewer would merge."""

from __future__ import annotations

import textwrap

import pytest

from amp_lint import fixing, registry
from amp_lint.selection import Selection
from amp_lint.text.source import Source

PRELUDE = """\
import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.functional import softmax

softened = nn.Softmax(dim=1)
implicit = nn.Softmax()


"""


def fused(body: str) -> tuple[str, int]:
    """The body of a function after safe fixes, and how many findings remain."""
    rule = registry.find("log-softmax")
    assert rule is not None
    text = f"{PRELUDE}def f(self, model, x, y):\n{textwrap.indent(body, '    ')}"
    result = fixing.fix(Source(text.encode(), "test.py"), Selection((rule,)))
    assert not result.refused
    tail = result.text.partition("y):\n")[2]
    return textwrap.dedent(tail), len(result.remaining)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(
            "p = F.softmax(x, 1)\nreturn torch.log(p)\n",
            "return F.log_softmax(x, 1)\n",
            id="single use",
        ),
        pytest.param(
            "p: torch.Tensor = x.softmax(1)\nreturn p.log()\n",
            "return x.log_softmax(1)\n",
            id="annotated",
        ),
        pytest.param(
            "x = F.softmax(x, 1)\nx = torch.log(x)\nreturn x\n",
            "x = F.log_softmax(x, 1)\nreturn x\n",
            id="one name",
        ),
        pytest.param(
            "p = x.softmax(1)\nreturn p, p.log()\n",
            "p = x.softmax(1)\nreturn p, x.log_softmax(1)\n",
            id="two uses",
        ),
        pytest.param(
            "p = F.softmax(model(x), 1)\nreturn torch.log(p)\n",
            "return F.log_softmax(model(x), 1)\n",
            id="a call, next statement",
        ),
        pytest.param(
            "p = F.softmax(model(x), 1)\nz = model(y)\nreturn torch.log(p) + z\n",
            "logits = model(x)\nz = model(y)\nreturn F.log_softmax(logits, 1) + z\n",
            id="a call, later",
        ),
        pytest.param(
            "p = F.softmax(model(x), 1)\nreturn model(y) + torch.log(p)\n",
            "logits = model(x)\nreturn model(y) + F.log_softmax(logits, 1)\n",
            id="a call, after another call",
        ),
        pytest.param(
            "logits = 1\np = F.softmax(model(x), 1)\nreturn p, p.log(), logits\n",
            "logits = 1\np_logits = model(x)\np = F.softmax(p_logits, 1)\n"
            "return p, F.log_softmax(p_logits, 1), logits\n",
            id="name taken",
        ),
        pytest.param(
            "p = softmax(x, 1)\nreturn p.log()\n", "return F.log_softmax(x, 1)\n", id="imported"
        ),
        pytest.param(
            "return torch.log(softened(x))\n", "return F.log_softmax(x, dim=1)\n", id="module"
        ),
        pytest.param(
            "return torch.log(implicit(x))\n", "return F.log_softmax(x)\n", id="implicit dim"
        ),
        pytest.param(
            "return (x\n        .softmax(-1)\n        .log())\n",
            "return (x\n        .log_softmax(-1))\n",
            id="lines in parentheses",
        ),
        pytest.param(
            "return torch.log(\n    x\n    .softmax(-1)\n)\n",
            "return (x\n    .log_softmax(-1))\n",
            id="lines in the call",
        ),
        pytest.param(
            "p = x.softmax(1)  # sums to 1\nreturn p.log()  # no\n",
            "# sums to 1\nreturn x.log_softmax(1)  # no\n",
            id="comment",
        ),
        pytest.param(
            "p = F.softmax(\n    model(x),  # logits\n    dim=1,\n)\nreturn p.log()\n",
            "return F.log_softmax(\n    model(x),  # logits\n    dim=1,\n)\n",
            id="comment inside",
        ),
        pytest.param(
            "p = F.softmax(\n    x / 2,\n    dim=1,\n)\nreturn p, p.log()\n",
            "p = F.softmax(\n    x / 2,\n    dim=1,\n)\nreturn p, F.log_softmax(x / 2, dim=1)\n",
            id="layout",
        ),
    ],
)
def test_fused(before: str, after: str) -> None:
    assert fused(before) == (after, 0)


@pytest.mark.parametrize(
    "body",
    [
        "p = F.softmax(x, 1)\nx = x + 1\nreturn torch.log(p), x\n",
        "p = F.softmax(x, 1)\nx.add_(1)\nreturn torch.log(p), x\n",
        "p = F.softmax(self.x, 1)\nself.step()\nreturn torch.log(p), p\nlogits = p_logits = 1\n",
        "for y in x:\n    p = F.softmax(x, 1)\n    x = x + 1\n    p.log()\n",
        "with torch.no_grad():\n    p = F.softmax(x, 1)\nreturn torch.log(p)\n",
        "p = F.softmax(model.w, 1)\noptimizer.step()\nreturn torch.log(p)\n",
        "p = F.softmax(self.w, 1)\nself.update()\nreturn torch.log(p)\n",
        "p = F.softmax(buf[i], 1)\nbuf[i] = 0\nreturn torch.log(p)\n",
        "p = F.softmax(x, 1)\nz, y[0] = 1, 2\nreturn torch.log(p)\n",
        "p = F.softmax(x, 1)\ny += 1\nreturn torch.log(p)\n",
        "p = F.softmax(x, 1)\nF.relu(y, inplace=True)\nreturn torch.log(p)\n",
        "p = F.softmax(x, 1)\ny.data.clamp_(0)\nreturn torch.log(p)\n",
        "p = F.softmax(x, 1)\nfor y in ys:\n    print(torch.log(p))\n",
        "return torch.log(  # stable?\n    F.softmax(x, 1))\n",
        "return F.softmax(x, 1).float().log()\n",
    ],
)
def test_found_but_not_fixed(body: str) -> None:
    assert fused(body) == (body, 1)
