"""Where a finding is in a repository, and by what it is known again when lines have moved."""

from __future__ import annotations

import functools
import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

from amp_lint.report import Finding
from amp_lint.text.files import absolute, is_checkout

_DIGITS = 16


def relative(name: str) -> str:
    """A file as its repository names it, with forward slashes; from here where there is none."""
    path = absolute(Path(name))
    root = _root(path.parent)
    return path.relative_to(root).as_posix() if path.is_relative_to(root) else path.as_posix()


def root() -> Path:
    """The repository around the current directory, or that directory."""
    return _root(Path.cwd())


def _root(folder: Path) -> Path:
    return _checkout(folder) or Path.cwd()


@functools.cache
def _checkout(folder: Path) -> Path | None:
    return next(filter(is_checkout, (folder, *folder.parents)), None)


def fingerprints(findings: Iterable[Finding]) -> Iterator[tuple[Finding, str]]:
    """Each finding with what stays the same while it does, wherever its lines are moved to.

    A hash of the file, the code and the text of the lines that it is about, blanks left out, and a
    count where that is there more than once.
    """
    seen: Counter[str] = Counter()
    for finding in findings:
        text = f"{relative(finding.source.name)}\0{finding.diagnostic.code}\0{statement(finding)}"
        seen[text] += 1
        yield finding, _hash(f"{text}\0{seen[text]}")


def statement(finding: Finding) -> str:
    """A hash of the lines that a finding is about, blanks left out."""
    source, diagnostic = finding.source, finding.diagnostic
    first, _ = source.position(diagnostic.start)
    last, _ = source.position(max(diagnostic.start, diagnostic.end - 1))
    lines = (source.line(row) for row in range(first, last + 1))
    return _hash("\n".join("".join(line.split()) for line in lines))


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGITS]
