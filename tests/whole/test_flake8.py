"""The plugin in the real flake8."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from amp_lint import engine, registry
from amp_lint.flake8 import Plugin
from tests.conftest import Result

Run = Callable[..., Result]


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".git").mkdir()


def flake8(*arguments: str, stdin: str | bytes = "") -> list[str]:
    """The findings, without those of flake8's own checks."""
    command = [sys.executable, "-m", "flake8", "--isolated", *arguments]
    data = stdin.encode() if isinstance(stdin, str) else stdin
    done = subprocess.run(command, input=data, capture_output=True, check=False)
    assert done.stderr == b""
    return [line for line in done.stdout.decode().splitlines() if " AMP" in line]


def places(lines: Sequence[str]) -> list[tuple[int, int, str]]:
    return [(int(row), int(column), text.split()[0]) for _, row, column, text in map(_split, lines)]


def _split(line: str) -> list[str]:
    return line.split(":", 3)


def test_is_found_by_flake8() -> None:
    command = [sys.executable, "-m", "flake8", "--version"]
    assert (
        "amp-lint: " in subprocess.run(command, capture_output=True, text=True, check=True).stdout
    )


def test_a_file(clip: str) -> None:
    Path("a.py").write_text(clip)
    (line,) = flake8("a.py")
    assert line.startswith("a.py:8:9: AMP101 ")


def test_stdin(clip: str) -> None:
    (line,) = flake8("-", stdin=clip)
    assert line.startswith("stdin:8:9: AMP101 ")
    (line,) = flake8("--stdin-display-name=b.py", "-", stdin=clip.replace("\n", "\r\n"))
    assert line.startswith("b.py:8:9: AMP101 ")


LAYOUTS: dict[str, Callable[[str], bytes]] = {
    "as it is": lambda text: text.encode(),
    "CRLF": lambda text: text.replace("\n", "\r\n").encode(),
    "BOM": lambda text: b"\xef\xbb\xbf" + text.encode(),
    "form feed": lambda text: text.replace("\n\n\n", "\n\f\n\n").encode(),
    "tabs": lambda text: text.replace("    ", "\t").encode(),
    "no last line end": lambda text: text.rstrip().encode(),
    "latin-1": lambda text: ("# coding: latin-1\n" + _with_accents(text)).encode("latin-1"),
    "utf-8": lambda text: _with_accents(text).encode(),
    "noqa": lambda text: text.replace("1.0)\n", "1.0)  # noqa: AMP1\n").encode(),
    "noqa for others": lambda text: text.replace("1.0)\n", "1.0)  # noqa: E501\n").encode(),
    "noqa for the file": lambda text: ("# flake8: noqa\n" + text).encode(),
}


def _with_accents(text: str) -> str:
    return text.replace("        torch.nn", "        'é'; torch.nn")


@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_same_findings_as_the_command_line(main: Run, clip: str, layout: str) -> None:
    Path("a.py").write_bytes(LAYOUTS[layout](clip))
    done = main("--output-format=concise", "-q", "a.py")
    ours = places(done.out.splitlines())
    assert places(flake8("a.py")) == ours
    assert bool(ours) is (layout not in ("noqa", "noqa for the file"))


def test_disable_noqa(clip: str) -> None:
    Path("a.py").write_text(clip.replace("1.0)", "1.0)  # noqa"))
    assert flake8("a.py") == []
    assert len(flake8("--disable-noqa", "a.py")) == 1


@pytest.mark.parametrize(
    "table",
    [
        'ignore = ["AMP101"]',
        'select = ["AMP401"]',
        'exclude = ["pkg/"]',
        'per-file-ignores = {"pkg/*" = ["AMP1"]}',
    ],
)
def test_obeys_the_configuration(clip: str, table: str) -> None:
    Path("pkg").mkdir()
    Path("pkg/a.py").write_text(clip)
    Path("pyproject.toml").write_text("[tool.amp-lint]\n")
    assert len(flake8("pkg/a.py")) == 1
    Path("pyproject.toml").write_text(f"[tool.amp-lint]\n{table}\n")
    assert flake8("pkg/a.py") == []


def test_flake8_selects_too(clip: str) -> None:
    Path("a.py").write_text(clip)
    assert flake8("--extend-ignore=AMP1", "a.py") == []
    assert len(flake8("--select=AMP101", "a.py")) == 1


def test_a_syntax_error_is_left_to_flake8() -> None:
    Path("a.py").write_text("def f(:\n")
    assert flake8("a.py") == []


def test_a_broken_configuration_is_shown(clip: str) -> None:
    Path("a.py").write_text(clip)
    Path("pyproject.toml").write_text("[tool.amp-lint]\nslect = []\n")
    (line,) = flake8("a.py")
    assert line.startswith("a.py:1:1: AMP900 amp-lint failed on this file: ")
    assert "slect" in line


def test_no_exception_escapes(monkeypatch: pytest.MonkeyPatch, clip: str) -> None:
    def fail(*arguments: object, **options: object) -> None:
        raise RecursionError("too deep")

    monkeypatch.setattr(engine, "check", fail)
    plugin = Plugin(ast.parse(clip), clip.splitlines(keepends=True), "a.py")
    error = "internal error, please report it: RecursionError: too deep"
    assert [*plugin.run()] == [(1, 0, f"AMP900 amp-lint failed on this file: {error}", Plugin)]


@pytest.mark.parametrize("text", ["", "\n", "\ufeff", "# coding: nonsense\nautocast\n", "\ud800\n"])
def test_odd_text(text: str) -> None:
    text += "# GradScaler autocast half float16 cuda amp clip_grad_norm_ log softmax\n"
    lines = text.splitlines(keepends=True)
    assert all(
        code.startswith("AMP900") for _, _, code, _ in Plugin(ast.parse(""), lines, "").run()
    )


def test_importing_the_plugin_imports_no_parser(clip: str) -> None:
    Path("a.py").write_text("import torch\n")
    command = [sys.executable, "-X", "importtime", "-m", "flake8", "a.py"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    modules = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert "amp_lint.sieve" in modules
    assert modules.isdisjoint({"libcst._nodes.module", "torch"})


def test_every_rule_has_a_code_that_flake8_accepts() -> None:
    for rule in registry.all_rules():
        assert rule.code.startswith("AMP"), json.dumps(rule.code)
