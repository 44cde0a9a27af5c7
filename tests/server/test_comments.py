"""Texts that differ in comments alone have the findings of each other, moved."""

from __future__ import annotations

import random

import pytest

from amp_lint import registry
from amp_lint.engine import check
from amp_lint.selection import Selection
from amp_lint.server.comments import moved
from amp_lint.text.source import Source
from tests.conftest import CLIP

LINE = "        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)\n"


def findings(text: str) -> list[object]:
    return [*check(Source.of(text, "a.py"), Selection(registry.all_rules()), named=True)]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (LINE, f"        # what is clipped\n\n{LINE}"),
        ("loader:\n", "loader:  # over x\n"),
        ("import torch\n", "# é \U0001f600\nimport torch\n"),
        (CLIP, f"{CLIP}\n\n# the end"),
        ("    for x", "    # over x\n    for x"),
    ],
)
def test_findings_move(old: str, new: str) -> None:
    other = CLIP.replace(old, new)
    assert other != CLIP
    for one, two in ((CLIP, other), (other, CLIP)):
        assert moved(one, two, check(*_asked(one))) == findings(two)


def _asked(text: str) -> tuple[Source, Selection]:
    return Source.of(text, "a.py"), Selection(registry.all_rules())


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (LINE, LINE.replace("\n", "  # noqa\n")),
        (LINE, LINE.replace("\n", "  # clipped\n")),  # the line of a finding
        ("import torch\n", "# coding: latin-1\nimport torch\n"),
        (LINE, LINE.replace("1.0", "2.0")),
        (LINE, LINE.replace("(model", "(  # the model\n            model")),
        (LINE, f"{LINE}        x = '''\n        # no comment\n        '''\n"),
        (LINE, f"{LINE}        (\n"),
        ("    scaler = ", "    # scaler = "),
    ],
)
def test_what_may_be_others_is_looked_at(old: str, new: str) -> None:
    other = CLIP.replace(old, new)
    assert moved(CLIP, other, check(*_asked(CLIP))) is None
    assert moved(other, CLIP, check(*_asked(other))) is None


def test_random_comments() -> None:
    choose, text = random.Random(0), CLIP
    for _ in range(40):
        lines = text.splitlines(keepends=True)
        at = choose.randrange(len(lines) + 1)
        line = choose.choice(("# c\n", "\n", "    # '\n", "  # noqa: E501\n", "x = 1\n"))
        other = "".join([*lines[:at], line, *lines[at:]])
        found = moved(text, other, check(*_asked(text)))
        if found is not None:
            assert found == findings(other)
            text = other if len(lines) < 20 else CLIP
