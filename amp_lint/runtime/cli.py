"""``amp-lint run`` and ``amp-lint report``: a training is watched; what it showed is told."""

from __future__ import annotations

import argparse
import importlib.util
import os
import sys
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from amp_lint import __version__, arguments, report
from amp_lint.arguments import Parser
from amp_lint.report import FOR_PEOPLE, Finding
from amp_lint.report.terminal import style_of
from amp_lint.run.choice import ConfigError
from amp_lint.run.session import CLEAN, ERROR, FOUND, Session
from amp_lint.run.wording import in_a_line
from amp_lint.runtime import script
from amp_lint.runtime.frames import project_files
from amp_lint.runtime.join import Join
from amp_lint.runtime.numerics.schedule import Level, Sampling
from amp_lint.runtime.record import Record, Recorder, RecordError, folded, read
from amp_lint.runtime.sources import Sources
from amp_lint.runtime.tell import Said, ending, is_silenced, said, shown
from amp_lint.text.diagnostic import Severity
from amp_lint.text.printable import printable

if TYPE_CHECKING:
    from amp_lint.runtime.watch import Watch

_RANK, _WORLD = "RANK", "WORLD_SIZE"
"""What a launcher of several processes tells each in its environment."""
_COLUMNS = 100


class TellOptions(argparse.Namespace):
    """How what a run has shown is told."""

    output_format: str
    output_file: str | None
    exit_zero: bool
    picture: Path | None


class RunOptions(TellOptions):
    """The options of ``amp-lint run``."""

    module: bool
    level: Level
    budget: float
    every: int | None
    at: int | None
    record: Path | None
    raise_: bool
    policy: str | None
    what: str
    arguments: list[str]


class ReportOptions(TellOptions):
    """The options of ``amp-lint report``."""

    records: list[Path]


def run(given: Sequence[str]) -> int:
    """Run ``amp-lint run``; the exit code: the script's own, or 1 where an error was found.

    Raises:
        ConfigError: an option is wrong, or there is no such script or torch.
    """
    options = run_parser().parse_args(given, RunOptions())
    if importlib.util.find_spec("torch") is None:
        raise ConfigError("run: torch is not installed here; run amp-lint where the training runs")
    if not options.module and not Path(options.what).is_file():
        raise ConfigError(f"{options.what}: no such script; a module is run with -m")
    from amp_lint.runtime.watch import Watch

    sampling = Sampling(options.level, options.budget, options.every, options.at)
    policy = _policy(options)
    watch = Watch(_recorder(options), raising=options.raise_, sampling=sampling)
    with policy:
        ending = _watched(watch, options)
    sys.stdout.flush()
    if int(os.environ.get(_RANK) or 0) and options.record is None:
        return ending.code  # the first process tells
    try:
        found = _tell(watch.record, options)  # also of a script that has failed
    except Exception as error:
        if not ending.code:
            raise
        known = isinstance(error, ConfigError)
        print(f"error: {printable(str(error)) if known else in_a_line(error)}", file=sys.stderr)
        return ending.code
    return ending.code or found


def _policy(options: RunOptions) -> AbstractContextManager[None]:
    """What makes autocast follow the lists of another device, where that is wanted.

    Raises:
        ConfigError: they are those of this machine.
    """
    if options.policy is None:
        return nullcontext()
    from amp_lint.runtime.policy import CudaPolicy, is_needed

    if not is_needed():
        raise ConfigError(
            "--policy cuda: there is CUDA here, which follows its own lists; leave it out"
        )
    return CudaPolicy()


def _watched(watch: Watch, options: RunOptions) -> script.Ending:
    """Run the script and watch it."""
    watch.findings.files = lambda: _files(options)
    watch.start()
    ending = script.Ending(ERROR, ended=False)
    try:
        ending = script.run(options.what, options.arguments, module=options.module)
    finally:
        watch.findings.name_files()
        watch.stop(ended=ending.ended, failed=ending.code != 0, error=ending.error)
    return replace(ending, error=None)  # whose frames hold what the training has made


def _files(options: RunOptions) -> list[str]:
    """The files of the project that have run: those here, and those beside the script."""
    here, main = str(Path.cwd()), Path(options.what).absolute()
    if options.module:
        return project_files([here])
    return [*dict.fromkeys([str(main), *project_files([here, str(main.parent)])])]


def _recorder(options: RunOptions) -> Recorder | None:
    """What writes the record of this process, where one is wanted."""
    path = options.record
    if path is None:
        return None
    rank = os.environ.get(_RANK, "")
    if int(os.environ.get(_WORLD) or 1) > 1 and rank:
        path = path.with_name(f"{path.stem}.rank{rank}{path.suffix}")
    about = {"amp-lint": __version__, "directory": str(Path.cwd()), "rank": rank}
    about["command"] = " ".join([options.what, *options.arguments])
    try:
        return Recorder(path, about)
    except RecordError as error:
        raise ConfigError(str(error)) from error


def report_records(given: Sequence[str]) -> int:
    """Run ``amp-lint report``; 1 where the records show an error.

    Raises:
        ConfigError: an option is wrong, or a file is no record.
    """
    options = report_parser().parse_args(given, ReportOptions())
    try:
        record = folded([read(path) for path in options.records])
    except RecordError as error:
        raise ConfigError(str(error)) from error
    return _tell(record, options)


def _tell(record: Record, options: TellOptions) -> int:
    """Print what a record shows, together with what the linter finds; 1 for an error."""
    sources = Sources()
    wanted = _wanted(said(record))
    joined = Join(record, sources).joined(_linted(record.files), wanted)
    found = [each for each in joined if not is_silenced(each)]
    _print(found, record, options)
    if options.picture is not None:
        _draw(record, options.picture)
    wrong = (each for each in found if "first" in each.shown)  # which the run has shown
    errors = any(each.diagnostic.severity is Severity.ERROR for each in wrong)
    return FOUND if errors and not options.exit_zero else CLEAN


def _wanted(seen: Sequence[Said]) -> list[Said]:
    """What no setting of its file leaves out; a run is certain also of rules in preview."""
    settings = arguments.parse(["--preview"]).settings(lambda problem: None)
    return [each for each in seen if each.rule in settings.selection(Path(each.place.file)).rules]


def _draw(record: Record, path: Path) -> None:
    """Write the picture of a run.

    Raises:
        ConfigError: it cannot be drawn or written.
    """
    try:
        from amp_lint.runtime.picture import draw

        draw(record, path)
    except ImportError as error:
        raise ConfigError("--picture: needs matplotlib; install amp-lint[verify]") from error
    except (OSError, ValueError) as error:  # a format that matplotlib does not have
        raise ConfigError(f"{path}: cannot be written: {error}; name an SVG file") from error


def _linted(files: Iterable[str]) -> list[Finding]:
    """What the linter finds in the files that ran."""
    there = [file for file in files if Path(file).is_file()]
    if not there:
        return []
    session = Session(arguments.parse(["--quiet", "--", *there]))
    outcomes = [outcome for outcome in session.outcomes() if outcome.source]
    return [Finding(o.source, each) for o in outcomes for each in o.findings if o.source]


def _print(found: Sequence[Finding], record: Record, options: TellOptions) -> None:
    """To stderr, so that what the script prints stays what it is, or to a file."""
    if options.output_file is not None:
        from amp_lint.run.output import Output
        from amp_lint.text.writer import WriteError

        output = Output(Path(options.output_file))
        style = report.Style(width=_COLUMNS)
        output.stream.writelines(shown(found, options.output_format, style))
        try:
            output.close()
        except WriteError as error:
            raise ConfigError(f"{options.output_file}: {error}") from error
    else:
        style = style_of(sys.stderr, columns=_COLUMNS)
        sys.stderr.writelines(shown(found, options.output_format, style))
    if options.output_format in FOR_PEOPLE:
        for line in ending(record, found):
            print(printable(line), file=sys.stderr)


def _add_telling(made: Parser) -> None:
    made.add_argument(
        "--output-format", choices=report.FORMATS, default="full", help="default: full"
    )
    made.add_argument("-o", "--output-file", metavar="FILE", help="write there, not to stderr")
    made.add_argument(
        "--picture", type=Path, metavar="FILE.svg", help="draw the scale and the gradients there"
    )
    made.add_argument(
        "-e", "--exit-zero", action="store_true", help="exit with 0 even if an error was found"
    )


def run_parser() -> Parser:
    """The parser of what stands before the script."""
    made = Parser(
        "amp-lint run",
        usage="amp-lint run [OPTIONS] SCRIPT [ARGUMENTS]\n"
        "       amp-lint run [OPTIONS] -m MODULE [ARGUMENTS]",
        description="Run a training as python would, and watch it: which of the linter's mistakes "
        "happen, where, how often and with which numbers. Needs the torch of the training.",
        epilog="Exit code: the script's own; if that is 0, 1 where the run showed an error.",
        allow_abbrev=False,
    )
    made.add_argument("-m", dest="module", action="store_true", help="run a module by its name")
    _add_sampling(made)
    made.add_argument(
        "--record",
        type=Path,
        metavar="FILE",
        help="write there what happens, at once; each process of several has a file",
    )
    made.add_argument(
        "--raise",
        dest="raise_",
        action="store_true",
        help="raise an exception at the first error that is seen",
    )
    made.add_argument(
        "--policy",
        choices=["cuda"],
        help="where there is no CUDA: autocast on the CPU casts what that of CUDA does, and "
        "regions and scalers of CUDA are the CPU's; tensors stay on the CPU",
    )
    _add_telling(made)
    made.add_argument("what", metavar="SCRIPT", help="the file, or with -m the module")
    made.add_argument("arguments", nargs=argparse.REMAINDER, metavar="ARGUMENTS", help="its own")
    return made


def _add_sampling(made: Parser) -> None:
    made.add_argument(
        "--level",
        type=Level,
        choices=[*Level],
        default=Level.SAMPLED,
        metavar="LEVEL",
        help="protocol: calls; sampled: numbers of some steps, too (default); full: of all steps",
    )
    made.add_argument(
        "--budget",
        type=_share,
        default=Sampling().budget,
        metavar="SHARE",
        help="time that sampled steps may take, of the whole (default: 5%%)",
    )
    made.add_argument(
        "--every",
        type=_number,
        metavar="N",
        help="sample each Nth step and those after skipped ones",
    )
    made.add_argument(
        "--at", type=_number, metavar="STEP", help="sample this step, that another run has named"
    )


def _share(text: str) -> float:
    """A share of time, as ``5%``.

    Raises:
        argparse.ArgumentTypeError: it is none.
    """
    try:
        share = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        share = 0.0
    if not 0 < share <= 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no share of time; write 5%")
    return share


def _number(text: str) -> int:
    """A number from 1.

    Raises:
        argparse.ArgumentTypeError: it is none.
    """
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"{text!r} is no number of a step; they count from 1")
    return int(text)


def report_parser() -> Parser:
    """The parser of `amp-lint report`."""
    made = Parser(
        "amp-lint report",
        usage="amp-lint report [OPTIONS] RECORD [RECORD ...]",
        description="Tell what the records of a run show; those of several processes are one run.",
        epilog="Exit code: 0 no error was shown, 1 one was, 2 something went wrong.",
        allow_abbrev=False,
    )
    _add_telling(made)
    made.add_argument("records", nargs="+", type=Path, metavar="RECORD", help="of --record")
    return made
