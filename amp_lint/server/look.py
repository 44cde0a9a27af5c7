"""What the process does that a server asks: it lints the text of an editor."""

from __future__ import annotations

import functools
import itertools
import time
from dataclasses import dataclass, field, replace
from pathlib import Path

from amp_lint.run.choice import ConfigError
from amp_lint.run.config import Choice, Settings
from amp_lint.run.discover import SKIPPED, Discovery
from amp_lint.run.extent import extent
from amp_lint.run.job import Action, Job, linked, lint
from amp_lint.selection import Scope, Selection
from amp_lint.server.comments import moved
from amp_lint.syntax.project import Project
from amp_lint.text.diagnostic import Diagnostic
from amp_lint.text.source import Source, SourceError

MAX_FILES = 20_000
"""Files of a workspace that imports are looked up among."""
MAX_SECONDS = 5.0
"""Seconds for which they are looked for."""
MAX_KNOWN = 16
"""Texts that are not looked at again."""
_FRESH = 30.0
"""Seconds after which they are looked for again, once something was saved or opened."""


@dataclass(frozen=True, slots=True)
class Workspace:
    """The folder that an editor has opened, and what it asks for there."""

    root: str
    """An absolute path; "" for files that are in no folder."""
    choice: Choice
    """What the command line and the editor's settings say."""
    config: tuple[str, ...] = ()
    """The values of ``--config``, paths from the root."""
    noqa: bool = True
    isolated: bool = False
    unsafe: bool = False
    """Whether "fix all" applies unsafe fixes too."""


@dataclass(frozen=True, slots=True)
class Buffer:
    """A text as somebody sees it in an editor, saved or not."""

    name: str
    """An absolute path, of a file that there may not be."""
    text: str
    workspace: Workspace
    saves: int
    """How often something was saved or opened: then settings and other files are read again."""


@dataclass(slots=True)
class Seen:
    """What came of a text."""

    findings: list[Diagnostic] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    text: str = ""
    """The text that the findings are in: the fixed one where it was to be fixed."""


def look(buffer: Buffer, action: Action) -> Seen:
    """The findings in a text, or what is left of them where it is to be fixed; nothing is written.

    None in a file that the settings exclude, or that lies where the command line does not look.
    """
    known = _known.pop((buffer, action), None)
    seen = known or _look(buffer, action)
    if not seen.errors:  # one is that nobody waited
        _known[buffer, action] = seen
    while len(_known) > MAX_KNOWN:
        del _known[next(iter(_known))]
    return seen


_known: dict[tuple[Buffer, Action], Seen] = {}
"""What came of the last texts: an edit may be taken back."""


def _look(buffer: Buffer, action: Action) -> Seen:
    if action is Action.FIND and (found := _moved(buffer)) is not None:
        return Seen(found, text=buffer.text)
    seen = Seen(text=buffer.text)
    try:
        settings, problems = _settings(buffer.workspace, buffer.saves)
        if not _excluded(Path(buffer.name), buffer.workspace, settings):
            _lint(_job(buffer, settings, action), seen)
        seen.errors += problems
    except ConfigError as error:
        seen.errors.append(str(error))
    except SourceError as error:
        seen.errors.append(f"{buffer.name}: {error}")
    return seen


def _moved(buffer: Buffer) -> list[Diagnostic] | None:
    """The findings of the last text of a document, if this one differs in comments alone."""
    for (other, action), seen in reversed(_known.items()):
        if action is Action.FIND and replace(other, text=buffer.text) == buffer:
            return moved(other.text, buffer.text, seen.findings)
    return None


def _lint(job: Job, seen: Seen) -> None:
    outcome = lint(job)
    if outcome.source:
        seen.text = outcome.source.text
    seen.findings = outcome.findings
    seen.errors += [f"{job.name}: {error}" for error in outcome.errors]


def _job(buffer: Buffer, settings: Settings, action: Action) -> Job:
    path, data = Path(buffer.name), Source.of(buffer.text, buffer.name).data
    selection, project = settings.selection(path), _project_of(buffer)
    is_fixed = action is Action.PREVIEW and settings.governing(path).sound
    return Job(
        buffer.name,
        data,
        named=False,
        selection=selection,
        action=action if action is not Action.PREVIEW or is_fixed else Action.REPORT,
        unsafe=buffer.workspace.unsafe or action is Action.REPORT,
        links=linked(project, path, data, selection) if buffer.workspace.root else None,
        scope=_scope(buffer, selection, data, project),
    )


def _project_of(buffer: Buffer) -> Project:
    """The files of the workspace, with the one of the editor; without a folder no file."""
    if not buffer.workspace.root:
        return Project(())
    path = Path(buffer.name)
    is_new = path not in _listing(buffer.workspace, buffer.saves)
    return _project(buffer.workspace, buffer.saves, path if is_new else None)


def _scope(buffer: Buffer, selection: Selection, data: bytes, project: Project) -> Scope:
    if not selection.judges_comments(data):
        return Scope.PART
    roots = [Path(root)] if (root := buffer.workspace.root) else []
    return extent(Path(buffer.name), data, project, roots)


def _excluded(path: Path, workspace: Workspace, settings: Settings) -> bool:
    if settings.excluded(path):
        return True
    below = path.is_relative_to(workspace.root) if workspace.root else False
    return below and not SKIPPED.isdisjoint(path.relative_to(workspace.root).parts[:-1])


@functools.lru_cache(maxsize=8)
def _settings(workspace: Workspace, saves: int) -> tuple[Settings, list[str]]:
    """The settings, and what is wrong with their files, of those that were read so far."""
    problems: list[str] = []
    settings = Settings(
        workspace.choice,
        config=workspace.config,
        noqa=workspace.noqa,
        isolated=workspace.isolated,
        on_error=problems.append,
    )
    return settings, problems


@functools.lru_cache(maxsize=4)
def _project(workspace: Workspace, saves: int, new: Path | None) -> Project:
    """All files of a workspace, and a new one, which nobody has saved."""
    return Project([*_listing(workspace, saves), *([new] if new else [])], fixing=True)


@functools.lru_cache(maxsize=4)
def _listing(workspace: Workspace, saves: int) -> frozenset[Path]:
    old = _listed.get(workspace)
    if old is None or time.monotonic() - old[0] > _FRESH:
        paths = _files(workspace, _settings(workspace, saves)[0])
        _listed[workspace] = old = time.monotonic(), paths
    return old[1]


_listed: dict[Workspace, tuple[float, frozenset[Path]]] = {}
"""When the files of a workspace were looked for, and which there were."""


def _files(workspace: Workspace, settings: Settings) -> frozenset[Path]:
    end = time.monotonic() + MAX_SECONDS
    discovery = Discovery(settings, lambda path, what: None, force_exclude=False)
    found = itertools.islice(discovery.files([Path(workspace.root)]), MAX_FILES)
    in_time = itertools.takewhile(lambda _: time.monotonic() < end, found)
    return frozenset(each.path for each in in_time)
