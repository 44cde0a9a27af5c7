"""``amp-lint verify``: prove the rules' pages, the fixes of user files, or a change of any file."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from amp_lint import registry
from amp_lint.arguments import Parser, add_files, add_selection, positive, words
from amp_lint.engine import AnalysisError
from amp_lint.report.terminal import style_of
from amp_lint.rule import Rule
from amp_lint.run import config, session
from amp_lint.run.config import ConfigError
from amp_lint.run.discover import Discovery, Found, unreadable
from amp_lint.run.progress import Progress
from amp_lint.run.session import CLEAN, ERROR, FOUND
from amp_lint.selection import Selection
from amp_lint.syntax.cells import opened, python
from amp_lint.text import files
from amp_lint.text.printable import counted
from amp_lint.text.source import SourceError
from amp_lint.verify import catalogue, markdown, prover, record, report
from amp_lint.verify.branch import OPTION, Changed, changed
from amp_lint.verify.live import Live, Task, torch_in_use
from amp_lint.verify.proof import Proof, ProofSettings, Verdict
from amp_lint.verify.prover import Change, Prover, VerifyError, choose_device
from amp_lint.verify.record import Entry
from amp_lint.verify.sites import Site, sites

DTYPES = ("float16", "bfloat16", "float32")
MODES = ("eager", "compiled", "emulated")
_WORST = tuple(v.exit_code for v in (Verdict.REFUTED, Verdict.NOT_COMPARABLE, Verdict.CHANGES))
"""The exit codes that are not 0, the one that somebody has to hear of first."""


class VerifyOptions(session.LintOptions):
    """The options of ``amp-lint verify``."""

    what: list[str]
    before: Path | None
    after: Path | None
    before_ref: str | None
    device: str
    dtype: list[str]
    mode: list[str]
    seed: int
    examples: int
    limit: float | None
    file_limit: float
    record: Path | None
    plot: Path | None


def main(arguments: Sequence[str]) -> int:
    """Run ``amp-lint verify``; the exit code.

    Raises:
        ConfigError: an option is wrong.
    """
    options = parser().read(arguments, VerifyOptions())
    try:
        prover.require(*prover.NEEDED, *["matplotlib"] * bool(options.plot))
        return _Run(options).run()
    except VerifyError as error:
        print(f"error: {error}", file=sys.stderr)
        return ERROR


@dataclass(frozen=True, slots=True)
class _Files:
    """Two files that are held against each other."""

    change: Change
    place: str

    def entry(self, proof: Proof) -> Entry:
        """What came of it."""
        return Entry("", "change", self.place, proof)


class _Run:
    """Runs once: collects what to prove, proves it, prints it."""

    def __init__(self, options: VerifyOptions) -> None:
        self._options = options
        self._choice = options.settings(lambda problem: self._error("", problem))
        self._progress = Progress(enabled=not options.quiet)
        self._live = Live(self._progress)
        self._failed = False
        self._started = time.monotonic()
        self._style = style_of(sys.stdout)

    def run(self) -> int:
        """Prove and print; the exit code."""
        options, change = self._options, self._change()
        rules, paths = _split(options.what)
        branch = self._branch(rules, paths)
        if not (change or paths or rules or options.before_ref):
            rules = [*registry.all_rules()]
        settings = self._settings()
        with Prover(settings, limit=options.limit, file_limit=options.file_limit) as proving:
            if proving.settings.device != "cpu":
                with self._live.slow(f"starting {torch_in_use(proving.settings)}"):
                    proving.environment()
            if change:
                return self._compare(proving, change)
            if options.before_ref:
                return self._review(proving, branch)
            return self._verify(proving, rules, paths)

    def _change(self) -> Change | None:
        options = self._options
        if (options.before is None) != (options.after is None) or (options.before and options.what):
            raise ConfigError("command line: --before and --after stand together, without others")
        if options.before is None or options.after is None:
            return None
        before, after = (_text(path) for path in (options.before, options.after))
        return Change(before, after, str(options.after))

    def _branch(self, rules: Sequence[Rule], paths: Sequence[str]) -> list[Changed]:
        """What is changed since the revision that was named, if one was.

        Raises:
            ConfigError: it cannot be found out, or more than paths is asked for.
        """
        revision = self._options.before_ref
        if revision is None:
            return []
        if rules or self._options.before is not None:
            raise ConfigError(f"command line: {OPTION} takes files and folders, and no rules")
        sieve = Selection(tuple(registry.all_rules())).sieve
        return [*changed(revision, paths, lambda data: bool(sieve.by_bytes(data)), self._error)]

    def _settings(self) -> ProofSettings:
        options = self._options
        with self._live.slow("starting torch to look for a GPU"):
            device = choose_device(options.device)
        return ProofSettings(
            device=device,
            dtypes=tuple(options.dtype),
            modes=tuple(options.mode),
            seed=options.seed,
            examples=options.examples,
        )

    def _compare(self, proving: Prover, change: Change) -> int:
        options = self._options
        with_torch = torch_in_use(proving.settings)
        self._live.say(f"proving {options.after} against {options.before} with {with_torch}")
        files = _Files(change, f"{options.before} -> {options.after}")
        entries = self._live.prove(proving, [files], tell=lambda entry: "")
        self._tell(proving, entries)
        return ERROR if self._failed else entries[0].proof.exit_code

    def _review(self, proving: Prover, branch: Sequence[Changed]) -> int:
        """Prove what a branch changes; the exit code is that of the worst file."""
        options = self._options
        files = counted(len(branch), "file")
        with_torch = torch_in_use(proving.settings)
        self._live.say(f"proving {files} against {options.before_ref} with {with_torch}")
        entries = self._live.prove(proving, branch)
        self._tell(proving, entries)
        codes = {one.proof.exit_code for one in entries}
        return ERROR if self._failed else next((c for c in _WORST if c in codes), CLEAN)

    def _verify(self, proving: Prover, rules: list[Rule], paths: list[str]) -> int:
        with self._live.slow(f"looking for fixes in {' '.join(paths)}" if paths else ""):
            sites = [*self._sites(paths)]
        cases = [*catalogue.cases(rules)]
        pages = self._proven(proving, cases, rules)
        entries = self._proven(proving, sites)
        patterns = self._patterns(proving, rules, entries)
        if paths and not sites and not self._failed and not self._options.quiet:
            print("No fixable findings.", file=sys.stderr)
        if rules and not cases and not self._options.quiet:
            codes = ", ".join(rule.code for rule in rules)
            print(f"No fixes to prove or refute on the pages of {codes}.", file=sys.stderr)
        self._tell(proving, pages + entries, patterns)
        return self._code(pages + patterns, entries)

    def _proven(
        self, proving: Prover, tasks: Sequence[Task], rules: Sequence[Rule] = (), why: str = ""
    ) -> list[Entry]:
        """What came of sites, or of fixes on the pages of rules; the first line says of which."""
        if not tasks:
            return []
        if rules:
            one = rules[0].code if len(rules) == 1 else f"{len(rules)} rules"
            fixes = counted(len(tasks), "fix")
            what = f"trying {fixes}, right and wrong, on the pages of {one}{why}"
        else:
            files = len({task.change.name for task in tasks})
            what = f"proving {counted(len(tasks), 'fix')} in {counted(files, 'file')}"
        self._live.say(f"{what} with {torch_in_use(proving.settings)}")
        return self._live.prove(proving, tasks)

    def _patterns(
        self, proving: Prover, done: Sequence[Rule], entries: Sequence[Entry]
    ) -> list[Entry]:
        """The pages of the rules whose sites cannot be compared."""
        codes = {one.rule for one in entries if one.proof.verdict is Verdict.NOT_COMPARABLE}
        todo = [r for r in registry.all_rules() if r.code in codes and r not in done]
        return self._proven(proving, [*catalogue.cases(todo)], todo, ", on which such sites rest,")

    def _sites(self, paths: Sequence[str]) -> Iterator[Site]:
        discovery = Discovery(self._choice, self._error, force_exclude=self._options.force_exclude)
        count = 0
        for number, found in enumerate(discovery.files(map(Path, paths)), 1):
            for site in self._of_file(found):
                count += 1
                yield site
            self._live.show(f"{number} files looked at, {counted(count, 'fix')} found")

    def _of_file(self, found: Found) -> Sequence[Site]:
        name = str(files.from_here(found.path))
        try:
            selection = self._choice.selection(found.path)
            data = files.read(found.path)
            if found.named or any(map(selection.sieve.by_bytes, python(data, name))):
                return [*sites(opened(data, name), selection, named=found.named)]
        except (SourceError, AnalysisError) as error:
            self._error(name, str(error))
        except OSError as error:
            self._error(name, unreadable(error))
        except Exception as error:  # a bug in one rule must not cost the other files
            self._error(name, f"internal error, please report it: {type(error).__name__}: {error}")
        return []

    def _tell(
        self, proving: Prover, entries: Sequence[Entry], patterns: Sequence[Entry] = ()
    ) -> None:
        """Write what was asked for: the record, pictures, text.

        ``patterns`` are proofs of pages that nobody asked for, but which sites rest on.
        """
        self._progress.clear()
        options, all_ = self._options, [*entries, *patterns]
        where = proving.environment() if any(one.proof.environment for one in all_) else None
        written = record.dumps(record.record(all_, proving.settings, where))
        self._write(written, entries)
        if options.output_format == "json":
            print(written, end="")
            return
        if options.before_ref and options.output_format is None:
            seconds = time.monotonic() - self._started
            print(markdown.comment(entries, where, seconds), end="")
            return
        paragraphs = [*self._paragraphs(entries, patterns)]
        paragraphs.append([*report.closing(all_, where, time.monotonic() - self._started)])
        blocks = ("".join(f"{line}\n" for line in lines) for lines in paragraphs if lines)
        print("\n".join(blocks), end="")

    def _write(self, written: str, entries: Sequence[Entry]) -> None:
        """The record and the pictures, where they are wanted."""
        options = self._options
        try:
            if options.record:
                data = written.encode("utf-8", "backslashreplace")  # as JSON writes a surrogate
                options.record.write_bytes(data)
            if options.plot:
                from amp_lint.verify import plot

                plot.draw(entries, options.plot)
        except OSError as error:
            place = str(error.filename or options.record or options.plot)
            self._error(place, f"cannot be written: {error.strerror or error}; name another file")

    def _paragraphs(
        self, entries: Sequence[Entry], patterns: Sequence[Entry]
    ) -> Iterator[list[str]]:
        pages = [one for one in entries if one.on_page] + [*patterns]
        shown = [one for one in entries if not (self._options.quiet and one.right)]
        yield from report.paragraphs(shown, self._style, record.proven(pages))
        if pages:
            yield [*report.table(pages, self._style)]

    def _code(self, pages: Sequence[Entry], entries: Sequence[Entry]) -> int:
        if self._failed:
            return ERROR
        if any(one.proof.verdict is Verdict.REFUTED for one in entries):
            return FOUND
        if not all(one.right for one in pages):
            return FOUND
        if any(
            one.right and one.kind != "wrong fix" and one.proof.not_run
            for one in (*pages, *entries)
        ):
            return ERROR
        return CLEAN  # a site that is not lifted rests on its page

    def _error(self, path: str, problem: str) -> None:
        self._failed = True
        self._progress.clear()
        print(f"error: {path}: {problem}" if path else f"error: {problem}", file=sys.stderr)


def _split(what: Sequence[str]) -> tuple[list[Rule], list[str]]:
    """Rules and paths; what exists is a path.

    Raises:
        ConfigError: something is neither.
    """
    rules: dict[str, Rule] = {}
    paths: list[str] = []
    for item in what:
        if Path(item).exists():
            paths.append(item)
        elif not (named := config.matching(item)):
            raise ConfigError(f"{item}: no such rule or file; `amp-lint rule` lists the rules")
        else:
            rules.update((rule.code, rule) for rule in named)
    return [rules[code] for code in sorted(rules)], paths


def _text(path: Path) -> str:
    try:
        return opened(files.read(path), str(path)).text
    except OSError as error:
        raise ConfigError(f"{path}: {unreadable(error)}") from error
    except SourceError as error:
        raise ConfigError(f"{path}: {error}") from error


def _choices(allowed: Sequence[str]) -> Callable[[str], list[str]]:
    def parse(value: str) -> list[str]:
        given = words(value)
        if not given or not set(given) <= set(allowed):
            raise argparse.ArgumentTypeError(f"{value!r}; choose from {','.join(allowed)}")
        return given

    return parse


def parser() -> Parser:
    """The parser of its arguments."""
    made = Parser(
        "amp-lint verify",
        usage="amp-lint verify [OPTIONS] [CODE|NAME|PATH ...]\n"
        "       amp-lint verify [OPTIONS] --before OLD.py --after NEW.py\n"
        "       amp-lint verify [OPTIONS] --before-ref REV [PATH ...]",
        description="Prove fixes by experiment: those of rules, of the findings in files, or one "
        "change of a file, or those of a branch. No code is executed; what it computes is lifted "
        "and run. Default: all rules.",
        epilog="Exit code: 0 if all is proven, or rests on the page of its rule, which is; 1 if "
        "something is refuted; 3 if two files differ in what they do, and a setting explains it; 2 "
        "if they are not comparable, something went wrong, or a mode could not be run, such as "
        "compiled without a compiler (--mode=eager does not ask for it). "
        "While proofs are under way, stderr gets a line for each that is done.",
        allow_abbrev=False,
    )
    made.add_argument("what", nargs="*", metavar="CODE|NAME|PATH", help="rules, files, folders")
    made.add_argument("--before", type=Path, metavar="OLD.py", help="a file as it was")
    made.add_argument("--after", type=Path, metavar="NEW.py", help="the file as it is now")
    made.add_argument(
        OPTION,
        metavar="REV",
        help="each file that was changed since history left this revision; prints Markdown",
    )
    _add_experiments(made.add_argument_group("experiments"))
    add_selection(made.add_argument_group("rules for files"))
    add_files(made.add_argument_group("files"))
    _add_output(made.add_argument_group("output"))
    return made


def _add_experiments(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--device", default="auto", help="auto, cpu, cuda or cuda:1 (default: auto)")
    for name, allowed in (("dtype", DTYPES), ("mode", MODES)):
        joined = ",".join(allowed)
        group.add_argument(
            f"--{name}",
            type=_choices(allowed),
            default=list(allowed),
            metavar=f"{name.upper()}S",
            help=f"separated by commas (default: {joined})",
        )
    group.add_argument("--seed", type=int, default=0, help="of all random inputs (default: 0)")
    group.add_argument(
        "--examples",
        type=positive,
        default=100,
        metavar="N",
        help="random inputs for each dtype (default: 100)",
    )
    group.add_argument(
        "--limit",
        type=positive,
        metavar="SECONDS",
        help=f"time for one obligation (default: {prover.LIMIT:g}, with torch.compile "
        f"{prover.LIMIT + prover.TO_COMPILE:g})",
    )
    group.add_argument(
        "--file-limit",
        type=positive,
        default=prover.FILE_LIMIT,
        metavar="SECONDS",
        help=f"time after which no more fixes of a file are tried (default: {prover.FILE_LIMIT:g})",
    )


def _add_output(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--record", type=Path, metavar="FILE.json", help="write the record there")
    group.add_argument("--plot", type=Path, metavar="DIR", help="draw the errors there")
    group.add_argument(
        "--output-format",
        choices=("full", "json"),
        help=f"default: full, Markdown with {OPTION}",
    )
    group.add_argument("-q", "--quiet", action="store_true", help="print what is not proven")
