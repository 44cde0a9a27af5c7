"""Writes a file so that at every moment it is either the old one or the new one."""

from __future__ import annotations

import contextlib
import os
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

from amp_lint import files


class WriteError(Exception):
    """A file could not be written and is as it was; the message says why in one line."""


def replace(path: Path, old: bytes, new: bytes) -> None:
    """Put ``new`` in place of ``old``, through symbolic links, with the mode kept.

    Raises:
        WriteError: the file no longer holds ``old``, or the system refuses the write.
    """
    try:
        target = path.resolve(strict=True)
        if not os.access(target, os.W_OK):
            raise WriteError("is read-only and was not fixed; make it writable")
        with _beside(target, new) as temporary:
            present = files.read(target)
            if present == new:
                return  # done before, by another name of the file
            if present != old:
                raise WriteError("changed while it was being fixed and was left alone; run again")
            temporary.replace(target)
    except OSError as error:
        reason = error.strerror or error
        raise WriteError(f"cannot be written and is unchanged: {reason}") from error


def write(path: Path, data: bytes) -> None:
    """Make a file of ``data``, whatever there was; directories on the way to it are made too.

    Raises:
        WriteError: the system refuses the write.
    """
    try:
        target = path.resolve()
        if target.is_symlink():
            raise WriteError("cannot be written: it is a link to itself")
        if target.exists() and not target.is_file():  # a pipe, or a device such as /dev/null
            target.write_bytes(data)
            return
        if target.exists() and not os.access(target, os.W_OK):
            raise WriteError("is read-only; make it writable")
        target.parent.mkdir(parents=True, exist_ok=True)
        with _beside(target, data) as temporary:
            temporary.replace(target)
    except (OSError, RuntimeError) as error:  # RuntimeError: a link to itself, before Python 3.13
        reason = getattr(error, "strerror", None) or error
        raise WriteError(f"cannot be written: {reason}") from error


@contextlib.contextmanager
def _beside(target: Path, data: bytes) -> Iterator[Path]:
    """A temporary file next to ``target``, safe on disk; gone at the end unless it was moved."""
    handle, name = tempfile.mkstemp(prefix=".amp-lint-", suffix=".tmp", dir=target.parent)
    temporary = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        _copy_permissions(target, temporary)
        yield temporary
    finally:
        temporary.unlink(missing_ok=True)


def _copy_permissions(source: Path, target: Path) -> None:
    """Give ``target`` the mode and owner of ``source``, or those of a new file if there is none."""
    if not source.exists():
        mask = os.umask(0)
        os.umask(mask)
        target.chmod(0o666 & ~mask)
        return
    status = source.stat()
    if hasattr(os, "chown"):
        with contextlib.suppress(PermissionError):  # only root can give a file away
            os.chown(target, status.st_uid, status.st_gid)
    target.chmod(stat.S_IMODE(status.st_mode))
