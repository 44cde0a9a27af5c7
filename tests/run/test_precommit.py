"""The hooks, tried with the real pre-commit on the repository as it stands."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="git is missing")


def run(*command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a command as outside of any git hook."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith("GIT_")}
    return subprocess.run(
        command,
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )


def make_repository(folder: Path) -> None:
    """A git repository of all that is in a folder."""
    for arguments in (
        ("init", "--quiet"),
        ("add", "--all"),
        ("-c", "user.name=x", "-c", "user.email=x@example.org", "commit", "--quiet", "-m", "x"),
    ):
        assert run("git", *arguments, folder=folder).returncode == 0


@pytest.fixture(scope="module")
def hooks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository with the tracked files as they are now, committed or not."""
    folder = tmp_path_factory.mktemp("hooks")
    listed = run("git", "ls-files", "--cached", "--others", "--exclude-standard", folder=ROOT)
    names = listed.stdout.splitlines() if listed.returncode == 0 else _all_files()
    for name in names:
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, folder / name)
    make_repository(folder)
    return folder


def _all_files() -> list[str]:
    """The files of an unpacked archive."""
    return [path.relative_to(ROOT).as_posix() for path in ROOT.rglob("*")]


def test_both_hooks(hooks: Path, tmp_path: Path, clip: str, fixed: str) -> None:
    """In one go: each go builds an environment of its own."""
    for name in ("a.py", "build/b.py", "notes.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(clip)
    make_repository(tmp_path)
    command = [sys.executable, "-m", "pre_commit", "try-repo", str(hooks), "--all-files"]
    done = run(*command, "--color=never", folder=tmp_path)
    assert done.returncode == 1, done.stdout
    first, second = done.stdout.split("- hook id: ")[1:]
    assert first.startswith("amp-lint\n- exit code: 1\n"), done.stdout
    assert "a.py:8:9" in first
    assert "Found 1 error: " in first
    assert second.startswith("amp-lint-fix\n- files were modified by this hook\n"), done.stdout
    assert "Found 1 error (1 fixed, 0 remaining)." in second
    assert (tmp_path / "a.py").read_text() == fixed
    assert (tmp_path / "build" / "b.py").read_text() == clip
    assert (tmp_path / "notes.txt").read_text() == clip
