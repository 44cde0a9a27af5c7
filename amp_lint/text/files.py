"""Reads files that others have put there: only regular ones, and no more than is wanted."""

from __future__ import annotations

import contextlib
import os
import stat
from pathlib import Path

_KINDS = (
    (stat.S_ISDIR, "a directory"),
    (stat.S_ISFIFO, "a named pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)


MARKS = ("pyproject.toml", "setup.py", "setup.cfg")
"""Files that stand at the top of a project."""
CHECKOUTS = (".git", ".hg")
"""What stands at the top of a git or Mercurial checkout."""


class IrregularFileError(OSError):
    """Reading would block, never end, or mean nothing; ``strerror`` says what the file is."""


def read(path: Path, limit: int | None = None) -> bytes:
    """The bytes of a regular file, and of a link to one.

    With a ``limit``, a file that has more bytes is refused as well.

    Raises:
        IrregularFileError: it is a directory, a pipe, a socket or a device, or too large.
        OSError: it cannot be read.
    """
    _refuse(path, path.stat().st_mode)  # opening a device may already do something
    handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    with os.fdopen(handle, "rb") as file:
        status = os.fstat(handle)
        _refuse(path, status.st_mode)
        if limit is not None and status.st_size > limit:
            raise IrregularFileError(0, f"has more than {limit} bytes", str(path))
        return file.read() if limit is None else file.read(limit)


def _refuse(path: Path, mode: int) -> None:
    if not stat.S_ISREG(mode):
        kind = next((kind for test, kind in _KINDS if test(mode)), "something else")
        raise IrregularFileError(0, f"is {kind}, no regular file", str(path))


def absolute(path: Path) -> Path:
    """``path`` from the root, ``..`` resolved by name: a link is governed from where it stands."""
    return Path(os.path.abspath(path))  # noqa: PTH100  (pathlib would follow the link)


def from_here(path: Path) -> Path:
    """``path`` from the current directory, where it lies below it."""
    if path.is_absolute():
        with contextlib.suppress(ValueError):
            return path.relative_to(Path.cwd())
    return path


def is_checkout(folder: Path) -> bool:
    """Whether a directory is the top of a git or Mercurial checkout."""
    with contextlib.suppress(OSError):
        return any((folder / name).exists() for name in CHECKOUTS)
    return False
