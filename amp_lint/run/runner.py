"""Lints and fixes many files: one after the other, or in worker processes when it pays."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from pathlib import Path

from amp_lint.run.job import Action, Gate, Job, Outcome, lint
from amp_lint.text.writer import WriteError, clean, replace

PARALLEL_BYTES = 400_000
"""Bytes to parse from which starting processes costs less than it saves; about a second each."""


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

    if not gate and sum(len(job.data) for job in jobs) >= PARALLEL_BYTES:
        from amp_lint.run import parallel

        return parallel.run(jobs, finish)
    outcomes: list[Outcome] = []
    for index, job in enumerate(jobs):
        outcomes.append(lint(job, gate))
        finish(index, outcomes[-1])
    return outcomes


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
