"""``amp-lint census``: judges a fleet of repositories, and reports on what it has found."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from amp_lint import api, arguments
from amp_lint.arguments import Parser
from amp_lint.census.options import CensusOptions, ReportOptions
from amp_lint.run.choice import ConfigError
from amp_lint.run.workers import count

_NEEDED = ("duckdb", "matplotlib", "pyarrow", "ray")


def main(given: Sequence[str]) -> int:
    """Run ``amp-lint census``, or its report; the exit code.

    Raises:
        ConfigError: an option or the input is wrong, or the extra ``census`` is not installed.
    """
    try:
        if given[:1] == ["report"]:
            from amp_lint.census.report import report

            return report(report_parser().read(given[1:], ReportOptions()))
        options = parser().read(given, CensusOptions())
        if len(options.where) != 2:
            raise ConfigError("census: give INPUT and OUTPUT (`amp-lint census --help` says more)")
        api.selection(options.settings)
        from amp_lint.census.run import run

        return run(options)
    except ModuleNotFoundError as error:
        name = (error.name or "").partition(".")[0]
        if name not in _NEEDED:
            raise
        advice = '`pip install "amp-lint[census]"` brings it'
        raise ConfigError(f"census: {name} is not installed; {advice}") from error


def parser() -> Parser:
    """The parser for a census."""
    made = Parser(
        "amp-lint census",
        usage="amp-lint census [OPTIONS] INPUT OUTPUT\n       amp-lint census report OUTPUT",
        description="Judge a fleet of repositories: findings and files as Parquet datasets.",
        epilog="INPUT is a Parquet file or folder with a row for each file, a folder of git "
        "repositories (what HEAD names), a folder of wheels and archives, or a text file that "
        "names packages, one a line. OUTPUT is a folder; a run that was ended goes on there. "
        "Nothing of what is judged is executed. Exit code: 0 done, 2 something went wrong.",
        allow_abbrev=False,
    )
    made.add_argument(
        "where", nargs="*", metavar="INPUT OUTPUT", help="what is judged, and where to"
    )
    _add_input(made.add_argument_group("input"))
    _add_work(made.add_argument_group("work"))
    made.add_argument("-q", "--quiet", action="store_true", help="say nothing of how far it is")
    arguments.add_rules(made.add_argument_group("rules"), "the newest")
    return made


def _add_input(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--column",
        action="append",
        type=_column,
        metavar="WHAT=NAME",
        help="what a column of a dataset is called: repository, path, content, commit or date",
    )
    group.add_argument(
        "--cross-file",
        action="store_true",
        help="follow imports within each repository, as amp-lint does in a folder",
    )


def _add_work(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--workers",
        type=arguments.positive,
        default=count(),
        metavar="N",
        help="processes that judge (default: the CPUs of this machine)",
    )
    group.add_argument(
        "--address", metavar="ADDRESS", help="of a Ray cluster that sees INPUT and OUTPUT"
    )
    group.add_argument(
        "--block-rows",
        type=arguments.positive,
        default=2000,
        metavar="N",
        help="rows of a dataset that are judged at once, and lost with a worker (default: 2000)",
    )
    group.add_argument(
        "--max-bytes",
        type=arguments.positive,
        default=2_000_000,
        metavar="N",
        help="refuse larger files (default: 2000000)",
    )


def report_parser() -> Parser:
    """The parser for the report."""
    made = Parser(
        "amp-lint census report",
        usage="amp-lint census report [OPTIONS] OUTPUT",
        description="Say in Markdown what a census has found.",
        allow_abbrev=False,
    )
    made.add_argument("where", nargs="*", metavar="OUTPUT", help="the folder of a census")
    made.add_argument(
        "--sample",
        type=arguments.positive,
        default=20,
        metavar="N",
        help="findings to judge by hand, drawn at random (default: 20)",
    )
    made.add_argument("--seed", type=int, default=0, help="of the sample (default: 0)")
    made.add_argument("-o", "--output-file", type=Path, metavar="FILE", help="write the page there")
    made.add_argument(
        "--picture", type=Path, metavar="FILE.svg", help="draw shares of repositories"
    )
    return made


def _column(value: str) -> tuple[str, str]:
    what, equals, name = value.partition("=")
    known = ("repository", "path", "content", "commit", "date")
    if not (equals and name) or what not in known:
        raise argparse.ArgumentTypeError(f"{value!r} is not one of {', '.join(known)} with =NAME")
    return what, name
