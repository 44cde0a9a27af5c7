"""What somebody may have meant who misspelled a word."""

from __future__ import annotations

from collections.abc import Iterable


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """``; did you mean `this`?`` where a known word is spelled nearly so, and "" elsewhere."""
    import difflib

    by_spelling = {_spelling(each): each for each in known}
    close = difflib.get_close_matches(_spelling(word), by_spelling, 1)
    return f"; did you mean `{by_spelling[close[0]]}`?" if close else ""


def _spelling(word: str) -> str:
    """What is easily taken for each other is the same: ``AMP1O1`` for ``AMP101``."""
    return word.lower().replace("_", "-").replace("o", "0").replace("l", "1")
