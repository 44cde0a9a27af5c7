"""What a command says of a mistake: of a word that is misspelled, or of an error that ends it."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from amp_lint.text.printable import printable


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """``; did you mean `this`?`` where a known word is spelled nearly so, and "" elsewhere."""
    import difflib

    by_spelling = {_spelling(each): each for each in known}
    close = difflib.get_close_matches(_spelling(word), by_spelling, 1)
    return f"; did you mean `{by_spelling[close[0]]}`?" if close else ""


def _spelling(word: str) -> str:
    """What is easily taken for each other is the same: ``AMP1O1`` for ``AMP101``."""
    return word.lower().replace("_", "-").replace("o", "0").replace("l", "1")


def in_a_line(error: Exception) -> str:
    """One line about an error that nobody has dealt with."""
    if isinstance(error, MemoryError):
        return "there is not enough memory; name fewer files, or exclude the largest"
    if isinstance(error, OSError):
        name = f"{error.filename}: " if isinstance(error.filename, str) else ""
        return printable(f"{name}{error.strerror or error}")
    import traceback

    last = traceback.extract_tb(error.__traceback__)[-1]
    where = f"{Path(last.filename).name}, line {last.lineno}"
    return printable(f"internal error, please report it: {type(error).__name__}: {error} ({where})")
