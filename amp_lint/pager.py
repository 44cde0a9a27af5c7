"""Long texts on a terminal go through a pager, as git's do."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

_DEFAULT = "less -FRX"
"""Quits if the text fits the screen, shows colours, and leaves the text there."""


def show(text: str) -> None:
    """Print a text, through ``$PAGER`` on a terminal; without one, or if it fails, as it is."""
    command = _command()
    if not command or not _paged(command, text):
        print(text)


def _command() -> str:
    if os.environ.get("NO_PAGER") or os.environ.get("TERM") == "dumb" or not sys.stdout.isatty():
        return ""
    default = _DEFAULT if shutil.which("less") else ""
    return os.environ.get("PAGER", default).strip()


def _paged(command: str, text: str) -> bool:
    """Whether a pager showed the text; its reader may leave at any time."""
    sys.stdout.flush()
    data = f"{text}\n".encode(sys.stdout.encoding or "utf-8", "backslashreplace")
    try:
        done = subprocess.run(command, shell=True, input=data, check=False)
    except OSError:
        return False
    except KeyboardInterrupt:
        return True
    return done.returncode == 0
