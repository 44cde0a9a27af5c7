"""The command line: ``amp-lint [check] [OPTIONS] [PATHS]`` and its other commands."""

from __future__ import annotations

import io
import sys
from collections.abc import Sequence
from pathlib import Path

from amp_lint import __version__
from amp_lint.arguments import parse
from amp_lint.run import streams
from amp_lint.run.choice import ConfigError
from amp_lint.run.session import CLEAN, ERROR, Session
from amp_lint.run.wording import did_you_mean, in_a_line
from amp_lint.text.printable import printable

COMMANDS = (
    "census", "check", "completions", "help", "report", "rule", "run", "server", "verify",
    "version", "why",
)  # fmt: skip
"""What the first argument may be; a path that is called so is written ``./check``."""
_TOO_LONG = 12
"""Letters of a word that is no misspelled command."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run amp-lint and give its exit code; ``arguments`` default to those of the process."""
    arguments = sys.argv[1:] if arguments is None else arguments
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    try:
        code = _command(arguments)
    except SystemExit as ended:  # argparse has shown help
        if ended.code or not streams.failure(sys.stdout):
            raise
        code = CLEAN
    except ConfigError as error:
        print(f"error: {printable(str(error))}", file=sys.stderr)
        code = ERROR
    except Exception as error:
        print(f"error: {in_a_line(error)}", file=sys.stderr)
        code = ERROR
    if problem := streams.failure(sys.stdout):
        print(f"error: stdout: cannot be written: {problem}; send it elsewhere", file=sys.stderr)
        return ERROR
    return code


def is_lint(arguments: Sequence[str]) -> bool:
    """Whether some arguments ask for what amp-lint does without a command."""
    return not arguments or arguments[0] == "check" or arguments[0] not in COMMANDS


def _command(arguments: Sequence[str]) -> int:
    command, rest = (arguments[0], arguments[1:]) if arguments else ("", arguments)
    if command == "rule":
        from amp_lint.explain import explain

        return explain(rest)
    if command == "why":
        from amp_lint.why import why

        return why(rest)
    if command == "verify":
        from amp_lint.verify import cli

        return cli.main(rest)
    if command in ("run", "report"):
        from amp_lint.runtime import cli as runtime

        return (runtime.run if command == "run" else runtime.report_records)(rest)
    if command == "server":
        from amp_lint.server import cli as server

        return server.main(rest)
    if command == "census":
        from amp_lint.census import cli as census

        return census.main(rest)
    if command == "completions":
        from amp_lint.completions import completions

        return completions(rest)
    if command == "help":
        return _help(rest)
    if command == "version":
        print(f"amp-lint {__version__}")
        return CLEAN
    return check(rest if command == "check" else arguments)


def check(arguments: Sequence[str]) -> int:
    """Lint, and fix where asked; the exit code.

    Raises:
        ConfigError: an option is wrong, or what should be a path is a misspelled command.
    """
    options = parse(arguments)
    first = options.paths[0] if options.paths else ""
    if first.isalpha() and len(first) < _TOO_LONG and not Path(first).exists():
        if first in COMMANDS:
            raise ConfigError(f"{first}: no such path; as a command it stands before all options")
        if meant := did_you_mean(first, COMMANDS):
            raise ConfigError(f"{first}: no such path{meant}")
    if options.watch:
        from amp_lint.watching import watch

        return watch(options)
    return Session(options).run()


def _help(arguments: Sequence[str]) -> int:
    command = arguments[0] if arguments else "check"
    if command not in COMMANDS:
        meant = did_you_mean(command, COMMANDS) or f"; there are {', '.join(COMMANDS)}"
        raise ConfigError(f"help: {command}: no such command{meant}")
    own = ("census", "completions", "report", "rule", "run", "server", "verify", "why")
    return _command([command if command in own else "check", "--help"])
