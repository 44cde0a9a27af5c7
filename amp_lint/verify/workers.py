"""Worker processes, of which each may hang or die and cost no more than what it was at.

A worker is an interpreter of its own that imports nothing from the current directory: experiments
must not pick up a ``torch.py`` that happens to lie there. It is used again for the next call, so
that importing torch and compiling are paid for once.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar, cast

import amp_lint
from amp_lint.parallel import workers as cpus
from amp_lint.verify import worker as child
from amp_lint.verify.proof import Settings

T = TypeVar("T")

MEMORY = 8 * 2**30
"""Bytes of address space for a worker without CUDA, which reserves far more than it uses."""
TO_START = 300.0
"""Seconds to import torch, which is slow on a cold disk."""
_SERVE = (
    "import sys; sys.path[:] = sys.argv[2:]; "
    "from amp_lint.verify.worker import serve; serve(int(sys.argv[1]))"
)


class WorkerError(Exception):
    """A call gave no result; the message says why in one line."""


class _NotDataError(Exception):
    """An answer holds an object of another package."""


class _Answers(pickle.Unpickler):
    """Reads plain data and nothing that would have torch imported here."""

    def find_class(self, module: str, name: str) -> object:
        if module.startswith("amp_lint.") or (module, name) == ("builtins", "frozenset"):
            return super().find_class(module, name)
        raise _NotDataError(f"{module}.{name}")


class Worker:
    """One process. After a call that ran out of time, or killed it, it is dead for good."""

    def __init__(self, settings: Settings) -> None:
        """Start a process; torch waits until `start_torch`."""
        self._settings = settings
        self._torch = False
        self._said = tempfile.TemporaryFile()  # noqa: SIM115  (closed with the process)
        memory = 0 if settings.device.startswith("cuda") else MEMORY
        self._process = subprocess.Popen(
            [sys.executable, "-c", _SERVE, str(memory), *_path()],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._said,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
            start_new_session=True,  # Ctrl-C is for us; a compiler it started dies with it
        )

    @property
    def alive(self) -> bool:
        """Whether another call can be made."""
        return self._process.poll() is None

    def start_torch(self) -> None:
        """Import torch, unless it is there.

        Raises:
            WorkerError: it cannot be imported.
        """
        if not self._torch:
            self.call(TO_START, child.start_torch, self._settings)
            self._torch = True

    def call(self, limit: float, function: Callable[..., T], *args: object) -> T:
        """The result of ``function(*args)``, for which there are ``limit`` seconds.

        Raises:
            WorkerError: it raised, ran out of time, or killed the process.
        """
        expired = threading.Event()
        timer = threading.Timer(limit, self._expire, [expired])
        timer.start()
        try:
            good, result = self._exchange((function, args))
        except RecursionError as error:
            self.kill()
            raise WorkerError(child.TOO_DEEP) from error
        except _NotDataError as error:
            self.kill()
            raise WorkerError(f"gave an answer that holds a {error}") from error
        except (OSError, EOFError, pickle.UnpicklingError) as error:
            self.kill()
            raise WorkerError(
                f"took longer than {limit:g} s" if expired.is_set() else self._cause()
            ) from error
        finally:
            timer.cancel()
        if not good:
            raise WorkerError(str(result))
        return cast(T, result)

    def _exchange(self, call: tuple[Callable[..., T], tuple[object, ...]]) -> tuple[bool, Any]:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(pickle.dumps(call))
        self._process.stdin.flush()
        answer: tuple[bool, Any] = _Answers(self._process.stdout).load()
        return answer

    def _expire(self, expired: threading.Event) -> None:
        expired.set()
        self.kill()

    def _cause(self) -> str:
        """How the process died, with the last it said."""
        code = self._process.wait()
        self._said.seek(0)
        last = self._said.read().decode("utf-8", "replace").strip().splitlines()[-1:]
        how = f"was killed by {_signal(-code)}" if code < 0 else f"ended with {code}"
        return ": ".join([f"the worker process {how}", *(line[:200] for line in last)])

    def kill(self) -> None:
        """End the process and what it has started."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if hasattr(os, "killpg"):
                os.killpg(self._process.pid, signal.SIGKILL)
            else:
                self._process.kill()
        self._process.wait()

    def close(self) -> None:
        """End the process and let go of its streams."""
        self.kill()
        for stream in (self._process.stdin, self._process.stdout, self._said):
            with contextlib.suppress(OSError):
                if stream is not None:
                    stream.close()


def _path() -> list[str]:
    """Where a worker imports from: as here, but not from the current directory."""
    own = str(Path(amp_lint.__file__).parents[1])
    here = {"", ".", str(Path.cwd())} - {own}
    return [*(path for path in sys.path if path not in here), own]


def _signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


class Pool:
    """Workers that share calls; a dead one is replaced when the next call comes."""

    def __init__(self, settings: Settings, size: int | None = None) -> None:
        """As many workers as there are CPUs, or ``size``; they start when they are needed."""
        self._settings = settings
        self.size = size or cpus()
        self._threads = ThreadPoolExecutor(self.size, "amp-lint-verify")
        self._idle: list[Worker] = []
        self._all: set[Worker] = set()
        self._lock = threading.Lock()
        self._closed = False

    def submit(
        self, limit: float, function: Callable[..., T], *args: object, torch: bool = False
    ) -> Future[tuple[T, float]]:
        """The result of a call in a worker, and the seconds it took.

        The time that a call waits and that importing torch takes does not count against
        ``limit``. The future raises `WorkerError` like `Worker.call`.
        """
        return self._threads.submit(self._run, limit, function, args, torch)

    def _run(
        self, limit: float, function: Callable[..., T], args: tuple[object, ...], torch: bool
    ) -> tuple[T, float]:
        worker = self._take()
        try:
            if torch:
                worker.start_torch()
            started = time.perf_counter()
            return worker.call(limit, function, *args), time.perf_counter() - started
        finally:
            self._give_back(worker)

    def _take(self) -> Worker:
        with self._lock:
            if self._closed:
                raise WorkerError("the workers have been stopped")
            if self._idle:
                return self._idle.pop()
            worker = Worker(self._settings)
            self._all.add(worker)
            return worker

    def _give_back(self, worker: Worker) -> None:
        with self._lock:
            if worker.alive and not self._closed:
                self._idle.append(worker)
                return
            self._all.discard(worker)
        worker.close()

    def close(self) -> None:
        """End all workers; calls under way raise `WorkerError`."""
        with self._lock:
            self._closed = True
            workers, self._idle = list(self._all), []
        for worker in workers:
            worker.kill()
        self._threads.shutdown(wait=True, cancel_futures=True)
        for worker in workers:
            worker.close()
