"""``amp-lint rule``: the list of the rules, and their pages."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Iterator, Sequence

from amp_lint import config, registry
from amp_lint.report import page
from amp_lint.report.color import BOLD, paint
from amp_lint.rule import SYNTAX_ERROR, Applicability, Rule
from amp_lint.session import CLEAN, ERROR, style_of

FIXES = {
    Applicability.SAFE: "safe",
    Applicability.UNSAFE: "unsafe",
    Applicability.SUGGEST: "shown",
}
"""The kinds of fix, as lists of rules call them."""
_SYNTAX_ERROR_PAGE = f"""\
# {SYNTAX_ERROR} syntax-error

The file is not Python, as the Python that runs amp-lint understands it. Python says what is wrong
and where. Files that are found in a directory are reported only if they mention mixed precision;
a file that is named is always reported. In flake8 the code also stands for an error that the
command line would print, such as a wrong setting."""

_LEGEND = """
`amp-lint rule CODE` prints the page of a rule. `--fix` applies the safe fixes,
`--fix --unsafe-fixes` the unsafe ones too; others are only shown. Rules in
preview run with `--preview`."""

_SEE_ALL = "`amp-lint rule` lists all"


def explain(arguments: Sequence[str]) -> int:
    """``amp-lint rule [CODE|NAME|--all]``: print the list or pages; the exit code."""
    chosen = _parser().parse_args(arguments)
    if chosen.all:
        return _print(map(_page, registry.all_rules()), between="\n\n")
    if chosen.rule is None:
        return _print([*_list(registry.all_rules()), _LEGEND])
    if chosen.rule.upper() == SYNTAX_ERROR:
        return _print([_SYNTAX_ERROR_PAGE])
    if rule := registry.find(chosen.rule):
        return _print([_page(rule)])
    if several := config.matching(chosen.rule):
        return _print(_list(several))
    print(f"error: {chosen.rule}: no such rule; {_similar(chosen.rule)}", file=sys.stderr)
    return ERROR


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        "amp-lint rule", description="List all rules, or print the page of one.", allow_abbrev=False
    )
    which = parser.add_mutually_exclusive_group()
    which.add_argument(
        "rule",
        nargs="?",
        metavar="CODE|NAME",
        help="whose page to print, such as AMP101; a prefix such as AMP1 lists rules",
    )
    which.add_argument("--all", action="store_true", help="print the pages of all rules")
    return parser


def _print(texts: Iterable[str], between: str = "\n") -> int:
    print(between.join(text.rstrip() for text in texts))
    return CLEAN


def _page(rule: Rule) -> str:
    return "\n".join(page.render(registry.page(rule), style_of(sys.stdout)))


def _list(rules: Sequence[Rule]) -> Iterator[str]:
    """Two lines for each rule: what it is called and offers, what it finds."""
    style = style_of(sys.stdout)
    width = max(len(rule.name) for rule in registry.all_rules())
    for rule in rules:
        fixes = ", ".join(FIXES[kind] for kind in rule.fixes)
        offers = f"fix: {fixes}" if fixes else "no fix"
        line = f"{rule.name:<{width}}  {offers:<25}{'preview' if rule.preview else ''}"
        yield f"{paint(rule.code, BOLD, style)}  {line}"
        yield f"{' ' * len(rule.code)}  {registry.summary(rule)}"


def _similar(key: str) -> str:
    """Names that are spelled nearly so, and how to see all."""
    import difflib

    names = [rule.name for rule in registry.all_rules()]
    close = difflib.get_close_matches(key.lower(), names)
    return f"there is {', '.join(close)}; {_SEE_ALL}" if close else _SEE_ALL
