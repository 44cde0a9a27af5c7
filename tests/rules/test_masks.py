"""AMP313's fix: all masks that write one number, or none; safe only where no other is near."""

from __future__ import annotations

import textwrap

import pytest

from amp_lint import engine, fixing, registry
from amp_lint.selection import Selection
from amp_lint.text.diagnostic import Applicability, Diagnostic
from amp_lint.text.source import Source

HEAD = """\
import torch
from torch import nn


@torch.autocast("cuda")
def attend(q, k, pad, later, bias):
    scores = q @ k.mT
"""


def found(body: str) -> list[Diagnostic]:
    """What AMP313 says of the body of a function that has scores."""
    rule = registry.find("overflowing-constant")
    assert rule is not None
    text = HEAD + textwrap.indent(body, "    ")
    return engine.check(Source(text.encode(), "test.py"), Selection((rule,)))


def trusts(body: str) -> list[tuple[Applicability, int] | None]:
    """Of each finding how far its fix is to be trusted, and how many places it changes."""
    fixes = [finding.fix for finding in found(body)]
    return [(fix.applicability, len(fix.edits)) if fix is not None else None for fix in fixes]


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(
            "s = scores.masked_fill(pad, -1e9)\ns = s.masked_fill(later, -1e9)\n"
            "return s.softmax(-1)\n",
            id="in two statements",
        ),
        pytest.param(
            "scores = scores.masked_fill(pad, -1e9)\nif later is not None:\n"
            "    scores = scores.masked_fill(later, value=-1e9)\n"
            "return torch.softmax(scores, -1)\n",
            id="under a condition, by keyword",
        ),
    ],
)
def test_equal_numbers_change_together(body: str) -> None:
    assert {places for _, places in filter(None, trusts(body))} == {2}


@pytest.mark.parametrize(
    ("body", "places"),
    [
        pytest.param("s = scores.masked_fill(pad, -1e9)\nreturn s.softmax(-1)\n", [1], id="alone"),
        pytest.param(
            "s = scores.masked_fill(pad, -1e9)\ns = s.masked_fill(later, -1e9)\n"
            "return s.softmax(-1)\n",
            [2, 2],
            id="two",
        ),
        pytest.param(
            "s = scores.masked_fill(pad, -1e9)\ns = s.masked_fill(later, -1e4)\n"
            "return s.softmax(-1)\n",
            [1],
            id="beside a number that is larger",
        ),
        pytest.param(
            "s = scores.masked_fill(pad, -torch.inf)\ns = s.masked_fill(later, -1e9)\n"
            "return s.softmax(-1)\n",
            [1],
            id="beside -inf",
        ),
        pytest.param(
            "s = scores.masked_fill(torch.ones_like(scores[0]) > 0, -1e9)\n"
            "size = s.shape[-1]\nreturn s.softmax(-1) * size\n",
            [1],
            id="whose size is asked for",
        ),
    ],
)
def test_safe(body: str, places: list[int]) -> None:
    assert trusts(body) == [(Applicability.SAFE, count) for count in places]


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(
            "s = (scores + bias).masked_fill(pad, -1e9)\nreturn s.softmax(-1)\n",
            id="no variable",
        ),
        pytest.param(
            "scores = scores.masked_fill(pad, -1e9).masked_fill(later, -1e9)\n"
            "return scores.softmax(-1)\n",
            id="in one expression, of which only the first is of a variable",
        ),
    ],
)
def test_none(body: str) -> None:
    assert not [*filter(None, trusts(body))]


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(
            "scores = scores.masked_fill(later, torch.finfo(torch.float32).min)\n"
            "scores = scores.masked_fill(pad, -1e9)\nreturn scores.softmax(-1)\n",
            id="beside a number that is less",
        ),
        pytest.param(
            "scores = torch.where(later, scores, scores * 0 - 1e9)\n"
            "scores = scores.masked_fill(pad, -1e9)\nreturn scores.softmax(-1)\n",
            id="beside another kind of mask",
        ),
        pytest.param(
            "scores = scores + (1 - bias.half()) * -1e4\nscores = scores.masked_fill(pad, -1e9)\n"
            "return scores.softmax(-1)\n",
            id="of what a parameter is added to",
        ),
        pytest.param(
            "scores[later] = -3e4\nscores = scores.masked_fill(pad, -1e9)\n"
            "return scores.softmax(-1)\n",
            id="of what was written into",
        ),
        pytest.param(
            "scores = scores.masked_fill(pad, -1e9)\nreturn scores.softmax(-1) + scores\n",
            id="read by something else",
        ),
    ],
)
def test_shown(body: str) -> None:
    """Of the last of them, which is ``-1e9`` in each."""
    known = trusts(body)[-1]
    assert known is not None and known[0] is Applicability.SUGGEST


def test_both_are_written() -> None:
    rule = registry.find("overflowing-constant")
    assert rule is not None
    body = """\
s = scores.masked_fill(pad, -1e9)
t = s.masked_fill(torch.ones_like(s[0]) > 0, value=-1e9)
return t.softmax(-1)
"""
    text = HEAD + textwrap.indent(body, "    ")
    result = fixing.fix(Source(text.encode(), "test.py"), Selection((rule,)))
    assert result.text == text.replace("pad, -1e9", "pad, torch.finfo(s.dtype).min").replace(
        "value=-1e9", "value=torch.finfo(s.dtype).min"
    ).replace("pad, torch.finfo(s.", "pad, torch.finfo(scores.")
    assert not result.remaining
