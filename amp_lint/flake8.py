"""The same findings in flake8, and so in editors that run it."""

from __future__ import annotations

import ast
import functools
import io
import multiprocessing
import os
import tokenize
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from amp_lint import __version__
from amp_lint.run.import_path import Isolated
from amp_lint.text.diagnostic import SYNTAX_ERROR
from amp_lint.text.printable import printable

if TYPE_CHECKING:
    from amp_lint.run.config import Settings
    from amp_lint.syntax.beside import Beside

_FAILED = f"{SYNTAX_ERROR} amp-lint failed on this file"

Result = tuple[int, int, str, type]
"""Line from 1, column from 0, text, and the plugin's class."""


class Plugin:
    """What flake8 makes for every file that parses; it deals with ``noqa`` itself.

    No exception leaves the plugin: where the command line prints an error, flake8 shows it as a
    finding on the first line.
    """

    name = "amp-lint"
    version = __version__

    def __init__(self, tree: ast.AST, lines: Sequence[str], filename: str) -> None:
        self._text = "".join(lines)
        self._filename = filename

    def run(self) -> Iterator[Result]:
        """The findings."""
        try:
            with Isolated():
                results = [*self._results()]
        except Exception as error:
            results = [(1, 0, f"{_FAILED}: {error}")]
        yield from ((row, column, printable(text), type(self)) for row, column, text in results)

    def _results(self) -> Iterator[tuple[int, int, str]]:
        from amp_lint.run.job import Action, Job, linked, lint, passes
        from amp_lint.syntax.project import Project

        path, data = Path(self._filename), _encode(self._text)
        selection = _settings().selection(path)
        links = linked(Project([path], beside=_beside()), path, data, selection)
        if not passes((data, b""), selection, links) or _settings().excluded(path):
            return
        outcome = lint(Job(self._filename, data, False, selection, Action.FIND, links=links))
        for error in outcome.errors:
            yield 1, 0, f"{_FAILED}: {error}"
        if source := outcome.source:
            for finding in outcome.findings:
                row, column = source.position(finding.start)
                yield row, column - 1, f"{finding.code} {finding.text}"


def _guard_processes() -> None:
    """Have the processes that flake8 will start import nothing from the working directory.

    Before Python 3.11 there is no such switch. Forked ones begin where flake8 is.
    """
    if multiprocessing.get_all_start_methods()[0] != "fork" or _chosen() not in (None, "fork"):
        os.environ.setdefault("PYTHONSAFEPATH", "1")


def _chosen() -> str | None:
    """How processes are started, if that was decided."""
    chosen: str | None = multiprocessing.get_start_method(allow_none=True)
    return chosen


_guard_processes()


@functools.cache
def _settings() -> Settings:
    from amp_lint.run.config import Choice, Settings

    return Settings(Choice("flake8"), noqa=False)


@functools.cache
def _beside() -> Beside:
    from amp_lint.syntax.beside import Beside

    return Beside(_settings().follows_imports)


def _encode(text: str) -> bytes:
    """``text`` in the encoding that it declares; flake8 has decoded it."""
    data = text.encode(errors="surrogatepass")
    try:
        return text.encode(tokenize.detect_encoding(io.BytesIO(data).readline)[0])
    except (SyntaxError, UnicodeError):
        return data
