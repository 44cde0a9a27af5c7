"""What several test modules need: a broken program, and ways to run the command line."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import pytest

from amp_lint import cli

CLIP = """\
import torch


def train(model, optimizer, loader):
    scaler = torch.amp.GradScaler("cuda")
    for x in loader:
        scaler.scale(model(x).sum()).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
"""
FIXED = CLIP.replace(
    "        torch.nn", "        scaler.unscale_(optimizer)\n        torch.nn"
)  # fmt: skip


@dataclass(frozen=True)
class Result:
    """What a command printed and its exit code."""

    code: int
    out: str
    err: str


Run: TypeAlias = Callable[..., Result]


def pytest_configure() -> None:
    """Ctrl-C reaches what tests start, even where the tests themselves run in the background."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def clip() -> str:
    """A program with one finding, AMP101 on line 8, and a safe fix for it."""
    return CLIP


@pytest.fixture
def fixed() -> str:
    """The program after the fix."""
    return FIXED


@pytest.fixture
def amp_lint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs amp-lint in an empty directory, as another process."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str | Path, stdin: str | bytes = "", **environment: str) -> Result:
        data = stdin.encode() if isinstance(stdin, str) else stdin
        done = subprocess.run(
            [sys.executable, "-m", "amp_lint", *map(str, arguments)],
            input=data,
            capture_output=True,
            env={**os.environ, "PYTHONIOENCODING": "utf-8", **environment},
            check=False,
        )
        return Result(done.returncode, done.stdout.decode(), done.stderr.decode())

    return run


@pytest.fixture
def main(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsysbinary: pytest.CaptureFixture[bytes]
) -> Run:
    """Runs amp-lint in an empty directory, in this process, which is quicker."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str | Path) -> Result:
        code = cli.main([*map(str, arguments)])
        out, err = capsysbinary.readouterr()
        return Result(code, out.decode(), err.decode())

    return run
