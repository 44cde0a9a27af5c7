"""The Containerfile as far as it can be tried without a container: its steps, in our folders."""

from __future__ import annotations

import fnmatch
import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from tests.conftest import CLIP

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "Containerfile").read_text("utf-8")
STEPS = [
    (word, rest)
    for line in TEXT.replace("\\\n", " ").splitlines()
    if line.strip() and not line.startswith("#")
    for word, rest in [line.split(" ", 1)]
]
NEEDED = ("setuptools*", "_distutils_hack", "packaging*", "libcst*", "*yaml*", "PyYAML*", "tomli*")
"""What pip would bring, to build and to run."""

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the paths are those of Linux")


def values(word: str) -> list[str]:
    return [rest for each, rest in STEPS if each == word]


def ignored(name: str) -> bool:
    """Whether a path stays out of the build: the last line of .dockerignore that is for it."""
    verdict = False
    parts = name.split("/")
    for line in (ROOT / ".dockerignore").read_text("utf-8").splitlines():
        pattern = line.removeprefix("!").removeprefix("**/")
        above = ["/".join(parts[:end]) for end in range(1, len(parts) + 1)]
        of = parts if "**/" in line else above
        if line and not line.startswith("#") and any(fnmatch.fnmatch(p, pattern) for p in of):
            verdict = not line.startswith("!")
    return verdict


def test_what_is_in_it() -> None:
    known = {"ARG", "FROM", "WORKDIR", "COPY", "RUN", "ENV", "USER", "ENTRYPOINT"}
    assert {word for word, _ in STEPS} == known
    assert re.fullmatch(r"PYTHON=3\.\d+\.\d+-slim-\w+", values("ARG")[0]), "a version that stays"
    assert {image.split(" ")[0] for image in values("FROM")} == {
        "docker.io/library/python:${PYTHON}"
    }
    assert values("WORKDIR")[-1] == "/io"
    user, group = values("USER")[-1].split(":")
    assert int(user) > 0 and int(group) > 0
    assert json.loads(values("ENTRYPOINT")[-1]) == ["amp-lint"]


def test_the_python_is_one_that_the_package_knows() -> None:
    version = values("ARG")[0].removeprefix("PYTHON=").rpartition(".")[0]
    known = (ROOT / "pyproject.toml").read_text("utf-8")
    assert f'"Programming Language :: Python :: {version}"' in known


@pytest.mark.parametrize(
    "name", ["amp_lint/cli.py", "rules/runs/stale_resume.md", "pyproject.toml"]
)
def test_what_goes_in(name: str) -> None:
    assert (ROOT / name).exists() and not ignored(name)


@pytest.mark.parametrize("name", [".git/HEAD", "tests/conftest.py", "amp_lint/__pycache__/a.pyc"])
def test_what_stays_out(name: str) -> None:
    assert ignored(name)


def test_the_steps_install_it(tmp_path: Path) -> None:
    """With what is here in the place of what pip would bring, so that no network is needed."""
    inside, needed = tmp_path / "src", tmp_path / "needed"
    for path in (*(ROOT / "amp_lint").rglob("*"), *(ROOT / "rules").rglob("*"), *ROOT.glob("*")):
        name = path.relative_to(ROOT).as_posix()
        if path.is_file() and not ignored(name):
            (inside / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(path, inside / name)
    needed.mkdir()
    for pattern in NEEDED:
        for package in Path(sysconfig.get_path("purelib")).glob(pattern):
            if not (needed / package.name).exists():
                (needed / package.name).symlink_to(package)
    given = {
        **os.environ,
        "PIP_NO_INDEX": "1",
        "PIP_NO_DEPS": "1",
        "PIP_NO_BUILD_ISOLATION": "false",  # as pip has it: no isolation
        "PYTHONPATH": str(needed),
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
    }
    made = tmp_path / "opt"
    for command in values("RUN"):
        here = command.replace("/opt/amp-lint", str(made))
        done = subprocess.run(
            ["sh", "-ec", here], cwd=inside, env=given, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
    mounted = tmp_path / "io"
    mounted.mkdir()
    (mounted / "train.py").write_text(CLIP)
    (entry,) = json.loads(values("ENTRYPOINT")[-1])
    done = subprocess.run(
        [made / "bin" / entry, "--isolated", "--output-format=concise"],
        cwd=mounted, env=given, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout.split(" ")[:2]) == (1, ["train.py:8:9:", "AMP101"]), done
    assert not [*made.rglob("__editable__*")]
