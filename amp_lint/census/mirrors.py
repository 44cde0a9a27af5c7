"""Blocks that are git repositories: what is in the commit that HEAD names."""

from __future__ import annotations

import contextlib
import functools
import os
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from amp_lint.census.block import SUFFIXES, Block, BlockError, File, key_of

_DEPTH = 4
"""Folders between the one that is named and a repository."""
_WINDOW = (
    *("-c", "core.packedGitWindowSize=4m", "-c", "core.packedGitLimit=16m"),
    *("-c", "core.deltaBaseCacheLimit=8m"),
)
"""How much of a repository's archive is in memory at once; git would have all of it."""
_SUFFIXES = tuple(suffix.encode() for suffix in SUFFIXES)
_REGULAR = (b"100644", b"100755")
_QUIET = {"GIT_NO_LAZY_FETCH": "1", "GIT_TERMINAL_PROMPT": "0", "GIT_OPTIONAL_LOCKS": "0"}
"""A repository may lack objects and name a host that has them: nobody is asked."""


@dataclass(frozen=True)
class MirrorBlock(Block):
    """One repository."""

    folder: str
    """Its git directory."""
    name: str
    commit: str
    """Empty where git does not know what HEAD is."""
    year: int | None

    @property
    def key(self) -> str:
        """From its name and its commit, which stands for all that is in it."""
        return key_of(self.name, self.commit)

    @property
    def title(self) -> str:
        """Its name."""
        return self.name

    @contextlib.contextmanager
    def opened(self) -> Iterator[Iterator[File]]:
        """The files of the commit, read when they are asked for."""
        if not self.commit:
            raise BlockError("has no commit that HEAD names")
        listed = _asked(self.folder, "ls-tree", "-r", "-l", "-z", self.commit)
        with _Objects(self.folder) as objects:
            yield self._files(listed, objects)

    def _files(self, listed: bytes, objects: _Objects) -> Iterator[File]:
        for entry in listed.split(b"\0"):
            head, _, path = entry.partition(b"\t")
            if path.endswith(_SUFFIXES):
                mode, _, blob, size = head.split()
                if mode in _REGULAR:
                    # "-" or "BAD" is the size of what a partial clone lacks
                    known = int(size) if size.isdigit() else 0
                    yield self._file(path, blob, known, objects)

    def _file(self, path: bytes, blob: bytes, size: int, objects: _Objects) -> File:
        read = functools.partial(objects.read, blob)
        name = path.decode("utf-8", "replace")
        return File(self.name, name, size, read, self.commit, self.year)


class _Objects:
    """Gives the objects of a repository, by one process of git."""

    def __init__(self, folder: str) -> None:
        self._process = subprocess.Popen(
            _command(folder, *_WINDOW, "cat-file", "--batch"),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, **_QUIET},
        )

    def __enter__(self) -> _Objects:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()

    def read(self, blob: bytes) -> bytes:
        """The bytes of an object."""
        asked, answers = _stream(self._process.stdin), _stream(self._process.stdout)
        asked.write(blob + b"\n")
        asked.flush()
        head = answers.readline().split()
        if len(head) != 3:
            raise BlockError(f"git does not give {blob.decode()}: {b' '.join(head[1:]).decode()}")
        return answers.read(int(head[2]) + 1)[:-1]


def _stream(stream: IO[bytes] | None) -> IO[bytes]:
    assert stream is not None
    return stream


def _command(folder: str, *arguments: str) -> list[str]:
    git = shutil.which("git")
    if git is None:
        raise BlockError("git is not installed")
    return [git, "--no-pager", "-c", "safe.directory=*", "--git-dir", folder, *arguments]


def _asked(folder: str, *arguments: str) -> bytes:
    done = subprocess.run(
        _command(folder, *arguments),
        capture_output=True,
        check=False,
        stdin=subprocess.DEVNULL,
        env={**os.environ, **_QUIET},
    )
    if done.returncode:
        said = done.stderr.decode("utf-8", "replace").split()
        raise BlockError(f"git says: {' '.join(said)[:200]}")
    return done.stdout


def repositories(folder: Path) -> Iterator[Path]:
    """The git directories below a folder, in order; none is looked for inside of another."""
    yield from _below(folder, _DEPTH)


def _below(folder: Path, depth: int) -> Iterator[Path]:
    inner = folder / ".git"
    if _is_repository(inner) or _is_repository(folder):
        yield inner if _is_repository(inner) else folder
    elif depth:
        children = (child for child in folder.iterdir() if not child.is_symlink())
        for child in sorted(child for child in children if child.is_dir()):
            yield from _below(child, depth - 1)


def _is_repository(folder: Path) -> bool:
    return (folder / "HEAD").is_file() and (folder / "objects").is_dir()


def blocks(folder: Path) -> list[MirrorBlock]:
    """A block for each repository below a folder."""
    return [_block(each, folder) for each in repositories(folder)]


def _block(repository: Path, folder: Path) -> MirrorBlock:
    named = repository.parent if repository.name == ".git" else repository
    name = folder.name if named == folder else named.relative_to(folder).as_posix()
    try:
        said = _asked(str(repository), "log", "-1", "--format=%H %cd", "--date=format:%Y", "HEAD")
        commit, year = said.decode().split()
    except (BlockError, ValueError):
        return MirrorBlock(str(repository), name, "", None)
    return MirrorBlock(str(repository), name, commit, int(year))
