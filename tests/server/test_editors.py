"""The recipes of `docs/editors.md`, run by the editors themselves."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pygls")

HERE = Path(__file__).parent
PAGE = (HERE.parents[1] / "docs" / "editors.md").read_text("utf-8")
SECONDS = 180


def recipes(editor: str, language: str) -> list[str]:
    """The fences in a language of an editor's section."""
    (section,) = re.findall(rf"(?ms)^## {editor}$(.*?)(?=^## )", PAGE)
    return re.findall(rf"(?ms)^```{language}\n(.*?)^```$", section)


def environment(folder: Path) -> dict[str, str]:
    """Of an editor that finds this amp-lint, nobody's settings, and where to say what it saw."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    homes = ("HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME")
    home = str(folder / "home")
    there = {"SEEN": str(folder / "seen.json"), "FILE": str(folder / "train.py")}
    return {**os.environ, "PATH": path, **dict.fromkeys(homes, home), **there}


def seen(command: list[str], folder: Path) -> dict[str, Any]:
    """What was seen in an editor."""
    done = subprocess.run(
        command,
        cwd=folder,
        env=environment(folder),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    said = folder / "seen.json"
    assert said.is_file(), done.stdout + done.stderr
    found = json.loads(said.read_text("utf-8"))
    assert "error" not in found, found
    assert isinstance(found, dict)
    return found


@pytest.mark.skipif(shutil.which("nvim") is None, reason="there is no Neovim")
def test_neovim_shows_findings_explains_them_and_fixes_on_save(
    tmp_path: Path, clip: str, fixed: str
) -> None:
    (tmp_path / "train.py").write_text(clip, "utf-8")
    recent, former, on_save = recipes("Neovim", "lua")
    start = f"if vim.lsp.enable then\n{recent}else\n{former}end\n"
    driver = (HERE / "neovim.lua").read_text("utf-8")
    (tmp_path / "init.lua").write_text(f"{driver}{start}{on_save}", "utf-8")
    found = seen(["nvim", "--headless", "-n", "-u", "init.lua", "train.py"], tmp_path)
    assert found["finding"][:3] == ["AMP101", 7, 8]
    assert "65536" in found["hover"]
    assert not found["modified"]
    assert (tmp_path / "train.py").read_text("utf-8") == fixed


@pytest.mark.skipif(shutil.which("emacs") is None, reason="there is no Emacs")
def test_emacs_shows_findings_and_fixes_on_save(tmp_path: Path, clip: str, fixed: str) -> None:
    (tmp_path / "train.py").write_text(clip, "utf-8")
    with_eglot, _ = recipes("Emacs", "elisp")
    (tmp_path / "init.el").write_text(with_eglot, "utf-8")
    files = [str(tmp_path / "init.el"), str(HERE / "emacs.el")]
    found = seen(["emacs", "--batch", "-l", files[0], "-l", files[1]], tmp_path)
    assert "clips gradients that are still scaled" in found["message"]
    assert (tmp_path / "train.py").read_text("utf-8") == f"{fixed}\n"
