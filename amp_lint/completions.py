"""``amp-lint completions``: the script by which a shell completes commands, options and rules."""

from __future__ import annotations

import argparse
import copy
from collections.abc import Iterator, Sequence

from amp_lint import arguments as linting
from amp_lint import explain, registry, why
from amp_lint.run.choice import ConfigError
from amp_lint.run.session import CLEAN

SHELLS = ("bash", "zsh", "fish")
_HOW = {
    "bash": 'eval "$(amp-lint completions bash)"', "zsh": 'eval "$(amp-lint completions zsh)"',
    "fish": "amp-lint completions fish | source",
}  # fmt: skip
"""What a shell is to read when it starts."""
_COMMANDS = "_describe 'amp-lint commands' _commands"
_LAST = "\n        why)"
_OPTIONS = r"${_shtab_amp_lint_options:#(: :*|\*::: :*)}"
_OTHERS = f"\n        *.*|*/*|-*) _arguments -s {_OPTIONS} '*: :_files' ;;"
_START = "(( $+functions[compdef] )) || { autoload -Uz compinit && compinit }"
_USING = "\ncomplete -c amp-lint -n '_shtab_amp_lint_using"
_PATH = f"{_USING}' -ka '(__fish_complete_path (commandline -ct))' -d path"
_BESIDES = {
    "bash": ((" -o bashdefault -F", " -o bashdefault -o default -F"),),
    "zsh": (
        (_COMMANDS, f"{_COMMANDS}; _files"), (_LAST, f"{_OTHERS}{_LAST}"),
        ("\n  compdef ", f"\n  {_START}\n  compdef "),
    ),
    "fish": ((f"{_USING} why", f"{_PATH}{_USING} why"),),
}  # fmt: skip
"""What shtab has not: paths without ``check``, and a zsh that completes nothing so far."""
_RULES = frozenset({"rule", "select", "extend_select", "ignore"})
"""Arguments that are rules."""
_PATHS = frozenset({"paths", "records", "what", "script", "where"})
"""Arguments that are files."""


def completions(arguments: Sequence[str]) -> int:
    """Print the script for a shell; the exit code.

    Raises:
        ConfigError: the shell is unknown, or what makes the script is not installed.
    """
    shell = parser().read(arguments, argparse.Namespace()).shell
    if len(shell) != 1 or shell[0] not in SHELLS:
        given = " ".join(shell) or "no shell"
        raise ConfigError(f"completions: {given}: name one of {', '.join(SHELLS)}")
    try:
        import shtab
    except ModuleNotFoundError as error:
        advice = '`pip install "amp-lint[completions]"` brings it'
        raise ConfigError(f"completions: shtab is not installed; {advice}") from error
    script = shtab.complete(_whole(shtab.FILE), shell[0])
    print(f"# {_HOW[shell[0]]}")
    for old, new in _BESIDES[shell[0]]:
        script = script.replace(old, new)
    print(script)
    return CLEAN


def parser() -> linting.Parser:
    """The parser of its arguments."""
    lines = "".join(f"  {shell:<6}{how}\n" for shell, how in _HOW.items())
    made = linting.Parser(
        "amp-lint completions",
        usage=f"amp-lint completions {'|'.join(SHELLS)}",
        description="Print what completes amp-lint's commands, options and rules in a shell.",
        epilog=f"Where the shell is set up:\n{lines}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    made.add_argument("shell", nargs="*", metavar="SHELL", help=", ".join(SHELLS))
    return made


def _whole(files: object) -> argparse.ArgumentParser:
    """One parser with a command for each of ours; ``files`` marks what is completed as a path."""
    whole = argparse.ArgumentParser("amp-lint")
    _take_over(whole, linting.parser(), files, positional=False)
    commands = whole.add_subparsers()
    for name, one in _commands():
        own = commands.add_parser(name, help=one.description)
        _take_over(own, one, files, positional=True)
    return whole


def _commands() -> Iterator[tuple[str, argparse.ArgumentParser]]:
    from amp_lint.census import cli as census
    from amp_lint.runtime import cli as runtime
    from amp_lint.server import cli as server
    from amp_lint.verify import cli as verify

    yield "census", census.parser()
    yield "check", linting.parser()
    yield "completions", parser()
    yield "report", runtime.report_parser()
    yield "rule", explain.parser()
    yield "run", runtime.run_parser()
    yield "server", server.parser()
    yield "verify", verify.parser()
    yield "why", why.parser()


def _take_over(
    into: argparse.ArgumentParser, one: argparse.ArgumentParser, files: object, *, positional: bool
) -> None:
    """Add the arguments of a parser to another, each with what it may be."""
    for action in one._actions:  # there is no public way to look at them
        is_option = bool(action.option_strings)
        if action.dest == "help" or not (is_option or positional):
            continue
        given = copy.copy(action)
        if action.dest == "shell":
            given.choices = SHELLS
        elif action.dest in _RULES:
            rules = registry.every_rule()
            given.choices = [word for rule in rules for word in (rule.code, rule.name)]
        elif action.dest in _PATHS or str(action.metavar).startswith(("FILE", "PATH")):
            given.complete = files  # type: ignore[attr-defined]
        into._add_action(given)
