"""A project lives with the findings that it lists, and hears of the new ones."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from amp_lint import registry
from amp_lint.run.choice import ConfigError
from amp_lint.run.job import Outcome
from amp_lint.run.narrowing import baseline
from amp_lint.selection import Selection
from amp_lint.text.diagnostic import Diagnostic, Severity
from amp_lint.text.source import Source
from tests.conftest import Result

Run = Callable[..., Result]
OLD = "from torch.cuda.amp import GradScaler\nscaler = GradScaler()\n"


@pytest.fixture
def listed(tmp_path: Path, amp_lint: Run, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Lints a folder whose one finding is listed."""
    monkeypatch.chdir(tmp_path)
    Path("a.py").write_text(OLD)
    done = amp_lint("--isolated", "--write-baseline", "known.json", ".")
    assert (done.code, done.out, done.err) == (0, "", "Wrote 1 finding to known.json.\n")
    return lambda *more: amp_lint("--isolated", "--baseline", "known.json", *(more or (".",)))


def test_what_is_listed_is_not_reported(listed: Run) -> None:
    done = listed()
    assert (done.code, done.err) == (0, "") and "All checks passed" in done.out


def test_moved_lines_are_no_news(listed: Run) -> None:
    Path("a.py").write_text(f"import os\n\n\n{OLD.replace('scaler =', 'scaler  =')}")
    assert listed().code == 0


def test_another_one_is(listed: Run) -> None:
    Path("a.py").write_text(OLD + "scaler = GradScaler()\n")
    done = listed("--output-format", "concise")
    assert done.code == 1 and done.out.startswith("a.py:3:") and "Found 1 error" in done.out


def test_the_same_in_another_file_is(listed: Run) -> None:
    Path("b.py").write_text(OLD)
    done = listed("--output-format", "concise")
    assert done.code == 1 and done.out.startswith("b.py:2:")


def test_what_is_there_no_more_is_named(listed: Run) -> None:
    Path("a.py").write_text("x = 1\n")
    done = listed()
    what = "AMP401 in a.py is there no more; write it again with --write-baseline"
    assert (done.code, done.err) == (0, f"warning: known.json: {what}\n")
    Path("b.py").write_text("x = 1\n")
    assert not listed("b.py").err, "nothing is known of files that were not looked at"
    assert not listed("a.py").err, "some findings are seen only together with other files"


FILES = ("a.py", "b.py", "c.py")


def outcomes(code: str = "AMP401", *, preview: bool = False, error: str = "") -> list[Outcome]:
    """What comes of three files: a finding in the first, nothing in the second, or errors.

    The third has nothing that a rule could be about.
    """
    found = Diagnostic(code, "x", Severity.ERROR, "x", 0, 4, preview=preview)
    if error:
        return [Outcome(name, errors=[error]) for name in FILES[:2]]
    sources = [Source.of(OLD, name) for name in FILES[:2]]
    return [Outcome("a.py", sources[0], [found]), Outcome("b.py", sources[1])]


def scope(done: list[Outcome], *codes: str, preview: bool = False) -> baseline.Scope:
    rules = tuple(rule for rule in registry.every_rule() if rule.code in codes)
    selection = Selection(rules, preview=preview)
    return baseline.Scope(dict.fromkeys(FILES, selection), done)


NOTHING = outcomes()[1:]


@pytest.mark.parametrize(
    "listed, again, told",
    [
        (outcomes(), (NOTHING, "AMP401"), True),
        (outcomes(), (NOTHING, "AMP101"), False),
        (outcomes(), ([], "AMP401"), True),
        (outcomes(), (outcomes(error="takes too long"), "AMP401"), False),
        (outcomes(preview=True), (NOTHING, "AMP401"), False),
        (outcomes("AMP900"), ([Outcome("a.py", Source.of(OLD, "a.py"))], "AMP101"), True),
        (outcomes("AMP900"), (NOTHING, "AMP101"), False),
        (outcomes("AMP900"), (outcomes(error="is no Python"), "AMP101"), False),
    ],
)
def test_what_was_not_looked_for_is_kept_and_not_called_stale(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    listed: list[Outcome],
    again: tuple[list[Outcome], str],
    told: bool,
) -> None:
    monkeypatch.chdir(tmp_path)
    done, code = again
    assert baseline.write("known.json", listed, scope(listed, "AMP401")) == (1, 0)
    stale = [*baseline.Baseline("known.json").stale(scope(done, code))]
    assert len(stale) == told
    assert baseline.write("known.json", done, scope(done, code)) == (0, not told)
    assert len(json.loads(Path("known.json").read_text())["findings"]) == (not told)


def test_preview_looks_for_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    listed = outcomes(preview=True)
    baseline.write("known.json", listed, scope(listed))
    assert [*baseline.Baseline("known.json").stale(scope(NOTHING, "AMP401", preview=True))]


def test_no_other_file_is_written_over(listed: Run, amp_lint: Run) -> None:
    done = amp_lint("--isolated", "--write-baseline", "a.py")
    assert (done.code, done.out, Path("a.py").read_text()) == (2, "", OLD)
    assert done.err.startswith("error: a.py: is no baseline and stays as it is")


@pytest.mark.parametrize(
    "text", ["", '{"version": 2, "findings": []}', '<<<<\n{"version": 1, "findings": [']
)
def test_one_that_cannot_be_read_is_written_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("known.json").write_text(text)
    listed = outcomes()
    assert baseline.write("known.json", listed, scope(listed, "AMP401")) == (1, 0)


def test_a_subset_says_what_it_kept(listed: Run, amp_lint: Run) -> None:
    done = amp_lint("--isolated", "--select=AMP101", "--write-baseline", "known.json", ".")
    assert done.err == "Wrote 0 findings to known.json and kept 1 that was not looked for.\n"
    assert not listed("--select=AMP101", ".").err


def test_paths_are_those_of_the_checkout(
    tmp_path: Path, amp_lint: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".git").mkdir()
    below = tmp_path / "below"
    below.mkdir()
    (below / "a.py").write_text(OLD)
    monkeypatch.chdir(below)
    amp_lint("--isolated", "--write-baseline", "../known.json", "a.py")
    assert '"below/a.py"' in (tmp_path / "known.json").read_text()
    monkeypatch.chdir(tmp_path)
    assert amp_lint("--isolated", "--baseline", "known.json", ".").code == 0


@pytest.mark.parametrize(
    "text, what",
    [
        ("{", "is no baseline: it is not JSON"),
        ("[]", "is no baseline that can be read: it has no version"),
        ('{"version": 2}', "is no baseline that can be read: version 2, not 1"),
        ('{"version": 1}', "is no baseline: an entry is incomplete"),
        ('{"version": 1, "findings": [{"file": 1}]}', "is no baseline: an entry is incomplete"),
        (None, "cannot be read: No such file or directory"),
    ],
)
def test_a_bad_file_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str | None, what: str
) -> None:
    monkeypatch.chdir(tmp_path)
    if text is not None:
        Path("known.json").write_text(text)
    with pytest.raises(ConfigError) as raised:
        baseline.Baseline("known.json")
    assert str(raised.value).startswith(f"known.json: {what}")


@pytest.mark.parametrize("name", ["no.json", ""])
def test_a_bad_file_is_one_line(amp_lint: Run, name: str) -> None:
    done = amp_lint("--isolated", "--baseline", name)
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)


@pytest.mark.parametrize("option", ["--fix", "--diff", "--add-noqa", "--write-baseline=x.json"])
def test_it_stands_alone(listed: Run, option: str) -> None:
    done = listed(option, ".")
    assert done.code == 2 and "--baseline" in done.err and Path("a.py").read_text() == OLD


def test_it_is_written_whole_or_not_at_all(listed: Run, amp_lint: Run) -> None:
    before = Path("known.json").read_bytes()
    Path("known.json").chmod(0o444)
    Path("a.py").write_text(OLD + OLD)
    done = amp_lint("--isolated", "--write-baseline", "known.json", ".")
    assert done.code in (0, 2)
    if done.code:
        assert Path("known.json").read_bytes() == before and "read-only" in done.err
    assert json.loads(Path("known.json").read_text())["version"] == 1
