"""The identifiers in the bytes of a file, each once: a tenth of it, and much is asked of them."""

from __future__ import annotations

import functools
import re
import string

_LETTERS = f"{string.ascii_letters}{string.digits}_".encode()
_APART = bytes(byte if byte in _LETTERS else ord(" ") for byte in range(256))
_RUN = re.compile(r"\w+", re.ASCII)


@functools.lru_cache(maxsize=1024)  # some 5 KB each
def identifiers(data: bytes) -> bytes:
    """What stands between bytes that are no ASCII letter, digit or underscore, each once, apart.

    So what is part of an identifier of a text is part of this.
    """
    return b" ".join({*data.translate(_APART).split()})


def core(part: str) -> bytes:
    """The longest piece of a text that is in one identifier, wherever the text is; or b""."""
    return max(_RUN.findall(part), key=len, default="").encode()
