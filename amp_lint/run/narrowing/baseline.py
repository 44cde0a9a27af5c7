"""A file of the findings that a project lives with, so that only new ones are reported.

A finding is known by its file, its code and the text of the lines that it is about, so that moved
lines are no news. One of them is counted as often as it was there.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from amp_lint.report import Finding
from amp_lint.report.place import relative, statement
from amp_lint.run.choice import ConfigError
from amp_lint.run.job import Outcome
from amp_lint.text import files, writer

VERSION = 1
_AGAIN = "write it again with --write-baseline"
_Key = tuple[str, str, str]
"""File, code, and hash of its lines."""


class Baseline:
    """What a baseline file lists, and how much of it was found again."""

    def __init__(self, name: str) -> None:
        """Read it.

        Raises:
            ConfigError: it cannot be read, or is no baseline of this version.
        """
        self._name = name
        self._left = Counter(dict(_read(name)))
        self._seen: set[str] = set()

    def without_known(self, outcome: Outcome) -> Outcome:
        """Take out of an outcome the findings that are listed."""
        self._seen.add(relative(outcome.name))
        if outcome.source is None:
            return outcome
        fresh = []
        for diagnostic in outcome.findings:
            key = _key(Finding(outcome.source, diagnostic))
            if self._left[key] > 0:
                self._left[key] -= 1
            else:
                fresh.append(diagnostic)
        outcome.findings = fresh
        return outcome

    def stale(self, names: Iterable[str]) -> Iterator[str]:
        """What is listed of the files that were looked at, and is there no more."""
        looked_at = {*map(relative, names)} | self._seen
        for (name, code, _), count in sorted((+self._left).items()):
            if name in looked_at:
                times = f", {count} times" if count > 1 else ""
                yield f"{self._name}: {code} in {name}{times} is there no more; {_AGAIN}"


def write(name: str, outcomes: Iterable[Outcome]) -> int:
    """List the findings of some files in a new baseline; how many there are.

    Raises:
        WriteError: it cannot be written.
    """
    found = Counter(
        _key(Finding(outcome.source, diagnostic))
        for outcome in outcomes
        if outcome.source
        for diagnostic in outcome.findings
    )
    listed = [
        {"file": file, "code": code, "lines": lines, "count": count}
        for (file, code, lines), count in sorted(found.items())
    ]
    text = json.dumps({"version": VERSION, "findings": listed}, indent=1) + "\n"
    writer.write(Path(name), text.encode())
    return sum(found.values())


def _key(finding: Finding) -> _Key:
    return relative(finding.source.name), finding.diagnostic.code, statement(finding)


def _read(name: str) -> Iterator[tuple[_Key, int]]:
    try:
        data: Any = json.loads(files.read(Path(name)))
    except OSError as error:
        raise ConfigError(f"{name}: cannot be read: {error.strerror or error}") from error
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{name}: is no baseline: it is not JSON; {_AGAIN}") from error
    version = data.get("version") if isinstance(data, dict) else None
    if version != VERSION:
        what = "it has no version" if version is None else f"version {version!r}, not {VERSION}"
        raise ConfigError(f"{name}: is no baseline that can be read: {what}; {_AGAIN}")
    for entry in data["findings"] if isinstance(data.get("findings"), list) else [None]:
        match entry:
            case {"file": str(file), "code": str(code), "lines": str(lines), "count": int(count)}:
                yield (file, code, lines), count
            case _:
                raise ConfigError(f"{name}: is no baseline: an entry is incomplete; {_AGAIN}")
