"""Blocks that are packages: what is in a wheel or an archive of sources. Nothing of it is run."""

from __future__ import annotations

import contextlib
import functools
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from amp_lint.census.block import SUFFIXES, Block, BlockError, File, key_of

ZIPS = (".whl", ".zip")
TARS = (".tar.gz", ".tgz", ".tar.bz2", ".tar.xz", ".tar")
_ERRORS = (OSError, EOFError, zipfile.BadZipFile, tarfile.TarError, NotImplementedError, ValueError)
_PIP = (
    "download", "--quiet", "--no-input", "--disable-pip-version-check", "--no-deps",
    "--only-binary=:all:",
)  # fmt: skip
"""Wheels alone: to take an archive of sources, pip runs what is in it."""


@dataclass(frozen=True)
class ArchiveBlock(Block):
    """One archive."""

    file: str
    stamp: str
    """Its size and when it was written."""

    @property
    def key(self) -> str:
        """From its name and its stamp."""
        return key_of(Path(self.file).name, self.stamp)

    @property
    def title(self) -> str:
        """Its name."""
        return Path(self.file).name

    def opened(self) -> AbstractContextManager[Iterator[File]]:
        """Its files, read when they are asked for."""
        return _opened(Path(self.file))


@dataclass(frozen=True)
class PackageBlock(Block):
    """The wheel of a package, which pip brings from the index that it is set up for."""

    requirement: str

    @property
    def key(self) -> str:
        """From what is asked for: the newest version is that of the first run."""
        return key_of("package", self.requirement)

    @property
    def title(self) -> str:
        """What is asked for."""
        return self.requirement

    @contextlib.contextmanager
    def opened(self) -> Iterator[Iterator[File]]:
        """The files of the wheel, which is thrown away afterwards."""
        with tempfile.TemporaryDirectory(prefix="amp-lint-") as folder:
            command = [sys.executable, "-m", "pip", *_PIP, "--dest", folder, "--", self.requirement]
            done = subprocess.run(
                command, capture_output=True, check=False, stdin=subprocess.DEVNULL
            )
            archives = [*Path(folder).glob("*.whl")]
            if done.returncode or not archives:
                raise BlockError(f"pip brings no wheel of it: {_last_said(done.stderr)[:200]}")
            with _opened(archives[0]) as files:
                yield files


def _last_said(stderr: bytes) -> str:
    """The last message of a program; what is indented belongs to the line above it."""
    lines = stderr.decode("utf-8", "replace").splitlines()
    return next((line for line in reversed(lines) if line[:1].strip()), "nothing")


@contextlib.contextmanager
def _opened(archive: Path) -> Iterator[Iterator[File]]:
    try:
        if archive.suffix in ZIPS:
            with zipfile.ZipFile(archive) as zipped:
                yield _zipped(archive, zipped)
        else:
            with tarfile.open(archive) as tarred:
                yield _tarred(archive, tarred)
    except _ERRORS as error:
        raise BlockError(f"cannot be read: {error}") from error


def _zipped(archive: Path, opened: zipfile.ZipFile) -> Iterator[File]:
    for info in opened.infolist():
        if info.filename.endswith(SUFFIXES):
            read = functools.partial(_unzipped, opened, info)
            yield File(repository(archive), info.filename, info.file_size, read)


def _unzipped(opened: zipfile.ZipFile, info: zipfile.ZipInfo) -> bytes:
    try:
        return opened.read(info)
    except (*_ERRORS, RuntimeError) as error:  # RuntimeError: is encrypted
        raise BlockError(f"cannot be read: {error}") from error


def _tarred(archive: Path, opened: tarfile.TarFile) -> Iterator[File]:
    for member in opened:
        if member.isfile() and member.name.endswith(SUFFIXES):
            read = functools.partial(_untarred, opened, member)
            yield File(repository(archive), member.name.partition("/")[2], member.size, read)


def _untarred(opened: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    try:
        stream = opened.extractfile(member)
        return stream.read() if stream else b""
    except _ERRORS as error:
        raise BlockError(f"cannot be read: {error}") from error


def repository(archive: Path) -> str:
    """What to call what is in an archive: name and version, as its file says them."""
    if archive.suffix == ".whl":
        return "==".join(archive.name.split("-")[:2])
    end = next(end for end in (*ZIPS, *TARS) if archive.name.endswith(end))
    return archive.name.removesuffix(end)


def in_folder(folder: Path) -> list[ArchiveBlock]:
    """A block for each archive in a folder."""
    ends = (*ZIPS, *TARS)
    found = (path for path in folder.iterdir() if path.name.endswith(ends) and path.is_file())
    return [_block(path) for path in sorted(found)]


def _block(path: Path) -> ArchiveBlock:
    status = path.stat()
    return ArchiveBlock(str(path), f"{status.st_size} {status.st_mtime_ns}")


def listed(names: Path) -> list[PackageBlock]:
    """A block for each line of a file that names a package; ``#`` begins a comment.

    Raises:
        OSError, UnicodeDecodeError: the file cannot be read.
    """
    lines = (line.partition("#")[0].strip() for line in names.read_text("utf-8").splitlines())
    return [PackageBlock(line) for line in dict.fromkeys(lines) if line]
