"""The functions in which something is written, cut out of a file: a tenth of it to parse.

Most files that call a logarithm do so of a range or a constant, which the lines above it show.
"""

from __future__ import annotations

import ast
import re

from amp_lint.syntax.facts import Facts, facts
from amp_lint.syntax.parse import TooDeepError, parse
from amp_lint.vocabulary.written import Look

_FUNCTION = re.compile(rb"^([ \t]*)(?:async[ \t]+)?def\b", re.MULTILINE)
_STATEMENT = re.compile(rb"^([ \t]*)[^\s#)\]}]", re.MULTILINE)
_CALLED = re.compile(rb"(?<=\w)\s*\(")
_OUTER = (ast.Global, ast.Nonlocal)
"""What says that a name is not the function's own."""


def excerpts(code: bytes, look: Look) -> list[Facts] | None:
    """What is said by each function of a program in which something is called that matches.

    None where not all that matches is called in a function, or one cannot be read by itself.
    """
    found: list[Facts] = []
    end = 0
    for place, after in look.places(code):
        if not _CALLED.match(code, after):
            return None  # what gets another name may be called anywhere
        if place < end:
            continue
        start, end = _around(code, place)
        try:
            head = b"if 1:\n" if code[start:end][:1].isspace() else b""
            found.append(facts(parse(head + code[start:end]), whole=code))
        except (SyntaxError, TooDeepError):
            return None
        if end <= place or any(isinstance(node, _OUTER) for node in found[-1].nodes):
            return None
    return found


def _around(code: bytes, place: int) -> tuple[int, int]:
    """Where the last function above a place begins, and where it ends; nothing if there is none."""
    start = max(code.rfind(b"def ", 0, place), 0)
    line = code.rfind(b"\n", 0, start) + 1
    function = _FUNCTION.match(code, line)
    if function is None:
        return 0, 0
    below = _STATEMENT.finditer(code, function.end())
    last = next((each.start() for each in below if len(each[1]) <= len(function[1])), len(code))
    return line, last
