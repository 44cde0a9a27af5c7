"""The options of the command line, in ruff's words."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import NoReturn, TypeVar

from amp_lint import __version__, report
from amp_lint.run.choice import ConfigError
from amp_lint.run.session import LintOptions
from amp_lint.run.target import parse_version
from amp_lint.run.wording import did_you_mean

_Namespace = TypeVar("_Namespace", bound=argparse.Namespace)


class Parser(argparse.ArgumentParser):
    """Says what is wrong in one line, and what somebody may have meant."""

    def error(self, message: str) -> NoReturn:
        """Refuse the arguments.

        Raises:
            ConfigError: always.
        """
        message = message.replace("ignored explicit argument", "takes no value, and is given")
        raise ConfigError(f"{message} (`{self.prog} --help` lists the options)")

    def read(self, arguments: Sequence[str], options: _Namespace) -> _Namespace:
        """Options and paths in any order; what follows ``--`` are paths.

        Raises:
            ConfigError: an option is unknown or wrong.
        """
        arguments = [*arguments]
        end = arguments.index("--") if "--" in arguments else len(arguments)
        options, unknown = self.parse_known_intermixed_args(arguments[:end], options)
        for option in (each for each in unknown if each.startswith("-")):
            name = option.partition("=")[0]
            self.error(f"unknown option {name}{did_you_mean(name, self._option_string_actions)}")
        (positional,) = (action.dest for action in self._get_positional_actions())
        setattr(options, positional, [*getattr(options, positional), *arguments[end + 1 :]])
        return options


def parse(arguments: Sequence[str]) -> LintOptions:
    """The options and paths of ``amp-lint``, or of ``amp-lint check``.

    Raises:
        ConfigError: an option is unknown or wrong.
    """
    return parser().read(arguments, LintOptions())


def parser() -> Parser:
    """The parser for linting."""
    made = Parser(
        "amp-lint",
        usage="amp-lint [check] [OPTIONS] [PATHS]\n"
        "       amp-lint rule [CODE|NAME|--all] [--full]\n"
        "       amp-lint why TEXT|LOG [PATHS]\n"
        "       amp-lint verify [OPTIONS] [CODE|NAME|PATH ...]\n"
        "       amp-lint run [OPTIONS] SCRIPT|-m MODULE [ARGUMENTS]\n"
        "       amp-lint report [OPTIONS] RECORD ...\n"
        "       amp-lint server [OPTIONS]\n"
        "       amp-lint census [OPTIONS] INPUT OUTPUT\n"
        "       amp-lint completions bash|zsh|fish\n"
        "       amp-lint help [COMMAND] | version",
        description="Find mixed-precision bugs in PyTorch code and fix them.",
        epilog="`amp-lint rule` lists the rules, `amp-lint rule AMP101` explains one,\n"
        '`amp-lint why "loss is nan"` says which are about a symptom.\n'
        "A path that is called like a command is written `./check`.\n"
        "Exit code: 0 nothing found, 1 something found, 2 something went wrong.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    made.add_argument(
        "paths", nargs="*", metavar="PATHS", help="files, directories, - for stdin (default: .)"
    )
    made.add_argument("-V", "--version", action="version", version=f"amp-lint {__version__}")
    _add_fixing(made.add_argument_group("fixing"))
    add_selection(made.add_argument_group("rules"))
    files = made.add_argument_group("files")
    add_files(files)
    files.add_argument(
        "--watch", action="store_true", help="lint again when a file changes, until Ctrl-C"
    )
    files.add_argument("--stdin-filename", metavar="PATH", help="what to call stdin")
    _add_output(made.add_argument_group("output"))
    return made


def _add_fixing(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--fix", action="store_true", help="apply the safe fixes")
    group.add_argument(
        "--unsafe-fixes", action="store_true", help="with --fix or --diff, the unsafe fixes too"
    )
    group.add_argument(
        "--diff", action="store_true", help="show what --fix would change, and change nothing"
    )
    group.add_argument(
        "--prove",
        action="store_true",
        help="apply only fixes that are proven (needs the extra verify)",
    )
    group.add_argument(
        "--add-noqa", action="store_true", help="silence every finding by a comment on its line"
    )


def add_rules(group: argparse._ArgumentGroup, target: str = "what the project requires") -> None:
    """The options that say which rules run, without files; ``target`` is the torch by default."""
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
        help=f"oldest torch that fixed code must run on (default: {target})",
    )
    group.add_argument(
        "--ignore-noqa", action="store_true", help="report what noqa comments suppress too"
    )


def add_selection(group: argparse._ArgumentGroup) -> None:
    """The options that say which rules run, and where settings come from."""
    add_rules(group)
    for name, text in (
        ("--per-file-ignores", "do not run these on these files: PATTERN:RULE, comma-separated"),
        ("--extend-per-file-ignores", "the same, beside those of the settings"),
    ):
        group.add_argument(name, action="extend", type=_ignored, metavar="LIST", help=text)
    group.add_argument(
        "--config",
        action="append",
        metavar="FILE|KEY=VALUE",
        help="settings file to use for all files, or one setting, as TOML",
    )
    group.add_argument(
        "--isolated",
        action="store_true",
        help="ignore all settings files, and the torch that the project requires",
    )


def add_files(group: argparse._ArgumentGroup) -> None:
    """The options that say which files are looked at."""
    for name, text in (
        ("--exclude", "leave out what matches these patterns of .gitignore, not those in settings"),
        ("--extend-exclude", "leave these out too"),
        ("--extend-include", "look for these too, such as *.md, beside .py and .ipynb"),
    ):
        group.add_argument(name, action="extend", type=_patterns, metavar="PATTERNS", help=text)
    group.add_argument(
        "--docstring-code",
        action="store_true",
        default=None,
        help="lint the Python in docstrings, too: fences, code blocks, doctests",
    )
    group.add_argument(
        "--force-exclude",
        action="store_true",
        help="exclude even what is named on the command line",
    )


def _add_output(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--output-format", choices=report.FORMATS, default="full", help="default: full"
    )
    group.add_argument(
        "-o", "--output-file", metavar="FILE", help="write there what stdout would show"
    )
    group.add_argument("--baseline", metavar="FILE", help="report only what it does not list")
    group.add_argument(
        "--diff-base", metavar="REV", help="report only lines that git says changed since then"
    )
    group.add_argument("--write-baseline", metavar="FILE", help="list what is found now in it")
    group.add_argument(
        "--show-all", action="store_true", help="show each deprecation, not one line for a file"
    )
    group.add_argument("--statistics", action="store_true", help="show counts for each rule")
    group.add_argument("--show-files", action="store_true", help="list the files, lint none")
    group.add_argument(
        "--show-settings", action="store_true", help="show what governs the files, lint none"
    )
    group.add_argument("-q", "--quiet", action="store_true", help="print findings, nothing else")
    group.add_argument(
        "-e", "--exit-zero", action="store_true", help="exit with 0 even if something is found"
    )
    group.add_argument(
        "--exit-non-zero-on-fix",
        action="store_true",
        help="exit with 1 if something was fixed, even if nothing is left",
    )


def words(value: str) -> list[str]:
    """What stands between the commas."""
    return [item.strip() for item in value.split(",") if item.strip()]


def positive(value: str) -> int:
    """A number from 1."""
    if not value.isdecimal() or int(value) < 1:
        raise argparse.ArgumentTypeError(f"{value!r} is not a positive number")
    return int(value)


def _version(value: str) -> tuple[int, int]:
    version = parse_version(value)
    if version is None:
        raise argparse.ArgumentTypeError(f"{value!r} is not a version such as 2.3")
    return version


def _patterns(value: str) -> list[str]:
    return [_pattern(item) for item in words(value)]


def _pattern(text: str) -> str:
    from amp_lint.run.gitignore import Pattern, PatternError

    try:
        Pattern.parse(text)
    except PatternError as error:
        raise argparse.ArgumentTypeError(f"bad pattern: {error}") from error
    return text


def _ignored(value: str) -> list[tuple[str, tuple[str, ...]]]:
    """Pairs of a pattern and the selectors for it."""
    return [_pair(item) for item in words(value)]


def _pair(item: str) -> tuple[str, tuple[str, ...]]:
    pattern, colon, selector = item.rpartition(":")
    if not (pattern and colon and selector):
        raise argparse.ArgumentTypeError(f"{item!r} is not PATTERN:RULE")
    return _pattern(pattern), (selector,)
