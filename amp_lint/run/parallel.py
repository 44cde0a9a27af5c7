"""Lints in worker processes, of which each may die and cost no more than the file it was at."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, as_completed

from amp_lint.run.job import Job, Outcome, lint
from amp_lint.run.workers import Pool, StartError, WorkerError

LIMIT = 60.0
"""Seconds for a file, besides `PATIENCE` times the CPU time it may take, after which its worker is
killed: native code may hang, too."""
PATIENCE = 5.0
"""How long CPU time takes on a machine that does much else."""


def run(
    jobs: Sequence[Job],
    on_done: Callable[[Job, Outcome], None] = lambda job, outcome: None,
    later: Iterable[Job] = (),
) -> list[Outcome]:
    """The outcomes, in the order of ``jobs``; ``on_done`` hears of each when it is there.

    What is ``later`` is made while they are under way. Where no process can be had, all is done in
    this one.
    """
    outcomes: dict[int, Outcome] = {}
    pool = Pool()
    known = [*jobs]

    def finish(index: int, outcome: Outcome) -> None:
        outcomes[index] = outcome
        on_done(known[index], outcome)

    try:
        calls = _submit(pool, known, later)
        for call in as_completed(calls):
            index = calls[call]
            if outcome := _outcome(known[index], call):
                finish(index, outcome)
    finally:
        pool.close()  # and its handles and its memory are free again
    for index, job in enumerate(known):
        if index not in outcomes:
            finish(index, lint(job))
    return [outcomes[index] for index in range(len(known))]


def _submit(
    pool: Pool, jobs: list[Job], later: Iterable[Job]
) -> dict[Future[tuple[Outcome, float]], int]:
    """Hand over the jobs, the longest first, as far as there is somebody to take them.

    Then those that come later, which are added to ``jobs``.
    """
    calls: dict[Future[tuple[Outcome, float]], int] = {}

    def submit(index: int) -> None:
        limit = LIMIT + PATIENCE * jobs[index].seconds
        with contextlib.suppress(StartError):
            calls[pool.submit(limit, lint, jobs[index])] = index

    for index in sorted(range(len(jobs)), key=lambda index: -len(jobs[index].data)):
        submit(index)
    for job in later:
        jobs.append(job)
        submit(len(jobs) - 1)
    return calls


def _outcome(job: Job, call: Future[tuple[Outcome, float]]) -> Outcome | None:
    """What came of a job; None where there was nobody to do it."""
    try:
        return call.result()[0]
    except StartError:
        return None
    except WorkerError as error:
        return Outcome(job.name, errors=[f"{error} while it was analysed; exclude it"])
