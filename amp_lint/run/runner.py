"""Lints and fixes many files: one after the other, or in worker processes when it pays."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from amp_lint.run.job import Action, Gate, Job, Outcome, lint
from amp_lint.text.writer import WriteError, clean, replace

PARALLEL_BYTES = 2_000_000
"""Bytes to parse from which processes are started at once: they share the work, and of what is
native and kills one of them the others hear nothing."""
WORTHWHILE_BYTES = 100_000
"""Bytes to parse, after the first `ALONE` seconds, for which processes are started at all."""
ALONE = 0.8
"""Seconds of CPU time that starting processes costs: before so much is done, nobody can say that it
would pay, and it never costs more than twice what would have been right."""


def run(
    jobs: Iterable[Job],
    on_done: Callable[[int, int], None] = lambda done, made: None,
    gate: Gate | None = None,
) -> list[Outcome]:
    """The outcomes, in the order of ``jobs``; ``on_done`` hears how many there are of how many.

    Where there is much to do, the first are done while the last ones are still being made.

    Files are written by this process alone, each as soon as its outcome is there, and what killed
    runs have left beside them is removed. Only fixes that ``gate`` lets pass are applied; with one,
    all work is done in this process.
    """
    made: list[Job] = []
    done = itertools.count(1)

    def making() -> Iterator[Job]:
        for job in jobs:
            made.append(job)
            yield job

    def finish(job: Job, outcome: Outcome) -> None:
        if job.action is Action.FIX:
            _write(outcome)
        on_done(next(done), len(made))

    later = making()
    first = [*_ahead(later, gate)]
    clean(Path(job.name) for job in first if job.action is Action.FIX)
    outcomes: list[Outcome] = []
    for job, outcome in zip(first, _alone(first, gate), strict=False):
        finish(job, outcome)
        outcomes.append(outcome)
    if rest := [*first[len(outcomes) :], *itertools.islice(later, 1)]:
        from amp_lint.run import parallel

        outcomes += parallel.run(rest, finish, later)
    return outcomes


def _ahead(jobs: Iterator[Job], gate: Gate | None) -> Iterator[Job]:
    """The jobs that must be known before the first is done.

    All, if files may be changed, as what others import is read once; or so many that it certainly
    pays to share them.
    """
    size = 0
    for job in jobs:
        yield job
        size += len(job.data)
        if size >= PARALLEL_BYTES and job.action is not Action.FIX and not gate:
            return


def _alone(jobs: Sequence[Job], gate: Gate | None) -> Iterator[Outcome]:
    """What comes of all jobs that are better done in this process, and before it pays to share."""
    start, left = time.process_time(), sum(len(job.data) for job in jobs)
    for job in jobs:
        is_short = left < PARALLEL_BYTES and time.process_time() - start < ALONE
        if not (gate or is_short or left < WORTHWHILE_BYTES):
            return
        yield lint(job, gate)
        left -= len(job.data)


def _write(outcome: Outcome) -> None:
    """Write what was fixed; where that is not possible, nothing was fixed."""
    if outcome.before is None or outcome.source is None:
        return
    try:
        path = Path(outcome.name)
        outcome.warnings += replace(path, outcome.before.file_data, outcome.source.file_data)
    except WriteError as error:
        outcome.errors.append(str(error))
        outcome.source, outcome.findings = outcome.before, outcome.found
        outcome.before, outcome.fixed = None, []
