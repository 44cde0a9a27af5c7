"""Only what was changed since a revision is reported."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from amp_lint.run.choice import ConfigError
from amp_lint.run.job import Outcome
from amp_lint.run.narrowing.changes import Changes
from amp_lint.text.diagnostic import Diagnostic, Severity
from amp_lint.text.source import Source
from tests.checkouts import git
from tests.conftest import Result

Run = Callable[..., Result]
OLD = "from torch.cuda.amp import GradScaler\nscaler = GradScaler()\nx = 1\n"
pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="there is no git")


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


@pytest.mark.parametrize("revision", ["nothing", "--output=x", "HEAD^{tree}", "a...b", ""])
def test_no_such_revision(commit: Callable[[str, str], None], revision: str) -> None:
    commit("a.py", "a\n")
    with pytest.raises(ConfigError, match="here; fetch it, or check it"):
        Changes(revision)
    assert not Path("x").exists()


def test_no_history(commit: Callable[[str, str], None], monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match="knows no commit 'HEAD' here"):
        Changes("HEAD")
    commit("a.py", "a\nb\n")
    commit("a.py", "a\nc\n")
    git("clone", "--depth=1", Path.cwd().as_uri(), "shallow")
    monkeypatch.chdir("shallow")
    assert changed("a.py") == []
    with pytest.raises(ConfigError, match="here; `git fetch --unshallow` brings the history"):
        Changes("HEAD~1")


def test_no_checkout(tmp_path: Path, amp_lint: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    done = amp_lint("--isolated", "--diff-base", "HEAD", ".")
    assert done.code == 2 and "not a git repository" in done.err
    monkeypatch.setenv("PATH", "")
    assert "which is not installed" in amp_lint("--isolated", "--diff-base", "HEAD", ".").err


@pytest.fixture
def commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], None]:
    """Commits a file to a new checkout, which is the current directory."""
    monkeypatch.chdir(tmp_path)
    git("init")

    def run(name: str, text: str) -> None:
        Path(name).write_text(text, "utf-8", newline="")
        git("add", "-A")
        git("commit", "-m", "some")

    return run


def changed(name: str, revision: str = "HEAD") -> list[str]:
    """The lines that count as changed: each is a finding, its end exclusive."""
    source = Source.read(Path(name))
    ends = [*source.line_starts[1:], len(source.text)]
    spans = [*zip(source.line_starts, ends, strict=True)]
    found = [Diagnostic("AMP101", "x", Severity.ERROR, "x", a, b) for a, b in spans if a < b]
    left = Changes(revision).only(Outcome(name, source, found)).findings
    return [source.text[each.start : each.end].strip("\r\n") for each in left]


@pytest.mark.parametrize(
    "before, after",
    [
        ("a\nb\nc\n", "a\n++ b/x\nc\n"),
        ("a\n-- a/x\nb\n", "a\n++ b/x\nb\n"),
        ("a\nb\nc\n", "a\n@@ -9 +9 @@\nc\n"),
        ("a\nb\n\nc\nd", "a\n+++ b/x\n\nc\ne"),
        ("a\f\nb\nc\n", "a\f\n+\f@@ -1 +1 @@\nc\n"),
        ("a\u2028b\nc\n", "a\u2028b\nd\u2028@@ -1 +1 @@\n"),
        ("a\rb\nc\nd\n", "a\rb\nc\ne\n"),
        ("a\r\nb\r\n", "a\r\nc\r\n"),
    ],
)
def test_lines_are_those_of_git(
    commit: Callable[[str, str], None], before: str, after: str
) -> None:
    commit("a.py", before)
    Path("a.py").write_text(after, "utf-8", newline="")
    old = {line.strip("\r\n") for line in Source.of(before, "a.py").text.split("\n")}
    new = [line.strip("\r") for line in after.split("\n") if line.strip("\r")]
    assert changed("a.py") == [line for line in new if line not in old]


@pytest.mark.skipif(os.name == "nt", reason="no such names there")
@pytest.mark.parametrize(
    "name", ["a b.py", "caf\u00e9.py", "a\tb c.py", 'a"b.py', "a\nb.py", "a\\b.py", "\udcff\x01.py"]
)
def test_any_name(commit: Callable[[str, str], None], name: str) -> None:
    commit(name, "a\nb\n")
    assert changed(name) == []
    Path(name).write_text("a\nc\n")
    assert changed(name) == ["c"]


def test_links_lead_to_the_same_file(commit: Callable[[str, str], None]) -> None:
    Path("real/below").mkdir(parents=True)
    commit("real/below/a.py", "a\nb\n")
    Path("real/below/a.py").write_text("a\nc\n")
    Path("folder").symlink_to("real")
    Path("file.py").symlink_to("real/below/a.py")
    for name in ("folder/below/a.py", "file.py", "real/below/../below/a.py"):
        assert changed(name) == ["c"]


def test_what_git_does_not_know_is_new(
    commit: Callable[[str, str], None], tmp_path_factory: pytest.TempPathFactory
) -> None:
    commit(".gitignore", "ignored.py\n")
    git("init", "other")
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    for name in ("ignored.py", "other/a.py", str(elsewhere / "a.py")):
        Path(name).write_text("a\n")
        assert changed(name) == ["a"]


def test_settings_of_git_change_nothing(
    commit: Callable[[str, str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    commit("a.py", "a\nb\nc\nd\ne\n")
    Path("a.py").write_text("A\nb\nC\nd\ne\n")
    for setting in ("noprefix", "mnemonicPrefix", "relative"):
        git("config", f"diff.{setting}", "true")
    git("config", "diff.interHunkContext", "9")
    git("config", "color.ui", "always")
    monkeypatch.setenv("GIT_DIFF_OPTS", "--unified=9")
    assert changed("a.py") == ["A", "C"]


def test_what_another_branch_did_since_is_not_ours(commit: Callable[[str, str], None]) -> None:
    commit("a.py", "a\nb\nc\nd\n")
    git("checkout", "-b", "ours")
    commit("a.py", "a\nb\nc\nD\n")
    git("checkout", "main")
    commit("a.py", "b\nc\nd\n")
    git("checkout", "ours")
    assert changed("a.py", "main") == ["D"]
    git("checkout", "--orphan", "alone")
    commit("a.py", "a\nb\n")
    assert changed("a.py", "ours") == ["b"], "without a common history all that differs"


def test_a_renamed_file_is_the_same(commit: Callable[[str, str], None]) -> None:
    commit("a.py", "".join(f"{row}\n" for row in range(9)))
    git("mv", "a.py", "b.py")
    assert changed("b.py") == []
    Path("b.py").write_text(Path("b.py").read_text() + "new\n")
    assert changed("b.py") == ["new"]


def test_changes_of_a_merge_in_conflict(commit: Callable[[str, str], None]) -> None:
    commit("a.py", "a\nb\n")
    git("checkout", "-b", "theirs")
    commit("a.py", "a\ntheirs\n")
    git("checkout", "main")
    commit("a.py", "a\nours\n")
    with pytest.raises(subprocess.CalledProcessError):
        git("merge", "theirs")
    assert "theirs" in changed("a.py") and "a" not in changed("a.py")


def test_what_git_shows_no_lines_of_is_changed_as_a_whole(
    commit: Callable[[str, str], None],
) -> None:
    commit("a b.py", "a\nb\n")
    commit(".gitattributes", "*.py -diff\n")
    assert changed("a b.py") == []
    Path("a b.py").write_text("a\nc\n")
    assert changed("a b.py") == ["a", "c"]
