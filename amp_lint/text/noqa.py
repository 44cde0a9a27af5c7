"""Which findings a ``noqa`` comment suppresses, decided as flake8 decides it.

flake8 looks for the comment in all physical lines that a line end closes together: a line, or
several where a string or a backslash joins them. A code suppresses every code that begins with
it. A line that begins with ``# flake8: noqa`` switches the whole file off, even where codes
follow.
"""

from __future__ import annotations

import functools
import re
import tokenize
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from amp_lint.text.diagnostic import SYNTAX_ERROR
from amp_lint.text.source import LINE_END, Source

_INLINE = re.compile(r"# noqa(?::\s?(?P<codes>(?:[A-Z]+[0-9]+[,\s]*)+))?", re.IGNORECASE)
_WHOLE_FILE = re.compile(r"\A\s*# flake8[:=]\s*noqa", re.IGNORECASE)
_SEPARATOR = re.compile(r"[,\s]+")
_NAMING = re.compile(rb"# noqa:", re.IGNORECASE)
_WORD = re.compile(r"[^,\s]+")
_OURS = SYNTAX_ERROR[:3].encode()
_LINE_ENDS = {tokenize.NL, tokenize.NEWLINE}
_PLACELESS = {tokenize.DEDENT, tokenize.ENDMARKER}


@dataclass(frozen=True, slots=True)
class Code:
    """A code in a comment, and where it stands in the text."""

    text: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Directive:
    """A comment that silences codes by their names."""

    start: int
    end: int
    """From its ``#`` to the end of its last code."""
    codes: tuple[Code, ...]
    rows: tuple[int, int]
    """The first and the last line, from 1, of those that it is for."""


def may_name(data: bytes) -> bool:
    """Whether a comment in a file may silence codes of ours by their names."""
    return _OURS in data and _NAMING.search(data) is not None


class Suppressions:
    """The ``noqa`` comments of one file. Costs one search when there are none."""

    def __init__(self, source: Source) -> None:
        self._text = source.text
        self._possible = "noqa" in source.text.lower()

    def covers(self, code: str, row: int) -> bool:
        """Whether a finding with this code on this line (from 1) is suppressed.

        A comment in what is no Python hides nothing but by its own line ``flake8: noqa``: that the
        file cannot be read has to be seen.
        """
        if not self._possible:
            return False
        on_line = code != SYNTAX_ERROR and _suppresses(self._joined_lines(row), code)
        return on_line or self._whole_file

    def comment_row(self, row: int) -> int:
        """The line at whose end a comment for this line has to stand."""
        return self._ranges.get(row, (row, row))[1]

    def code(self) -> list[tuple[int, str]]:
        """The tokens, without comments.

        Raises:
            tokenize.TokenError, SyntaxError: the file is not Python.
        """
        tokens = ((token.type, token.string) for token in _tokens(self._lines))
        return [token for token in tokens if token[0] != tokenize.COMMENT]

    def directives(self) -> Iterator[Directive]:
        """The comments that silence codes by name, of those that count on their lines.

        None where a line of its own silences the whole file, or the file is no Python.
        """
        if not self._possible or self._whole_file:
            return
        try:
            comments = {t.start[0]: t.start[1] for t in _tokens(self._lines) if _is_comment(t)}
        except (tokenize.TokenError, SyntaxError):
            return
        starts = [0, *(end.end() for end in LINE_END.finditer(self._text))]
        for rows in sorted({*self._ranges.values()}):
            match = _INLINE.search(self._joined_lines(rows[0]))
            if match is None or match["codes"] is None:
                continue
            above = match.string[: match.start()].split("\n")
            row, column = rows[0] + len(above) - 1, len(above[-1])
            if row in comments and comments[row] <= column:
                yield _directive(match, starts[row - 1] + column, rows)

    def _joined_lines(self, row: int) -> str:
        """The text in which a comment for this line may stand."""
        first, last = self._ranges.get(row, (row, row))
        return "".join(self._lines[first - 1 : last])

    @functools.cached_property
    def _whole_file(self) -> bool:
        return any(_WHOLE_FILE.match(line) for line in self._lines)

    @functools.cached_property
    def _lines(self) -> list[str]:
        """Lines as Python's universal newlines give them; a form feed does not end one."""
        *ended, rest = LINE_END.split(self._text)
        return [f"{line}\n" for line in ended] + ([rest] if rest else [])

    @functools.cached_property
    def _ranges(self) -> dict[int, tuple[int, int]]:
        """For each line the first and the last of those that belong together with it."""
        try:
            return {
                row: (first, last)
                for first, last in _joined(self._lines)
                for row in range(first, last + 1)
            }
        except (tokenize.TokenError, SyntaxError):
            return {}  # each line for itself


def comment(line: str, codes: Sequence[str]) -> tuple[int, str]:
    """What to insert into a line, and at which column (from 0), to suppress the codes on it."""
    given, added = _INLINE.search(line), ", ".join(codes)
    if given and given["codes"]:
        last = given["codes"].rstrip(" \t\f\v,")
        return given.start("codes") + len(last), f", {added}"
    return len(line.rstrip()), f"  # noqa: {added}"


def _joined(lines: list[str]) -> Iterator[tuple[int, int]]:
    """First and last row of the tokens up to each line end.

    Raises:
        tokenize.TokenError, SyntaxError: the lines are not Python.
    """
    rows: list[int] = []
    for token in _tokens(lines):
        if token.type not in _PLACELESS:
            rows += [token.start[0], token.end[0]]
        if token.type in _LINE_ENDS:
            yield min(rows), max(rows)
            rows.clear()


def _tokens(lines: list[str]) -> Iterator[tokenize.TokenInfo]:
    return tokenize.generate_tokens(functools.partial(next, iter(lines), ""))


def _is_comment(token: tokenize.TokenInfo) -> bool:
    return token.type == tokenize.COMMENT


def _directive(match: re.Match[str], start: int, rows: tuple[int, int]) -> Directive:
    """The comment that a match is, whose ``#`` stands at an offset of the text."""
    shift = start - match.start()
    begin = match.start("codes") + shift
    words = _WORD.finditer(match["codes"].partition("\n")[0])
    codes = tuple(Code(word[0], begin + word.start(), begin + word.end()) for word in words)
    return Directive(start, codes[-1].end, codes, rows)


def _suppresses(text: str, code: str) -> bool:
    comment = _INLINE.search(text)
    if comment is None:
        return False
    codes = comment["codes"]
    return codes is None or code.startswith(tuple(filter(None, _SEPARATOR.split(codes))))
