"""A loss that autocast refuses, in a model that another file trains under autocast."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from tests.conftest import Result

Run = Callable[..., Result]

MODEL = """\
import torch
import torch.nn.functional as F


class Head(torch.nn.Module):
    def forward(self, x, target):
        return F.binary_cross_entropy(x, target)
"""
TRAINER = """\
import torch


def train(model, optimizer, loader, amp):
    scaler = torch.amp.GradScaler("cuda", enabled=amp)
    for x, y in loader:
        with torch.autocast("cuda", enabled=amp):
            loss = model(x, y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
"""
PROGRAM = "from model import Head\nfrom trainer import train\n\ntrain(Head(), 0, [], True)\n"
FILES = {"model.py": MODEL, "trainer.py": TRAINER, "program.py": PROGRAM}


def found(folder: Path, main: Run, files: Mapping[str, str], *options: str) -> list[str]:
    """What is reported for the project, a line for each finding."""
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    result = main("--select", "AMP204", "--output-format", "concise", "-q", *options, str(folder))
    return result.out.splitlines()


def changed(**texts: str) -> dict[str, str]:
    """The project with other files."""
    return FILES | {f"{name}.py": text for name, text in texts.items()}


def test_a_model_that_is_trained_elsewhere(tmp_path: Path, main: Run) -> None:
    (line,) = found(tmp_path, main, FILES, "--preview")
    assert "model.py:7:16: AMP204" in line
    assert "trainer.py:7 may run it so" in line


def test_casts_that_are_undone_elsewhere(tmp_path: Path, main: Run) -> None:
    forward = "def forward(self, x, y):\n        return x.float() @ y.float()\n"
    model = f"from torch import nn\nclass Net(nn.Module):\n    {forward}"
    kept = model.replace("def forward", "@in_float32\n    def forward")
    options = "--preview", "--extend-select", "AMP205"
    (line,) = found(tmp_path, main, changed(model=model), *options)
    assert "AMP205" in line
    assert "trainer.py:7 may run it so" in line
    assert found(tmp_path, main, changed(model=kept), *options) == []


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("model(x, y)", "net_g(x, y)"),
        ("model(x, y)", "netD(x, y)"),
        ("def train(", "def train_and_evaluate("),
    ],
)
def test_what_models_and_trainings_are_called(
    tmp_path: Path, main: Run, old: str, new: str
) -> None:
    assert found(tmp_path, main, trainer(old, new), "--preview")


def test_the_end_of_a_long_path_is_shown(tmp_path: Path, main: Run) -> None:
    name = f"trainer_{'of_the_experiment_' * 4}1"
    program = PROGRAM.replace("trainer", name)
    files = {"model.py": MODEL, f"{name}.py": TRAINER, "program.py": program}
    (line,) = found(tmp_path, main, files, "--preview")
    assert re.search(r"autocast, .+; …\w{44}\.py:7 may run it so; ", line)


def test_only_in_preview(tmp_path: Path, main: Run) -> None:
    assert found(tmp_path, main, FILES) == []


def test_a_trainer_that_imports_the_model_itself(tmp_path: Path, main: Run) -> None:
    text = "from model import Head\n" + TRAINER
    assert found(tmp_path, main, {"model.py": MODEL, "trainer.py": text}, "--preview")


def test_through_packages(tmp_path: Path, main: Run) -> None:
    files = {
        "nets/__init__.py": "from .heads import Head\n",
        "nets/heads.py": MODEL,
        "tools/trainer.py": TRAINER,
        "program.py": PROGRAM.replace("model ", "nets ").replace("trainer ", "tools.trainer "),
    }
    assert found(tmp_path, main, files, "--preview")


def trainer(old: str, new: str) -> dict[str, str]:
    """The project with another trainer."""
    assert old in TRAINER
    return changed(trainer=TRAINER.replace(old, new))


def model(old: str, new: str) -> dict[str, str]:
    """The project with another model."""
    assert old in MODEL
    return changed(model=MODEL.replace(old, new))


OFF = """\
        with torch.autocast("cuda", enabled=False):
            return F"""
ASKED = """\
        if not torch.is_autocast_enabled():
            return F"""


@pytest.mark.parametrize(
    "files",
    [
        {"model.py": MODEL, "trainer.py": TRAINER},
        trainer('autocast("cuda", enabled=amp', 'autocast("cuda", enabled=False'),
        trainer('autocast("cuda"', 'autocast("cpu"'),
        trainer("def train(", "@torch.no_grad()\ndef train("),
        trainer("def train(", "def evaluate("),
        trainer("model(x, y)", "compute(x, y)"),
        trainer(".backward()", ".detach()"),
        model("        return F", OFF),
        model("        return F", ASKED),
        model("binary_cross_entropy", "binary_cross_entropy_with_logits"),
        changed(model=MODEL + "\n\ndef train(model, x):\n    model(x).backward()\n"),
    ],
    ids=[
        "no program with both", "off", "cpu", "no_grad", "evaluation", "no model", "no training",
        "float32 here", "asked", "logits", "trains itself",
    ],
)  # fmt: skip
def test_silent(tmp_path: Path, main: Run, files: dict[str, str]) -> None:
    assert found(tmp_path, main, files, "--preview") == []
