"""One run of the command line: from paths to printed findings and an exit code."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from amp_lint import report
from amp_lint.garbage import collect_seldom
from amp_lint.report import Finding, Style, digest, statistics
from amp_lint.report.summary import diff_summary, summary
from amp_lint.report.terminal import style_of
from amp_lint.run import runner, streams
from amp_lint.run.choice import resolve
from amp_lint.run.config import Choice, ConfigError, Settings
from amp_lint.run.discover import Discovery, Found, unreadable
from amp_lint.run.job import Action, Job, Outcome, linked, looked_into, passes
from amp_lint.run.progress import Progress
from amp_lint.selection import Scope
from amp_lint.syntax.beside import Beside
from amp_lint.syntax.cells import python
from amp_lint.syntax.project import Links, Project
from amp_lint.text import files
from amp_lint.text.diagnostic import Diagnostic
from amp_lint.text.files import absolute, from_here
from amp_lint.text.printable import printable
from amp_lint.text.writer import WriteError

if TYPE_CHECKING:
    from amp_lint.run.narrowing.baseline import Baseline
    from amp_lint.run.narrowing.changes import Changes
    from amp_lint.run.output import Output
    from amp_lint.selection import Selection

CLEAN, FOUND, ERROR = 0, 1, 2
"""Exit codes."""
_STDIN = "-"
_COLUMNS = 100
"""Columns of findings where there is no terminal: those of a message, and of most code."""


class LintOptions(argparse.Namespace):
    """The options of the command line."""

    paths: list[str]
    fix: bool
    unsafe_fixes: bool
    diff: bool
    prove: bool
    watch: bool
    add_noqa: bool
    select: list[str] | None
    extend_select: list[str] | None
    ignore: list[str] | None
    per_file_ignores: list[tuple[str, tuple[str, ...]]] | None
    extend_per_file_ignores: list[tuple[str, tuple[str, ...]]] | None
    preview: bool | None
    docstring_code: bool | None
    target_torch: tuple[int, int] | None
    config: list[str] | None
    isolated: bool
    ignore_noqa: bool
    exclude: list[str] | None
    extend_exclude: list[str] | None
    extend_include: list[str] | None
    force_exclude: bool
    stdin_filename: str | None
    output_format: str
    show_all: bool
    output_file: str | None
    statistics: bool
    show_files: bool
    show_settings: bool
    quiet: bool
    exit_zero: bool
    exit_non_zero_on_fix: bool
    baseline: str | None
    write_baseline: str | None
    diff_base: str | None

    @property
    def choice(self) -> Choice:
        """What the command line says about rules and files."""
        per_file = self.per_file_ignores
        return Choice(
            origin="command line",
            select=None if self.select is None else tuple(self.select),
            extend_select=tuple(self.extend_select or ()),
            ignore=tuple(self.ignore or ()),
            preview=self.preview,
            docstring_code=self.docstring_code,
            target_torch=self.target_torch,
            exclude=None if self.exclude is None else tuple(self.exclude),
            extend_exclude=tuple(self.extend_exclude or ()),
            extend_include=tuple(self.extend_include or ()),
            per_file_ignores=None if per_file is None else tuple(per_file),
            extend_per_file_ignores=tuple(self.extend_per_file_ignores or ()),
        )

    def settings(self, on_error: Callable[[str], None]) -> Settings:
        """What governs the files; an error in a settings file is told and the file passed over.

        Raises:
            ConfigError: an option is wrong.
        """
        return Settings(
            self.choice,
            config=self.config or (),
            noqa=not self.ignore_noqa,
            isolated=self.isolated,
            on_error=on_error,
        )

    @property
    def stdin(self) -> bool:
        """Whether to lint what comes through stdin."""
        return self.paths == [_STDIN]

    @property
    def action(self) -> Action:
        """What to do with a file."""
        if self.diff or (self.fix and self.stdin):
            return Action.PREVIEW
        return Action.FIX if self.fix else Action.REPORT


class Session:
    """Runs once. Errors are printed as they occur, findings at the end."""

    def __init__(self, options: LintOptions) -> None:
        """Prepare a run.

        Raises:
            ConfigError: an option is wrong.
        """
        if _STDIN in options.paths and not options.stdin:
            raise ConfigError("command line: '-' cannot stand with other paths; give one or them")
        if options.add_noqa and (options.stdin or options.action is not Action.REPORT):
            raise ConfigError("command line: --add-noqa works on files, without --fix or --diff")
        _check_narrowing(options)
        if options.prove and options.action is Action.REPORT:
            raise ConfigError("command line: --prove proves fixes; give --fix or --diff with it")
        self._options = options
        self._settings = options.settings(lambda problem: self._error("", problem))
        self._progress = Progress(enabled=not options.quiet)
        self._errors: set[str] = set()
        self._file = _output(options.output_file) if options.output_file else None
        self._out = self._file.stream if self._file else sys.stdout
        self._stdin = b""
        self._refuted = False
        self._baseline = _baseline(options)
        self._changes = _changes(options.diff_base) if options.diff_base else None
        self._selections: dict[str, Selection] = {}
        """Of the files that could be read."""
        self._named: set[str] = set()
        self.written: dict[str, bytes] = {}
        """What each file that was fixed has become."""

    def run(self) -> int:
        """Lint, fix and print, or show what would be linted; the exit code."""
        collect_seldom()
        self._warn_about_selection()
        if self._options.show_files or self._options.show_settings:
            code = self._show()
        else:
            code = self._told(self.outcomes())
        try:
            if self._file:
                for warning in self._file.close():
                    self._warn(f"{self._options.output_file}: {warning}")
        except WriteError as error:
            self._error(str(self._options.output_file), str(error))
        return ERROR if self._errors else code

    def _told(self, outcomes: Sequence[Outcome]) -> int:
        if self._options.add_noqa:
            return self._add_noqa(outcomes)
        if self._options.write_baseline:
            return self._write_baseline(self._options.write_baseline, outcomes)
        outcomes = self._without_known(outcomes)
        if self._changes is not None:
            outcomes = [*map(self._changes.only, outcomes)]
        return self._print(outcomes)

    @property
    def failed(self) -> bool:
        """Whether some path could not be linted."""
        return bool(self._errors)

    def outcomes(self) -> list[Outcome]:
        """Lint and fix; what goes wrong is printed at once."""
        jobs = [self._stdin_job()] if self._options.stdin else self._file_jobs()
        outcomes = self._lint(job for job in jobs if job)
        changed = (each for each in outcomes if each.before and each.source)
        self.written = {each.name: each.source.file_data for each in changed if each.source}
        self._tell(outcomes)
        return outcomes

    def _tell(self, outcomes: Sequence[Outcome]) -> None:
        """Say what went wrong, and what may surprise."""
        self._progress.clear()
        for warning in self._settings.warnings():
            self._warn(warning)
        for note in self._settings.notes():
            self._warn(note, kind="note")
        for outcome in outcomes:
            for error in outcome.errors:
                self._error(outcome.name, error)
            for warning in outcome.warnings:
                self._warn(f"{outcome.name}: {warning}")

    def _lint(self, jobs: Iterable[Job]) -> list[Outcome]:
        def on_done(done: int, made: int) -> None:
            self._progress.show(f"{done}/{made} files")

        if not self._options.prove:
            return runner.run(jobs, on_done)
        from amp_lint.verify.gate import Gate, VerifyError

        try:
            with Gate(self._progress) as gate:
                outcomes = runner.run(jobs, on_done, gate)
        except VerifyError as error:
            raise ConfigError(str(error)) from error
        self._refuted = gate.refuted
        return outcomes

    def _warn_about_selection(self) -> None:
        choice = self._options.choice
        if not (choice.select or choice.select is None or choice.extend_select):
            self._warn("--select names no rule, so that none runs")
        chosen = resolve([replace(choice, preview=True)]) if choice.select else ()
        if choice.select and not chosen:
            self._warn("--ignore leaves no rule of those of --select, so that none runs")
        if chosen and all(rule.about_comments for rule in chosen):
            code = chosen[0].code
            what = f"{code} judges comments for rules that run, and --select names no other"
            self._warn(f"{what}; `--extend-select={code}` runs it beside them")

    def _stdin_job(self) -> Job | None:
        name = self._options.stdin_filename or _STDIN
        try:
            self._stdin = sys.stdin.buffer.read()
        except OSError as error:
            self._error(
                name, f"stdin cannot be read: {streams.reason(error)}; give a file or a pipe"
            )
            return None
        if self._options.force_exclude and self._settings.excluded(Path(name)):
            return None
        found = Found(Path(name), named=True)
        project = self._project([] if name == _STDIN else [found])
        code = python(self._stdin, name)
        links = linked(project, found.path, code[0], self._settings.selection(found.path))
        return self._job(found, self._stdin, code, project, links)

    def _file_jobs(self) -> Iterator[Job]:
        """The files that the bytes sieve lets pass, alone or with what they import, read."""
        found = self._discover()
        project = self._project(found)
        for count, each in enumerate(found, 1):
            self._progress.show(f"{count} files looked at")
            if job := self._read(each, project):
                yield job

    def _project(self, found: Iterable[Found]) -> Project:
        fixing = self._options.action is not Action.REPORT
        beside = Beside(self._settings.follows_imports)
        return Project((each.path for each in found), fixing=fixing, beside=beside)

    def _discover(self) -> list[Found]:
        discovery = Discovery(
            self._settings,
            self._error,
            force_exclude=self._options.force_exclude,
            on_warning=lambda path, what: self._warn(f"{path}: {what}"),
        )
        found = [*discovery.files(map(Path, self._options.paths or ["."]))]
        if not found and not self._errors:
            self._warn("No Python files found under the given path(s)")
        return found

    def _show(self) -> int:
        from amp_lint.run import show

        options = self._options
        stdin = [Path(options.stdin_filename or _STDIN)] if options.stdin else None
        paths = stdin or [found.path for found in self._discover()]
        if options.show_files:
            self._out.writelines(f"{printable(str(absolute(path)))}\n" for path in paths)
        else:
            paths = paths or [Path(path) / "*" for path in options.paths or ["."]]
            self._out.writelines(show.settings(self._settings, paths))
        self._tell([])
        return CLEAN

    def _add_noqa(self, outcomes: Sequence[Outcome]) -> int:
        from amp_lint.run import add_noqa

        sound = [each for each in outcomes if self._settings.governing(Path(each.name)).sound]
        added = add_noqa.add(sound, self._error, lambda path, what: self._warn(f"{path}: {what}"))
        if not self._options.quiet:
            print(f"Added {added} noqa directive{'s' * (added != 1)}.", file=sys.stderr)
        return CLEAN

    def _read(self, found: Found, project: Project) -> Job | None:
        name = str(from_here(found.path))
        try:
            data = files.read(found.path)
            code, broken = python(data, name)
            links = linked(project, found.path, code, self._settings.selection(found.path))
            return self._job(found, data, (code, broken), project, links)
        except OSError as error:
            self._error(name, unreadable(error))
        return None

    def _job(
        self,
        found: Found,
        data: bytes,
        code: tuple[bytes, bytes],
        project: Project,
        links: Links | None = None,
    ) -> Job | None:
        """What to do with a file; ``code`` is what of it is Python, and what cannot be parsed."""
        path, options = found.path, self._options
        selection = self._settings.selection(path)
        name = options.stdin_filename or _STDIN if options.stdin else str(from_here(path))
        self._selections[name] = selection
        if found.named:
            self._named.add(name)
        self._settings.listen(path, code[0])
        if not (found.named or passes(code, selection, links)):
            return None
        sound = self._settings.governing(path).sound
        action = options.action if sound else Action.REPORT
        scope = self._scope(path, code[0], project)
        job = Job(name, data, found.named, selection, action, options.unsafe_fixes, links, scope)
        return looked_into(job)

    def _scope(self, path: Path, code: bytes, project: Project) -> Scope:
        """How much of the file's project is in the run, where comments are judged by that."""
        if not self._settings.selection(path).judges_comments(code):
            return Scope.PART
        from amp_lint.run.extent import extent

        return extent(path, code, project, map(Path, self._options.paths or ["."]))

    def _write_baseline(self, name: str, outcomes: Sequence[Outcome]) -> int:
        from amp_lint.run.narrowing import baseline

        try:
            scope = baseline.Scope(self._selections, outcomes)
            written, kept = baseline.write(name, outcomes, scope)
        except WriteError as error:
            self._error(name, str(error))
            return ERROR
        if not self._options.quiet:
            what = f"Wrote {written} finding{'s' * (written != 1)} to {name}"
            beside = f" and kept {kept} that {'were' if kept > 1 else 'was'} not looked for"
            print(printable(f"{what}{beside if kept else ''}."), file=sys.stderr)
        return CLEAN

    def _without_known(self, outcomes: Sequence[Outcome]) -> Sequence[Outcome]:
        """The outcomes without what the baseline lists; what it lists in vain is told."""
        if self._baseline is None:
            return outcomes
        from amp_lint.run.narrowing.baseline import Scope

        fresh = [*map(self._baseline.without_known, outcomes)]
        names = self._selections.keys() - self._named  # without others, some findings are not seen
        scope = Scope({name: self._selections[name] for name in names}, outcomes)
        for line in self._baseline.stale(scope):
            self._warn(line)
        return fresh

    def _print(self, outcomes: Sequence[Outcome]) -> int:
        """Print what came out; the exit code."""
        found = [finding for outcome in outcomes for finding in outcome.findings]
        fixed = sum(len(outcome.fixed) for outcome in outcomes)
        if self._options.diff:
            self._print_diffs(outcomes, found, fixed)
            code = FOUND if fixed and not self._options.exit_zero else CLEAN
        else:
            self._print_findings(outcomes, found, fixed)
            forced = fixed and self._options.exit_non_zero_on_fix
            code = FOUND if forced or (found and not self._options.exit_zero) else CLEAN
        if self._refuted:
            code = FOUND
        return code

    def _print_findings(
        self, outcomes: Sequence[Outcome], found: Sequence[Diagnostic], fixed: int
    ) -> None:
        options, out = self._options, self._out
        if options.stdin and options.fix:
            self._print_fixed(outcomes)
            out = out if self._file else sys.stderr
        style = self._style(out)
        out.writelines(self._render(outcomes, style))
        told = found or fixed or not self._errors
        if told and not options.quiet and options.output_format in report.FOR_PEOPLE:
            for line in summary(found, fixed, unsafe=options.unsafe_fixes):
                out.writelines(f"{part}\n" for part in report.wrapped(line, style))

    def _print_fixed(self, outcomes: Sequence[Outcome]) -> None:
        """Give stdin back, fixed; as it came where it was not looked at or cannot be fixed."""
        source = next((outcome.source for outcome in outcomes), None)
        sys.stdout.buffer.write(source.file_data if source else self._stdin)
        sys.stdout.buffer.flush()

    def _render(self, outcomes: Iterable[Outcome], style: Style) -> Iterator[str]:
        findings = [
            Finding(outcome.source, diagnostic)
            for outcome in outcomes
            for diagnostic in outcome.findings
            if outcome.source
        ]
        if not self._options.statistics:
            if self._options.output_format in report.FOR_PEOPLE:
                findings = digest.ordered(digest.folded(findings, self._is_asked))
            return report.renderer(self._options.output_format)(findings, style)
        if self._options.output_format == "json":
            return statistics.render_json(findings, style)
        return statistics.render(findings, style)

    def _is_asked(self, finding: Finding) -> bool:
        """Whether the user wants to see each such finding: all, or those of the rule by name."""
        governing = self._settings.governing(Path(finding.source.name))
        return self._options.show_all or governing.asks_for(finding.diagnostic.code)

    def _print_diffs(
        self, outcomes: Sequence[Outcome], found: Sequence[Diagnostic], fixed: int
    ) -> None:
        from amp_lint.report.diff import diff

        style = self._style(self._out)
        for outcome in outcomes:
            if outcome.before and outcome.source:
                self._out.buffer.writelines(diff(outcome.before, outcome.source, style))
        self._out.buffer.flush()
        if not self._options.quiet:
            for line in diff_summary(found, fixed, unsafe=self._options.unsafe_fixes):
                print(line, file=sys.stderr)

    def _style(self, stream: TextIO) -> Style:
        unsafe = self._options.unsafe_fixes
        if self._file:
            return Style(width=_COLUMNS, unsafe=unsafe)
        return style_of(stream, unsafe=unsafe, columns=_COLUMNS)

    def _error(self, path: str, problem: str) -> None:
        """Say what is wrong with a path, once."""
        line = f"error: {path}: {problem}" if path else f"error: {problem}"
        if line not in self._errors:
            self._errors.add(line)
            self._progress.clear()
            print(printable(line), file=sys.stderr)

    def _warn(self, text: str, *, kind: str = "warning") -> None:
        if not self._options.quiet:
            print(printable(f"{kind}: {text}"), file=sys.stderr)


def _check_narrowing(options: LintOptions) -> None:
    narrowing = {
        "--baseline": options.baseline,
        "--write-baseline": options.write_baseline,
        "--diff-base": options.diff_base,
    }
    given = {name: value for name, value in narrowing.items() if value is not None}
    for name, value in given.items():
        if not value:  # as of a variable that is not set
            raise ConfigError(f"command line: {name} is given nothing; name it, or leave it out")
        if options.add_noqa or options.action is not Action.REPORT:
            other = "--fix, --diff and --add-noqa take all findings"
            raise ConfigError(f"command line: {name} says which are reported; {other}")
    if options.diff_base and options.stdin:
        raise ConfigError("command line: --diff-base compares files, not stdin; give their names")
    if options.write_baseline and len(given) > 1:
        others = " and ".join(given.keys() - {"--write-baseline"})
        raise ConfigError(f"command line: --write-baseline lists all findings; leave out {others}")


def _changes(revision: str) -> Changes:
    from amp_lint.run.narrowing.changes import Changes

    return Changes(revision)


def _baseline(options: LintOptions) -> Baseline | None:
    """What is to be compared with; what is to be written is refused early."""
    if not (options.baseline or options.write_baseline):
        return None
    from amp_lint.run.narrowing import baseline

    if options.write_baseline:
        baseline.previous(options.write_baseline)
    return baseline.Baseline(options.baseline) if options.baseline else None


def _output(name: str) -> Output:
    from amp_lint.run.output import Output

    return Output(Path(name))
