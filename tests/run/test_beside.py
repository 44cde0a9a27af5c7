"""What a file imports is read, also where nobody named it; and nothing is reported there."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from amp_lint.syntax.beside import Beside
from tests.conftest import Run

HELPER = """\
import torch
from torch.nn.utils import clip_grad_norm_


def clip(model, optimizer, scaler):
    scaler.unscale_(optimizer)
    clip_grad_norm_(model.parameters(), 1.0)
"""
TRAIN = """\
import torch
from {module} import clip


def train(model, optimizer, loader):
    scaler = torch.amp.GradScaler("cuda")
    for x in loader:
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.float16):
            loss = model(x).mean()
        scaler.scale(loss).backward()
        clip(model, optimizer, scaler)
        scaler.unscale_(optimizer)
        scaler.step(optimizer)
        scaler.update()
"""
ALONE: set[str] = set()
"""What the file shows by itself."""
BOTH = {"AMP103"}
"""That it unscales twice is seen where the helper is."""


def write(files: dict[str, str]) -> None:
    for name, text in files.items():
        path = Path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def codes(main: Run, *args: str) -> set[str]:
    out = main("--output-format=concise", *args).out
    return {line.split()[1].rstrip(":") for line in out.splitlines() if ": AMP" in line}


LAYOUTS = {
    "beside": ("train.py", "helper.py", "helper"),
    "relative": ("pkg/train.py", "pkg/helper.py", ".helper"),
    "above": ("pkg/sub/train.py", "pkg/helper.py", "pkg.helper"),
    "package": ("pkg/train.py", "pkg/helper/__init__.py", "pkg.helper"),
    "no package": ("tools/train.py", "lib/helper.py", "lib.helper"),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_what_a_named_file_imports_is_read(main: Run, layout: str) -> None:
    train, helper, module = LAYOUTS[layout]
    packages = {"pkg", "pkg/sub"} if train.startswith("pkg/") else set()
    write({f"{package}/__init__.py": "" for package in packages})
    write({train: TRAIN.format(module=module), helper: HELPER, "setup.py": ""})
    assert codes(main, train) == BOTH == codes(main, train, helper)


def test_it_can_be_switched_off(main: Run) -> None:
    write({"train.py": TRAIN.format(module="helper"), "helper.py": HELPER})
    assert codes(main, "--config=follow-imports=false", "train.py") == ALONE
    write({"amp-lint.toml": "follow-imports = false\n"})
    assert codes(main, "train.py") == ALONE
    assert codes(main, "train.py", "helper.py") == BOTH, "both are of the run"
    assert "follow-imports = false" in main("--show-settings").out


def test_what_is_excluded_is_read_and_not_reported(main: Run) -> None:
    bad = TRAIN.format(module="torch").replace("import clip", "import nn")
    write({"train.py": TRAIN.format(module="helper"), "helper.py": HELPER + bad})
    out = main("--output-format=concise", ".").out
    assert {line.split(":")[0] for line in out.splitlines() if "AMP" in line} == {
        "train.py",
        "helper.py",
    }
    out = main("--output-format=concise", "--exclude=helper.py", ".").out
    assert {line.split(":")[0] for line in out.splitlines() if "AMP" in line} == {"train.py"}


def test_nothing_is_read_beyond_the_project(main: Run) -> None:
    write({"helper.py": HELPER, "project/train.py": TRAIN.format(module="helper")})
    assert codes(main, "project/train.py") == ALONE
    write({"project/pkg/__init__.py": "", "project/pkg/train.py": TRAIN.format(module="helper")})
    assert codes(main, "project/pkg/train.py") == ALONE
    write({"pyproject.toml": ""})
    assert codes(main, "project/train.py") == BOTH


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no named pipes")
def test_what_cannot_be_read_is_as_if_it_were_not_there(main: Run) -> None:
    write({"train.py": TRAIN.format(module="helper")})
    os.mkfifo("helper.py")
    assert codes(main, "train.py") == ALONE
    Path("helper.py").unlink()
    write({"helper.py": HELPER + "#" * 2_000_000})
    assert codes(main, "train.py") == ALONE
    write({"helper.py": HELPER.replace("def", "dfe")})
    assert codes(main, "train.py") == ALONE


def test_stdin_and_flake8_read_it_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    text = TRAIN.format(module="helper")
    write({"train.py": text, "helper.py": HELPER})
    options = ["--output-format=concise", "--stdin-filename=train.py", "-"]
    done = subprocess.run(
        [sys.executable, "-m", "amp_lint", *options],
        input=text, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert "AMP103" in done.stdout
    command = [sys.executable, "-m", "flake8", "--isolated", "--select=AMP", "train.py"]
    assert "AMP103" in subprocess.run(command, capture_output=True, text=True, check=False).stdout


def test_installed_packages_are_projects_of_their_own(tmp_path: Path) -> None:
    site = tmp_path / "venv" / "site-packages"
    for name in ("one/a.py", "one/__init__.py", "two.py"):
        (site / name).parent.mkdir(parents=True, exist_ok=True)
        (site / name).write_text("")
    (tmp_path / "pyproject.toml").write_text("")
    beside, folder = Beside(), str(site / "one")
    assert beside.module(folder, str(site / "one" / "a")) == str(site / "one" / "a.py")
    assert beside.module(folder, str(site / "two")) is None
