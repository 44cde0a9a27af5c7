"""The extension for VS Code says what the server understands; its own tool packs it elsewhere."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

import amp_lint
from amp_lint.server.wishes import wishes

FOLDER = Path(__file__).parents[2] / "editors" / "vscode"
PACKAGE = json.loads((FOLDER / "package.json").read_text("utf-8"))
CODE = (FOLDER / "extension.js").read_text("utf-8")
PROPERTIES = PACKAGE["contributes"]["configuration"]["properties"]


def test_it_has_the_version_of_the_server() -> None:
    assert PACKAGE["version"] == amp_lint.__version__


def test_the_server_knows_its_settings() -> None:
    """By default they say nothing, so that `pyproject.toml` decides."""
    asked = {name.removeprefix("amp-lint."): given["default"] for name, given in PROPERTIES.items()}
    assert asked.pop("server.command") == ["amp-lint", "server"]
    said: list[str] = []
    assert wishes(asked, said.append) == wishes({}, said.append)
    assert not said
    assert f"const ASKED = {json.dumps([*asked])};" in CODE


def test_its_commands_are_there() -> None:
    for command in PACKAGE["contributes"]["commands"]:
        assert f'registerCommand("{command["command"]}"' in CODE


@pytest.mark.skipif(shutil.which("node") is None, reason="there is no node")
def test_it_is_javascript() -> None:
    subprocess.run(["node", "--check", str(FOLDER / "extension.js")], check=True)
