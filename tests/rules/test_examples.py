"""The broken examples: what is found in them, and that the fixed ones are right."""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import Run

ROOT = Path(__file__).parents[2]
FOUND = {
    "examples/distill.py:11:23: AMP301 [*]",
    "examples/distill.py:16:14: AMP109",
    "examples/train.py:33:45: AMP311",
    "examples/train.py:48:14: AMP401 [*]",
    "examples/train.py:51:13: AMP201 [*]",
    "examples/train.py:54:9: AMP101 [*]",
    "examples/train.py:75:14: AMP401 [*]",
}
UNSAFE = {"AMP109", "AMP311"}
"""Codes whose fixes are unsafe, and stay after ``--fix``."""


@pytest.fixture
def examples(tmp_path: Path) -> Path:
    """A copy of the examples, below the directory that commands run in."""
    return Path(shutil.copytree(ROOT / "examples", tmp_path / "examples"))


def found(main: Run) -> set[str]:
    """Place, code and mark of every finding in the examples."""
    lines = main("--output-format=concise", "--show-all", "-q", "examples").out.splitlines()
    return {" ".join(re.findall(r"^\S+ AMP\d+|\[\*\]", line)) for line in lines}


def test_findings(main: Run, examples: Path) -> None:
    assert found(main) == FOUND


def test_fixing_leaves_the_unsafe_ones(main: Run, examples: Path) -> None:
    done = main("--fix", "--quiet", "examples")
    assert (done.code, done.err) == (1, "")
    remaining = {line.rsplit(" ", 1)[1] for line in found(main)}
    assert remaining == UNSAFE  # and no mark, hence no safe fix
    before = {path: path.read_bytes() for path in examples.iterdir()}
    main("--fix", "--quiet", "examples")
    for path, text in before.items():
        assert path.read_bytes() == text
        ast.parse(text)


def test_fixing_all(main: Run, examples: Path) -> None:
    assert main("--fix", "--unsafe-fixes", "examples").code == 0
    assert main("examples").out == "All checks passed!\n"


def test_the_fixed_step(main: Run, examples: Path) -> None:
    main("--fix", "examples")
    step = """\
        with autocast("cuda", enabled=args.amp):
            logits = model(tokens)
            loss = nn.functional.cross_entropy(logits, labels)
        scaler.scale(loss).backward()

        # keep exploding gradients in check
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), max_norm=1.0)
        scaler.step(optimizer)
        scaler.update()
"""
    assert step in (examples / "train.py").read_text()
    assert "from torch.amp import GradScaler, autocast\n" in (examples / "train.py").read_text()


def train(script: Path) -> tuple[float, bool]:
    """Run the training script on the CPU, with the CPU's variant of every call.

    The last loss, and whether torch called something deprecated.
    """
    text = script.read_text().replace("torch.cuda.amp", "torch.cpu.amp").replace('"cuda"', '"cpu"')
    script.write_text(text)
    options = ["--epochs=4", "--size=256", "--length=4", "--device=cpu"]
    done = subprocess.run(
        [sys.executable, str(script), *options], capture_output=True, text=True, check=True
    )
    return float(done.stdout.split()[-1]), "FutureWarning" in done.stderr


def test_the_broken_script_learns_nothing_and_the_fixed_one_learns(
    main: Run, examples: Path
) -> None:
    pytest.importorskip("torch")
    fixed, broken = examples / "train.py", examples / "broken.py"
    shutil.copy(fixed, broken)
    main("--fix", fixed)
    loss, deprecated = train(broken)
    assert loss > 2
    assert deprecated
    loss, deprecated = train(fixed)
    assert loss < 0.5
    assert not deprecated
