"""What a worker process does from its first moment: it answers calls."""

from __future__ import annotations

import contextlib
import os
import pickle
import queue
import sys
import threading
import time
from collections.abc import Callable
from typing import BinaryIO

from amp_lint.garbage import collect_seldom
from amp_lint.run.overtime import hasten

TOO_DEEP = "nests too deeply"
GIVEN_UP = "was given up"
NOT_STARTED = 71
"""The exit status of a process that could not begin, for want of memory, handles or a thread."""
_STACK_BYTES = 25_600
"""For each level of recursion; C code in between takes more than Python's own."""
_AGAIN = 0.02
"""Seconds after which what is given up, and goes on, is stopped again."""

_Call = tuple[Callable[..., object], tuple[object, ...]]


def serve(memory: int, recursion: int) -> None:
    """Answer calls that come through stdin until it is closed.

    A call is a pickled ``(function, args)``; the answer ``(True, result)`` or ``(False, error)``
    with the error in one line. A number gives the call of this number up, from 1. ``memory`` limits
    the address space, in bytes; 0 means no limit. ``recursion`` is how many calls of Python
    functions may be under way.
    """
    _limit_memory(memory)
    collect_seldom()
    desk = _Desk()
    try:
        calls, answers = take_over_streams()
        threading.stack_size(recursion * _STACK_BYTES // 4096 * 4096)
        sys.setrecursionlimit(recursion)
        threading.Thread(target=desk.work, args=(answers,), daemon=True).start()
    except (OSError, RuntimeError):
        os._exit(NOT_STARTED)
    with contextlib.suppress(EOFError):
        while True:
            desk.take(pickle.load(calls))
    os._exit(0)  # nobody is left to work for, so what is under way ends too


class _Desk:
    """The calls that one thread takes and another one answers."""

    def __init__(self) -> None:
        self._todo: queue.SimpleQueue[_Call] = queue.SimpleQueue()
        self._taken = self._done = self._given_up = 0
        """Numbers of calls."""

    def take(self, message: _Call | int) -> None:
        """Put a call where it is worked on, or give one up."""
        if isinstance(message, int):
            self._give_up(message)
        else:
            self._taken += 1
            self._todo.put(message)

    def _give_up(self, number: int) -> None:
        """Have a call end soon, wherever it is: on its way, not begun, under way or done."""
        self._given_up = number
        while self._done < number <= self._taken:
            hasten()
            time.sleep(_AGAIN)

    def work(self, answers: BinaryIO) -> None:
        """Answer calls for ever."""
        while True:
            function, args = self._todo.get()
            is_wanted = self._done + 1 > self._given_up
            answer = _answer(function, args) if is_wanted else pickle.dumps((False, GIVEN_UP))
            self._done += 1
            answers.write(answer)
            answers.flush()


def _answer(function: Callable[..., object], args: tuple[object, ...]) -> bytes:
    try:
        return pickle.dumps((True, function(*args)))
    except MemoryError:
        error = "out of memory"
    except RecursionError:
        error = TOO_DEEP
    except Exception as raised:
        first, *_ = str(raised).splitlines() or [""]
        error = f"{type(raised).__name__}: {first}"
    return pickle.dumps((False, error))


def take_over_streams() -> tuple[BinaryIO, BinaryIO]:
    """Streams for calls and answers, out of reach of what else prints, reads or is started."""
    calls, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(2, 1)
    return calls, answers


def _limit_memory(memory: int) -> None:
    try:
        import resource
    except ImportError:  # not on Windows
        return
    if memory:
        with contextlib.suppress(ValueError, OSError):  # the limit in force is lower already
            resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
