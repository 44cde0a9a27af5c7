"""Which files lie beside those of a run: read for what they define, and not reported on.

A hook or an editor names the files that were changed, and these import others of their project.
Those are looked up on disk as Python would, but not beyond the project: below the nearest folder
with a mark of one (`pyproject.toml`, a checkout), or else below that of the outermost package.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterator
from pathlib import Path

from amp_lint.text.files import CHECKOUTS, MARKS

_INSTALLED = frozenset({"site-packages", "dist-packages"})
"""Folders of packages that belong to nobody's project."""
_PACKAGE = "__init__.py"
_ROOTS = ("src", "lib")
"""What folders are called from which a project's modules are imported."""


class Beside:
    """Finds modules of a project on disk. What was found is kept: made anew for each run."""

    def __init__(self, follows: Callable[[Path], bool] = lambda _: True) -> None:
        """Prepare; ``follows`` says whether what the files of a folder import is to be read."""
        self._follows = functools.cache(lambda folder: follows(Path(folder)))
        self._is_file = functools.cache(os.path.isfile)
        self._exists = functools.cache(os.path.exists)
        self._root = functools.cache(self._find_root)
        self._is_there = functools.cache(self._look)

    def has(self, folder: str, name: str) -> bool:
        """Whether a folder, or one above it in its project, has a module or package."""
        return self._follows(folder) and self._is_there(folder, name)

    def module(self, folder: str, stem: str) -> str | None:
        """The file of a module of a folder's project by its path without suffix, or None."""
        if not self._follows(folder):
            return None
        root = self._root(folder)
        paths = f"{stem}.py", os.path.join(stem, _PACKAGE)  # noqa: PTH118
        within = (path for path in paths if path.startswith(root.rstrip(os.sep) + os.sep))
        return next(filter(self._is_file, within), None)

    def _look(self, folder: str, name: str) -> bool:
        above = os.path.dirname(self._root(folder))  # noqa: PTH120  (a package may be the root)
        places = (each for at in _upwards(folder, above) for each in roots(at))
        stems = (os.path.join(each, name) for each in places)  # noqa: PTH118
        return any(self._is_file(f"{stem}.py") or self._exists(stem) for stem in stems)

    def _find_root(self, folder: str) -> str:
        for at in _upwards(folder, ""):
            if any(self._exists(os.path.join(at, mark)) for mark in (*MARKS, *CHECKOUTS)):  # noqa: PTH118
                return at
            if os.path.basename(os.path.dirname(at)) in _INSTALLED:  # noqa: PTH119, PTH120
                return at
        packages = _upwards(folder, "")
        is_package = (self._is_file(os.path.join(at, _PACKAGE)) for at in packages)  # noqa: PTH118
        depth = next(depth for depth, inside in enumerate(is_package) if not inside)
        return [*_upwards(folder, "")][depth]


def roots(folder: str) -> Iterator[str]:
    """A folder, and those in it that programs add to the path, or that are installed from."""
    yield folder
    yield from (f"{folder.rstrip(os.sep)}{os.sep}{name}" for name in _ROOTS)


def _upwards(folder: str, root: str) -> Iterator[str]:
    """A folder and those that it is in, up to a root; all of them without one."""
    yield folder
    while folder != root and (above := os.path.dirname(folder)) != folder:  # noqa: PTH120
        yield above
        folder = above
