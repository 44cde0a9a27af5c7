"""What npm brings, for tests of what reads our output."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

SECONDS = 100
"""After which npm has nothing to bring."""


def installed(folder: Path, *names: str) -> Path:
    """Install packages into a folder, or what its ``package.json`` asks for; its programs.

    Skips the test where there is no npm, or where it cannot bring them.
    """
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("there is no npm")
    options = ["--prefix", str(folder), "--no-audit", "--no-fund", "--fetch-retries=1"]
    try:
        subprocess.run(
            [npm, "install", *options, *names],
            cwd=folder,
            capture_output=True,
            check=True,
            timeout=SECONDS,
        )
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired):
        pytest.skip(f"npm cannot bring {' '.join(names) or 'what it should'}")
    return folder / "node_modules" / ".bin"
