"""A bound to the CPU time that one file may take: nothing that is written in it ends no run.

A thread looks at the clock and raises in the one that works. That needs no signal, so that it holds
on every system, in worker processes and in the process of flake8. Only Python code can be stopped
so; what hangs in a library is killed with its worker process.
"""

from __future__ import annotations

import contextlib
import functools
import time
from collections.abc import Callable
from typing import TypeVar

BASE_SECONDS = 10.0
SECONDS_PER_BYTE = 1e-4
_MANY = 1_000_000
"""Steps after which an exception that is to be raised has been raised, far from it."""
_AGAIN = 0.5
"""Seconds until it is raised again, in case something has swallowed it."""

T = TypeVar("T")


class OvertimeError(Exception):
    """A file takes too long; the message says so in one line."""


class _Overtime(BaseException):
    """Is raised at any place: code that goes on after an error must not catch it."""


def allowed(size: int) -> float:
    """Seconds of CPU time for so many bytes of source."""
    return BASE_SECONDS + SECONDS_PER_BYTE * size


def limited(seconds: float, function: Callable[..., T], *args: object) -> T:
    """The result of ``function(*args)``, for which there are ``seconds`` of CPU time.

    Where a thread has no clock of its own, what other threads take counts, too.

    Raises:
        OvertimeError: it took longer and was stopped.
    """
    watch = _Watch(seconds)
    try:
        try:
            watch.start()
            return function(*args)
        finally:
            watch.stop()
    except (Exception, _Overtime) as error:
        watch.stop()  # the first may have been interrupted itself
        if not watch.fired:
            raise
        what = f"takes more than {seconds:.0f} s of CPU time and is not linted"
        raise OvertimeError(f"{what}; exclude it or split it") from error


def hasten() -> None:
    """End what is limited now, as if its time was over."""
    for watch in [*_watching]:
        watch.hasten()


class _Watch:
    """Raises `_Overtime` in the thread that made it, once its time is over and until it stops."""

    def __init__(self, seconds: float) -> None:
        import threading

        self.fired = False
        self._clock = _clock()
        self._end = self._clock() + seconds
        self._worker = threading.get_ident()
        self._over = False
        self._woken = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def start(self) -> None:
        """Begin to watch; where there is no thread to be had, nobody does."""
        _watching.add(self)
        with contextlib.suppress(RuntimeError):
            self._thread.start()

    def hasten(self) -> None:
        """Take the time that is left away."""
        self._end = 0.0
        self._woken.set()

    def stop(self) -> None:
        """Raise no more."""
        _watching.discard(self)
        self._over = True
        self._woken.set()
        if self._thread.is_alive():
            self._thread.join()
        if self.fired:
            self._drain()

    def _drain(self) -> None:
        """Have raised here what may be still to be raised.

        It could be taken back, but then CPython goes on looking for it: under a profiler, for ever.
        """
        try:
            _raise_in(self._worker)  # so that there is one for certain
            for _ in range(_MANY):
                pass
        except _Overtime:
            pass

    def _watch(self) -> None:
        while not self._over:
            self._woken.wait(max(self._end - self._clock(), _AGAIN))
            self._woken.clear()
            if not self._over and self._clock() >= self._end:
                self.fired = True
                _raise_in(self._worker)


def _clock() -> Callable[[], float]:
    """The CPU time of this thread, for any thread to ask; where there is none, of the process."""
    import threading

    try:
        clock = time.pthread_getcpuclockid(threading.get_ident())
    except (AttributeError, OSError):
        return time.process_time
    return functools.partial(time.clock_gettime, clock)


_watching: set[_Watch] = set()
"""Those whose time runs."""


def _raise_in(thread: int) -> None:
    """Have a thread raise `_Overtime` at its next step."""
    with contextlib.suppress(ImportError, AttributeError):  # there is a Python without them
        import ctypes

        what = ctypes.py_object(_Overtime)
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), what)
