"""The command line, run as users run it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from amp_lint import __version__, cli, registry
from amp_lint.handbook.pages import parse
from amp_lint.report import Style
from amp_lint.report.page import render, screen
from amp_lint.rule import Rule
from amp_lint.run.progress import Progress
from amp_lint.text.diagnostic import Severity
from tests.conftest import Result

Run = Callable[..., Result]
CONCISE = "--output-format=concise"


def test_clean_file(amp_lint: Run) -> None:
    Path("a.py").write_text("import torch\n")
    assert amp_lint("a.py") == Result(0, "All checks passed!\n", "")


def test_findings_are_printed_with_place_code_name_and_fix(amp_lint: Run, clip: str) -> None:
    Path("a.py").write_text(clip)
    done = amp_lint()
    assert done.code == 1
    assert done.out.startswith("AMP101 [*] error: clip-before-unscale\n`clip_grad_norm_` ")
    assert "\n --> a.py:8:9\n" in done.out.replace("  -->", " -->")
    assert "gradients are scaled here" in done.out
    assert "\nhelp: " in done.out
    assert done.out.endswith("Found 1 error: 1 ruins the run.\n[*] 1 fixable with `--fix`.\n")
    assert "\033" not in done.out


def test_concise(main: Run, clip: str) -> None:
    Path("a.py").write_text(clip)
    first, *rest = main(CONCISE).out.splitlines()
    assert first.startswith("a.py:8:9: AMP101 [*] error: ")
    assert len(rest) == 2


def test_a_syntax_error_says_by_which_python(main: Run) -> None:
    Path("a.py").write_text("print 'autocast'\n")
    done = main("-q", "a.py")
    version = f"{sys.version_info[0]}.{sys.version_info[1]}"
    assert done.code == 1
    assert done.out.endswith(
        f"\nhelp: Correct the file or exclude it; it is read as Python {version}: if it is written "
        "for a newer one, run amp-lint with that\n\n"
    )


def test_fix(amp_lint: Run, clip: str, fixed: str) -> None:
    Path("a.py").write_text(clip)
    done = amp_lint("--fix")
    assert done == Result(0, "Found 1 error (1 fixed, 0 remaining).\n", "")
    assert Path("a.py").read_text() == fixed


def test_fix_may_count_as_failure(main: Run, clip: str) -> None:
    Path("a.py").write_text(clip)
    assert main("--fix", "--exit-non-zero-on-fix").code == 1
    assert main("--fix", "--exit-non-zero-on-fix").code == 0


def test_findings_may_count_as_success(main: Run, clip: str) -> None:
    Path("a.py").write_text(clip)
    done = main("--exit-zero", CONCISE)
    assert done.code == 0
    assert "AMP101" in done.out
    assert main("--exit-zero", "--diff").code == 0


def test_diff_shows_the_fix_and_writes_nothing(amp_lint: Run, clip: str) -> None:
    Path("a.py").write_text(clip)
    done = amp_lint("--diff")
    assert done.code == 1
    assert done.out.startswith("--- a.py\n+++ a.py\n@@ ")
    assert "\n+        scaler.unscale_(optimizer)\n" in done.out
    assert done.err == "Would fix 1 error.\n"
    assert Path("a.py").read_text() == clip


def test_diff_can_be_applied(amp_lint: Run, clip: str, fixed: str) -> None:
    Path("a.py").write_bytes(clip.replace("\n", "\r\n").rstrip().encode())
    Path("fix.patch").write_bytes(_raw("--diff", "a.py"))
    subprocess.run(["git", "apply", "-p0", "fix.patch"], check=True)
    assert Path("a.py").read_bytes() == fixed.replace("\n", "\r\n").rstrip().encode()


def _raw(*arguments: str) -> bytes:
    command = [sys.executable, "-m", "amp_lint", *arguments]
    return subprocess.run(command, stdout=subprocess.PIPE, check=False).stdout


def test_diff_without_anything_to_fix(main: Run) -> None:
    Path("a.py").write_text("x = 1\n")
    assert main("--diff") == Result(0, "", "")


def test_stdin(amp_lint: Run, clip: str) -> None:
    assert amp_lint("-", CONCISE, stdin=clip).out.startswith("-:8:9: AMP101")
    named = amp_lint("-", CONCISE, "--stdin-filename", "pkg/b.py", stdin=clip)
    assert named.out.startswith("pkg/b.py:8:9: AMP101")


def test_stdin_is_given_back_fixed(amp_lint: Run, clip: str, fixed: str) -> None:
    done = amp_lint("-", "--fix", stdin=clip)
    assert done == Result(0, fixed, "Found 1 error (1 fixed, 0 remaining).\n")


def test_stdin_is_given_back_as_it_was_where_it_cannot_be_fixed(amp_lint: Run) -> None:
    done = amp_lint("-", "--fix", stdin="x = '\0'\n")
    assert (done.code, done.out) == (2, "x = '\0'\n")
    assert done.err.startswith("error: -: contains a NUL byte")


def test_stdin_obeys_the_configuration_of_its_name(amp_lint: Run, clip: str) -> None:
    Path("pyproject.toml").write_text('[tool.amp-lint]\nexclude = ["gen/"]\n')
    arguments = ("-", CONCISE, "--stdin-filename", "gen/a.py")
    assert amp_lint(*arguments, stdin=clip).code == 1
    assert amp_lint(*arguments, "--force-exclude", stdin=clip).code == 0
    assert amp_lint(*arguments, "--force-exclude", "--fix", stdin=clip).out == clip


def test_stdin_stands_alone(main: Run) -> None:
    done = main("-", "a.py")
    assert done.code == 2
    assert done.err.startswith("error: command line: '-'")


def test_select_and_ignore(main: Run, clip: str) -> None:
    Path("a.py").write_text(clip)
    assert main("--select", "AMP4,clip-before-unscale", "a.py").code == 1
    assert main("--select", "AMP4", "--extend-select", "AMP101", "a.py").code == 1
    assert main("--ignore", "AMP1", "a.py").code == 0


def test_selecting_nothing_is_told(main: Run, clip: str) -> None:
    Path("a.py").write_text(clip)
    warning = "warning: --select names no rule, so that none runs\n"
    assert main("--select", "") == Result(0, "All checks passed!\n", warning)
    assert main("--select=", "--extend-select=AMP1").err == ""
    nothing = main("--select=AMP101", "--ignore=AMP101")
    left = "warning: --ignore leaves no rule of those of --select, so that none runs\n"
    assert nothing == Result(0, "All checks passed!\n", left)
    assert main("--select=AMP1", "--ignore=AMP101").err == ""


def test_unknown_selector(main: Run) -> None:
    done = main("--ignore", "AMP101,E501")
    assert done.code == 2
    assert done.err.startswith("error: command line: 'E501' matches no rule; ")


@pytest.mark.parametrize(
    "arguments", [("--target-torch", "new"), ("--output-format", "xml"), ("--nonsense",), ("--fi",)]
)
def test_wrong_option(amp_lint: Run, arguments: tuple[str, ...]) -> None:
    done = amp_lint(*arguments)
    assert done.code == 2
    assert done.err.startswith("error: ")
    assert done.err.count("\n") == 1


def test_target_torch_decides_on_fixes(main: Run) -> None:
    Path("a.py").write_text("import torch\nscaler = torch.cuda.amp.GradScaler()\n")
    assert main("--fix", "--target-torch", "2.0", "a.py").code in (0, 1)
    assert "cuda.amp" in Path("a.py").read_text()
    main("--fix", "--target-torch", "2.4", "a.py")
    assert Path("a.py").read_text() == 'import torch\nscaler = torch.amp.GradScaler("cuda")\n'


def test_noqa_may_be_ignored(main: Run, clip: str) -> None:
    Path("a.py").write_text(clip.replace(" 1.0)", " 1.0)  # noqa: AMP101"))
    assert main("a.py").code == 0
    done = main("--ignore-noqa", CONCISE, "-q")
    assert (done.code, done.out.startswith("a.py:8:9: AMP101 ")) == (1, True)
    Path("a.py").write_text("# flake8: noqa\n" + clip)
    assert main("a.py").code == 0
    assert main("--ignore-noqa", "a.py").code == 1


@pytest.mark.parametrize("table", ["ignore = ['AMP1']", "exclude = ['a.py']", "unknown = 1", "]"])
def test_configuration_may_be_ignored(main: Run, clip: str, table: str) -> None:
    Path("a.py").write_text(clip)
    Path("pyproject.toml").write_text(f"[tool.amp-lint]\n{table}\n")
    assert main().code in (0, 2)
    done = main("--isolated", CONCISE, "-q")
    assert (done.code, done.out.startswith("a.py:8:9: AMP101 "), done.err) == (1, True, "")


def test_isolated_means_any_torch(main: Run) -> None:
    Path("a.py").write_text("from torch.cuda.amp import GradScaler\nscaler = GradScaler()\n")
    Path("requirements.txt").write_text("torch>=2.0\n")
    assert main("a.py").code == 0
    assert main("--isolated").code == 1
    assert main("--isolated", "--target-torch=2.0").code == 0


def test_isolated_still_obeys_gitignore(main: Run, clip: str) -> None:
    Path("a.py").write_text(clip)
    Path(".git").mkdir()
    Path(".gitignore").write_text("a.py\n")
    assert main("--isolated").code == 0


def test_quiet(main: Run, clip: str) -> None:
    Path("a.py").write_text(clip)
    assert main("-q", CONCISE).out.count("\n") == 1
    assert main("-q", "--fix") == Result(0, "", "")
    assert main("-q") == Result(0, "", "")


def test_statistics(main: Run, clip: str) -> None:
    Path("a.py").write_text(clip)
    Path("b.py").write_text(clip)
    first = main("--statistics").out.splitlines()[0]
    assert first == "2\tAMP101\t[*] clip-before-unscale"
    (count,) = json.loads(main("--statistics", "--output-format=json").out)
    assert (count["code"], count["count"], count["fixable"]) == ("AMP101", 2, True)


def test_no_files(main: Run) -> None:
    done = main()
    assert done.code == 0
    assert done.err == "warning: No Python files found under the given path(s)\n"


def test_version(amp_lint: Run) -> None:
    assert amp_lint("--version") == Result(0, f"amp-lint {__version__}\n", "")


def test_rule_prints_one_screen(main: Run) -> None:
    rule = registry.find("AMP101")
    assert rule is not None
    page = "\n".join(screen(rule, parse(registry.page(rule)), Style())) + "\n"
    for key in (
        "AMP101",
        "amp101",
        rule.name.upper(),
        "clip_before_unscale",
        "clip before unscale",
    ):
        assert main("rule", *key.split()) == Result(0, page, "")


def test_rule_prints_the_page(main: Run) -> None:
    rule = registry.find("AMP101")
    assert rule is not None
    page = "\n".join(render(registry.page(rule), Style())).rstrip() + "\n"
    assert main("rule", "AMP101", "--full") == Result(0, page, "")
    assert main("rule", "--full", rule.name) == Result(0, page, "")


@pytest.mark.parametrize("arguments", [("--full",), ("AMP101", "--all")])
def test_pages_of_nothing_in_particular(amp_lint: Run, arguments: tuple[str, ...]) -> None:
    done = amp_lint("rule", *arguments)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("error: --")
    assert done.err.endswith(" (`amp-lint rule --help` lists the options)\n")


def test_syntax_errors_have_a_page_too(main: Run) -> None:
    done = main("rule", "amp900")
    assert done.code == 0
    assert done.out.startswith("# AMP900 syntax-error\n")


def test_rule_prints_all_pages(amp_lint: Run) -> None:
    done = amp_lint("rule", "--all")
    assert done.code == 0
    for rule in registry.every_rule():
        assert "\n".join(render(registry.page(rule), Style())).rstrip() in done.out


@pytest.mark.parametrize(
    ("key", "advice"),
    [
        ("clip-before-unscael", "did you mean `clip-before-unscale`?"),
        ("AMP999", "`amp-lint rule` lists all"),
        ("AMP1O1", "did you mean `AMP101`?"),
        ("log_softmaxx", "did you mean `log-softmax`?"),
        ("banana", "`amp-lint rule` lists all"),
        ("", "`amp-lint rule` lists all"),
    ],
)
def test_unknown_rule(main: Run, key: str, advice: str) -> None:
    assert main("rule", key) == Result(2, "", f"error: {key}: no such rule; {advice}\n")


@pytest.mark.parametrize("asked", ["nan", "loss is nan", "unsafe to autocast"])
def test_a_symptom_for_a_rule(main: Run, asked: str) -> None:
    done = main("rule", *asked.split())
    first, *others = done.out.splitlines()
    assert (done.code, done.err) == (0, "")
    assert first == f"No rule is called {asked!r}; this is about it:"
    answer = main("why", asked).out
    assert answer.startswith("\n".join(others) + "\n")


@pytest.mark.parametrize("asked", ["clip", "clipping", "clipped unscale", "Clip-Before"])
def test_words_of_a_name_list_the_rules(main: Run, asked: str) -> None:
    done = main("rule", *asked.split())
    assert (done.code, done.err) == (0, "") and done.out.startswith("AMP101  clip-before-unscale")


def test_rules_are_listed(main: Run) -> None:
    """With name, kinds of fix and what they find, on lines that fit a terminal."""
    done = main("rule")
    assert (done.code, done.err) == (0, "")
    listed, _, legend = done.out.partition("\n\n")
    lines = listed.splitlines()
    assert max(map(len, done.out.splitlines())) <= 80
    assert "--preview" in legend
    for rule, head, summary in zip(registry.every_rule(), lines[::2], lines[1::2], strict=True):
        assert head.split()[:2] == [rule.code, rule.name]
        assert head.endswith("preview") is rule.preview
        assert summary.strip() == registry.summary(rule)
    assert "  no fix" in _line(lines, "AMP114")
    assert "  fix: safe, unsafe, shown" in _line(lines, "AMP104")


def _line(lines: list[str], code: str) -> str:
    (line,) = (line for line in lines if line.startswith(code))
    return line


def test_a_prefix_lists_rules(main: Run) -> None:
    done = main("rule", "amp3")
    assert done.code == 0
    codes = [rule.code for rule in registry.all_rules() if rule.code.startswith("AMP3")]
    assert [line[:6] for line in done.out.splitlines()[::2]] == codes


def test_color_only_where_wanted(amp_lint: Run, clip: str) -> None:
    Path("a.py").write_text(clip)
    assert "\033" in amp_lint(FORCE_COLOR="1").out
    assert "\033" not in amp_lint(FORCE_COLOR="1", NO_COLOR="1").out
    assert "\033" in amp_lint("--diff", FORCE_COLOR="1").out


def test_a_reader_that_has_seen_enough(amp_lint: Run, clip: str) -> None:
    for number in range(200):
        Path(f"{number}.py").write_text(clip)
    command = [sys.executable, "-m", "amp_lint"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout and process.stderr
        process.stdout.read(10)
        process.stdout.close()
        assert process.stderr.read() == b""


def imported(*arguments: str, stdin: str = "") -> set[str]:
    """The modules that a run imports."""
    command = [sys.executable, "-X", "importtime", "-m", *arguments]
    done = subprocess.run(command, input=stdin, capture_output=True, text=True, check=False)
    return {line.rpartition("|")[2].strip() for line in done.stderr.splitlines() if "|" in line}


def test_a_clean_tree_imports_no_parser(amp_lint: Run) -> None:
    Path("a.py").write_text("import torch\n# words alone: autocast GradScaler clip_grad_norm_\n")
    modules = imported("amp_lint")
    assert "amp_lint.run.session" in modules
    assert modules.isdisjoint(
        {"libcst._nodes.module", "torch", "flake8", "json", "difflib", "concurrent.futures"}
    )


def test_a_finding_imports_the_parser_but_neither_torch_nor_flake8(
    amp_lint: Run, clip: str
) -> None:
    Path("a.py").write_text(clip)
    modules = imported("amp_lint")
    assert "libcst._nodes.module" in modules
    assert modules.isdisjoint({"torch", "flake8", "libcst.matchers"})


def test_absolute_paths_are_shown_from_here(main: Run, clip: str, tmp_path: Path) -> None:
    Path("a.py").write_text(clip)
    assert main(CONCISE, tmp_path).out.startswith("a.py:8:9:")
    assert main(CONCISE, tmp_path / "a.py").out.startswith("a.py:8:9:")


def test_a_file_named_twice_is_linted_once(main: Run, clip: str) -> None:
    Path("a.py").write_text(clip)
    assert "Found 1 error: " in main("a.py", ".", "./a.py").out


def test_runs_from_any_directory(main: Run, clip: str) -> None:
    Path("a.py").write_text(clip)
    Path("sub").mkdir()
    os.chdir("sub")
    assert main(CONCISE, "..").out.startswith("../a.py:8:9:")


def test_progress_only_on_a_terminal_and_only_when_it_takes_long(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    clock = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    Progress().show("not a terminal")
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    progress = Progress()
    for seconds, text in [(1.9, "early"), (2.1, "one"), (2.15, "soon after"), (2.3, "two")]:
        clock[0] = seconds
        progress.show(text)
    progress.clear()
    progress.clear()
    Progress(enabled=False).show("not wanted")
    assert capsys.readouterr().err == "\r\033[Kone\r\033[Ktwo\r\033[K"


class _Preview(Rule):
    code = "AMP199"
    name = "some-preview"
    severity = Severity.INFO
    preview = True
    requires = ()


def test_selecting_a_preview_rule_without_preview(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    rules = (*registry.every_rule(), _Preview())
    monkeypatch.setattr(registry, "every_rule", lambda: rules)
    (tmp_path / "a.py").touch()
    assert cli.main(["--select=some-preview", str(tmp_path)]) == 0
    assert capsys.readouterr().err == "warning: some-preview has no effect without --preview\n"
    assert cli.main(["--select=some-preview", "--preview", str(tmp_path)]) == 0
    assert capsys.readouterr().err == ""


def test_selecting_a_preview_rule_in_the_settings_without_preview(main: Run, clip: str) -> None:
    Path("a.py").write_text(clip)
    Path("pyproject.toml").write_text('[tool.amp-lint]\nselect = ["AMP110", "AMP1"]\n')
    done = main("-e")
    assert done.err.startswith("warning: ")
    assert done.err.endswith("pyproject.toml: AMP110 has no effect without `preview = true`\n")
    assert main("--preview").err == main("-q").err == main("--isolated").err == ""
