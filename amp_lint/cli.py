"""The command line: ``amp-lint [OPTIONS] [PATHS]``, ``rule``, ``why`` and ``verify``."""

from __future__ import annotations

import argparse
import io
import os
import sys
from collections.abc import Sequence

from amp_lint import __version__, report
from amp_lint.config import ConfigError
from amp_lint.session import ERROR, FOUND, INTERRUPTED, Options, Session
from amp_lint.target import parse_version


def main(arguments: Sequence[str] | None = None) -> int:
    """Run amp-lint and give its exit code; ``arguments`` default to those of the process."""
    arguments = sys.argv[1:] if arguments is None else arguments
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    try:
        code = _command(arguments)
        sys.stdout.flush()
        return code
    except ConfigError as error:
        print(f"error: {error}", file=sys.stderr)
        return ERROR
    except BrokenPipeError:  # the reader, such as `head`, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FOUND
    except KeyboardInterrupt:
        print("interrupted: every file is either as it was or fixed", file=sys.stderr)
        return INTERRUPTED


def _command(arguments: Sequence[str]) -> int:
    if arguments[:1] == ["rule"]:
        from amp_lint.explain import explain

        return explain(arguments[1:])
    if arguments[:1] == ["why"]:
        from amp_lint.why import why

        return why(arguments[1:], parsed)
    if arguments[:1] == ["verify"]:
        from amp_lint.verify import cli

        return cli.main(arguments[1:])
    return check(arguments)


def check(arguments: Sequence[str]) -> int:
    """Lint, and fix where asked; the exit code.

    Raises:
        ConfigError: an option is wrong.
    """
    return Session(parsed(arguments)).run()


def parsed(arguments: Sequence[str]) -> Options:
    """The options of a run of the linter."""
    return _parser().parse_args(arguments, Options())


def words(value: str) -> list[str]:
    """What stands between the commas."""
    return [item.strip() for item in value.split(",") if item.strip()]


def _version(value: str) -> tuple[int, int]:
    version = parse_version(value)
    if version is None:
        raise argparse.ArgumentTypeError(f"{value!r} is not a version such as 2.3")
    return version


def positive(value: str) -> int:
    """A number from 1."""
    if not value.isdecimal() or int(value) < 1:
        raise argparse.ArgumentTypeError(f"{value!r} is not a positive number")
    return int(value)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        "amp-lint",
        usage="amp-lint [OPTIONS] [PATHS]\n"
        "       amp-lint rule [CODE|NAME|--all] [--full]\n"
        "       amp-lint why TEXT|LOG [PATHS]\n"
        "       amp-lint verify [OPTIONS] [CODE|NAME|PATH ...]",
        description="Find mixed-precision bugs in PyTorch code and fix them.",
        epilog="`amp-lint rule` lists the rules, `amp-lint rule AMP101` explains one,\n"
        '`amp-lint why "loss is nan"` says which are about a symptom.\n'
        "Exit code: 0 nothing found, 1 something found, 2 something went wrong.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument(
        "paths", nargs="*", metavar="PATHS", help="files, directories, - for stdin (default: .)"
    )
    parser.add_argument("--version", action="version", version=f"amp-lint {__version__}")
    _add_fixing(parser.add_argument_group("fixing"))
    add_selection(parser.add_argument_group("rules"))
    _add_files(parser.add_argument_group("files"))
    _add_output(parser.add_argument_group("output"))
    return parser


def _add_fixing(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--fix", action="store_true", help="apply the safe fixes")
    group.add_argument(
        "--unsafe-fixes", action="store_true", help="with --fix or --diff, the unsafe fixes too"
    )
    group.add_argument(
        "--diff", action="store_true", help="show what --fix would change, and change nothing"
    )
    group.add_argument(
        "--prove", action="store_true", help="apply only fixes that experiments prove (needs torch)"
    )


def add_selection(group: argparse._ArgumentGroup) -> None:
    """The options that say which rules run."""
    for name, text in (
        ("--select", "run only these: codes, prefixes, names or ALL, separated by commas"),
        ("--extend-select", "run these too"),
        ("--ignore", "do not run these"),
    ):
        group.add_argument(name, action="extend", type=words, metavar="RULES", help=text)
    group.add_argument("--preview", action="store_true", default=None, help="run preview rules too")
    group.add_argument(
        "--target-torch",
        type=_version,
        metavar="VERSION",
        help="oldest torch that fixed code must run on (default: what the project requires)",
    )
    group.add_argument(
        "--ignore-noqa", action="store_true", help="report what noqa comments suppress too"
    )
    group.add_argument(
        "--isolated",
        action="store_true",
        help="ignore all configuration files, and the torch that the project requires",
    )


def _add_files(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--force-exclude", action="store_true", help="exclude even files that are named"
    )
    group.add_argument("--stdin-filename", metavar="PATH", help="what to call stdin")


def _add_output(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--output-format", choices=report.FORMATS, default="full", help="default: full"
    )
    group.add_argument("--statistics", action="store_true", help="show counts for each rule")
    group.add_argument("-q", "--quiet", action="store_true", help="print findings, nothing else")
    group.add_argument(
        "-e", "--exit-zero", action="store_true", help="exit with 0 even if something is found"
    )
    group.add_argument(
        "--exit-non-zero-on-fix",
        action="store_true",
        help="exit with 1 if something was fixed, even if nothing is left",
    )


if __name__ == "__main__":
    sys.exit(main())
