"""Asking git about the checkout that somebody is in.

Nothing of the repository runs but what `git status` runs: no external diff, no text conversion, no
file system monitor.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from amp_lint.run.choice import ConfigError

_SETTINGS = ("core.fsmonitor=false", "core.quotePath=true", "diff.external=", "core.pager=cat")
DIFF = ("--no-ext-diff", "--no-textconv", "--no-color", "--find-renames", "--ignore-submodules=all")
"""Options of each diff."""


class Checkout:
    """The checkout of the working directory."""

    def __init__(self, option: str) -> None:
        """Ask where it begins.

        Args:
            option: What asks for it, as messages name it.

        Raises:
            ConfigError: there is no git, or no checkout.
        """
        self._option = f"command line: {option}"
        up = os.fsdecode(self.output("rev-parse", "--show-cdup").removesuffix(b"\n"))
        self.top = Path(up).resolve()

    def commit(self, revision: str) -> str:
        """Where the history of what is checked out left a revision, which may have gone on since.

        The revision itself where the two do not meet, as in a clone without history.

        Raises:
            ConfigError: there is no such revision.
        """
        query = ("rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}")
        commit = self._asked(*query).stdout.decode().strip()
        if not commit:
            shallow = self.output("rev-parse", "--is-shallow-repository").strip() == b"true"
            advice = (
                "`git fetch --unshallow` brings the history" if shallow else "fetch it, or check it"
            )
            reason = f"git knows no commit {revision!r} here; {advice}"
            raise ConfigError(f"{self._option}: {reason}")
        return self._asked("merge-base", commit, "HEAD").stdout.decode().strip() or commit

    def output(self, *arguments: str, at: Path | None = None) -> bytes:
        """What git prints.

        Raises:
            ConfigError: it cannot be run, or refuses.
        """
        done = self._asked(*arguments, at=at)
        if done.returncode:
            raise ConfigError(f"{self._option}: git says: {_reason(done.stderr)}")
        return done.stdout

    def _asked(self, *arguments: str, at: Path | None = None) -> subprocess.CompletedProcess[bytes]:
        git = shutil.which("git")
        if git is None:
            raise ConfigError(f"{self._option} asks git, which is not installed")
        settings = [part for setting in _SETTINGS for part in ("-c", setting)]
        environment = {name: value for name, value in os.environ.items() if name != "GIT_DIFF_OPTS"}
        try:
            return subprocess.run(
                [git, "--no-pager", "--no-optional-locks", *settings, *arguments],
                cwd=at,
                env=environment,
                capture_output=True,
                check=False,
                stdin=subprocess.DEVNULL,
            )
        except (OSError, ValueError) as error:
            raise ConfigError(f"{self._option}: git cannot be run: {error}") from error


def _reason(said: bytes) -> str:
    """What git says, with its advice, in one line."""
    text = said.decode("utf-8", "replace")
    return " ".join((text.partition("fatal: ")[2] or text or "nothing").split())
