"""What a shell completes, asked of the shell itself."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from amp_lint.cli import COMMANDS
from amp_lint.completions import SHELLS
from tests.conftest import Result

Run = Callable[..., Result]
_ASK = """
words=("$@")
COMP_WORDS=("${words[@]}") COMP_CWORD=$(( $# - 1 ))
_shtab_amp_lint amp-lint "${words[COMP_CWORD]}" ""
printf '%s\\n' "${COMPREPLY[@]}"
"""


@pytest.fixture
def script(main: Run) -> str:
    pytest.importorskip("shtab")
    done = main("completions", "bash")
    assert done.code == 0 and not done.err
    return done.out


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
def test_bash_completes_commands_options_and_rules(script: str) -> None:
    def completed(*words: str) -> list[str]:
        command = ["bash", "-c", script + _ASK, "bash", "amp-lint", *words]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        return done.stdout.split()

    assert completed("ver") == ["verify"]
    assert completed("--output-format", "s") == ["sarif"]
    assert completed("verify", "--before-r") == ["--before-ref"]
    assert completed("rule", "clip-b") == ["clip-before-unscale"]
    assert "AMP101" in completed("rule", "AMP") and "AMP101" in completed("--select", "AMP")
    assert completed("completions", "") == [*SHELLS]
    assert {*completed("")} == {*COMMANDS} - {"help", "version"}


@pytest.mark.parametrize("shell", SHELLS)
def test_each_shell_reads_its_script(main: Run, shell: str) -> None:
    pytest.importorskip("shtab")
    done = main("completions", shell)
    assert done.code == 0 and "unsafe-fixes" in done.out
    if shutil.which(shell):
        assert subprocess.run([shell, "-n", "-c", done.out], check=False).returncode == 0


@pytest.mark.skipif(shutil.which("fish") is None, reason="there is no fish")
def test_fish_completes_paths_and_rules(main: Run, tmp_path: Path) -> None:
    pytest.importorskip("shtab")
    (tmp_path / "train.py").touch()
    (tmp_path / "amp-lint.fish").write_text(main("completions", "fish").out, "utf-8")

    def completed(line: str) -> set[str]:
        ask = f"source amp-lint.fish; complete -C 'amp-lint {line}'"
        done = subprocess.run(
            ["fish", "-c", ask], cwd=tmp_path, capture_output=True, text=True, check=True
        )
        return {each.partition("\t")[0] for each in done.stdout.splitlines()}

    assert completed("tra") == completed("--fix tra") == completed("a.py tra") == {"train.py"}
    assert {"AMP101", "AMP111"} <= completed("--select AMP1")
    assert completed("ver") == {"verify"}


def test_zsh_completes_paths_without_a_command(main: Run) -> None:
    pytest.importorskip("shtab")
    script = main("completions", "zsh").out
    assert "_describe 'amp-lint commands' _commands; _files" in script
    assert "'*: :_files' ;;" in script and "compinit" in script


def test_what_is_wrong_is_one_line(main: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    assert main("completions", "tcl").err.startswith("error: completions: tcl: name one of bash")
    assert main("completions").err.count("\n") == 1
    monkeypatch.setitem(sys.modules, "shtab", None)
    done = main("completions", "bash")
    assert done.code == 2 and '`pip install "amp-lint[completions]"`' in done.err
