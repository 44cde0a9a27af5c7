"""Which lines git says were changed since a revision, so that only they are reported.

Nothing of the repository runs but what `git status` runs: no external diff, no text conversion, no
file system monitor.
"""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

from amp_lint.run.choice import ConfigError
from amp_lint.run.job import Outcome
from amp_lint.text.diagnostic import Diagnostic, Related

_OPTION = "command line: --diff-base"
_SETTINGS = ("core.fsmonitor=false", "core.quotePath=true", "diff.external=", "core.pager=cat")
_DIFF = (
    *("--no-ext-diff", "--no-textconv", "--no-color", "--find-renames"),
    *("--unified=0", "--inter-hunk-context=0", "--ignore-submodules=all"),
)
_PREFIXES = ("--src-prefix=a/", "--dst-prefix=b/")
_HUNK = re.compile(rb"@@ -\d+(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")
_BINARY = re.compile(rb"Binary files .* and (.*) differ")


class Changes:
    """The lines that are new or changed in the files of a checkout, and those of new files."""

    def __init__(self, revision: str) -> None:
        """Ask git.

        Raises:
            ConfigError: there is no git, no checkout, or no such revision.
        """
        up = os.fsdecode(_git("rev-parse", "--show-cdup").removesuffix(b"\n"))
        self._top = Path(up).resolve()
        diff = _git("diff", *_DIFF, *_PREFIXES, _commit(revision), "--", at=self._top)
        self._rows = _rows(diff)
        listed = _git("ls-files", "-z", at=self._top)
        self._tracked = {os.fsdecode(name) for name in listed.split(b"\0") if name}

    def only(self, outcome: Outcome) -> Outcome:
        """Leave in an outcome the findings that are about a changed line, or point to one.

        All of them where git knows nothing of the file.
        """
        name, source = self._name(outcome.name), outcome.source
        if source is None or name is None:
            return outcome
        rows, text = self._rows.get(name, ()), source.text

        def is_changed(place: Diagnostic | Related) -> bool:
            """Git ends lines at newlines alone."""
            if not source.is_python:
                first, last = (source.file_position(at)[0] for at in (place.start, place.end))
            else:
                first = text.count("\n", 0, place.start) + 1
                last = first + text.count("\n", place.start, max(place.start, place.end - 1))
            return any(start <= last and first < stop for start, stop in rows)

        outcome.findings = [
            found
            for found in outcome.findings
            if is_changed(found) or any(map(is_changed, found.related))
        ]
        return outcome

    def _name(self, name: str) -> str | None:
        """A file as git calls it, wherever links lead; None if neither it nor a folder is known.

        Of another checkout within this one git knows the folder.
        """
        path = Path(name).resolve()
        if not path.is_relative_to(self._top):
            return None
        inner = path.relative_to(self._top)
        known = (each.as_posix() for each in (inner, *inner.parents))
        return None if self._tracked.isdisjoint(known) else inner.as_posix()


def _rows(diff: bytes) -> dict[str, list[tuple[int, int]]]:
    """The ranges of rows, their ends exclusive, that a diff without context adds to each file.

    Where it only takes lines away, the row before and the one after count.
    """
    found: dict[str, list[tuple[int, int]]] = defaultdict(list)
    name, left = "", 0
    for line in diff.split(b"\n"):
        if left and line[:1] in (b"-", b"+"):
            left -= 1
        elif line.startswith(b"+++ "):
            name = _name(line[4:].removesuffix(b"\t"))
        elif match := _HUNK.match(line):
            old, start, new = (1 if each is None else int(each) for each in match.groups())
            found[name].append((start, start + new) if new else (start, start + 2))
            left = old + new
        elif binary := _BINARY.match(line):  # or said to be so by an attribute
            found[_name(binary[1])].append((1, sys.maxsize))
    return found


def _name(name: bytes) -> str:
    """A name behind its prefix: git writes an odd one in quotes, with escapes that Python has."""
    whole = ast.literal_eval(f"b{name.decode()}") if name[:1] == b'"' else name
    return os.fsdecode(whole).removeprefix("b/")


def _commit(revision: str) -> str:
    """Where the history of what is checked out left a revision, which may have gone on since.

    The revision itself where the two do not meet, as in a clone without history.

    Raises:
        ConfigError: there is no such revision.
    """
    query = ("rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}")
    commit = _asked(*query).stdout.decode().strip()
    if not commit:
        shallow = _git("rev-parse", "--is-shallow-repository").strip() == b"true"
        advice = (
            "`git fetch --unshallow` brings the history" if shallow else "fetch it, or check it"
        )
        raise ConfigError(f"{_OPTION}: git knows no commit {revision!r} here; {advice}")
    return _asked("merge-base", commit, "HEAD").stdout.decode().strip() or commit


def _git(*arguments: str, at: Path | None = None) -> bytes:
    done = _asked(*arguments, at=at)
    if done.returncode:
        raise ConfigError(f"{_OPTION}: git says: {_reason(done.stderr)}")
    return done.stdout


def _asked(*arguments: str, at: Path | None = None) -> subprocess.CompletedProcess[bytes]:
    git = shutil.which("git")
    if git is None:
        raise ConfigError(f"{_OPTION} asks git, which is not installed")
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
        raise ConfigError(f"{_OPTION}: git cannot be run: {error}") from error


def _reason(said: bytes) -> str:
    """What git says, with its advice, in one line."""
    text = said.decode("utf-8", "replace")
    return " ".join((text.partition("fatal: ")[2] or text or "nothing").split())
