"""Runs the programs of this folder, watched."""

from __future__ import annotations

import contextlib
import io
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

import pytest
import torch

from amp_lint.runtime.numerics.schedule import Level, Sampling
from amp_lint.runtime.record import Record
from amp_lint.runtime.watch import Watch
from tests.runtime.programs import program

Run: TypeAlias = Callable[[str], Record]
"""Runs the body of a program and gives what was seen."""


@pytest.fixture(autouse=True)
def nothing_compiled() -> None:
    """What other tests of this process compiled does not keep a run from being watched."""
    if "torch._dynamo.eval_frame" in sys.modules:
        sys.modules["torch._dynamo.eval_frame"].cached_backends.clear()


@pytest.fixture(autouse=True)
def autocast_off() -> Iterator[None]:
    """What a program with a mistake leaves behind is put right."""
    yield
    torch.set_autocast_enabled("cpu", False)
    nesting = torch.autocast_increment_nesting()
    change = torch.autocast_decrement_nesting if nesting > 0 else torch.autocast_increment_nesting
    for _ in range(abs(nesting)):
        change()
    torch.clear_autocast_cache()


def execute(text: str, path: Path) -> dict[str, Any]:
    """Run a text as a module; what it has defined."""
    path.write_text(text, "utf-8")
    space: dict[str, Any] = {"__name__": "__main__"}
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        exec(compile(text, str(path), "exec"), space)
    return space


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Runs the body of a program, and gives what was seen of its protocol."""

    def run(body: str) -> Record:
        watch = Watch(sampling=Sampling(Level.PROTOCOL))
        with watch:
            execute(program(body), tmp_path / "train.py")
        return watch.record

    return run
