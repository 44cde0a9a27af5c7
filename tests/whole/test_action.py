"""The steps of ``action.yml``, run as GitHub runs them: by bash, inputs in the environment."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import CLIP

yaml = pytest.importorskip("yaml")
ACTION: dict[str, Any] = yaml.safe_load((Path(__file__).parents[2] / "action.yml").read_text())
STEPS = {step["name"]: step for step in ACTION["runs"]["steps"] if "name" in step}
pytestmark = pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")


def run(step: str, folder: Path, **given: str) -> subprocess.CompletedProcess[str]:
    """A step with these variables; the others that it asks for are empty."""
    scripts = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = dict.fromkeys(STEPS[step]["env"], "") | {"RUNNER_TEMP": str(folder)} | given
    return subprocess.run(
        ["bash", "-eo", "pipefail", "-c", STEPS[step]["run"]],
        cwd=folder,
        env={**os.environ, "PATH": scripts, **environment},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.skipif(not shutil.which("amp-lint"), reason="amp-lint is not on the path")
def test_findings_become_annotations_and_sarif(tmp_path: Path) -> None:
    """Inputs are words, and never code."""
    (tmp_path / "train.py").write_text(CLIP)
    paths = {"PATHS": "train.py", "OPTIONS": "--isolated --select=AMP101"}
    done = run("lint", tmp_path, **paths)
    assert done.returncode == 1 and done.stdout.startswith("::error ")
    assert run("sarif", tmp_path, **paths).returncode == 0
    (found,) = json.loads((tmp_path / "amp-lint.sarif").read_text())["runs"][0]["results"]
    assert found["ruleId"] == "AMP101"
    done = run("lint", tmp_path, PATHS="$(touch$IFS/x) ;touch y", OPTIONS="--isolated")
    assert done.returncode == 2 and len([*tmp_path.iterdir()]) == 2


@pytest.mark.parametrize(("code", "fails"), [(0, False), (1, True), (2, False), (3, False)])
def test_only_what_is_refuted_fails_the_job(tmp_path: Path, code: int, fails: bool) -> None:
    fake = tmp_path / "amp-lint"
    fake.write_text(f'#!/bin/sh\necho "$@"\nexit {code}\n')
    fake.chmod(0o755)
    summary = tmp_path / "summary.md"
    path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
    given = {"PATHS": ".", "BASE": "main", "GITHUB_STEP_SUMMARY": str(summary), "PATH": path}
    done = run("verify", tmp_path, **given)
    assert (done.returncode != 0) is fails, done.stderr
    assert summary.read_text().startswith("verify --before-ref=origin/main --record=")


def test_every_input_is_used() -> None:
    used = json.dumps(ACTION["runs"])
    assert all(f"inputs.{name}" in used for name in ACTION["inputs"])
    assert not any("${{" in step.get("run", "") for step in ACTION["runs"]["steps"])
