"""The cells of a notebook as one Python file, in which nothing but their own code is editable.

Each cell begins with a line that is a comment. What IPython reads and Python does not, such as
``%time`` and ``!ls``, is a name of the same length, which nobody uses: so no character moves.
"""

from __future__ import annotations

import bisect
import functools
import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from amp_lint.syntax.parse import TooDeepError, parse
from amp_lint.text.diagnostic import Edit
from amp_lint.text.lines import without_end
from amp_lint.text.source import LINE_END, Source, SourceError

if TYPE_CHECKING:
    from typing import TypeAlias

    from typing_extensions import Self

    from amp_lint.text.cell import Cell
    from amp_lint.text.document import Document
    from amp_lint.text.notebook import Notebook

    _Container: TypeAlias = Notebook | Document

SUFFIX = ".ipynb"
SUFFIXES = (".py", SUFFIX)
"""Of the files that are found in a directory."""
DOCUMENTS = (".md", ".markdown", ".rst")
"""Of files that have Python in them, and are read where they are named."""
PYTHON_MAGICS = frozenset({"capture", "debug", "memit", "prun", "time", "timeit"})
"""Cell magics below which the code is that of the notebook."""
_LETTERS = range(0xA000, 0xA48D)
"""Of Yi: letters that Python allows in names, and leaves as they are."""
_CELL_MAGIC = re.compile(r"\A\s*%%(\w+)")
_ESCAPE = re.compile(
    r"(?<![^\r\n])(?P<indent>[ \t]*)(?:(?P<time>%time[ \t]+)(?=[^\s!%-])"
    r"|(?P<line>[%!?/,;][^\r\n]*|[\w.*]+\?{1,2}[ \t]*(?=[\r\n]|\Z))"
    r"|(?P<command>(?:cat|cd|conda|cp|ls|mkdir|mv|pip|rm|uv)[ \t]+[\w./~\"'-][^\r\n]*)"
    r"|[\w*(\[][\w.,*\[\]() \t]*=[ \t]*(?P<value>(?:!|%(?=\w))[^\r\n]*))"
)
"""At the beginning of a statement, what is no Python."""
_HIDDEN = re.compile(r"([\ua000-\ua48c])\1*;?")
_VISIBLE = re.compile(r"[^\r\n]")
_REST = re.compile(r"[^\r\n]*")
_TOKEN = re.compile(
    r"#[^\r\n]*|'''(?:[^\\]|\\.)*?(?:'''|\Z)|\"\"\"(?:[^\\]|\\.)*?(?:\"\"\"|\Z)"
    r"|'(?:[^'\\\r\n]|\\.)*'?|\"(?:[^\"\\\r\n]|\\.)*\"?|[(\[{]|[)\]}]|\\?(?:\r\n|\r|\n)"
    r"|[^#'\"()\[\]{}\\\r\n]+|\\",
    re.DOTALL,
)


def opened(data: bytes, name: str) -> Source:
    """The file with these bytes, which is a notebook or a document if its name says so.

    Raises:
        SourceError: it cannot be read as Python source, or as a notebook.
    """
    suffix = Path(name).suffix
    if suffix == SUFFIX:
        return NotebookSource.of_bytes(data, name)
    return DocumentSource.of_bytes(data, name) if suffix in DOCUMENTS else Source(data, name)


def python(data: bytes, name: str) -> tuple[bytes, bytes]:
    """The Python in a file, and what of a notebook is to be Python and is not.

    That is all of it, where it is no notebook.
    """
    if Path(name).suffix not in (SUFFIX, *DOCUMENTS):
        return data, b""
    try:
        source = opened(data, name)
    except SourceError:
        return b"", data.replace(b"\\n", b"\n")
    return source.data, source.unread_data


@dataclass(frozen=True, slots=True)
class _Part:
    """One cell as it stands in the file."""

    head: str
    code: str
    """Without what is hidden."""
    hidden: tuple[str, ...]
    """What IPython reads, in order."""
    original: str | None = None
    """The code, where it is no Python at all."""
    error: tuple[int, str] | None = None
    """Where in such code Python gave up, and why."""
    newline: str = "\n"
    """What ends it."""

    @property
    def text(self) -> str:
        """As it stands in the file."""
        return f"{self.head}{self.code}{self.newline}"


class NotebookSource(Source):
    """The cells of a notebook as one Python file.

    ``text`` and ``data`` are those of the Python file; ``file_data`` is the notebook.
    """

    is_python = False

    def __init__(
        self, name: str, container: _Container, parts: Sequence[_Part], letter: str
    ) -> None:
        """Put the cells of a notebook together.

        Raises:
            SourceError: a cell has characters that cannot be encoded.
        """
        text = "".join(part.text for part in parts)
        super().__init__(_encoded(text), name)
        self._container, self._parts, self._letter = container, tuple(parts), letter
        lengths = (len(part.text) for part in parts)
        self._offsets = [0, *itertools.accumulate(lengths)][:-1]
        self._rows = [self.position(at)[0] for at in self._offsets]

    @classmethod
    def of_bytes(cls, data: bytes, name: str) -> Self:
        """The notebook with these bytes.

        Raises:
            SourceError: they are no notebook that can be read.
        """
        return cls.of_container(cls._read(data, name), name)

    @classmethod
    def of_container(cls, read: _Container, name: str) -> Self:
        """The cells of a container.

        Raises:
            SourceError: there is no letter for what is no Python, or a cell cannot be encoded.
        """
        cells = [cell for cell in read.cells if _is_code(cell.text)]
        used = {*itertools.chain.from_iterable(cell.text for cell in cells)}
        letter = next((chr(code) for code in _LETTERS if chr(code) not in used), None)
        if letter is None:
            raise SourceError("has no letter left that could stand for magics")
        kept = replace(read, cells=tuple(cells))
        return cls(name, kept, [_part(cell, letter) for cell in cells], letter)

    @staticmethod
    def _read(data: bytes, name: str) -> _Container:
        from amp_lint.text import notebook

        return notebook.read(data)

    # --- as a file that is written ------------------------------------------------------------

    @functools.cached_property
    def file_data(self) -> bytes:
        """The bytes of the notebook."""
        return self._container.written(self._originals)

    def changed(self, text: str) -> Self:
        """The notebook with other code in its cells.

        Raises:
            SourceError: it is not the code of these cells.
        """
        mark = _mark(self._letter)
        first, *chunks = text.split(mark)
        prefixes = [part.head.removesuffix(mark) for part in self._parts]
        after = [*prefixes[1:], ""]
        if first != "".join(prefixes[:1]) or len(chunks) != len(prefixes):
            raise SourceError("cannot be divided into cells")
        if not all(map(str.endswith, chunks, after)):
            raise SourceError("cannot be divided into cells")
        codes = [without_end(c.removesuffix(p)) for c, p in zip(chunks, after, strict=True)]
        parts = [replace(part, code=code) for part, code in zip(self._parts, codes, strict=True)]
        made = type(self)(self.name, self._container, parts, self._letter)
        _ = made._originals
        return made

    def allows(self, edit: Edit) -> bool:
        """Whether an edit stays in the Python code of one cell."""
        touched = edit.content, self.text[edit.start : edit.end]
        return edit.start > 0 and not any(self._letter in text for text in touched)

    # --- as cells -----------------------------------------------------------------------------

    def pieces(self) -> Iterator[tuple[str, str, bytes]]:
        """Name, and what is in it, of each cell."""
        for cell, code in zip(self._cells, self._originals, strict=True):
            yield f"{self.name}:cell {cell.number}", code, code.encode("utf-8", "surrogatepass")

    def in_cell(self, row: int) -> tuple[int | None, int]:
        """The cell that a line is in, and its number there."""
        index = max(bisect.bisect_left(self._rows, row) - 1, 0)
        return self._cells[index].number, max(row - self._rows[index], 1)

    def block(self, row: int) -> tuple[int, int]:
        """The first and the last line of the cell that a line is in."""
        index = max(bisect.bisect_left(self._rows, row) - 1, 0)
        end = self._rows[index + 1] if index + 1 < len(self._rows) else len(self.line_starts)
        return self._rows[index] + 1, end - 1

    def file_position(self, offset: int) -> tuple[int, int]:
        """Line and column in the JSON, both counted from 1."""
        index = max(bisect.bisect_right(self._offsets, offset) - 1, 0)
        inside = offset - self._offsets[index] - len(self._parts[index].head)
        return self._written.position(self._written.cells[index], max(inside, 0))

    def line(self, row: int) -> str:
        """A line as it stands in its cell."""
        return self._lines[row - 1]

    @property
    def unread(self) -> Iterator[tuple[int, str]]:
        """Where cells are no Python, and why."""
        for part, offset in zip(self._parts, self._offsets, strict=True):
            if part.error is not None:
                at, why = part.error
                yield offset + len(part.head) + at, why

    @property
    def unread_data(self) -> bytes:
        """The cells that are no Python."""
        broken = (part.original or "" for part in self._parts)
        return "\n".join(broken).encode("utf-8", "surrogatepass")

    @property
    def _cells(self) -> tuple[Cell, ...]:
        return self._container.cells

    @functools.cached_property
    def _written(self) -> _Container:
        """The file as it would be read again."""
        numbers = {cell.number for cell in self._cells}
        read = self._read(self.file_data, self.name)
        return replace(read, cells=tuple(each for each in read.cells if each.number in numbers))

    @functools.cached_property
    def _originals(self) -> list[str]:
        return [_original(part, self._letter) for part in self._parts]

    @functools.cached_property
    def _lines(self) -> list[str]:
        pairs = zip(self._parts, self._originals, strict=True)
        return LINE_END.split("".join(f"{part.head}{code}\n" for part, code in pairs))


class DocumentSource(NotebookSource):
    """The Python in a document as one file; what cannot be parsed need not be a whole program."""

    has_edits = False  # what they insert may have to be indented

    @staticmethod
    def _read(data: bytes, name: str) -> _Container:
        from amp_lint.text import document

        return document.read(data, Path(name).suffix)

    def pieces(self) -> Iterator[tuple[str, str, bytes]]:
        """The document, whole."""
        data = self.file_data
        yield self.name, data.decode("utf-8-sig"), data

    def in_cell(self, row: int) -> tuple[int | None, int]:
        """No cell, and the line of the document."""
        before = row in self._rows[1:]
        return None, self.file_position(self.line_starts[row - 1] - before)[0] + before

    def told(self, offset: int) -> tuple[int, int]:
        """Line and column in the document."""
        return self.file_position(offset)

    @property
    def unread(self) -> Iterator[tuple[int, str]]:
        """Nothing: readers know what is left out."""
        return iter(())


class DocstringSource(DocumentSource):
    """The Python in one documentation string of a module."""

    _container: Document

    def respelled(self) -> Iterator[tuple[Cell, str]]:
        """The blocks whose code was changed, and how the module says it now."""
        return self._container.respelled(self._originals)

    @functools.cached_property
    def _written(self) -> _Container:
        """The module, as long as nothing of it has changed."""
        return self._container


def _encoded(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise SourceError(f"cannot be encoded: {error}") from error


def _original(part: _Part, letter: str) -> str:
    """The code of a cell as its notebook has it.

    Raises:
        SourceError: something that is hidden was taken away, or is there twice.
    """
    if part.original is not None:
        if part.code != _blank(part.original):
            raise SourceError("cannot be divided into cells")
        return part.original
    places = [place for place in _HIDDEN.finditer(part.code) if place[1] == letter]
    if [len(place[0]) for place in places] != [*map(len, part.hidden)]:
        raise SourceError("cannot be divided into cells")
    hidden = iter(part.hidden)
    return _HIDDEN.sub(lambda at: next(hidden) if at[1] == letter else at[0], part.code)


# --- what IPython reads ---------------------------------------------------------------------------


def _mark(letter: str) -> str:
    """The line before a cell; the first one says how all of them are encoded."""
    return f"# {letter} coding: utf-8\n"


def _is_code(text: str) -> bool:
    """Whether a cell is code of the notebook, and not of another program."""
    magic = _CELL_MAGIC.match(text)
    return magic is None or magic[1] in PYTHON_MAGICS


def _part(cell: Cell, letter: str) -> _Part:
    return replace(_read(cell, letter), newline=cell.newline)


def _read(cell: Cell, letter: str) -> _Part:
    head = _mark(letter)
    try:
        if _problem(cell.text) is None and letter not in cell.text:
            return _Part(head, cell.text, ())
        code, hidden = _hidden(cell.text, letter)
        if (problem := _problem(code)) is None:
            return _Part(head, code, hidden)
        inner = f"if 1:  {head}"  # IPython takes the indentation of a whole cell away
        if code[:1] in " \t" and _problem(inner + code) is None:
            return _Part(inner, code, hidden)
    except RecursionError:
        problem = 0, "nests too deeply"
    return _Part(head, _blank(cell.text), (), cell.text, problem)


def _problem(code: str) -> tuple[int, str] | None:
    """Why code is no Python, and where; None if it is."""
    try:
        parse(code)
    except SyntaxError as error:
        lines = [0, *(match.end() for match in LINE_END.finditer(code))]
        start = lines[min(error.lineno or 1, len(lines)) - 1]
        return min(start + max((error.offset or 1) - 1, 0), len(code)), error.msg
    except TooDeepError as error:
        return 0, str(error)
    return None


def _blank(code: str) -> str:
    return _VISIBLE.sub(" ", code)


def _hidden(code: str, letter: str) -> tuple[str, tuple[str, ...]]:
    """Code with names for what is no Python, and what they stand for."""
    spans = [*_escapes(code)]
    parts: list[str] = []
    at = 0
    for start, end, is_prefix in spans:
        name = letter * (end - start - is_prefix) + ";" * is_prefix
        parts += [code[at:start], name]
        at = end
    hidden = tuple(code[start:end] for start, end, _ in spans)
    return "".join([*parts, code[at:]]), hidden


def _escapes(code: str) -> Iterator[tuple[int, int, bool]]:
    """Where it is no Python, and whether a statement follows on the line."""
    at = 0
    if magic := _CELL_MAGIC.match(code):
        start = magic.start(1) - len("%%")
        at = _matched(_REST, code, start)
        yield start, at, False
    while at < len(code):
        match = _ESCAPE.match(code, at)
        if match is None:
            at = _next_statement(code, at)
        elif match["time"]:
            yield *match.span("time"), True
            at = _next_statement(code, match.end())
        else:
            yield *match.span(match.lastgroup or 0), False
            lines = [*_continued(code, match.end(), match["indent"])]
            yield from ((start, end, False) for start, end in lines if start < end)
            at = _next_statement(code, lines[-1][1] if lines else match.end())


def _continued(code: str, end: int, indent: str) -> Iterator[tuple[int, int]]:
    """The lines that belong to one that ends at ``end``, without its indentation."""
    while code.endswith("\\", 0, end) and (newline := LINE_END.match(code, end)):
        start, end = newline.end(), _matched(_REST, code, newline.end())
        yield (start + len(indent) if code.startswith(indent, start) else start), end


def _next_statement(code: str, at: int) -> int:
    """Where the line begins that follows a statement."""
    depth = 0
    for token in _TOKEN.finditer(code, at):
        text = token[0]
        if text in ("\n", "\r", "\r\n") and not depth:
            return token.end()
        depth = max(depth + (text in "([{") - (text in ")]}"), 0)
    return len(code)


def _matched(pattern: re.Pattern[str], text: str, at: int) -> int:
    """Where a match of a pattern that may be empty ends."""
    match = pattern.match(text, at)
    return match.end() if match else at
