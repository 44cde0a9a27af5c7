"""Finds the Python files and notebooks below the paths that the user named."""

from __future__ import annotations

import codecs
import contextlib
import errno
import itertools
import os
import stat
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from amp_lint.run.config import Settings
from amp_lint.syntax.cells import SUFFIXES
from amp_lint.text import files
from amp_lint.text.files import absolute, is_checkout

if TYPE_CHECKING:
    from amp_lint.run.gitignore import Patterns

SKIPPED = frozenset({
    ".bzr", ".direnv", ".eggs", ".git", ".git-rewrite", ".hg", ".idea", ".ipynb_checkpoints",
    ".mypy_cache", ".nox", ".pants.d", ".pyenv", ".pytest_cache", ".pytype", ".ruff_cache", ".svn",
    ".tox", ".venv", ".vscode", "__pycache__", "__pypackages__", "_build", "buck-out", "build",
    "dist", "node_modules", "site-packages", "venv",
})  # fmt: skip
"""Directories that are not walked into, unless named."""
_VIRTUAL_ENVIRONMENT = "pyvenv.cfg"

_LOOP = "is a symbolic link that leads to itself; remove or exclude it"

OnError = Callable[[str, str], None]
"""Called with a path and what is wrong with it."""


@dataclass(frozen=True, slots=True)
class Found:
    """A file to lint."""

    path: Path
    named: bool
    """Whether the user named this very file."""


@dataclass(frozen=True, slots=True)
class _Ignore:
    """One ``.gitignore``; it is asked about nothing but what is below its directory."""

    depth: int
    """Of how many parts the path of the directory consists."""
    patterns: Patterns


class Discovery:
    """One search. What goes wrong with a path is told to ``on_error`` and the search goes on."""

    def __init__(
        self,
        settings: Settings,
        on_error: OnError,
        *,
        force_exclude: bool,
        on_warning: OnError = lambda path, what: None,
    ) -> None:
        self._settings = settings
        self._on_error = on_error
        self._on_warning = on_warning
        self._force_exclude = force_exclude

    def files(self, paths: Iterable[Path]) -> Iterator[Found]:
        """The files, each once: those of a directory by name, then those of its directories.

        What is named comes even if it is excluded, unless ``force_exclude``; a named file comes
        whatever its name is.
        """
        seen: set[Path] = set()
        for path in paths:
            for found in self._below(path) if _is_directory(path) else self._named(path):
                if (key := absolute(found.path)) not in seen:
                    seen.add(key)
                    yield found

    def _named(self, path: Path) -> Iterator[Found]:
        try:
            path.stat()
            if not self._excluded_by_name(path, directory=False):
                yield Found(path, named=True)
        except OSError as error:
            self._on_error(str(path), unreadable(error))

    def _below(self, path: Path) -> Iterator[Found]:
        return iter(()) if self._excluded_by_name(path, directory=True) else self._walk(path)

    def _excluded_by_name(self, path: Path, *, directory: bool) -> bool:
        if not self._force_exclude:
            return False
        here = Path.cwd()
        full = absolute(path)
        parts = full.relative_to(here).parts if full.is_relative_to(here) else path.parts[1:]
        folders = parts if directory else parts[:-1]
        excluded = self._settings.excluded(path, directory=directory)
        return excluded or not SKIPPED.isdisjoint(folders)

    def _walk(self, root: Path) -> Iterator[Found]:
        stack = [(root, self._inherited(absolute(root)))]
        while stack:
            folder, inherited = stack.pop()
            entries = self._entries(folder)
            if folder is not root and any(e.name == _VIRTUAL_ENVIRONMENT for e in entries):
                continue
            ignores = (*inherited, *self._read_ignores(absolute(folder)))
            kept = [entry for entry in entries if self._kept(entry, ignores)]
            folders = [Path(entry.path) for entry in kept if entry.is_dir(follow_symlinks=False)]
            stack += [(below, ignores) for below in reversed(folders)]
            yield from (Found(Path(e.path), named=False) for e in kept if self._is_wanted(e))

    def _entries(self, folder: Path) -> list[os.DirEntry[str]]:
        try:
            with os.scandir(folder) as entries:
                return sorted(entries, key=lambda entry: entry.name)
        except OSError as error:
            self._on_error(str(folder), unreadable(error))
            return []

    def _kept(self, entry: os.DirEntry[str], ignores: tuple[_Ignore, ...]) -> bool:
        """Whether to lint a file or to walk into a directory."""
        path = Path(entry.path)
        directory = entry.is_dir(follow_symlinks=False)
        if entry.name in SKIPPED if directory else not self._is_candidate(entry):
            return False
        if _ignored(absolute(path), directory, ignores):
            return False
        if self._settings.excluded(path, directory=directory, alone=True):
            return False
        if entry.is_symlink() and (problem := _loop(path)):
            self._on_error(entry.path, problem)
            return False
        return True

    def _is_candidate(self, entry: os.DirEntry[str]) -> bool:
        return entry.is_symlink() or self._has_name(entry)

    def _has_name(self, entry: os.DirEntry[str]) -> bool:
        return entry.name.endswith(SUFFIXES) or self._settings.included(Path(entry.path))

    def _is_wanted(self, entry: os.DirEntry[str]) -> bool:
        """Whether an entry is to be read; a link that leads nowhere may be an editor's lock."""
        with contextlib.suppress(OSError):
            return self._has_name(entry) and not stat.S_ISDIR(entry.stat().st_mode)
        return False

    def _inherited(self, root: Path) -> tuple[_Ignore, ...]:
        """What the directories above ``root`` in its checkout ignore.

        Nothing, where ``root`` itself is ignored: the user named it.
        """
        above: list[Path] = []
        for folder in (root, *root.parents):
            above.append(folder)
            if is_checkout(folder):
                break
        else:
            return ()
        ignores: tuple[_Ignore, ...] = ()
        for folder, below in itertools.pairwise(reversed(above)):
            ignores = (*ignores, *self._read_ignores(folder))
            if _ignored(below, True, ignores):
                return ()
        return ignores

    def _read_ignores(self, folder: Path) -> Iterator[_Ignore]:
        for name in (".git/info/exclude", ".gitignore"):
            if lines := self._lines(folder / name):
                from amp_lint.run.gitignore import Pattern, Patterns, TooLongError, understood

                parsed = [*map(understood, lines)]
                patterns = [line for line in parsed if isinstance(line, Pattern)]
                too_long = [line for line in parsed if isinstance(line, TooLongError)]
                if too_long:
                    self._on_warning(str(folder / name), f"{too_long[0]} and ignores nothing")
                yield _Ignore(len(folder.parts), Patterns(patterns))

    def _lines(self, path: Path) -> list[str]:
        """The lines of a file as git reads them; none where it cannot be read."""
        try:
            data = files.read(path)
        except files.IrregularFileError as error:
            self._on_error(str(path), unreadable(error))
            return []
        except OSError:
            return []
        text = os.fsdecode(data.removeprefix(codecs.BOM_UTF8))
        return [line.removesuffix("\r") for line in text.split("\n")] if text else []


def unreadable(error: OSError) -> str:
    """What to say about a path that the system does not let us read."""
    if isinstance(error, files.IrregularFileError):
        return f"{error.strerror}; exclude it"
    if isinstance(error, FileNotFoundError):
        return "does not exist; check the path"
    if isinstance(error, PermissionError):
        return "cannot be read: permission denied; make it readable or exclude it"
    if error.errno == errno.ELOOP:
        return _LOOP
    return f"cannot be read: {error.strerror or error}; exclude it"


def _is_directory(path: Path) -> bool:
    with contextlib.suppress(OSError):
        return path.is_dir()
    return False


def _loop(link: Path) -> str:
    """What to say about a symbolic link that leads back to itself or above itself."""
    try:
        target = link.resolve(strict=True)
    except (OSError, RuntimeError) as error:  # RuntimeError: a link to itself, before Python 3.13
        dangling = isinstance(error, FileNotFoundError)
        return "" if dangling else _LOOP
    if target.is_dir() and link.parent.resolve().is_relative_to(target):
        return "is a symbolic link to a directory that holds it, not followed; exclude it"
    return ""


def _ignored(path: Path, directory: bool, ignores: Iterable[_Ignore]) -> bool:
    """Whether git ignores a path; of several files that speak of it the nearest counts."""
    verdict, parts = None, path.parts
    for ignore in ignores:
        said = ignore.patterns.verdict(parts[ignore.depth :], directory=directory)
        verdict = verdict if said is None else said
    return bool(verdict)
