"""What a census is divided into: blocks of files, each judged at once and written as one."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass

SUFFIXES = (".py", ".ipynb")
"""Of the files that are judged."""


class BlockError(Exception):
    """A block cannot be read, or not to its end; the message says why in one line."""


@dataclass(frozen=True, slots=True)
class File:
    """One file of a block."""

    repository: str
    path: str
    size: int
    """Bytes."""
    read: Callable[[], bytes]
    """Gives its bytes; raises OSError or `BlockError`."""
    commit: str | None = None
    year: int | None = None


class Block(ABC):
    """Files that are judged at once. It is data: what it names is opened where it is judged."""

    @property
    @abstractmethod
    def key(self) -> str:
        """What tells it, and what is in it, from all other blocks."""

    @property
    @abstractmethod
    def title(self) -> str:
        """What to call it where it cannot be read."""

    @property
    def whole(self) -> bool:
        """Whether it has all files of its repositories."""
        return True

    @abstractmethod
    def opened(self) -> AbstractContextManager[Iterator[File]]:
        """Its files; they can be read while it is open.

        Raises:
            BlockError: it cannot be read, or not to its end; also while it is gone through.
        """


def key_of(*parts: object) -> str:
    """A short name for what some parts say together."""
    text = "\0".join(map(str, parts))
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]
