"""amp-lint for other programs: sources in, findings as plain data out.

Nothing here reads a file, prints, or changes the process: what is found depends on the arguments
alone, and they and the results can be pickled. Threads may call it; as the interpreter runs one of
them at a time, one source is analysed at a time, and more processes are what makes it faster.
"""

from __future__ import annotations

import functools
import os
import threading
from codecs import BOM_UTF8
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

from amp_lint.report import Finding
from amp_lint.report.data import Diagnostic, data
from amp_lint.run.choice import Choice, ConfigError
from amp_lint.run.job import Action, Job, Outcome, linked, lint, passes
from amp_lint.run.target import parse_version
from amp_lint.selection import Scope, Selection
from amp_lint.syntax.cells import python
from amp_lint.syntax.project import OUTSIDE, Links, imports
from amp_lint.syntax.project import Project as Imports
from amp_lint.text.source import Source, SourceError

Text = TypeVar("Text", bytes, str)

_MARK = BOM_UTF8.decode()
NAME = "<string>"
"""What a source is called that has no name."""


class LintError(Exception):
    """A source cannot be judged; the message says which and why, in one line."""


@dataclass(frozen=True)
class Settings:
    """Which rules look at a source, in the words of the command line."""

    select: tuple[str, ...] | None = None
    """Run only these: codes, prefixes, names or ``ALL``; None for all but preview rules."""
    extend_select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    preview: bool = False
    target_torch: str | None = None
    """The oldest torch that fixed code must run on, such as ``"2.3"``; None for the newest."""
    noqa: bool = True
    """Whether ``noqa`` comments count."""
    docstring_code: bool = False
    """Whether the Python in docstrings is judged, too."""

    @classmethod
    def of_file(cls, path: str | Path) -> Settings:
        """What the settings files on disk say about a file, as the command line would read them.

        Raises:
            ConfigError: a settings file has an error.
        """
        from amp_lint.run.config import Settings as Governing

        selection = Governing(Choice("settings")).selection(Path(path))
        target = selection.target_torch
        return cls(
            select=tuple(rule.code for rule in selection.rules),
            preview=selection.preview,
            target_torch="{}.{}".format(*target) if target else None,
            docstring_code=selection.docstring_code,
        )


DEFAULT = Settings()


class Project:
    """The files of one project, so that what one imports from another is seen.

    Made once and given with each of its files: what was found out about a file is kept. ``files``
    maps paths to bytes, and may be a mapping that reads them when it is asked. Of a path that
    raises OSError nothing is known.
    """

    def __init__(self, files: Mapping[str, bytes]) -> None:
        self.files = files
        self.paths = {Path(name): name for name in files}
        self._imports: dict[bool, Imports] = {}

    def __reduce__(self) -> tuple[type[Project], tuple[Mapping[str, bytes]]]:
        return Project, (self.files,)

    def imports(self, *, fixing: bool) -> Imports:
        """Which file an import leads to, and what else of others matters, as where it is fixed."""
        if fixing not in self._imports:
            self._imports[fixing] = Imports(self.paths, fixing=fixing, read=self._read)
        return self._imports[fixing]

    def _read(self, path: Path) -> bytes:
        return self.files[self.paths[path]]


@dataclass(frozen=True, slots=True)
class Fixed(Generic[Text]):
    """What fixing a source came to."""

    source: Text
    """The fixed source, of the type that was given; the same where nothing was fixed."""
    fixed: tuple[str, ...]
    """The codes of what was fixed, in order."""
    remaining: tuple[Diagnostic, ...]
    """The findings in the fixed source."""
    problems: tuple[str, ...] = ()
    """Why it is not fixed, or not everywhere, though it could be; each one line."""


def check(
    source: bytes | str,
    *,
    name: str = NAME,
    settings: Settings | None = None,
    project: Project | Mapping[str, bytes] | None = None,
    named: bool = True,
) -> list[Diagnostic]:
    """The findings in a source, in order of place.

    Args:
        source: The bytes of a file, or its text.
        name: The path of the file: it says what is a notebook or a document, and where in the
            project the file is.
        settings: Which rules look at it; by default all but those in preview.
        project: The other files of the project, by path; the file itself may be among them.
        named: Whether somebody asked for this very file. Otherwise, as for files that are found in
            a folder, one that no rule can have to do with is never parsed, and is no syntax error.

    Raises:
        LintError: the source cannot be judged: it cannot be decoded or nests too deeply, or takes
            too much CPU time.
        ConfigError: a setting is wrong.
    """
    call = _Call(_bytes(source, name), name, settings or DEFAULT, project, named)
    outcome = _outcome(call, Action.REPORT)
    if outcome is None:
        return []
    if outcome.errors or outcome.source is None:
        raise LintError(f"{name}: {outcome.errors[0]}")
    return diagnostics(outcome)


def fix(
    source: Text,
    *,
    name: str = NAME,
    settings: Settings | None = None,
    project: Project | Mapping[str, bytes] | None = None,
    named: bool = True,
    unsafe: bool = False,
) -> Fixed[Text]:
    """Apply the safe fixes to a source, with ``unsafe`` the unsafe ones too.

    The other arguments, and what is raised, are those of `check`. Nothing is written.
    """
    call = _Call(_bytes(source, name), name, settings or DEFAULT, project, named, unsafe)
    outcome = _outcome(call, Action.PREVIEW)
    if outcome is None:
        return Fixed(source, (), ())
    if outcome.source is None:
        raise LintError(f"{name}: {outcome.errors[0]}")
    fixed = source if outcome.before is None else _like(source, outcome.source)
    codes = tuple(finding.code for finding in outcome.fixed)
    return Fixed(fixed, codes, tuple(diagnostics(outcome)), tuple(outcome.errors))


def diagnostics(outcome: Outcome) -> list[Diagnostic]:
    """What came of a file, as plain data."""
    if outcome.source is None:
        return []
    return [data(Finding(outcome.source, finding)) for finding in outcome.findings]


@functools.lru_cache(maxsize=64)
def selection(settings: Settings) -> Selection:
    """The rules that settings choose.

    Raises:
        ConfigError: a selector matches no rule, or the target is no version.
    """
    from amp_lint.run.config import Settings as Governing

    target = settings.target_torch
    version = None if target is None else parse_version(target)
    if target is not None and version is None:
        raise ConfigError(f"settings: target_torch {target!r} is not a version such as 2.3")
    choice = Choice(
        "settings",
        settings.select,
        settings.extend_select,
        settings.ignore,
        settings.preview,
        settings.docstring_code,
        version,
    )
    return Governing(choice, noqa=settings.noqa, isolated=True).selection(Path(NAME))


@dataclass(frozen=True, slots=True)
class _Call:
    """What somebody asks for."""

    data: bytes
    name: str
    settings: Settings
    project: Project | Mapping[str, bytes] | None
    named: bool
    unsafe: bool = False


def _outcome(call: _Call, action: Action) -> Outcome | None:
    """What came of a source; None where its bytes say that nothing can."""
    chosen = selection(call.settings)
    with _lock:
        code = python(call.data, call.name)
        links = _links(call, code[0], chosen, fixing=action is Action.PREVIEW)
        if not (call.named or passes(code, chosen, links)):
            return None
        scope = _scope(call, code[0])
        job = (call.name, call.data, call.named, chosen, action, call.unsafe, links, scope)
        return lint(Job(*job))


def _scope(call: _Call, code: bytes) -> Scope:
    """How much of the project is known: a source alone may import any module of it."""
    if call.project is not None:
        return Scope.WHOLE
    alone = all(module.partition(".")[0] in OUTSIDE for module, _ in imports(code))
    return Scope.IMPORTS if alone else Scope.PART


def _links(call: _Call, code: bytes, chosen: Selection, *, fixing: bool) -> Links | None:
    if call.project is None:
        return None
    path = Path(call.name)
    given = call.project if isinstance(call.project, Project) else Project(call.project)
    if path not in given.paths:
        given = Project({**given.files, call.name: call.data})
    return linked(given.imports(fixing=fixing), path, code, chosen)


def _bytes(source: bytes | str, name: str) -> bytes:
    if isinstance(source, bytes):
        return source
    if not isinstance(source, str):
        raise TypeError(f"{name}: a source is bytes or str, not {type(source).__name__}")
    mark = source[:1] == _MARK
    try:
        return BOM_UTF8 * mark + Source.of(source[mark:], name).data
    except SourceError as error:
        raise LintError(f"{name}: {error}") from error


def _like(source: Text, fixed: Source) -> Text:
    """A fixed source of the type of the one that was given."""
    if isinstance(source, bytes):
        return fixed.file_data
    return fixed.file_data.decode("utf-8" if fixed.bom else fixed.encoding)


_lock = threading.RLock()
"""Held while a source is analysed, which changes warning filters and the recursion limit."""
if hasattr(os, "register_at_fork"):  # what a thread holds at a fork, nobody gives back in the child
    _release = _lock.release
    os.register_at_fork(before=_lock.acquire, after_in_parent=_release, after_in_child=_release)
