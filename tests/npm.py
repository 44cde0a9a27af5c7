"""What npm brings, for tests of what reads our output."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest


def installed(folder: Path, *names: str) -> Path:
    """Install packages into a folder, or what its ``package.json`` asks for; its programs.

    Skips the test where there is no npm, or where it cannot bring them.
    """
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("there is no npm")
    done = subprocess.run(
        [npm, "install", "--prefix", str(folder), *names],
        cwd=folder,
        capture_output=True,
        check=False,
    )
    if done.returncode:
        pytest.skip(f"npm cannot bring {' '.join(names) or 'what it should'}")
    return folder / "node_modules" / ".bin"
