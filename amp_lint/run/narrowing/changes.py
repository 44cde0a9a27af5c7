"""Which lines git says were changed since a revision, so that only they are reported."""

from __future__ import annotations

import ast
import os
import re
import sys
from collections import defaultdict
from pathlib import Path

from amp_lint.run.job import Outcome
from amp_lint.run.narrowing.git import DIFF, Checkout
from amp_lint.text.diagnostic import Diagnostic, Related

_LINES = ("--unified=0", "--inter-hunk-context=0", "--src-prefix=a/", "--dst-prefix=b/")
_HUNK = re.compile(rb"@@ -\d+(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")
_BINARY = re.compile(rb"Binary files .* and (.*) differ")


class Changes:
    """The lines that are new or changed in the files of a checkout, and those of new files."""

    def __init__(self, revision: str) -> None:
        """Ask git.

        Raises:
            ConfigError: there is no git, no checkout, or no such revision.
        """
        checkout = Checkout("--diff-base")
        self._top = checkout.top
        base = checkout.commit(revision)
        self._rows = _rows(checkout.output("diff", *DIFF, *_LINES, base, "--", at=self._top))
        listed = checkout.output("ls-files", "-z", at=self._top)
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
