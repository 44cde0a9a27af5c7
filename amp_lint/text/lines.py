"""Lines of two texts, and which of them stayed: in linear time, whatever the lines are."""

from __future__ import annotations

import bisect
import itertools
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TypeAlias

from amp_lint.text.source import LINE_END

SMALL = 2_500
"""Pairs of lines that are compared one by one."""

Change: TypeAlias = tuple[int, int, int, int]
"""Old lines from the first number up to the second are new ones from the third up to the fourth."""


def pieces_of(text: str) -> list[str]:
    """The lines of a text, with their ends; the last has none, and may be empty."""
    bounds = [0, *(match.end() for match in LINE_END.finditer(text)), len(text)]
    return [text[start:end] for start, end in itertools.pairwise(bounds)]


def lines_of(text: str) -> list[str]:
    """The lines of a text, with their ends; what is after the last end only if there is such."""
    *lines, rest = pieces_of(text)
    return [*lines, rest] if rest else lines


def without_end(text: str) -> str:
    """A text without its last line end."""
    ends = (text.removesuffix(end) for end in ("\r\n", "\n", "\r") if text.endswith(end))
    return next(ends, text)


def changes(old: Sequence[str], new: Sequence[str]) -> Iterator[Change]:
    """What makes one list of lines of another, in order; the lines in between are alike.

    Lines that both have once hold the two together. What is between such lines is compared as it
    is where it is short, and is one change where it is long.
    """
    i = k = 0
    for stop, other in [*_anchors(old, new), (len(old), len(new))]:
        yield from _between(old, new, (i, stop, k, other))
        i, k = stop, other


def _between(old: Sequence[str], new: Sequence[str], span: Change) -> Iterator[Change]:
    i, j, k, m = span
    while i < j and k < m and old[i] == new[k]:
        i, k = i + 1, k + 1
    while i < j and k < m and old[j - 1] == new[m - 1]:
        j, m = j - 1, m - 1
    if i == j and k == m:
        return
    if (j - i) * (m - k) > SMALL:
        yield i, j, k, m
        return
    import difflib  # a run that changes nothing does without

    matcher = difflib.SequenceMatcher(None, old[i:j], new[k:m], autojunk=False)
    for tag, a, b, c, d in matcher.get_opcodes():
        if tag != "equal":
            yield i + a, i + b, k + c, k + d


def _anchors(old: Sequence[str], new: Sequence[str]) -> list[tuple[int, int]]:
    """The longest row of lines that each text has once, in the order of both."""
    once, others = (
        {line: row for row, line in enumerate(lines) if count[line] == 1}
        for lines, count in ((old, Counter(old)), (new, Counter(new)))
    )
    pairs = [(row, others[line]) for line, row in once.items() if line in others]
    ends: list[int] = []
    last: list[int] = []
    before: list[int] = []
    for at, (_, row) in enumerate(pairs):
        place = bisect.bisect_left(ends, row)
        ends[place : place + 1], last[place : place + 1] = [row], [at]
        before.append(last[place - 1] if place else -1)
    found: list[tuple[int, int]] = []
    at = last[-1] if last else -1
    while at >= 0:
        found.append(pairs[at])
        at = before[at]
    return found[::-1]
