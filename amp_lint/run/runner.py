"""Lints and fixes many files: one after the other, or in worker processes when it pays."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator, Sequence
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
    jobs: Sequence[Job],
    on_done: Callable[[int], None] = lambda done: None,
    gate: Gate | None = None,
) -> list[Outcome]:
    """The outcomes, in the order of ``jobs``; ``on_done`` hears how many there are.

    Files are written by this process alone, each as soon as its outcome is there, and what killed
    runs have left beside them is removed. Only fixes that ``gate`` lets pass are applied; with one,
    all work is done in this process.
    """
    done = itertools.count(1)
    clean(Path(job.name) for job in jobs if job.action is Action.FIX)

    def finish(index: int, outcome: Outcome) -> None:
        if jobs[index].action is Action.FIX:
            _write(outcome)
        on_done(next(done))

    outcomes: list[Outcome] = []
    for outcome in _alone(jobs, gate):
        finish(len(outcomes), outcome)
        outcomes.append(outcome)
    if rest := jobs[len(outcomes) :]:
        from amp_lint.run import parallel

        first = len(outcomes)
        outcomes += parallel.run(rest, lambda index, outcome: finish(first + index, outcome))
    return outcomes


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
