"""The text of a file: bytes, encoding, line index."""

from __future__ import annotations

import bisect
import codecs
import functools
import io
import re
import tokenize
from collections.abc import Iterable, Iterator
from pathlib import Path

from amp_lint.text import files
from amp_lint.text.diagnostic import Edit
from amp_lint.text.printable import printable

LINE_END = re.compile(r"\r\n|\r|\n")


class SourceError(Exception):
    """A file cannot be read as Python source; the message says why in one line."""


class Source:
    """One Python file, decoded without loss.

    Offsets count characters of ``text``, which lacks a byte order mark; ``encode`` gives the
    bytes back, with the mark.
    """

    __slots__ = ("__dict__", "bom", "data", "encoding", "name", "text")
    is_python = True
    """Whether the file is the text, so that edits of the one are edits of the other."""
    has_edits = True
    """Whether edits can be told to others, by line and column as they count them."""

    def __init__(self, data: bytes, name: str) -> None:
        """Decode ``data``; ``name`` is the path shown to the user.

        Raises:
            SourceError: NUL bytes, an unknown encoding, or bytes that do not decode.
        """
        self.name = name
        self.data = data
        self.bom = codecs.BOM_UTF8 if data.startswith(codecs.BOM_UTF8) else b""
        if b"\0" in data:
            raise SourceError("contains a NUL byte")
        try:
            self.encoding = tokenize.detect_encoding(io.BytesIO(data).readline)[0]
            body = data[len(self.bom) :]
            self.text = body.decode("utf-8" if self.bom else self.encoding)
        except Exception as error:  # whatever a codec raises
            raise SourceError(f"cannot be decoded: {_reason(error)}") from error

    @classmethod
    def read(cls, path: Path) -> Source:
        """The file at ``path``.

        Raises:
            SourceError: the file cannot be read or decoded.
        """
        try:
            data = files.read(path)
        except OSError as error:
            raise SourceError(f"cannot be read: {error.strerror or error}") from error
        return cls(data, str(path))

    @classmethod
    def of(cls, text: str, name: str) -> Source:
        """A file with this text, in the encoding that the text declares.

        Raises:
            SourceError: there is no such encoding, or it lacks a character of the text.
        """
        try:
            lines = io.BytesIO(text.encode("utf-8", "surrogatepass"))
            data = text.encode(tokenize.detect_encoding(lines.readline)[0])
        except Exception as error:  # whatever a codec raises
            raise SourceError(f"cannot be encoded: {_reason(error)}") from error
        return cls(data, name)

    def encode(self, text: str) -> bytes:
        """``text`` as bytes of this file.

        Raises:
            SourceError: the file's encoding cannot hold ``text``.
        """
        try:
            return self.bom + text.encode("utf-8" if self.bom else self.encoding)
        except Exception as error:  # whatever a codec raises
            raise SourceError(f"cannot be encoded: {_reason(error)}") from error

    def changed(self, text: str) -> Source:
        """This file with another text.

        Raises:
            SourceError: its encoding cannot hold the text, or would give another one back.
        """
        made = Source(self.encode(text), self.name)
        if made.text != text:
            raise SourceError("cannot be encoded: what is written would be read as something else")
        return made

    @functools.cached_property
    def lossless(self) -> bool:
        """Whether decoding and encoding gives the same bytes, so that editing loses nothing."""
        try:
            return self.encode(self.text) == self.data
        except SourceError:
            return False

    @functools.cached_property
    def line_starts(self) -> list[int]:
        r"""The offset at which each line starts; lines end with ``\n``, ``\r\n`` or ``\r``."""
        return [0, *(match.end() for match in LINE_END.finditer(self.text))]

    def position(self, offset: int) -> tuple[int, int]:
        """Line and column of an offset, both counted from 1, the column in characters."""
        row = bisect.bisect_right(self.line_starts, offset)
        return row, offset - self.line_starts[row - 1] + 1

    # --- what is otherwise for a notebook, whose text is that of its cells ------------------------

    @property
    def file_data(self) -> bytes:
        """The bytes of the file."""
        return self.data

    def file_position(self, offset: int) -> tuple[int, int]:
        """Line and column in the file, both counted from 1."""
        return self.position(offset)

    def allows(self, edit: Edit) -> bool:
        """Whether the file can be changed there."""
        return True

    def pieces(self) -> Iterator[tuple[str, str, bytes]]:
        """What people see of the file, one by one: name, text and bytes."""
        yield self.name, self.text, self.data

    def in_cell(self, row: int) -> tuple[int | None, int]:
        """The cell of a notebook in which a line is, and the line as it is counted there."""
        return None, row

    def block(self, row: int) -> tuple[int, int]:
        """The first and the last of the lines that a line is seen with."""
        return 1, len(self.line_starts) - self.text.endswith(("\n", "\r"))

    @property
    def unread(self) -> Iterable[tuple[int, str]]:
        """Where parts of the text were left out as they are no Python, and why."""
        return ()

    @property
    def unread_data(self) -> bytes:
        """The parts of the text that were left out."""
        return b""

    def told(self, offset: int) -> tuple[int, int]:
        """Line and column as people count them: in a notebook within the cell."""
        row, column = self.position(offset)
        return self.in_cell(row)[1], column

    def place(self, offset: int) -> str:
        """``path:line:column``, or ``path:cell 3:line:column``, on one line."""
        cell, _ = self.in_cell(self.position(offset)[0])
        where = "" if cell is None else f":cell {cell}"
        row, column = self.told(offset)
        return f"{printable(self.name)}{where}:{row}:{column}"

    def line(self, row: int) -> str:
        """The text of a line (from 1), without its line end."""
        start = self.line_starts[row - 1]
        end = self.line_starts[row] if row < len(self.line_starts) else len(self.text)
        return self.text[start:end].rstrip("\r\n")


def _reason(error: Exception) -> str:
    """What a codec says, in one line."""
    return printable(str(error) or type(error).__name__)
