"""One run of the command line: from paths to printed findings and an exit code."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TextIO

from amp_lint import config, report, runner
from amp_lint.config import Choice, ConfigError, Settings
from amp_lint.discover import Discovery, Found, unreadable
from amp_lint.progress import Progress
from amp_lint.project import Links, Project
from amp_lint.report import Finding, Style, statistics
from amp_lint.report.summary import diff_summary, summary
from amp_lint.rule import Diagnostic
from amp_lint.runner import Action, Job, Outcome

CLEAN, FOUND, ERROR, INTERRUPTED = 0, 1, 2, 130
"""Exit codes."""
_STDIN = "-"


class Options(argparse.Namespace):
    """The options of the command line."""

    paths: list[str]
    fix: bool
    unsafe_fixes: bool
    diff: bool
    prove: bool
    select: list[str] | None
    extend_select: list[str] | None
    ignore: list[str] | None
    preview: bool | None
    target_torch: tuple[int, int] | None
    isolated: bool
    ignore_noqa: bool
    force_exclude: bool
    stdin_filename: str | None
    output_format: str
    statistics: bool
    quiet: bool
    exit_zero: bool
    exit_non_zero_on_fix: bool

    @property
    def choice(self) -> Choice:
        """What the command line says about rules."""
        return Choice(
            "command line",
            None if self.select is None else tuple(self.select),
            tuple(self.extend_select or ()),
            tuple(self.ignore or ()),
            self.preview,
            self.target_torch,
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

    def __init__(self, options: Options) -> None:
        """Prepare a run.

        Raises:
            ConfigError: an option is wrong.
        """
        if _STDIN in options.paths and not options.stdin:
            raise ConfigError("command line: '-' cannot stand with other paths; give one or them")
        if options.prove and options.action is Action.REPORT:
            raise ConfigError("command line: --prove proves fixes; give --fix or --diff with it")
        self._options = options
        self._settings = Settings(
            options.choice, noqa=not options.ignore_noqa, isolated=options.isolated
        )
        self._progress = Progress(enabled=not options.quiet)
        self._errors: set[str] = set()
        self._stdin = b""
        self._refuted = False

    def run(self) -> int:
        """Lint, fix and print; the exit code."""
        return self._print(self.outcomes())

    @property
    def failed(self) -> bool:
        """Whether some path could not be linted."""
        return bool(self._errors)

    def outcomes(self) -> list[Outcome]:
        """Lint and fix; what goes wrong is printed at once."""
        self._warn_about_selectors()
        jobs = [self._stdin_job()] if self._options.stdin else self._file_jobs()
        outcomes = self._lint([job for job in jobs if job])
        self._progress.clear()
        for warning in self._settings.ineffective():
            self._warn(warning)
        for outcome in outcomes:
            for error in outcome.errors:
                self._error(outcome.name, error)
        return outcomes

    def _lint(self, jobs: Sequence[Job]) -> list[Outcome]:
        def on_done(done: int) -> None:
            self._progress.show(f"{done}/{len(jobs)} files")

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

    def _warn_about_selectors(self) -> None:
        choice = self._options.choice
        for selector in config.ineffective(choice):
            self._warn(f"{selector} has no effect without --preview")
        if not (choice.select or choice.select is None or choice.extend_select):
            self._warn("--select names no rule, so that none runs")

    def _stdin_job(self) -> Job | None:
        name = self._options.stdin_filename or _STDIN
        self._stdin = sys.stdin.buffer.read()
        if self._options.force_exclude and self._settings.excluded(Path(name)):
            return None
        return self._job(Path(name), name, self._stdin, named=True)

    def _file_jobs(self) -> Iterator[Job]:
        """The files that the bytes sieve lets pass, alone or with what they import, read."""
        options = self._options
        discovery = Discovery(self._settings, self._error, force_exclude=options.force_exclude)
        found = [*discovery.files(map(Path, options.paths or ["."]))]
        fixing = options.action is not Action.REPORT
        project = Project((each.path for each in found), fixing=fixing)
        for count, each in enumerate(found, 1):
            self._progress.show(f"{count} files looked at")
            if job := self._read(each, project):
                yield job
        if not found and not self._errors:
            self._warn("No Python files found under the given path(s)")

    def _read(self, found: Found, project: Project) -> Job | None:
        name = str(from_here(found.path))
        if found.path.suffix == ".ipynb":
            self._error(name, "is a notebook, which amp-lint cannot read; export it as Python")
            return None
        try:
            data = found.path.read_bytes()
            links = project.links(found.path, data)
            return self._job(found.path, name, data, named=found.named, links=links)
        except OSError as error:
            self._error(name, unreadable(error))
        except ConfigError as error:
            self._error("", str(error))
        return None

    def _job(
        self, path: Path, name: str, data: bytes, *, named: bool, links: Links | None = None
    ) -> Job | None:
        selection = self._settings.selection(path)
        linked = (*links.files, *(other for _, other in links.trainers)) if links else ()
        if not named and not selection.sieve.by_bytes(data, *linked):
            return None
        options = self._options
        return Job(name, data, named, selection, options.action, options.unsafe_fixes, links)

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
        return ERROR if self._errors else code

    def _print_findings(
        self, outcomes: Sequence[Outcome], found: Sequence[Diagnostic], fixed: int
    ) -> None:
        options, out = self._options, sys.stdout
        if options.stdin and options.fix:
            self._print_fixed(outcomes)
            out = sys.stderr
        style = style_of(out, unsafe=options.unsafe_fixes)
        out.writelines(self._render(outcomes, style))
        told = found or fixed or not self._errors
        if told and not options.quiet and options.output_format in ("full", "concise"):
            lines = summary(found, fixed, unsafe=options.unsafe_fixes)
            out.writelines(f"{line}\n" for line in lines)

    def _print_fixed(self, outcomes: Sequence[Outcome]) -> None:
        """Give stdin back, fixed; as it came where it was not looked at or cannot be fixed."""
        source = next((outcome.source for outcome in outcomes), None)
        sys.stdout.buffer.write(source.data if source else self._stdin)
        sys.stdout.buffer.flush()

    def _render(self, outcomes: Iterable[Outcome], style: Style) -> Iterator[str]:
        findings = [
            Finding(outcome.source, diagnostic)
            for outcome in outcomes
            for diagnostic in outcome.findings
            if outcome.source
        ]
        if not self._options.statistics:
            return report.renderer(self._options.output_format)(findings, style)
        if self._options.output_format == "json":
            return statistics.render_json(findings, style)
        return statistics.render(findings, style)

    def _print_diffs(
        self, outcomes: Sequence[Outcome], found: Sequence[Diagnostic], fixed: int
    ) -> None:
        from amp_lint.report.diff import diff

        style = style_of(sys.stdout)
        for outcome in outcomes:
            if outcome.before and outcome.source:
                sys.stdout.buffer.writelines(diff(outcome.before, outcome.source, style))
        sys.stdout.buffer.flush()
        if not self._options.quiet:
            for line in diff_summary(found, fixed, unsafe=self._options.unsafe_fixes):
                print(line, file=sys.stderr)

    def _error(self, path: str, problem: str) -> None:
        """Say what is wrong with a path, once."""
        line = f"error: {path}: {problem}" if path else f"error: {problem}"
        if line not in self._errors:
            self._errors.add(line)
            self._progress.clear()
            print(line, file=sys.stderr)

    def _warn(self, text: str) -> None:
        if not self._options.quiet:
            print(f"warning: {text}", file=sys.stderr)


def from_here(path: Path) -> Path:
    """``path`` from the current directory, where it lies below it."""
    return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path


def style_of(stream: TextIO, *, unsafe: bool = False) -> Style:
    """What a stream can show."""
    width = shutil.get_terminal_size().columns if stream.isatty() else 80
    return Style(_wants_color(stream), width, unsafe, wrap=stream.isatty())


def _wants_color(stream: TextIO) -> bool:
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR", "0") not in ("", "0"):
        return True
    return stream.isatty() and os.environ.get("TERM") != "dumb"
