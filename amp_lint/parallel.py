"""Lints in worker processes, of which each may die and cost no more than the file it was at."""

from __future__ import annotations

import _thread
import contextlib
import multiprocessing
import os
import signal
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool

from amp_lint.runner import Job, Outcome, lint

_TO_TIDY_UP = 0.5  # seconds, to remove a temporary file


def run(jobs: Sequence[Job], on_done: Callable[[int], None]) -> list[Outcome]:
    """The outcomes, in the order of ``jobs``; ``on_done`` hears how many there are.

    After a worker has died the files that were under way are done again, each by a process of its
    own, so that only the one to blame is lost.
    """
    outcomes: dict[int, Outcome] = {}
    queue = deque(sorted(range(len(jobs)), key=lambda index: -len(jobs[index].data)))
    while queue:
        for index in _drain(queue, jobs, outcomes, on_done):
            outcomes[index] = _alone(jobs[index])
    return [outcomes[index] for index in range(len(jobs))]


def workers() -> int:
    """How many processes may run at once."""
    if sys.platform == "linux":
        return len(os.sched_getaffinity(0))
    return min(os.cpu_count() or 1, 60)  # Windows cannot wait for more


def _drain(
    queue: deque[int],
    jobs: Sequence[Job],
    outcomes: dict[int, Outcome],
    on_done: Callable[[int], None],
) -> list[int]:
    """Work until the queue is empty or a worker dies; what was under way then."""
    count = min(workers(), len(queue))
    running: dict[Future[Outcome], int] = {}
    with _pool(count) as pool:
        try:
            while queue or running:
                while queue and len(running) <= count:
                    future = _submit(pool, jobs[queue[0]])
                    running[future] = queue.popleft()
                for future in wait(running, return_when=FIRST_COMPLETED).done:
                    outcomes[running[future]] = future.result()
                    del running[future]
                on_done(len(outcomes))
        except BrokenProcessPool:
            pass
    return list(running.values())


def _alone(job: Job) -> Outcome:
    with _pool(1) as pool:
        try:
            return _submit(pool, job).result()
        except BrokenProcessPool:
            error = "the process that analysed it died; exclude the file and report it"
            return Outcome(job.name, errors=[error])


@contextlib.contextmanager
def _pool(count: int) -> Iterator[ProcessPoolExecutor]:
    """Fresh interpreters: a fork of a process with threads can hang."""
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(count, context, initializer=_start_worker)
    try:
        yield pool
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _submit(pool: ProcessPoolExecutor, job: Job) -> Future[Outcome]:
    """Hand over a job, which may start a worker, out of reach of Ctrl-C from its first moment."""
    if not hasattr(signal, "pthread_sigmask"):
        return pool.submit(lint, job)
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        return pool.submit(lint, job)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)


def _start_worker() -> None:
    """Finish the file under way on Ctrl-C; tidy up when told to end, as after another's death."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """Tidy up and end once there is nobody left to work for: the parent was killed."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    _thread.interrupt_main(signal.SIGTERM)
    time.sleep(_TO_TIDY_UP)
    os._exit(1)
