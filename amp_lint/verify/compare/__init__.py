"""Compares two texts of one file: what has to be shown so that the new one may take its place."""

from __future__ import annotations

import libcst as cst

from amp_lint.model import Model
from amp_lint.syntax.parse import TooDeepError, parse
from amp_lint.syntax.tree import LossyParseError
from amp_lint.text.source import Source, SourceError
from amp_lint.verify.compare.changes import compared
from amp_lint.verify.compare.side import Side
from amp_lint.verify.obligations import Comparison

__all__ = ["compare", "known_model", "lifted"]

_MOST_KEPT = 100_000
"""Characters of old texts that are kept, once they are lifted."""


def compare(before: str, after: str, *, name: str = "code.py") -> Comparison:
    """What has to be shown of the change from ``before`` to ``after``; neither text is run.

    A text that cannot be read gives a reason and no obligations.
    """
    old = _olds.side(before, name)
    if isinstance(old, str):
        return Comparison((), (f"the old text {old}",), ("unread",))
    new = _new[after, name] = lifted(after, name)
    while len(_new) > 1:
        del _new[next(iter(_new))]
    if isinstance(new, str):
        return Comparison((), (f"the new text {new}",), ("unread",))
    try:
        return compared(old, new)
    except RecursionError:
        _forget()
        return Comparison((), ("the texts nest too deeply",), ("unread",))
    except BaseException:
        _forget()
        raise


def _forget() -> None:
    """Lifting stopped halfway, and nothing must go on from there."""
    _olds.forget()
    _new.clear()


def known_model(text: str, name: str) -> Model | None:
    """The model of a text that was just compared."""
    side = _new.get((text, name)) or _olds.known(text, name)
    return side.model if isinstance(side, Side) else None


def lifted(text: str, name: str) -> Side | str:
    """A text as it is compared, or what is wrong with it."""
    try:
        return Side(_read(text, name))
    except (SyntaxError, SourceError, LossyParseError, cst.ParserSyntaxError) as error:
        return f"cannot be parsed: {_line(error)}"
    except (TooDeepError, RecursionError):
        return "nests too deeply"


def _read(text: str, name: str) -> Model:
    source = Source.of(text, name)
    parse(source.data)
    return Model(source)


class _Olds:
    """Old texts that were lifted, up to a bound: all the sites of a file have theirs in common."""

    def __init__(self) -> None:
        self._sides: dict[tuple[str, str], Side | str] = {}

    def side(self, text: str, name: str) -> Side | str:
        """As `lifted`; the last text is kept however long it is, others while there is room."""
        key = text, name
        if key not in self._sides:
            while self._sides and sum(len(old) for old, _ in (*self._sides, key)) > _MOST_KEPT:
                del self._sides[next(iter(self._sides))]
            self._sides[key] = lifted(text, name)
        return self._sides[key]

    def known(self, text: str, name: str) -> Side | str | None:
        """What is kept of a text."""
        return self._sides.get((text, name))

    def forget(self) -> None:
        """Drop all."""
        self._sides.clear()


_olds = _Olds()
_new: dict[tuple[str, str], Side | str] = {}
"""The new text that was lifted last."""


def _line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
