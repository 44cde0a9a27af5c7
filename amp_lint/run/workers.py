"""Worker processes, of which each may hang or die and cost no more than what it was at.

A worker is an interpreter of its own. It imports nothing from the working directory or from
``PYTHONPATH``, not even while it starts: there may lie a ``signal.py`` or a package ``torch``. It
is used again for the next call, so that what it has imported and compiled is paid for once.
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
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar, cast

import amp_lint
from amp_lint.run import import_path
from amp_lint.run import worker as child

T = TypeVar("T")

_SERVE = f"""\
import os, sys
memory, recursion = map(int, sys.argv[1:3])
sys.path[:] = sys.argv[3:]
try:
    from amp_lint.run.worker import serve
except (MemoryError, OSError, ImportError):
    os._exit({child.NOT_STARTED})
serve(memory, recursion)
"""
_HANDLES = 12
"""File handles that must be free: those of a worker, while it starts, and some for this process."""


class WorkerError(Exception):
    """A call gave no result; the message says why in one line."""


class StartError(WorkerError):
    """There is no process to be had, or no file handle for its streams."""


class _NotDataError(Exception):
    """An answer holds an object of another package."""


class _Answers(pickle.Unpickler):
    """Reads plain data and nothing that would have something else imported here."""

    def find_class(self, module: str, name: str) -> object:
        if module.startswith("amp_lint.") or (module, name) == ("builtins", "frozenset"):
            return super().find_class(module, name)
        raise _NotDataError(f"{module}.{name}")


def count() -> int:
    """How many processes may run at once."""
    if sys.platform == "linux":
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class Worker:
    """One process. After a call that ran out of time, or killed it, it is dead for good."""

    def __init__(
        self,
        *,
        memory: int = 0,
        recursion: int | None = None,
        needed: Sequence[str] = import_path.NEEDED,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """Start a process.

        Args:
            memory: bytes of address space that it may use; 0 for no limit.
            recursion: calls within calls that Python allows; the default is this process's.
            needed: packages that it will import.
            environment: variables besides those of this process.

        Raises:
            StartError: the system refuses.
        """
        self.prepared = False
        """For the caller: whether what its calls need has been called."""
        self.calls = 0
        """How many were made."""
        self._writing = threading.Lock()
        limits = map(str, (memory, recursion or sys.getrecursionlimit()))
        with contextlib.ExitStack() as opened:
            try:
                _require_handles()
                self._said = opened.enter_context(tempfile.TemporaryFile())
                self._process = subprocess.Popen(
                    [sys.executable, "-I", *_flags(), "-c", _SERVE, *limits, *_path(needed)],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=self._said,
                    env={**os.environ, **(environment or {})},
                    cwd=Path(sys.executable).anchor,  # nor is anything imported by what it starts
                    start_new_session=True,  # Ctrl-C is for us; a compiler it started dies with it
                )
            except OSError as error:
                raise StartError(f"no process can be started: {error.strerror}") from error
            opened.pop_all()  # closed with the process

    @property
    def alive(self) -> bool:
        """Whether another call can be made."""
        return self._process.poll() is None

    def call(self, limit: float, function: Callable[..., T], *args: object) -> T:
        """The result of ``function(*args)``, for which there are ``limit`` seconds.

        Raises:
            WorkerError: it raised, ran out of time, or killed the process.
        """
        expired = threading.Event()
        timer = threading.Timer(limit, self._expire, [expired])
        try:
            timer.start()
        except RuntimeError as error:
            self.kill()
            raise StartError(f"no thread can be started: {error}") from error
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
            if self._process.returncode == child.NOT_STARTED:
                raise StartError("a process cannot do its work") from error
            raise WorkerError(
                f"took longer than {limit:g} s" if expired.is_set() else self._cause()
            ) from error
        finally:
            timer.cancel()
        if not good:
            raise WorkerError(str(result))
        return cast(T, result)

    def _exchange(self, call: tuple[Callable[..., T], tuple[object, ...]]) -> tuple[bool, Any]:
        assert self._process.stdout is not None
        self.calls += 1
        self._write(call)
        answer: tuple[bool, Any] = _Answers(self._process.stdout).load()
        return answer

    def give_up(self, number: int) -> None:
        """Have the call of this number, from 1, end soon, from another thread than the one that
        waits for it; it raises `WorkerError`, or gives what `overtime.limited` makes of that.
        """
        with contextlib.suppress(OSError):
            self._write(number)

    def _write(self, message: object) -> None:
        assert self._process.stdin is not None
        with self._writing:
            self._process.stdin.write(pickle.dumps(message))
            self._process.stdin.flush()

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


def _require_handles() -> None:
    """Open some files and close them; what fails half-way would leave handles open.

    Raises:
        OSError: so many cannot be had.
    """
    with contextlib.ExitStack() as opened:
        for _ in range(_HANDLES):
            opened.callback(os.close, os.open(os.devnull, os.O_RDONLY))


def _path(needed: Sequence[str]) -> list[str]:
    """Where a worker imports from; the last is where amp-lint itself lies."""
    own = str(Path(amp_lint.__file__).parents[1])
    return [*(path for path in import_path.trusted(needed) if path != own), own]


def _flags() -> list[str]:
    """What this interpreter was told and the isolated one would not know."""
    flags = ["-B"] if sys.dont_write_bytecode else []
    if sys.pycache_prefix:
        flags += ["-X", f"pycache_prefix={sys.pycache_prefix}"]
    return flags


def _signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


class Pool:
    """Workers that share calls; a dead one is replaced when the next call comes."""

    def __init__(self, start: Callable[[], Worker] = Worker, size: int | None = None) -> None:
        """As many workers as there are CPUs, or ``size``; they start when they are needed."""
        self._start = start
        self.size = size or count()
        self._threads = ThreadPoolExecutor(self.size, "amp-lint-worker")
        self._idle: list[Worker] = []
        self._all: set[Worker] = set()
        self._lock = threading.Lock()
        self._closed = False

    def submit(
        self,
        limit: float,
        function: Callable[..., T],
        *args: object,
        prepare: Callable[[Worker], object] | None = None,
    ) -> Future[tuple[T, float]]:
        """The result of a call in a worker, and the seconds it took.

        ``prepare`` is done before the first call of a worker that asks for it. The time that a
        call waits and that preparing takes does not count against ``limit``. The future raises
        `WorkerError` like `Worker` and `Worker.call`.

        Raises:
            StartError: not even a thread can be started.
        """
        try:
            return self._threads.submit(self._run, limit, function, args, prepare)
        except RuntimeError as error:
            raise StartError(f"no thread can be started: {error}") from error

    def _run(
        self,
        limit: float,
        function: Callable[..., T],
        args: tuple[object, ...],
        prepare: Callable[[Worker], object] | None,
    ) -> tuple[T, float]:
        worker = self._take()
        try:
            if prepare and not worker.prepared:
                prepare(worker)
                worker.prepared = True
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
            worker = self._start()
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
