"""Beside other tools, as README.md and docs/ say: ruff keeps our comments, nbqa lints notebooks."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import CLIP

COMMENTED = "import os  # noqa: AMP101\n\nx = os.name  # noqa: AMP101, E501\n"


@pytest.mark.parametrize(
    ("settings", "left"),
    [
        ("", ["import os\n", "x = os.name\n"]),
        (
            'lint.external = ["AMP"]\n',
            ["import os  # noqa: AMP101\n", "x = os.name  # noqa: AMP101\n"],
        ),
    ],
    ids=["without", "with"],
)
def test_ruff_deletes_our_comments_unless_told(
    settings: str, left: list[str], tmp_path: Path
) -> None:
    """RUF100 is about unused comments, RUF102 about codes that ruff does not know."""
    (tmp_path / "ruff.toml").write_text(settings)
    path = tmp_path / "a.py"
    path.write_text(COMMENTED)
    command = [sys.executable, "-m", "ruff", "check", "--fix", "--no-cache", "a.py"]
    done = subprocess.run([*command, "--select=RUF100,RUF102"], cwd=tmp_path, check=False)
    assert done.returncode == 0
    assert [line for line in path.read_text().splitlines(keepends=True) if line.strip()] == left


def test_the_pages_say_so() -> None:
    root = Path(__file__).parents[2]
    readme = (root / "README.md").read_text(encoding="utf-8")
    page = (root / "docs" / "integrations.md").read_text(encoding="utf-8")
    assert '`lint.external = ["AMP"]`' in readme
    assert "`nbqa amp_lint train.ipynb --output-format=concise`" in page


def notebook(*cells: str) -> str:
    """A notebook with these code cells below a title."""
    title = {"cell_type": "markdown", "id": "title", "metadata": {}, "source": ["# Training"]}
    made: list[dict[str, object]] = [
        {
            "cell_type": "code",
            "id": f"cell{number}",
            "metadata": {},
            "execution_count": None,
            "outputs": [],
            "source": cell.splitlines(keepends=True),
        }
        for number, cell in enumerate(cells)
    ]
    whole = {"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": [title, *made]}
    return json.dumps(whole, indent=1) + "\n"


def nbqa(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
    }
    command = [sys.executable, "-m", "nbqa", "amp_lint", "train.ipynb", *arguments]
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )


def test_nbqa_finds_and_fixes(tmp_path: Path) -> None:
    head, body = CLIP.split("\n\n\n")
    body = body.partition("\n")[2].replace("\n    ", "\n").removeprefix("    ")
    cells = f"%matplotlib inline\n{head}", body.rstrip("\n")
    path = tmp_path / "train.ipynb"
    path.write_text(notebook(*cells))
    done = nbqa(tmp_path, "--output-format=concise")
    assert done.returncode == 1, done
    assert done.stdout.startswith("train.ipynb:cell_2:4:5: AMP101 [*] error: `clip_grad_norm_` ")
    done = nbqa(tmp_path, "--fix")
    assert done.returncode == 0, done
    clip = "    torch.nn.utils.clip_grad_norm_"
    fixed = cells[1].replace(clip, "    scaler.unscale_(optimizer)\n" + clip)
    assert fixed != cells[1]
    assert json.loads(path.read_text()) == json.loads(notebook(cells[0], fixed))
