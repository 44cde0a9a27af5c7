"""What comes of a file that its bytes do not dismiss; worked out in a process that it may kill."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path

from amp_lint import api, engine
from amp_lint.report.data import Diagnostic
from amp_lint.run.job import Job, lint
from amp_lint.run.overtime import OvertimeError, limited
from amp_lint.syntax.cells import opened
from amp_lint.syntax.parse import TooDeepError
from amp_lint.text.source import SourceError

SYNTAX, RULES = "syntax", "rules"
"""The sieves of the syntax dismissed it, or rules have looked at it."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What came of a file."""

    stage: str
    findings: tuple[Diagnostic, ...] = ()
    error: str | None = None
    seconds: float = 0.0
    """CPU time."""
    held: int = 0
    """Bytes of memory that the process held afterwards; 0 where nobody can say."""


def verdict(job: Job) -> Verdict:
    """Judge a file as the command line does, and say how far it came."""
    start = time.process_time()
    if not _survives(job):
        return Verdict(SYNTAX, seconds=time.process_time() - start, held=_held())
    outcome = lint(job)
    error = outcome.errors[0] if outcome.errors else None
    seconds = time.process_time() - start
    return Verdict(RULES, (*api.diagnostics(outcome),), error, seconds, _held())


def _held() -> int:
    try:
        pages = int(Path("/proc/self/statm").read_text("ascii").split()[1])
    except OSError:  # not Linux; the peak that others tell is also that of the parent
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")


def _survives(job: Job) -> bool:
    """Whether `lint` may find something, or has something to say."""
    try:
        return limited(job.seconds, _has_survivors, job)
    except (SyntaxError, SourceError, TooDeepError, OvertimeError, MemoryError, RecursionError):
        return True


def _has_survivors(job: Job) -> bool:
    source = opened(job.data, job.name)
    survivors = engine.survivors(source, job.selection, job.named, job.links)
    return bool(survivors or source.unread_data)
