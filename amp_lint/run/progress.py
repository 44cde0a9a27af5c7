"""A line on stderr that says how far a long run has come."""

from __future__ import annotations

import sys
import time

_AFTER = 2.0
"""Seconds before the first line: a short run shows none."""
_EVERY = 0.1
_ERASE = "\r\033[K"


class Progress:
    """Shows nothing unless stderr is a terminal."""

    def __init__(self, *, enabled: bool = True) -> None:
        self.quiet = not enabled
        """Whether nothing is to be said of how far the run has come, in any way."""
        self._enabled = enabled and sys.stderr.isatty()
        self._next = time.monotonic() + _AFTER
        self._shown = False

    def show(self, text: str) -> None:
        """Replace the line, unless the run is young or the line is."""
        if self._enabled and time.monotonic() >= self._next:
            self._next = time.monotonic() + _EVERY
            self._shown = True
            print(f"{_ERASE}{text}", end="", file=sys.stderr, flush=True)

    def clear(self) -> None:
        """Take the line away, so that something else can be printed."""
        if self._shown:
            self._shown = False
            print(_ERASE, end="", file=sys.stderr, flush=True)
