"""Workers may hang and die, and cost no more than what they were at."""

from __future__ import annotations

import functools
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from amp_lint.run import overtime
from amp_lint.run.worker import GIVEN_UP
from amp_lint.run.workers import Pool, Worker, WorkerError


@pytest.fixture(scope="module")
def pool() -> Iterator[Pool]:
    pool = Pool(functools.partial(Worker, memory=8 * 2**30), 2)
    yield pool
    pool.close()


def error(pool: Pool, limit: float, function: Callable[..., object], *args: object) -> str:
    with pytest.raises(WorkerError) as caught:
        pool.submit(limit, function, *args).result()
    return str(caught.value)


def test_a_call_gives_its_result_and_time(pool: Pool) -> None:
    result, seconds = pool.submit(30, pow, 2, 10).result()
    assert result == 1024
    assert 0 <= seconds < 30


def test_an_exception_is_told_in_one_line_and_the_worker_stays(pool: Pool) -> None:
    before = pool.submit(30, os.getpid).result()[0]
    assert error(pool, 30, int, "x\ny").startswith("ValueError: invalid literal")
    assert "\n" not in error(pool, 30, int, "x\ny")
    assert pool.submit(30, os.getpid).result()[0] == before


def test_a_hanging_worker_is_killed_and_replaced(pool: Pool) -> None:
    started = time.monotonic()
    pid = pool.submit(30, os.getpid).result()[0]
    assert error(pool, 1, time.sleep, 60) == "took longer than 1 s"
    assert time.monotonic() - started < 15
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    assert pool.submit(30, abs, -1).result()[0] == 1


def test_a_call_that_is_given_up_ends_soon_and_the_worker_stays() -> None:
    worker, spin = Worker(), "sum(range(10**12))"
    try:
        before = worker.call(30, os.getpid)
        threading.Timer(0.3, worker.give_up, [worker.calls + 1]).start()
        with pytest.raises(WorkerError, match="OvertimeError"):
            worker.call(30, overtime.limited, 30.0, exec, "while True: pass")
        worker.give_up(worker.calls)  # done already
        worker.give_up(worker.calls + 1)  # before it comes
        with pytest.raises(WorkerError, match=GIVEN_UP):
            worker.call(30, eval, spin)
        assert worker.call(30, os.getpid) == before
    finally:
        worker.close()


@pytest.mark.parametrize(
    ("function", "args", "cause"),
    [(os.abort, (), "SIGABRT"), (os._exit, (3,), "ended with 3"), (os._exit, (0,), "with 0")],
)
def test_a_dead_worker_costs_its_own_call(
    pool: Pool, function: Callable[..., object], args: tuple[object, ...], cause: str
) -> None:
    others = [pool.submit(30, abs, -number) for number in range(4)]
    assert cause in error(pool, 30, function, *args)
    assert [other.result()[0] for other in others] == [0, 1, 2, 3]


def test_what_a_worker_is_waiting_for_does_not_count(pool: Pool) -> None:
    calls = [pool.submit(2.5, time.sleep, 1) for _ in range(2 * 4)]
    assert [call.result()[0] for call in calls] == [None] * 8


def test_what_experiments_print_or_read_disturbs_nothing(pool: Pool) -> None:
    assert pool.submit(30, os.write, 1, b"noise").result()[0] == 5
    assert pool.submit(30, os.read, 0, 1).result()[0] == b""
    assert pool.submit(30, abs, -2).result()[0] == 2


def test_an_answer_is_data(pool: Pool) -> None:
    assert error(pool, 30, Path) == "gave an answer that holds a pathlib.PosixPath"
    assert pool.submit(30, frozenset, [1]).result()[0] == {1}


@pytest.mark.skipif(not hasattr(os, "killpg"), reason="there are no process groups")
def test_what_a_worker_started_ends_with_it(pool: Pool, tmp_path: Path) -> None:
    mark = tmp_path / "alive"
    child = f"import time; time.sleep(3); open({str(mark)!r}, 'w')"
    assert "longer" in error(pool, 1, subprocess.run, [sys.executable, "-c", child])
    time.sleep(4)
    assert not mark.exists()


def test_memory_is_limited(pool: Pool) -> None:
    pytest.importorskip("resource")
    assert error(pool, 30, bytearray, 10**11) == "out of memory"


def test_closing_ends_what_is_under_way() -> None:
    pool = Pool(size=1)
    call = pool.submit(60, time.sleep, 60)
    pid = next(iter(_wait_for_worker(pool)))._process.pid
    started = time.monotonic()
    pool.close()
    assert time.monotonic() - started < 10
    with pytest.raises(WorkerError):
        call.result()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def _wait_for_worker(pool: Pool) -> set[Worker]:
    while not pool._all:
        time.sleep(0.05)
    return pool._all


def test_workers_end_with_a_parent_that_was_killed() -> None:
    program = (
        "import time; from amp_lint.run.workers import Pool; p = Pool(size=1); "
        "p.submit(99, time.sleep, 99); time.sleep(2); "
        "print(next(iter(p._all))._process.pid, flush=True); time.sleep(60)"
    )
    parent = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE)
    assert parent.stdout is not None
    pid = int(parent.stdout.readline())
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    parent.stdout.close()
    for _ in range(50):
        time.sleep(0.1)
        if not Path(f"/proc/{pid}").exists() or _zombie(pid):
            return
    raise AssertionError("the worker lives on")


def _zombie(pid: int) -> bool:
    return "\nState:\tZ" in Path(f"/proc/{pid}/status").read_text()
