"""Compares two texts of one file: what has to be shown so that the new one may take its place."""

from __future__ import annotations

from amp_lint.model import Model
from amp_lint.syntax.parse import TooDeepError, parse
from amp_lint.syntax.spans import ParseError
from amp_lint.text.source import Source, SourceError
from amp_lint.verify.compare.changes import compared
from amp_lint.verify.compare.erase import Eraser
from amp_lint.verify.compare.side import Side
from amp_lint.verify.obligations import Comparison

__all__ = ["compare", "known_model", "lifted"]

_MOST_KEPT = 100_000
"""Characters of old texts that are kept, once they are lifted."""


def compare(before: str, after: str, *, name: str = "code.py") -> Comparison:
    """What has to be shown of the change from ``before`` to ``after``; neither text is run.

    A text that cannot be read gives a reason and no obligations.
    """
    old = _olds.lifted(before, name)
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
    found = _new.get((text, name)) or _olds.known(text, name)
    return found.model if isinstance(found, Eraser) else None


def lifted(text: str, name: str) -> Eraser | str:
    """A text as it is compared, or what is wrong with it."""
    try:
        return Eraser(Side(_read(text, name)))
    except (SyntaxError, SourceError, ParseError) as error:
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
        self._texts: dict[tuple[str, str], Eraser | str] = {}

    def lifted(self, text: str, name: str) -> Eraser | str:
        """As the function; the last text is kept however long it is, others while there is room."""
        key = text, name
        if key not in self._texts:
            while self._texts and sum(len(old) for old, _ in (*self._texts, key)) > _MOST_KEPT:
                del self._texts[next(iter(self._texts))]
            self._texts[key] = lifted(text, name)
        return self._texts[key]

    def known(self, text: str, name: str) -> Eraser | str | None:
        """What is kept of a text."""
        return self._texts.get((text, name))

    def forget(self) -> None:
        """Drop all."""
        self._texts.clear()


_olds = _Olds()
_new: dict[tuple[str, str], Eraser | str] = {}
"""The new text that was lifted last."""


def _line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
