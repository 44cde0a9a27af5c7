"""A file of the findings that a project lives with, so that only new ones are reported.

A finding is known by its file, its code and the text of the lines that it is about, so that moved
lines are no news. One of them is counted as often as it was there.
"""

from __future__ import annotations

import contextlib
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from amp_lint.report import Finding
from amp_lint.report.place import relative, statement
from amp_lint.run.choice import ConfigError
from amp_lint.run.job import Outcome
from amp_lint.selection import Selection
from amp_lint.text import files, writer
from amp_lint.text.diagnostic import SYNTAX_ERROR

VERSION = 1
_AGAIN = "write it again with --write-baseline"
_Key = tuple[str, str, str]
"""File, code, and hash of its lines."""


class _Listed(NamedTuple):
    times: int
    preview: bool
    """Whether it is found with ``--preview`` only."""


class Scope:
    """What a run has looked for, and so would have found."""

    def __init__(self, selections: Mapping[str, Selection], outcomes: Iterable[Outcome]) -> None:
        """The files that were read, by name, with their rules; and what came of some of them."""
        done = {outcome.name: not outcome.errors for outcome in outcomes}
        self._parsed = {relative(name) for name in selections if done.get(name)}
        read = {name: each for name, each in selections.items() if done.get(name, True)}
        self._selections = {relative(name): each for name, each in read.items()}

    def covers(self, file: str, code: str, *, preview: bool) -> bool:
        """Whether a finding in a file would have been found."""
        if code == SYNTAX_ERROR:
            return file in self._parsed
        selection = self._selections.get(file)
        if selection is None or preview > selection.preview:
            return False
        return any(rule.code == code for rule in selection.rules)


class Baseline:
    """What a baseline file lists, and how much of it was found again."""

    def __init__(self, name: str) -> None:
        """Read it.

        Raises:
            ConfigError: it cannot be read, or is no baseline of this version.
        """
        self._name = name
        self._listed = dict(_read(name))
        self._left = Counter({key: listed.times for key, listed in self._listed.items()})

    def without_known(self, outcome: Outcome) -> Outcome:
        """Take out of an outcome the findings that are listed."""
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

    def stale(self, scope: Scope) -> Iterator[str]:
        """What is listed, was looked for, and is there no more."""
        for key, count in sorted((+self._left).items()):
            name, code, _ = key
            if scope.covers(name, code, preview=self._listed[key].preview):
                times = f", {count} times" if count > 1 else ""
                yield f"{self._name}: {code} in {name}{times} is there no more; {_AGAIN}"


def write(name: str, outcomes: Iterable[Outcome], scope: Scope) -> tuple[int, int]:
    """List the findings of some files in a baseline, and keep there what was not looked for.

    How many there are of both.

    Raises:
        ConfigError: there is a file that is no baseline.
        WriteError: it cannot be written.
    """
    found = _found(outcomes)
    kept = {
        key: listed
        for key, listed in previous(name).items()
        if key not in found and not scope.covers(*key[:2], preview=listed.preview)
    }
    entries = [
        {"file": file, "code": code, "lines": lines, "count": listed.times}
        | ({"preview": True} if listed.preview else {})
        for (file, code, lines), listed in sorted({**kept, **found}.items())
    ]
    text = json.dumps({"version": VERSION, "findings": entries}, indent=1) + "\n"
    writer.write(Path(name), text.encode())
    count, beside = (sum(each.times for each in some.values()) for some in (found, kept))
    return count, beside


def _found(outcomes: Iterable[Outcome]) -> dict[_Key, _Listed]:
    found: dict[_Key, _Listed] = {}
    for outcome in outcomes:
        for diagnostic in outcome.findings:
            if outcome.source:
                finding = Finding(outcome.source, diagnostic)
                key = _key(finding)
                before = found[key].times if key in found else 0
                found[key] = _Listed(before + 1, finding.preview)
    return found


def previous(name: str) -> dict[_Key, _Listed]:
    """What a baseline that is about to be written lists so far; nothing if it cannot be read.

    Raises:
        ConfigError: there is a file that is no baseline.
    """
    with contextlib.suppress(OSError):  # writing says what is wrong with it
        text = files.read(Path(name)).strip()
        if text and not (b'"version"' in text and b'"findings"' in text):
            what = "is no baseline and stays as it is; give another name or remove it"
            raise ConfigError(f"{name}: {what}")
        with contextlib.suppress(ConfigError):  # of another version, or with marks of a merge
            return dict(_read(name))
    return {}


def _key(finding: Finding) -> _Key:
    return relative(finding.source.name), finding.diagnostic.code, statement(finding)


def _read(name: str) -> Iterator[tuple[_Key, _Listed]]:
    try:
        data: Any = json.loads(files.read(Path(name)))
    except OSError as error:
        what = f"cannot be read: {error.strerror or error}; --write-baseline makes one"
        raise ConfigError(f"{name}: {what}") from error
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{name}: is no baseline: it is not JSON; {_AGAIN}") from error
    version = data.get("version") if isinstance(data, dict) else None
    if version != VERSION:
        what = "it has no version" if version is None else f"version {version!r}, not {VERSION}"
        raise ConfigError(f"{name}: is no baseline that can be read: {what}; {_AGAIN}")
    for entry in data["findings"] if isinstance(data.get("findings"), list) else [None]:
        match entry:
            case {
                "file": str(file),
                "code": str(code),
                "lines": str(lines),
                "count": int(count),
                **more,
            }:
                yield (file, code, lines), _Listed(count, "preview" in more)
            case _:
                raise ConfigError(f"{name}: is no baseline: an entry is incomplete; {_AGAIN}")
