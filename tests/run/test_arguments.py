"""Commands and options: what they are called, and what is said of those there are not."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path

import pytest

from amp_lint import __version__, cli
from tests.conftest import Result

Run = Callable[..., Result]
CONCISE = "--output-format=concise"


def test_check_may_be_said_or_not(main: Run, clip: str) -> None:
    Path("a.py").write_text(clip)
    assert main("check", ".", CONCISE) == main(".", CONCISE) == main("check", CONCISE)
    assert main("check", "a.py").code == 1


def test_a_command_stands_above_a_path_of_that_name(main: Run, clip: str) -> None:
    Path("check").mkdir()
    Path("check/a.py").write_text(clip)
    Path("b.py").write_text(clip)
    assert main("check", CONCISE, "-q").out.count("\n") == 2
    assert main("./check", CONCISE, "-q").out.count("\n") == 1


def test_options_and_paths_in_any_order(main: Run, clip: str) -> None:
    for name in ("a.py", "b.py", "-c.py"):
        Path(name).write_text(clip)
    done = main("a.py", "-q", "b.py", CONCISE)
    assert [line[:5] for line in done.out.splitlines()] == ["a.py:", "b.py:"]
    assert main("-q", CONCISE, "--", "-c.py").out.startswith("-c.py:8:9: ")


def test_what_follows_two_dashes_is_no_option(main: Run, clip: str) -> None:
    Path("a.py").write_text(clip)
    done = main("a.py", "--", "--fix")
    assert done.err == "error: --fix: does not exist; check the path\n"
    assert Path("a.py").read_text() == clip


def test_version(main: Run) -> None:
    assert main("version") == Result(0, f"amp-lint {__version__}\n", "")
    with pytest.raises(SystemExit):
        main("-V")


@pytest.mark.parametrize(
    ("arguments", "usage"),
    [
        (["help"], "amp-lint [check] [OPTIONS] [PATHS]"),
        (["help", "check"], "amp-lint [check] [OPTIONS] [PATHS]"),
        (["help", "rule"], "amp-lint rule "),
        (["help", "verify"], "amp-lint verify [OPTIONS]"),
        (["check", "--help"], "amp-lint [check] [OPTIONS] [PATHS]"),
    ],
)
def test_help(
    arguments: list[str], usage: str, main: Run, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    with pytest.raises(SystemExit) as caught:
        main(*arguments)
    assert caught.value.code == 0
    out, err = capsysbinary.readouterr()
    assert out.decode().startswith(f"usage: {usage}")
    assert err == b""


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["chek", "."], "chek: no such path; did you mean `check`?"),
        (["rules"], "rules: no such path; did you mean `rule`?"),
        (["-q", "check", "."], "check: no such path; as a command it stands before all options"),
        (["help", "chek"], "help: chek: no such command; did you mean `check`?"),
        (
            ["help", "xyz"],
            "no such command; there are census, check, completions, help, report, rule, run, "
            "server, verify, version",
        ),
        (["--fixx"], "unknown option --fixx; did you mean `--fix`? (`amp-lint --help` lists"),
        (["--select-rules=X"], "unknown option --select-rules; did you mean `--select`?"),
        (["--unsafe-fix", "a.py"], "unknown option --unsafe-fix; did you mean `--unsafe-fixes`?"),
        (["--per_file_ignores", "x"], "did you mean `--per-file-ignores`?"),
        (["-x"], "unknown option -x (`amp-lint --help` lists the options)"),
        (["--select"], "argument --select: expected one argument"),
        (["--select", "AMP999"], "'AMP999' matches no rule; `amp-lint rule` lists them"),
        (["--ignore", "AMO101"], "'AMO101' matches no rule; did you mean `AMP101`? `amp-lint rule"),
        (["--select", "clip-before-unscal"], "did you mean `clip-before-unscale`?"),
        (["--per-file-ignores", "a.py"], "'a.py' is not PATTERN:RULE"),
        (["--per-file-ignores", "a.py:AMP1,AMP2"], "'AMP2' is not PATTERN:RULE"),
        (["--per-file-ignores", "a.py:E501"], "'E501' matches no rule"),
        (["--per-file-ignores", "[a:AMP1"], "bad pattern: '[a' has a [ without its ]"),
        (["--exclude", "a,[b"], "argument --exclude: bad pattern: '[b' has a [ without its ]"),
        (["--config", "selec = []"], "--config: selec is no setting; did you mean `select`?"),
        (["verify", "--seeed=1"], "did you mean `--seed`? (`amp-lint verify --help` lists"),
    ],
)
def test_what_there_is_not(main: Run, arguments: list[str], said: str) -> None:
    """One line, which says what was probably meant; nothing is done."""
    done = main(*arguments)
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)
    assert done.err.startswith("error: ")
    assert said in done.err


def test_a_path_that_is_no_command_is_told_and_the_others_are_linted(main: Run, clip: str) -> None:
    Path("a.py").write_text(clip)
    done = main("src", "a.py", CONCISE, "-q")
    assert (done.code, done.err) == (2, "error: src: does not exist; check the path\n")
    assert done.out.startswith("a.py:8:9: ")


def test_exclude(main: Run, clip: str) -> None:
    for name in ("a.py", "b.py", "gen/c.py"):
        Path(name).parent.mkdir(exist_ok=True)
        Path(name).write_text(clip)
    Path("amp-lint.toml").write_text('exclude = ["a.py"]\n')

    def linted(*options: str) -> list[str]:
        return [line.partition(":")[0] for line in main(CONCISE, "-q", *options).out.splitlines()]

    assert linted() == ["b.py", "gen/c.py"]
    assert linted("--exclude", "b.py,gen/") == ["a.py"]
    assert linted("--extend-exclude", "./gen") == ["b.py"]
    assert linted("--exclude=b.py", "--exclude=gen", "a.py", "b.py") == ["a.py", "b.py"]
    assert linted("--exclude=b.py", "--force-exclude", "a.py", "b.py") == ["a.py"]


def test_patterns_of_the_command_line_are_seen_from_here(
    main: Run, clip: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("sub/a.py", "sub/b.py", "other/sub/a.py"):
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_text(clip)
    monkeypatch.chdir("sub")
    assert main(CONCISE, "-q", "--exclude=/a.py", "..").out.count("\n") == 2
    assert main(CONCISE, "-q", "--exclude=a.py", "..").out.count("\n") == 1
    assert main(CONCISE, "-q", "--exclude=sub", "..").out == ""
    assert main("-q", "--per-file-ignores=b.py:AMP1", "b.py").code == 0
    assert main("-q", "--per-file-ignores=sub/b.py:AMP1", "b.py").code == 1


def test_show_files(main: Run, clip: str, tmp_path: Path) -> None:
    for name in ("a.py", "gen/b.py", "c.txt"):
        Path(name).parent.mkdir(exist_ok=True)
        Path(name).write_text(clip)
    shown = f"{tmp_path}/a.py\n{tmp_path}/gen/b.py\n"
    assert main("--show-files") == Result(0, shown, "")
    assert main("--show-files", "--exclude=gen", ".", "c.txt").out == (
        f"{tmp_path}/a.py\n{tmp_path}/c.txt\n"
    )
    done = main("--show-files", "gone.py", "a.py")
    assert (done.code, done.out) == (2, f"{tmp_path}/a.py\n")


def test_show_settings(main: Run) -> None:
    for name in ("a.py", "b.py", "tests/c.py", "old/d.py"):
        Path(name).parent.mkdir(exist_ok=True)
        Path(name).touch()
    Path("pyproject.toml").write_text(
        '[tool.amp-lint]\nignore = ["AMP2"]\nper-file-ignores = {"tests/*" = ["AMP1"]}\n'
    )
    Path("old/requirements.txt").write_text("torch>=1.8,<2\n")
    done = main("--show-settings", "--extend-exclude=gen", "--config", "exclude = ['x']")
    assert (done.code, done.err) == (0, "")
    top, old, tests = done.out.split("\n\n")
    assert top.startswith("# a.py and 1 more\n# settings: pyproject.toml, then --config, then ")
    for line in (
        "# target-torch: the newest, as nothing asks for an older one",
        'ignore = ["AMP2"]  # pyproject.toml',
        'per-file-ignores = {"tests/*" = ["AMP1"]}  # pyproject.toml',
        'exclude = ["x"]  # --config',
        'extend-exclude = ["gen"]  # command line',
        "AMP101 clip-before-unscale",
        "AMP110 fp16-without-scaler: needs --preview",
        "AMP201 backward-in-autocast: not selected",
        "AMP401 deprecated-cuda-amp",
    ):
        assert line in top.splitlines()
    assert old.startswith("# old/d.py\n")
    why = "old/requirements.txt asks for torch>=1.8,<2"
    assert f'target-torch = "1.8"  # {why}\n' in old
    assert f"AMP401 deprecated-cuda-amp: off: {why}, its fixes need 2.4" in old.splitlines()
    assert tests.startswith("# tests/c.py\n")
    assert "AMP101 clip-before-unscale: left out by per-file-ignores\n" in tests


def test_show_settings_where_nothing_is_left(main: Run) -> None:
    Path("src").mkdir()
    Path("src/a.py").touch()
    Path("amp-lint.toml").write_text('exclude = ["*.py"]\n')
    done = main("--show-settings", "src")
    assert done.out.startswith("# src/*\n# settings: amp-lint.toml, then command line\n")
    assert done.err == "warning: No Python files found under the given path(s)\n"


def test_output_file(main: Run, clip: str) -> None:
    """Nothing on stdout, as with ruff; the file is there whatever the exit code is."""
    Path("a.py").write_text(clip)
    shown = main(CONCISE).out
    assert main(CONCISE, "-o", "out/findings.txt") == Result(1, "", "")
    assert Path("out/findings.txt").read_text() == shown
    assert main("--output-format=json", "--output-file=out/findings.txt", "-e").code == 0
    assert Path("out/findings.txt").read_text().startswith("[\n")
    assert [path.name for path in Path("out").iterdir()] == ["findings.txt"]
    assert main("--diff", "-o", "fix.patch").err == "Would fix 1 error.\n"
    assert Path("fix.patch").read_text().startswith("--- a.py\n+++ a.py\n")
    assert main("--fix", "-o", "out/findings.txt") == Result(0, "", "")
    assert Path("out/findings.txt").read_text() == "Found 1 error (1 fixed, 0 remaining).\n"


def test_an_output_file_has_no_colours(amp_lint: Run, clip: str) -> None:
    Path("a.py").write_text(clip)
    amp_lint("-o", "out.txt", FORCE_COLOR="1")
    assert "\033" not in Path("out.txt").read_text()


def test_stdin_fixed_and_findings_in_a_file(amp_lint: Run, clip: str, fixed: str) -> None:
    done = amp_lint("-", "--fix", "-o", "out.txt", stdin=clip)
    assert done == Result(0, fixed, "")
    assert Path("out.txt").read_text() == "Found 1 error (1 fixed, 0 remaining).\n"


def test_an_output_file_that_cannot_be_written(main: Run, clip: str) -> None:
    """One line; the findings are not lost."""
    Path("a.py").write_text(clip)
    Path("out").mkdir()
    done = main(CONCISE, "-o", "out")
    assert done == Result(
        2, main(CONCISE).out, "error: out: cannot be written: Is a directory; name another file\n"
    )
    done = main(CONCISE, "-o", "a.py/out.txt")
    assert (done.code, done.err.count("\n")) == (2, 1)
    assert done.err.startswith("error: a.py/out.txt: cannot be written: ")


def test_an_output_file_may_be_a_device(main: Run, clip: str) -> None:
    Path("a.py").write_text(clip)
    assert main("-o", "/dev/null") == Result(1, "", "")
    assert Path("/dev/null").is_char_device()


GRAD = "from torch.cuda.amp import GradScaler, autocast\n"


@pytest.mark.parametrize(
    ("text", "off"),
    [
        ("torch>=1.10", "off for GradScaler"),
        ("torch>=1.8", "off"),
        ("torch>=2.3", None),
        ("torch", None),
    ],
)
def test_what_an_old_torch_switches_off_is_told(main: Run, text: str, off: str | None) -> None:
    Path("requirements.txt").write_text(text)
    Path("a.py").write_text(GRAD)
    why = f"requirements.txt asks for {text}, its fixes need 2.3 (--target-torch to change)"
    line = f"note: AMP401 is {off}: {why}\n" if off else ""
    assert main().err == line
    assert main("-q").err == main("--ignore=AMP401").err == main("--isolated").err == ""
    Path("a.py").write_text("from torch.amp import GradScaler\n")
    assert main().err == ""


def test_who_asks_for_an_old_torch_is_told(main: Run) -> None:
    Path("a.py").write_text(GRAD)
    Path("b.py").write_text("from torch.cuda.amp import custom_fwd\n")
    assert main("--target-torch=1.10").err == (
        "note: AMP401 is off for GradScaler, custom_fwd: --target-torch is 1.10, "
        "its fixes need 2.4\n"
    )
    Path("amp-lint.toml").write_text('target-torch = "2.0"\n')
    done = main("a.py")
    assert done.err.startswith(
        "note: AMP401 is off for GradScaler: amp-lint.toml says target-torch"
    )
    assert main("--config=target-torch='1.9'", "a.py").err.startswith(
        "note: AMP401 is off: --config says target-torch 1.9, its fixes need 2.3 "
    )


BROKEN = "[tool.amp-lint]\nselec = []\n"


def test_under_broken_settings_files_are_linted_and_not_changed(
    main: Run, clip: str, fixed: str
) -> None:
    for name in ("a.py", "sub/b.py", "sub/deep/c.py"):
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_text(clip)
    Path("sub/pyproject.toml").write_text(BROKEN)
    done = main(CONCISE, "--fix")
    assert done.code == 2
    assert done.err.count("\n") == 1
    assert "sub/pyproject.toml: tool.amp-lint.selec is no setting; did you mean" in done.err
    assert [line.partition(":")[0] for line in done.out.splitlines()[:2]] == [
        "sub/b.py", "sub/deep/c.py"
    ]  # fmt: skip
    assert Path("a.py").read_text() == fixed
    assert main("--add-noqa").code == 2
    assert Path("sub/b.py").read_text() == Path("sub/deep/c.py").read_text() == clip


def test_stdin_under_broken_settings_comes_back_as_it_was(amp_lint: Run, clip: str) -> None:
    Path("pyproject.toml").write_text(BROKEN)
    done = amp_lint("-", "--fix", stdin=clip)
    assert (done.code, done.out) == (2, clip)
    assert "AMP101" in done.err


def test_the_named_settings_file_has_to_be_right(main: Run, clip: str) -> None:
    Path("a.py").write_text(clip)
    Path("pyproject.toml").write_text(BROKEN)
    done = main("--config=pyproject.toml")
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)


COMMANDS = ("check", "rule", "why", "verify", "run", "report", "server", "census", "completions")


@pytest.mark.parametrize("command", COMMANDS)
def test_help_fits_a_terminal(
    command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    with contextlib.suppress(SystemExit):  # `why` reads its options by itself
        cli.main([command, "--help"])
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) > 5
    assert not [line for line in lines if len(line) > 80]


def test_an_option_that_takes_no_value(main: Run) -> None:
    done = main("--watch=1")
    given = "argument --watch: takes no value, and is given '1'"
    assert done == Result(2, "", f"error: {given} (`amp-lint --help` lists the options)\n")
