"""What a worker process does from its first moment: it answers calls."""

from __future__ import annotations

import contextlib
import os
import pickle
import queue
import sys
import threading
from collections.abc import Callable
from typing import Any, BinaryIO

from amp_lint.run.garbage import collect_seldom

TOO_DEEP = "nests too deeply"
NOT_STARTED = 71
"""The exit status of a process that could not begin, for want of memory, handles or a thread."""
_STACK_BYTES = 25_600
"""For each level of recursion; C code in between takes more than Python's own."""


def serve(memory: int, recursion: int) -> None:
    """Answer calls that come through stdin until it is closed.

    A call is a pickled ``(function, args)``; the answer ``(True, result)`` or ``(False, error)``
    with the error in one line. ``memory`` limits the address space, in bytes; 0 means no limit.
    ``recursion`` is how many calls of Python functions may be under way.
    """
    _limit_memory(memory)
    collect_seldom()
    todo: queue.SimpleQueue[Any] = queue.SimpleQueue()
    try:
        calls, answers = _take_over_streams()
        threading.stack_size(recursion * _STACK_BYTES // 4096 * 4096)
        sys.setrecursionlimit(recursion)
        threading.Thread(target=_work, args=(todo, answers), daemon=True).start()
    except (OSError, RuntimeError):
        os._exit(NOT_STARTED)
    with contextlib.suppress(EOFError):
        while True:
            todo.put(pickle.load(calls))
    os._exit(0)  # nobody is left to work for, so what is under way ends too


def _work(todo: queue.SimpleQueue[Any], answers: BinaryIO) -> None:
    while True:
        function, args = todo.get()
        answers.write(_answer(function, args))
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


def _take_over_streams() -> tuple[BinaryIO, BinaryIO]:
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
