"""Texts of others as one line of a terminal, and numbers of things."""

from __future__ import annotations

_NAMED = {"\n": r"\n", "\r": r"\r", "\t": r"\t"}


def printable(text: str) -> str:
    """``text`` with escapes for what would begin a new line, or control a terminal."""
    return text if text.isprintable() else "".join(map(_shown, text))


def counted(number: int, noun: str) -> str:
    """``1 fix``, ``3 fixes``."""
    ending = "" if number == 1 else "es" if noun.endswith("x") else "s"
    return f"{number} {noun}{ending}"


def _shown(character: str) -> str:
    if character.isprintable():
        return character
    code = ord(character)
    short = f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
    return _NAMED.get(character, short if code < 0x10000 else f"\\U{code:08x}")
