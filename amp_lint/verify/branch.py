"""What a branch changes, file by file, so that each hunk can be judged in a review."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from amp_lint.run.narrowing.git import DIFF, Checkout
from amp_lint.syntax.cells import SUFFIXES, opened, python
from amp_lint.text import files
from amp_lint.text.source import SourceError
from amp_lint.verify.proof import Proof
from amp_lint.verify.prover import Change
from amp_lint.verify.record import Entry

OPTION = "--before-ref"
_RENAMED = b"R"


@dataclass(frozen=True, slots=True)
class Changed:
    """A file that a branch changes."""

    change: Change

    def entry(self, proof: Proof) -> Entry:
        """What came of it."""
        return Entry("", "change", self.change.name, proof)


def changed(
    revision: str,
    paths: Sequence[str],
    concerns: Callable[[bytes], bool],
    tell: Callable[[str, str], None],
) -> Iterator[Changed]:
    """Each file of Python that is not as it was when its history left a revision.

    A file that is new, or gone, has nothing to be held against.

    Args:
        revision: A branch, a tag, a commit.
        paths: Files and folders to look at; none of them for all.
        concerns: Whether a file with this Python has to do with mixed precision.
        tell: Is told which file cannot be read, and why.

    Raises:
        ConfigError: there is no git, no checkout, or no such revision.
    """
    checkout = Checkout(OPTION)
    base = checkout.commit(revision)
    for old, new in _pairs(checkout, base, paths):
        path = checkout.top / new
        name = str(files.from_here(path))
        try:
            before = checkout.output("cat-file", "blob", f"{base}:{old}", at=checkout.top)
            after = files.read(path)
            if not any(concerns(part) for data in (before, after) for part in python(data, name)):
                continue
            yield Changed(Change(opened(before, name).text, opened(after, name).text, name))
        except (OSError, SourceError) as error:
            tell(name, str(error))


def _pairs(checkout: Checkout, base: str, paths: Sequence[str]) -> Iterator[tuple[str, str]]:
    """The names of each file that is changed, before and after, seen from the top."""
    kinds = ("--diff-filter=MR", "--name-status", "-z")
    told = checkout.output("--literal-pathspecs", "diff", *DIFF, *kinds, base, "--", *paths)
    parts = iter(told.split(b"\0"))
    for status in parts:
        if not status:
            continue
        old = os.fsdecode(next(parts))
        new = os.fsdecode(next(parts)) if status.startswith(_RENAMED) else old
        if new.endswith(SUFFIXES):
            yield old, new
