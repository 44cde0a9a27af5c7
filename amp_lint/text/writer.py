"""Writes a file so that at every moment it is either the old one or the new one.

The new one is made beside it and then moved to its place. A run that is killed may leave such a
temporary file: who makes one holds a lock on it, which ends with the process, so that `clean` can
tell what nobody will move any more. Where the system has no such locks, it stays.
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

from amp_lint.text import files

_PREFIX, _SUFFIX = ".amp-lint-", ".tmp"
_TEMPORARY = re.compile(r"\.amp-lint-[a-z0-9_]{8}\.tmp")
_OPEN = os.O_RDWR | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)


class WriteError(Exception):
    """A file could not be written and is as it was; the message says why in one line."""


def replace(path: Path, old: bytes, new: bytes) -> list[str]:
    """Put ``new`` in place of ``old``, through symbolic links; Ctrl-C comes before or after it.

    Mode, owner, group and extended attributes are kept. What the system does not let us keep is
    given back, a line for each; so are hard links, of which the others keep the old bytes.

    Raises:
        WriteError: the file no longer holds ``old``, or the system refuses the write.
    """
    try:
        target = path.resolve(strict=True)
        if not os.access(target, os.W_OK):
            raise WriteError("is read-only and was not fixed; make it writable")
        with _interrupts_held(), _beside(target, new) as (temporary, lost):
            present = files.read(target)
            if present == new:
                return []  # done before, by another name of the file
            if present != old:
                raise WriteError("changed while it was being fixed and was left alone; run again")
            temporary.replace(target)
            return lost
    except OSError as error:
        reason = error.strerror or error
        raise WriteError(f"cannot be written and is unchanged: {reason}") from error


def write(path: Path, data: bytes) -> list[str]:
    """Make a file of ``data``, whatever there was; directories on the way to it are made too.

    As for `replace`, what could not be kept is given back.

    Raises:
        WriteError: the system refuses the write.
    """
    try:
        target = path.resolve()
        if target.is_symlink():
            raise WriteError("cannot be written: it is a link to itself")
        if target.exists() and not target.is_file():  # a pipe, or a device such as /dev/null
            target.write_bytes(data)
            return []
        if target.exists() and not os.access(target, os.W_OK):
            raise WriteError("is read-only; make it writable")
        target.parent.mkdir(parents=True, exist_ok=True)
        clean([target])
        with _interrupts_held(), _beside(target, data) as (temporary, lost):
            temporary.replace(target)
            return lost
    except (OSError, RuntimeError) as error:  # RuntimeError: a link to itself, before Python 3.13
        reason = getattr(error, "strerror", None) or error
        raise WriteError(f"cannot be written: {reason}; name another file") from error


def clean(paths: Iterable[Path]) -> None:
    """Remove the temporary files that killed runs have left beside some files."""
    for folder in {Path(os.path.realpath(path)).parent for path in paths}:
        with contextlib.suppress(OSError):
            for path in folder.iterdir():
                if _TEMPORARY.fullmatch(path.name):
                    _remove_abandoned(path)


def _remove_abandoned(path: Path) -> None:
    with contextlib.suppress(OSError):
        if os.name == "nt":
            path.unlink()  # refused as long as it is open
            return
        handle = os.open(path, _OPEN)
        try:
            if stat.S_ISREG(os.fstat(handle).st_mode) and _lock(handle):
                path.unlink()
        finally:
            os.close(handle)


def _lock(handle: int) -> bool:
    """Whether nobody else has a file, from now on; False where the system cannot say."""
    try:
        import fcntl

        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (ImportError, OSError):
        return False
    return True


@contextlib.contextmanager
def _interrupts_held() -> Iterator[None]:
    """Ctrl-C is felt at the end, where it would be felt at all."""
    import signal
    import threading

    usual = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if not usual or threading.current_thread() is not threading.main_thread():
        yield
        return
    held: list[int] = []
    signal.signal(signal.SIGINT, lambda number, frame: held.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        if held:
            raise KeyboardInterrupt


@contextlib.contextmanager
def _beside(target: Path, data: bytes) -> Iterator[tuple[Path, list[str]]]:
    """A temporary file next to ``target``, safe on disk, and what it lacks of it.

    It is gone at the end unless it was moved.
    """
    handle, temporary = _temporary(target.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
            lost = _adopt(temporary, target)
            if os.name == "nt":
                file.close()  # what is open cannot be moved
            yield temporary, lost
    finally:
        temporary.unlink(missing_ok=True)


def _temporary(folder: Path) -> tuple[int, Path]:
    """A new file with a lock, open."""
    for last in (False, False, True):
        handle, name = tempfile.mkstemp(prefix=_PREFIX, suffix=_SUFFIX, dir=folder)
        _lock(handle)
        if last or os.fstat(handle).st_nlink:
            break
        os.close(handle)  # another run has cleaned it away before it was locked
    return handle, Path(name)


def _adopt(temporary: Path, target: Path) -> list[str]:
    """Make a new file look like the one it is for, if there is one; what could not be done."""
    if not target.exists():
        mask = os.umask(0)
        os.umask(mask)
        temporary.chmod(0o666 & ~mask)
        return []
    status = target.stat()
    mode = stat.S_IMODE(status.st_mode)
    lost = _give(temporary, status)
    if lost:
        mode &= ~(stat.S_ISUID | stat.S_ISGID)  # what it may do as its owner, it may not as another
    lost += _copy_attributes(target, temporary)
    temporary.chmod(mode)
    if status.st_nlink > 1:
        lost.append("was a hard link and is a file of its own now; its other names are unchanged")
    return lost


def _give(path: Path, status: os.stat_result) -> list[str]:
    """Give a file to the owner and group of another one, as far as we may."""
    if hasattr(os, "chown"):
        for owner in (status.st_uid, -1):  # only root gives away, but who owns may choose a group
            with contextlib.suppress(OSError):
                os.chown(path, owner, status.st_gid)
                break
    now = path.stat()
    kept = {"owner": now.st_uid == status.st_uid, "group": now.st_gid == status.st_gid}
    return [f"its {name} could not be kept" for name, same in kept.items() if not same]


def _copy_attributes(source: Path, target: Path) -> list[str]:
    """Give a file the extended attributes of another one, where the system has some."""
    old, new = _attributes(source), _attributes(target)
    wanted = sorted(old.keys() | new.keys())
    lost = [name for name in wanted if not _set(target, name, new.get(name), old.get(name))]
    return [f"its extended attribute {name} could not be kept" for name in lost]


def _set(path: Path, name: str, old: bytes | None, new: bytes | None) -> bool:
    """Whether an extended attribute has a new value now; None stands for having none."""
    if sys.platform != "linux":
        return True
    try:
        if old != new and new is None:
            os.removexattr(path, name)
        elif old != new and new is not None:
            os.setxattr(path, name, new)
    except OSError:
        return False
    return True


def _attributes(path: Path) -> dict[str, bytes]:
    if sys.platform != "linux":
        return {}
    try:
        return {name: os.getxattr(path, name) for name in os.listxattr(path)}
    except OSError:  # there are none on this file system
        return {}
