"""The extension for VS Code: what it says to the server, what packs it, and VS Code with it."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import amp_lint
from amp_lint.server.wishes import wishes
from tests.browser import chromium
from tests.npm import installed

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


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The extension as its own tool packs it, which npm has to bring."""
    folder = tmp_path_factory.mktemp("vscode") / "extension"
    shutil.copytree(FOLDER, folder, ignore=shutil.ignore_patterns("node_modules", "dist", "*.vsix"))
    installed(folder)
    subprocess.run(["npm", "run", "package"], cwd=folder, capture_output=True, check=True)
    return folder / "amp-lint.vsix"


def test_it_is_packed_with_nothing_that_it_need_not_have(packed: Path) -> None:
    with zipfile.ZipFile(packed) as archive:
        names = {name for name in archive.namelist() if name.startswith("extension/")}
    assert names == {
        "extension/dist/extension.js",
        "extension/package.json",
        "extension/readme.md",
    }


PORT = 18765
SETTINGS = {
    "editor.codeActionsOnSave": {"source.fixAll.amp-lint": "explicit"},
    "security.workspace.trust.enabled": False,
}


@contextmanager
def vs_code(packed: Path, project: Path, folder: Path) -> Iterator[str]:
    """VS Code in a browser (the npm package code-server), with the extension; its address."""
    program = shutil.which("code-server")
    if program is None:
        pytest.skip("there is no code-server")
    (folder / "User").mkdir(parents=True)
    (folder / "User" / "settings.json").write_text(json.dumps(SETTINGS), "utf-8")
    places = [f"--user-data-dir={folder}", f"--extensions-dir={folder / 'extensions'}"]
    subprocess.run([program, *places, "--install-extension", str(packed)], check=True)
    options = ["--auth=none", f"--bind-addr=127.0.0.1:{PORT}", "--disable-telemetry"]
    command = [program, *places, *options, str(project)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, start_new_session=True) as started:
        time.sleep(3)
        try:
            yield f"http://127.0.0.1:{PORT}/?folder={project}"
        finally:
            os.killpg(started.pid, signal.SIGKILL)


def test_vs_code_shows_a_finding_proves_its_fix_and_fixes_on_save(
    tmp_path: Path, packed: Path, clip: str, fixed: str
) -> None:
    """The server is that of the project's environment: VS Code has another path than a shell."""
    project = tmp_path / "project"
    project.mkdir()
    (project / "train.py").write_text(clip, "utf-8")
    (project / ".venv").symlink_to(sys.prefix)
    with vs_code(packed, project, tmp_path / "data") as address, chromium() as browser:
        page = browser.new_page(viewport={"width": 1280, "height": 800})
        page.set_default_timeout(60_000)
        page.goto(address)
        page.get_by_role("treeitem", name="train.py").dblclick()
        page.wait_for_selector(".squiggly-error")
        page.keyboard.press("Control+Shift+m")
        page.get_by_text("clips gradients that are still scaled").first.dblclick()
        page.keyboard.press("Control+1")
        page.keyboard.press("Control+.")
        page.get_by_text("AMP101: prove the fix by experiment").click()
        page.get_by_text("fix proven: Insert").first.wait_for()
        page.keyboard.press("Control+1")
        page.keyboard.press("Control+s")
        page.get_by_text("No problems have been detected").wait_for()
    assert (project / "train.py").read_text("utf-8") == fixed
