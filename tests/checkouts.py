"""A git that behaves the same on every machine."""

from __future__ import annotations

import subprocess

_SETTINGS = ("user.name=a", "user.email=a@b", "commit.gpgsign=false", "init.defaultBranch=main")


def git(*arguments: str) -> None:
    """Run git in the working directory, whatever its user has set."""
    options = [part for setting in _SETTINGS for part in ("-c", setting)]
    subprocess.run(["git", *options, *arguments], check=True, capture_output=True)
