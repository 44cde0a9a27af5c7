"""ARCHITECTURE.md says what is there."""

from __future__ import annotations

import ast
import re
import statistics
from pathlib import Path

import pytest
from marked import updated

from amp_lint import registry
from amp_lint.mistake import Mistake
from amp_lint.text.diagnostic import SYNTAX_ERROR
from amp_lint.walk.mistake_rows import ROWS, Row

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "ARCHITECTURE.md"
CODES = {
    Mistake.SCALED_CLIP: "AMP101",
    Mistake.SCALED_READ: "AMP102",
    Mistake.STRICT_CLIP: "AMP113",
    Mistake.REPEATED_UNSCALE: "AMP103",
    Mistake.BYPASS: "AMP104",
    Mistake.UNCHECKED_STEP: "AMP104",
    Mistake.DOUBLE_STEP: "AMP104",
    Mistake.NO_UPDATE: "AMP105",
    Mistake.LEFT_EARLY: "AMP105",
    Mistake.UNSCALED: "AMP107",
    Mistake.MISMATCH: "AMP114",
    Mistake.BARE_BACKWARD: "AMP501",
    Mistake.OWN_SCALER: "AMP501",
    Mistake.UNPREPARED: "AMP501",
    Mistake.LOOSE_CLIP: "AMP502",
    Mistake.EMPTY_UPDATE: "AMP106",
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


MAX_LINES = 45
"""In one function: a screen of it."""
MEDIAN_RULE = 70
"""Lines of a rule; the layers below do the rest."""
MACHINE = ("vocabulary", "text", "syntax", "flow", "amp", "walk", "edit", "run")


def python_files() -> list[Path]:
    folders = ("amp_lint", "rules", "tests", "benchmarks")
    return [path for folder in folders for path in (ROOT / folder).rglob("*.py")]


def test_functions_are_short() -> None:
    functions = [
        (path, node)
        for path in python_files()
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
    ]
    long = [
        f"{path.relative_to(ROOT)}: {node.name}"
        for path, node in functions
        if (node.end_lineno or 0) - node.lineno >= MAX_LINES
    ]
    assert not long


def test_most_rules_are_short() -> None:
    """What begins with an underscore serves a rule, a file or a folder of them."""
    home = ROOT / "rules"
    files = [path.relative_to(home) for path in home.rglob("*.py")]
    rules = [home / path for path in files if not any(p.startswith("_") for p in path.parts)]
    lines = [len(path.read_text("utf-8").splitlines()) for path in rules]
    assert statistics.median(lines) <= MEDIAN_RULE


def test_the_machine_names_no_rule() -> None:
    """What a rule wants of it, the rule declares; `AMP900` is the one of no rule."""
    names = {rule.name for rule in registry.all_rules()}
    for room in MACHINE:
        for path in (ROOT / "amp_lint" / room).rglob("*.py"):
            literals = {
                node.value
                for node in ast.walk(ast.parse(path.read_text("utf-8")))
                if isinstance(node, ast.Constant) and isinstance(node.value, str)
            }
            codes = {text for text in literals if re.fullmatch(r"AMP\d{3}", text)}
            assert not codes - {"AMP101", SYNTAX_ERROR} | literals & names, path
