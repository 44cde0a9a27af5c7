"""ARCHITECTURE.md says what is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from marked import updated

from amp_lint import registry
from amp_lint.walk.protocol import ROWS, Mistake, Row

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "ARCHITECTURE.md"
CODES = {
    Mistake.SCALED_CLIP: "AMP101",
    Mistake.SCALED_READ: "AMP102",
    Mistake.STRICT_CLIP: "AMP113",
    Mistake.REPEATED_UNSCALE: "AMP103",
    Mistake.BYPASS: "AMP104",
    Mistake.DOUBLE_STEP: "AMP104",
    Mistake.NO_UPDATE: "AMP105",
    Mistake.LEFT_EARLY: "AMP105",
    Mistake.UNSCALED: "AMP107",
    Mistake.MISMATCH: "AMP114",
    Mistake.SCHEDULED: "AMP112",
}
"""The rule that reports each mistake of the table: rules know mistakes, not the other way round."""


def table() -> str:
    head = ["| event | in the state | is the mistake | rule |", "|---|---|---|---|"]
    rows = ((event(row), row.state, row.mistake.value, CODES[row.mistake]) for row in ROWS)
    return "\n".join([*head, *(f"| {' | '.join(cells)} |" for cells in rows)])


def event(row: Row) -> str:
    kinds = ", ".join(sorted(kind.value for kind in row.kinds))
    if row.through_scaler is None:
        return kinds
    return f"{kinds} of the scaler" if row.through_scaler else f"{kinds} of the optimizer"


def test_the_table_of_the_protocol() -> None:
    text = PAGE.read_text("utf-8")
    assert updated(text, "<!-- protocol -->", "<!-- end of protocol -->", table()) == text


def test_rules_of_the_table_are_there() -> None:
    assert all(registry.find(code) for code in CODES.values())


@pytest.mark.parametrize("path", re.findall(r"`([\w/]+(?:\.py|/))`", PAGE.read_text("utf-8")))
def test_paths_are_there(path: str) -> None:
    places = (ROOT / path, ROOT / "amp_lint" / path, ROOT / "amp_lint" / "verify" / path)
    assert any(place.exists() for place in places), path


def test_every_room_is_told_of() -> None:
    rooms = {path.name for path in (ROOT / "amp_lint").iterdir() if (path / "__init__.py").exists()}
    text = PAGE.read_text("utf-8")
    assert not {room for room in rooms if f"`{room}/`" not in text}
