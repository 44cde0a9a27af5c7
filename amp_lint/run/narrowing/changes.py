"""Which lines git says were changed since a revision, so that only they are reported.

Nothing of the repository runs: no external diff, no text conversion, no file system monitor.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections import defaultdict
from pathlib import Path

from amp_lint.run.choice import ConfigError
from amp_lint.run.job import Outcome
from amp_lint.text.diagnostic import Diagnostic, Related
from amp_lint.text.files import absolute

_SETTINGS = ("core.fsmonitor=false", "core.quotePath=false", "diff.external=", "core.pager=cat")
_DIFF = ("--no-ext-diff", "--no-textconv", "--no-color", "--no-renames", "--unified=0")
_PREFIXES = ("--src-prefix=a/", "--dst-prefix=b/")
_HUNK = re.compile(r"@@ -\S+ \+(\d+)(?:,(\d+))? @@")


class Changes:
    """The lines that are new or changed in the files of a checkout, and those of new files."""

    def __init__(self, revision: str) -> None:
        """Ask git.

        Raises:
            ConfigError: there is no git, no checkout, or no such revision.
        """
        top = Path(_git("rev-parse", "--show-toplevel").rstrip("\n"))
        commit = _git("rev-parse", "--verify", "--end-of-options", f"{revision}^{{commit}}").strip()
        text = _git("diff", *_DIFF, *_PREFIXES, commit, "--", at=top)
        self._rows = _rows(text, top)
        listed = _git("ls-files", "--others", "--exclude-standard", "-z", at=top)
        self._new = {top / name for name in listed.split("\0") if name}

    def only(self, outcome: Outcome) -> Outcome:
        """Leave in an outcome the findings that are about a changed line, or point to one."""
        path = absolute(Path(outcome.name))
        source = outcome.source
        if source is None or path in self._new:
            return outcome
        rows = self._rows.get(path, ())

        def is_changed(place: Diagnostic | Related) -> bool:
            first, last = (source.file_position(at)[0] for at in (place.start, place.end))
            return any(start <= last and first < stop for start, stop in rows)

        outcome.findings = [
            found
            for found in outcome.findings
            if is_changed(found) or any(map(is_changed, found.related))
        ]
        return outcome


def _rows(diff: str, top: Path) -> dict[Path, list[tuple[int, int]]]:
    """The ranges of rows, their ends exclusive, that a diff adds to each file.

    Where it only takes lines away, the row before and the one after count.
    """
    found: dict[Path, list[tuple[int, int]]] = defaultdict(list)
    path = top
    for line in diff.splitlines():
        if line.startswith("+++ b/"):
            path = top / line.removeprefix("+++ b/").rstrip("\t")
        elif match := _HUNK.match(line):
            start, count = int(match[1]), int(match[2] or 1)
            found[path].append((start, start + count) if count else (start, start + 2))
    return found


def _git(*arguments: str, at: Path | None = None) -> str:
    git = shutil.which("git")
    if git is None:
        raise ConfigError("command line: --diff-base asks git, which is not installed")
    settings = [part for setting in _SETTINGS for part in ("-c", setting)]
    try:
        done = subprocess.run(
            [git, "--no-pager", *settings, *arguments],
            cwd=at,
            capture_output=True,
            check=True,
            stdin=subprocess.DEVNULL,
        )
    except subprocess.CalledProcessError as error:
        raise ConfigError(
            f"command line: --diff-base: git says: {_reason(error.stderr)}"
        ) from error
    except OSError as error:
        raise ConfigError(f"command line: --diff-base: git cannot be run: {error}") from error
    return done.stdout.decode("utf-8", "surrogateescape")


def _reason(said: bytes) -> str:
    first, *_ = said.decode("utf-8", "replace").splitlines() or ["nothing"]
    return first.removeprefix("fatal: ")
