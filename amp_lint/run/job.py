"""One file to look at, and what came of it; whatever goes wrong becomes an error of the file."""

from __future__ import annotations

import enum
import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from amp_lint import engine, fixing
from amp_lint.engine import AnalysisError
from amp_lint.garbage import uncollected
from amp_lint.run.overtime import OvertimeError, allowed, limited
from amp_lint.selection import Scope, Selection
from amp_lint.syntax.cells import opened
from amp_lint.syntax.parse import TooDeepError
from amp_lint.syntax.project import Links, Project
from amp_lint.text.diagnostic import Diagnostic, applicable
from amp_lint.text.source import Source, SourceError

if TYPE_CHECKING:
    from amp_lint.engine import Group


class Action(enum.Enum):
    """What to do about findings."""

    FIND = enum.auto()
    """Report fixes that nobody has tried: some may be such as `FIX` refuses."""
    REPORT = enum.auto()
    FIX = enum.auto()
    """Fix and write the file."""
    PREVIEW = enum.auto()
    """Fix, and hand the text back instead of writing it."""


@dataclass(frozen=True, slots=True)
class Job:
    """One file to look at."""

    name: str
    """The path as it is shown, and as it is written to."""
    data: bytes
    named: bool
    selection: Selection
    action: Action = Action.REPORT
    unsafe: bool = False
    links: Links | None = None
    """What it imports from the other files of the run."""
    scope: Scope = Scope.PART
    """How much of its project is in the run."""
    groups: Sequence[Group] | None = None
    """The rules that may find something, and what they see, where that is known."""

    @property
    def seconds(self) -> float:
        """The CPU time that it may take."""
        linked = self.links.contents if self.links else ()
        return allowed(len(self.data) + sum(map(len, linked)))


@dataclass(slots=True)
class Outcome:
    """What came of one file."""

    name: str
    source: Source | None = None
    """The text that the findings are in: the fixed one where something was fixed."""
    findings: list[Diagnostic] = field(default_factory=list)
    fixed: list[Diagnostic] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    """What is not as it was about the file, besides its text."""
    before: Source | None = None
    """The text before fixing, where something was fixed."""
    found: list[Diagnostic] = field(default_factory=list)
    """The findings in ``before``."""


Gate: TypeAlias = Callable[[Job, str, Sequence[Diagnostic]], Sequence[Diagnostic]]
"""As `fixing.Accept`, but told which file it is."""


def lint(job: Job, gate: Gate | None = None) -> Outcome:
    """Look at one text and fix it if asked; whatever goes wrong becomes an error of the file.

    Nothing is written. The CPU time is limited, unless there is a ``gate``: experiments take what
    they take. Where it ends while fixes are tried, what was found is told without them.
    """
    found = Outcome(job.name)
    if gate:  # an experiment is about a file, not about what its documentation shows
        job = replace(job, selection=replace(job.selection, docstring_code=False))
        return _lint(job, found, gate)
    try:
        return limited(job.seconds, _lint, job, found)
    except OvertimeError as error:
        if found.source is None:
            return Outcome(job.name, errors=[str(error)])
        what = f"takes more than {job.seconds:.0f} s of CPU time with its fixes"
        if job.action in (Action.FIND, Action.REPORT):
            found.warnings.append(f"{what}, so that none is offered; split it")
        else:
            found.errors.append(f"is not fixed: it {what}; fix it by hand or split it")
        return found


def _lint(job: Job, found: Outcome, gate: Gate | None = None) -> Outcome:
    """What comes of a file; ``found`` becomes what is known before fixes are tried."""
    outcome = Outcome(job.name)
    try:
        source = opened(job.data, job.name)
        diagnostics = engine.check(
            source,
            job.selection,
            named=job.named,
            links=job.links,
            scope=job.scope,
            groups=job.groups,
        )
        unread = engine.unread(source, job.selection)
        found.findings = [replace(each, fix=None) for each in diagnostics] + unread
        found.source = outcome.source = source
        if job.action in (Action.FIND, Action.REPORT):
            outcome.findings = _reported(job, source, diagnostics) + unread
        else:
            _fix(job, source, diagnostics, outcome, gate)
            outcome.findings += engine.unread(outcome.source, job.selection)
    except (SourceError, AnalysisError) as error:
        outcome.errors.append(f"{error}; correct the file or exclude it")
    except MemoryError:
        outcome.errors.append("out of memory while it was analysed; exclude it")
    except ImportError as error:  # of a library that is damaged, or finds no room in memory
        outcome.errors.append(f"is not linted, as a module cannot be loaded: {error}")
    except Exception as error:  # a bug in one rule must not cost the other files
        if _is_interrupt(error):
            raise KeyboardInterrupt from error
        kind = type(error).__name__
        outcome.errors.append(f"internal error, please report it: {kind}: {error}")
    return outcome


def _reported(job: Job, source: Source, found: list[Diagnostic]) -> list[Diagnostic]:
    if job.action is Action.FIND:
        return found
    return fixing.offered(
        source,
        job.selection,
        found,
        unsafe=job.unsafe,
        named=job.named,
        links=job.links,
        scope=job.scope,
    )


def passes(code: tuple[bytes, bytes], selection: Selection, links: Links | None) -> bool:
    """Whether a rule may find something in a file, or in its comments, as far as bytes tell.

    ``code`` is what of it is Python, and what is meant to be, as `cells.python` gives it.
    """
    sieve = selection.sieve
    others = links.contents if links else ()
    found = sieve.by_bytes(code[0], *others) or sieve.by_bytes(code[1])
    return bool(found) or _is_read_besides(code[0], selection)


def _is_read_besides(code: bytes, selection: Selection) -> bool:
    """Whether a file may have comments or documentation that rules are asked about."""
    return selection.judges_comments(code) or selection.reads_docstrings(code)


def looked_into(job: Job) -> Job | None:
    """A job whose file sees others, with what it sees of them; None if no rule may find anything.

    So they are parsed in one process, once for all that see them.
    """
    if job.links is None or not job.links.files:
        return job
    try:
        source = opened(job.data, job.name)
        with uncollected():
            groups = limited(
                job.seconds, engine.survivors, source, job.selection, job.named, job.links
            )
    except (SyntaxError, SourceError, TooDeepError, OvertimeError, MemoryError, RecursionError):
        return job  # who lints it says so
    others = job.named or source.unread_data or _is_read_besides(source.data, job.selection)
    return replace(job, groups=groups) if groups or others else None


def linked(project: Project, path: Path, data: bytes, selection: Selection) -> Links | None:
    """What a file of a project imports from the others, as far as it matters to its rules."""
    links = project.links(path, data, selection.sieve)
    if links is None:
        return None
    may_pass = selection.sieve.by_bytes(data, *links.contents)
    return links if may_pass and _leads(data, links) else links.narrowed()


def _leads(data: bytes, links: Links) -> bool:
    """As `leads`; where that takes long, the file is judged with all that it imports."""
    from amp_lint.syntax.links import leads  # where there is anything to follow

    try:
        with uncollected():
            return limited(allowed(len(data)), leads, data, links)
    except (OvertimeError, MemoryError):
        return True


def _fix(
    job: Job, source: Source, found: list[Diagnostic], outcome: Outcome, gate: Gate | None
) -> None:
    accept = functools.partial(gate, job) if gate else None
    result = fixing.fix(
        source,
        job.selection,
        unsafe=job.unsafe,
        named=job.named,
        accept=accept,
        links=job.links,
        scope=job.scope,
        found=found,
    )
    outcome.source, outcome.findings = source, result.remaining
    if not source.lossless and any(
        applicable(finding.fix, unsafe=job.unsafe) for finding in result.remaining
    ):
        outcome.errors.append("is not fixed: writing its encoding back would lose bytes")
    if result.unencodable:
        outcome.errors.append("is not fixed everywhere: its encoding cannot hold the fixed text")
    if result.text != source.text:
        outcome.source = source.changed(result.text)
        outcome.fixed, outcome.before, outcome.found = result.fixed, source, result.found


def _is_interrupt(error: BaseException | None) -> bool:
    """Whether Ctrl-C is behind an error: what it met may have made another of it."""
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__cause__ or error.__context__
    return error is not None
