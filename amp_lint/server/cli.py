"""``amp-lint server``: starts the language server on stdin and stdout."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from amp_lint.arguments import Parser, add_files, add_selection
from amp_lint.run.choice import ConfigError, check_selectors
from amp_lint.run.session import LintOptions
from amp_lint.server.declining import decline


def main(arguments: Sequence[str]) -> int:
    """Serve until the client says that it is enough; the exit code.

    Raises:
        ConfigError: an option is wrong, or the extra ``server`` is not installed.
    """
    options = parser().read(arguments, LintOptions())
    check_selectors(options.choice)
    try:
        from amp_lint.server.serving import serve
    except ModuleNotFoundError as error:
        if error.name not in ("pygls", "lsprotocol"):
            raise
        reason = f'{error.name} is not installed; `pip install "amp-lint[server]"` brings it'
        decline(reason)
        raise ConfigError(f"server: {reason}") from error
    return serve(options)


def parser() -> Parser:
    """The parser of its arguments."""
    made = Parser(
        "amp-lint server",
        usage="amp-lint server [OPTIONS]",
        description="Serve an editor: findings while somebody types, fixes, explanations, in "
        "the Language Server Protocol on stdin and stdout.",
        epilog="Exit code: 0 if the client shut it down, 1 if it just went away, 2 "
        "for an error. docs/editors.md has recipes for editors.",
        allow_abbrev=False,
    )
    made.add_argument("paths", nargs="*", help=argparse.SUPPRESS)
    made.add_argument("--stdio", action="store_true", help="as it does anyway")
    made.add_argument(
        "--unsafe-fixes", action="store_true", help='let "fix all" apply unsafe fixes too'
    )
    add_selection(made.add_argument_group("rules"))
    add_files(made.add_argument_group("files"))
    return made
