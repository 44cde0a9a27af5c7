"""Texts that differ in comments and empty lines alone: one has the findings of the other."""

from __future__ import annotations

import ast
import functools
import hashlib
import itertools
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TypeVar

from amp_lint.text.diagnostic import Diagnostic, Edit, Related

_COMMENT = re.compile(r"#.*")
_MEANS = re.compile(r"noqa|coding", re.IGNORECASE)
"""What a comment has that counts."""
_Span = TypeVar("_Span", Diagnostic, Edit, Related)


def moved(old: str, new: str, findings: Sequence[Diagnostic]) -> list[Diagnostic] | None:
    """The findings of ``old`` where they are in ``new``; None if they may be others there.

    That a `#` begins a comment and no part of a string is not believed: both are parsed.
    """
    before, after = (text.splitlines(keepends=True) for text in (old, new))
    above = _common(before, after)
    below = _common(before[above:][::-1], after[above:][::-1])
    gone, come = before[above : len(before) - below], after[above : len(after) - below]
    if any(map(_MEANS.search, (*gone, *come))) or _code(gone) != _code(come):
        return None
    start = sum(map(len, before[:above]))
    end, shift = start + sum(map(len, gone)), len(new) - len(old)
    if any(first < end and last > start for each in findings for first, last in _spans(each)):
        return None
    if not _same(old, new):
        return None
    return [_shifted(each, end, shift) for each in findings]


def _common(one: Sequence[str], other: Sequence[str]) -> int:
    """How many lines at the beginning are the same."""
    pairs = zip(one, other, strict=False)
    return sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], pairs))


def _code(lines: Iterable[str]) -> list[str]:
    """What is written in lines beside comments, the blanks at their ends left out."""
    return [line for each in lines if (line := _COMMENT.sub("", each).rstrip())]


def _same(old: str, new: str) -> bool:
    try:
        return _digest(old) == _digest(new)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False


@functools.lru_cache(maxsize=2)
def _digest(text: str) -> bytes:
    """What tells one piece of code from another, wherever it stands."""
    return hashlib.sha256(ast.dump(ast.parse(text)).encode("utf-8", "surrogatepass")).digest()


def _spans(finding: Diagnostic) -> Iterable[tuple[int, int]]:
    yield finding.start, finding.end
    yield from ((each.start, each.end) for each in finding.related)
    yield from ((each.start, each.end) for each in (finding.fix.edits if finding.fix else ()))


def _shifted(finding: Diagnostic, end: int, shift: int) -> Diagnostic:
    def to(each: _Span) -> _Span:
        first = each.start + shift * (each.start >= end)
        return replace(each, start=first, end=max(first, each.end + shift * (each.end > end)))

    found, fix = to(finding), finding.fix
    if fix is not None:
        fix = replace(fix, edits=tuple(map(to, fix.edits)))
    return replace(found, related=tuple(map(to, finding.related)), fix=fix)
