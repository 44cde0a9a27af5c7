"""Only what was changed since a revision is reported."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import Result

Run = Callable[..., Result]
OLD = "from torch.cuda.amp import GradScaler\nscaler = GradScaler()\nx = 1\n"
pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="there is no git")


def git(*arguments: str) -> None:
    settings = ("user.name=a", "user.email=a@b", "commit.gpgsign=false", "init.defaultBranch=main")
    options = [part for setting in settings for part in ("-c", setting)]
    subprocess.run(["git", *options, *arguments], check=True, capture_output=True)


@pytest.fixture
def since(tmp_path: Path, amp_lint: Run, monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """The places that are reported, of a checkout with one file that has one finding."""
    monkeypatch.chdir(tmp_path)
    git("init")
    Path("a b.py").write_text(OLD)
    git("add", "-A")
    git("commit", "-m", "old")

    def run(revision: str = "HEAD", *more: str) -> str:
        done = amp_lint(
            "--isolated",
            "--quiet",
            "--show-all",
            "--output-format",
            "concise",
            "--diff-base",
            revision,
            *more,
            ".",
        )
        assert not done.err
        return " ".join(line.partition(": AMP")[0] for line in done.out.splitlines())

    return run


def test_what_was_there_is_not_reported(since: Callable[..., str]) -> None:
    assert since() == ""


def test_a_changed_line_is(since: Callable[..., str]) -> None:
    Path("a b.py").write_text("\n\n" + OLD.replace("()", "(enabled=True)") + "GradScaler()\n")
    assert since() == "a b.py:4:10 a b.py:6:1"


def test_a_line_taken_away_changes_those_around_it(since: Callable[..., str]) -> None:
    Path("a b.py").write_text(OLD.replace("x = 1\n", ""))
    assert since() == "a b.py:2:10"


def test_a_new_file_is_new(since: Callable[..., str]) -> None:
    Path("new.py").write_text(OLD)
    assert since() == "new.py:2:10"
    git("add", "new.py")
    assert since() == "new.py:2:10"


def test_from_a_folder_below(since: Callable[..., str], monkeypatch: pytest.MonkeyPatch) -> None:
    Path("below").mkdir()
    Path("below/c.py").write_text(OLD)
    monkeypatch.chdir("below")
    assert since() == "c.py:2:10"


def test_an_older_revision(since: Callable[..., str]) -> None:
    git("commit", "--allow-empty", "-m", "empty")
    Path("a b.py").write_text(OLD + "GradScaler()\n")
    git("commit", "-am", "new")
    assert since("HEAD") == since("main") == ""
    assert since("HEAD~1") == since("HEAD~2") == "a b.py:4:1"


def test_programs_of_the_checkout_do_not_run(since: Callable[..., str]) -> None:
    Path(".gitattributes").write_text("*.py diff=evil\n")
    for setting in ("diff.external", "diff.evil.command", "diff.evil.textconv", "core.fsmonitor"):
        git("config", setting, "touch ran #")
    Path("a b.py").write_text(OLD + "GradScaler()\n")
    assert since() == "a b.py:4:1" and not Path("ran").exists()


@pytest.mark.parametrize("revision", ["nothing", "--output=x", "HEAD^{tree}"])
def test_no_such_revision(since: Callable[..., str], amp_lint: Run, revision: str) -> None:
    done = amp_lint("--isolated", f"--diff-base={revision}", ".")
    assert (done.code, done.out) == (2, "") and not Path("x").exists()
    assert done.err.startswith("error: command line: --diff-base: git says: ")
    assert done.err.count("\n") == 1


def test_no_checkout(tmp_path: Path, amp_lint: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    done = amp_lint("--isolated", "--diff-base", "HEAD", ".")
    assert done.code == 2 and "not a git repository" in done.err
    monkeypatch.setenv("PATH", "")
    assert "which is not installed" in amp_lint("--isolated", "--diff-base", "HEAD", ".").err
