"""Jupyter notebooks as bytes: where the code of each cell stands, and how it is written back.

JSON readers forget where a value stood. So the objects around the code are walked here, and what
is inside of them is left to ``json``. What is not the code of a changed cell stays as it is.
"""

from __future__ import annotations

import codecs
import functools
import itertools
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from amp_lint.text.cell import Cell, spliced
from amp_lint.text.source import LINE_END, SourceError

FORMATS = (3, 4)
"""Versions of the format that are read."""
_PYTHON = re.compile(r"i?python[\d.]*\Z", re.IGNORECASE)
_SPACE = re.compile(r"[ \t\r\n]*")
_ESCAPED_LINE = re.compile(r"(?:[^\\]|\\[^n])*(?:\\n)?")
_LINE = re.compile(r"[^\n]*\n|[^\n]+")
_UNIT = re.compile(r"\\u[dD][89abAB]..\\u[dD][c-fC-F]..|\\u....|\\.|[^\\]")
"""What stands for one character in a string of JSON."""


@dataclass(frozen=True)
class Notebook:
    """A notebook, and its cells in Python; each is written in the notebook's own language."""

    json: str
    bom: bytes
    cells: tuple[Cell, ...]

    def written(self, texts: Sequence[str]) -> bytes:
        """The notebook with other code in its cells, as bytes."""
        respelled = functools.partial(_rewritten, self.json, ascii_only=self._is_ascii)
        return self.bom + spliced(self.json, self.cells, texts, respelled).encode()

    def position(self, cell: Cell, offset: int) -> tuple[int, int]:
        """Line and column in the JSON, from 1, of a character of a cell."""
        at = self._offset(cell, offset)
        return self.json.count("\n", 0, at) + 1, at - self.json.rfind("\n", 0, at)

    def _offset(self, cell: Cell, offset: int) -> int:
        at = cell.start
        for start, end in _pieces(self.json, cell):
            units = len(json.loads(f'"{self.json[start:end]}"'))
            if offset < units:
                found = itertools.islice(_UNIT.finditer(self.json, start, end), offset, None)
                return next(found).start()
            offset, at = offset - units, end
        return at

    @functools.cached_property
    def _is_ascii(self) -> bool:
        """Whether what is written should be ASCII, as all of it is."""
        return self.json.isascii() and "\\u" in self.json


def read(data: bytes) -> Notebook:
    """The notebook with these bytes.

    Raises:
        SourceError: they are no notebook, or one of a format that is not read.
    """
    bom = codecs.BOM_UTF8 if data.startswith(codecs.BOM_UTF8) else b""
    try:
        text = data[len(bom) :].decode("utf-8")
        whole = json.loads(text)
    except UnicodeDecodeError as error:
        raise SourceError("is no notebook: it is not UTF-8") from error
    except RecursionError as error:
        raise SourceError("is no notebook: it nests too deeply") from error
    except ValueError as error:
        raise SourceError(f"is no notebook: it is not JSON: {error}") from error
    version = whole.get("nbformat") if isinstance(whole, dict) else None
    if version is None:
        raise SourceError("is no notebook: it has no `nbformat`")
    if version not in FORMATS:
        known = " and ".join(map(str, FORMATS))
        raise SourceError(f"has notebook format {version!r}, and {known} are read; convert it")
    return Notebook(text, bom, tuple(_cells(text)) if _is_python(whole) else ())


def _is_python(whole: dict[str, Any]) -> bool:
    """Whether the notebook is written in Python, as it is where it does not say so."""
    metadata = whole.get("metadata")
    for key, name in (("language_info", "name"), ("kernelspec", "language")):
        told = metadata.get(key) if isinstance(metadata, dict) else None
        language = told.get(name) if isinstance(told, dict) else None
        if isinstance(language, str):
            return bool(_PYTHON.match(language))
    return True


def _cells(text: str) -> Iterator[Cell]:
    """The cells of Python code.

    Raises:
        SourceError: a cell is not what the format says.
    """
    for number, start in enumerate(_starts_of_cells(text), 1):
        cell, _ = _DECODER.raw_decode(text, start)
        if not isinstance(cell, dict):
            raise SourceError(f"is no notebook: cell {number} is no object")
        if cell.get("cell_type") != "code" or not _in_python(cell):
            continue
        key = "source" if "source" in cell else "input"
        code = cell.get(key)
        lines = [code] if isinstance(code, str) else code
        if not isinstance(lines, list) or not all(isinstance(line, str) for line in lines):
            raise SourceError(f"is no notebook: cell {number} has no source")
        spans = {name: (begin, end) for name, begin, end in _members(text, start)}
        begin, end = spans[key]
        code = "".join(lines)
        ends = LINE_END.findall(code)
        yield Cell(number, code, begin, end, newline=ends[-1] if ends else "\n")


def _in_python(cell: dict[str, Any]) -> bool:
    """Whether a cell is in Python, where it says in which language it is."""
    metadata = cell.get("metadata")
    editor = metadata.get("vscode") if isinstance(metadata, dict) else None
    language = cell.get("language")
    if isinstance(editor, dict):
        language = editor.get("languageId", language)
    return not isinstance(language, str) or bool(_PYTHON.match(language))


def _starts_of_cells(text: str) -> Iterator[int]:
    """Where each cell begins, in order; in format 3 they lie in worksheets.

    Raises:
        SourceError: there are no cells.
    """
    top = {name: start for name, start, _ in _members(text, _skip(text, 0))}
    lists = [top["cells"]] if "cells" in top else []
    if not lists and "worksheets" in top and text[top["worksheets"]] == "[":
        for sheet, _ in _items(text, top["worksheets"]):
            members = {name: start for name, start, _ in _members(text, sheet)}
            lists += [members["cells"]] if "cells" in members else []
    elif not lists:
        raise SourceError("is no notebook: it has no cells")
    for start in lists:
        yield from (item for item, _ in _items(text, start))


# --- where values stand in JSON that is known to be valid -----------------------------------------

_DECODER = json.JSONDecoder()


def _skip(text: str, at: int) -> int:
    match = _SPACE.match(text, at)
    return match.end() if match else at


def _members(text: str, start: int) -> Iterator[tuple[str, int, int]]:
    """Name of each member of an object, and where its value begins and ends; none of others."""
    at = _skip(text, start + 1)
    while text[start] == "{" and text[at] != "}":
        name, at = _DECODER.raw_decode(text, at)
        value = _skip(text, _skip(text, at) + 1)
        _, end = _DECODER.raw_decode(text, value)
        yield name, value, end
        at = _skip(text, end)
        if text[at] == ",":
            at = _skip(text, at + 1)


def _items(text: str, start: int) -> Iterator[tuple[int, int]]:
    """Where each item of a list begins and ends; none of what is no list."""
    at = _skip(text, start + 1)
    while text[start] == "[" and text[at] != "]":
        _, end = _DECODER.raw_decode(text, at)
        yield at, end
        at = _skip(text, end)
        if text[at] == ",":
            at = _skip(text, at + 1)


# --- writing --------------------------------------------------------------------------------------


def _pieces(text: str, cell: Cell) -> list[tuple[int, int]]:
    """Where the code of a cell stands, piece by piece, without quotes: items, or escaped lines."""
    if text[cell.start] == "[":
        return [(start + 1, end - 1) for start, end in _items(text, cell.start)]
    lines = _ESCAPED_LINE.finditer(text, cell.start + 1, cell.end - 1)
    return [match.span() for match in lines if match[0]]


def _rewritten(text: str, cell: Cell, code: str, *, ascii_only: bool) -> str:
    """The JSON of other code in a cell; a line that was there is spelled as it was."""
    spans = _pieces(text, cell)
    spelled = [text[start:end] for start, end in spans]
    is_list = text[cell.start] == "["
    lines = code.splitlines(keepends=True) if is_list else _LINE.findall(code)
    known = {json.loads(f'"{each}"'): each for each in spelled}
    made = [known.get(line) or json.dumps(line, ensure_ascii=ascii_only)[1:-1] for line in lines]
    if not is_list:
        return f'"{"".join(made)}"'
    if not made or not spans:
        return json.dumps(lines, ensure_ascii=ascii_only)
    head, tail = text[cell.start : spans[0][0]], text[spans[-1][1] : cell.end]
    between = f'",{head[1:]}' if len(spans) == 1 else text[spans[0][1] : spans[1][0]]
    return head + between.join(made) + tail
