"""How much of a file's project a run has."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from amp_lint.selection import Scope
from amp_lint.syntax.project import Project
from amp_lint.text.files import MARKS, absolute, is_checkout


def extent(path: Path, code: bytes, project: Project, roots: Iterable[Path]) -> Scope:
    """What a run knows of the project of a file with this code; ``roots`` are what it walked."""
    if _is_whole(absolute(path), [absolute(root) for root in roots if root.is_dir()]):
        return Scope.WHOLE
    outside = project.misses(path, code, os.path.isfile)
    return Scope.PART if outside else Scope.IMPORTS


def _is_whole(path: Path, roots: Iterable[Path]) -> bool:
    """Whether a directory that was walked has the file and the top of its project."""
    above = [*path.parents]
    marked = (folder for folder in above if any((folder / name).exists() for name in MARKS))
    top = next(filter(is_checkout, above), None) or next(marked, None)
    return any(root in above and (top is None or top.is_relative_to(root)) for root in roots)
