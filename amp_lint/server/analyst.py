"""The process that lints for a server: one call after the other, given up when nobody waits."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from amp_lint.run.workers import Worker

T = TypeVar("T")

LIMIT = 600.0
"""Seconds for a call: what limits itself has ended long before."""


class Analyst:
    """A worker that starts when it is first asked, and again if it dies."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, "amp-lint-analyst")
        self._worker: Worker | None = None
        self._lock = threading.Lock()
        self._closed = False
        self._current: tuple[object, int] | None = None
        """Of the call under way what marks it, and its number."""

    async def ask(self, function: Callable[..., T], *args: object) -> T:
        """The result of ``function(*args)``; the call ends soon if this is cancelled.

        Raises:
            WorkerError: the call gave no result.
        """
        mark = object()
        call = self._thread.submit(self._call, mark, function, args)
        try:
            return await asyncio.wrap_future(call)
        except asyncio.CancelledError:
            self._give_up(mark)
            raise

    def _call(self, mark: object, function: Callable[..., T], args: tuple[object, ...]) -> T:
        with self._lock:
            worker = self._ready()
            self._current = mark, worker.calls + 1
        try:
            return worker.call(LIMIT, function, *args)
        finally:
            with self._lock:
                self._current = None

    def _ready(self) -> Worker:
        if self._closed:
            raise asyncio.CancelledError
        if self._worker and not self._worker.alive:
            self._worker.close()
            self._worker = None
        self._worker = self._worker or Worker()
        return self._worker

    def _give_up(self, mark: object) -> None:
        with self._lock:
            if self._worker and self._current and self._current[0] is mark:
                self._worker.give_up(self._current[1])

    def close(self) -> None:
        """End the process, whatever it is at."""
        with self._lock:
            self._closed = True
            if self._worker:
                self._worker.kill()
        self._thread.shutdown(wait=True, cancel_futures=True)
        if self._worker:
            self._worker.close()
