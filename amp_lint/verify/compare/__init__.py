"""Compares two texts of one file: what has to be shown so that the new one may take its place."""

from __future__ import annotations

import functools

import libcst as cst

from amp_lint.model import Model
from amp_lint.sieve import TooDeepError, parse
from amp_lint.source import Source, SourceError
from amp_lint.tree import LossyParseError
from amp_lint.verify.compare.changes import changes
from amp_lint.verify.compare.side import Side
from amp_lint.verify.obligations import Comparison

__all__ = ["compare"]

_MOST_KEPT = 100_000
"""Characters of a text that is kept, once it is read."""


def compare(before: str, after: str, *, name: str = "code.py") -> Comparison:
    """What has to be shown of the change from ``before`` to ``after``; neither text is run.

    A text that cannot be read gives a reason and no obligations.
    """
    sides: list[Side] = []
    for which, text in (("old", before), ("new", after)):
        side = _side(text, name)
        if isinstance(side, str):
            return Comparison((), (f"the {which} text {side}",))
        sides.append(side)
    try:
        return changes(*sides)
    except RecursionError:
        return Comparison((), ("the texts nest too deeply",))


def _side(text: str, name: str) -> Side | str:
    """A text as it is compared, or what is wrong with it."""
    try:
        return Side((_read if len(text) > _MOST_KEPT else _kept)(text, name))
    except (SyntaxError, SourceError, LossyParseError, cst.ParserSyntaxError) as error:
        return f"cannot be parsed: {_line(error)}"
    except (TooDeepError, RecursionError):
        return "nests too deeply"


def _read(text: str, name: str) -> Model:
    source = Source(text.encode(), name)
    parse(source.data)
    return Model(source)


_kept = functools.lru_cache(maxsize=4)(_read)
"""The wrong fixes of one example have their old text in common."""


def _line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
