"""``amp-lint rule``: the list of the rules, each on one screen, and their pages."""

from __future__ import annotations

import argparse
import itertools
import re
import sys
from collections.abc import Iterable, Iterator, Sequence

from amp_lint import pager, registry
from amp_lint.arguments import Parser
from amp_lint.handbook import pages, symptoms
from amp_lint.report import page, reading
from amp_lint.report.color import BOLD, paint
from amp_lint.report.terminal import style_of
from amp_lint.rule import Rule
from amp_lint.run import config
from amp_lint.run.choice import ConfigError
from amp_lint.run.session import CLEAN
from amp_lint.run.wording import did_you_mean
from amp_lint.text.diagnostic import SYNTAX_ERROR

_SYNTAX_ERROR_PAGE = f"""\
# {SYNTAX_ERROR} syntax-error

The file is not Python, as the Python that runs amp-lint understands it. Python says what is wrong
and where. For a file that is written for a newer one, as with `class Stack[T]:` under 3.11, run
amp-lint with that. Files that are found in a directory are reported only if they mention mixed
precision; a file that is named is always reported. In flake8 the code also stands for an error
that the command line would print, such as a wrong setting."""

_LEGEND = """
`amp-lint rule CODE` explains a rule, with `--full` by its whole page. `--fix`
applies the safe fixes, `--fix --unsafe-fixes` the unsafe ones too; others are
only shown. Rules in preview run with `--preview`, those marked `if selected`
with `--extend-select=CODE`."""

_LONGEST_NAME = 200
"""Characters of a name that are looked at."""
_WORD = re.compile(r"[a-z0-9]{3,}")
"""One of letters enough to say what it is about."""
_ENDING = re.compile(r"(?<=\w{3})(?:(?<=(\w))\1?(?:ing|ed)|s)$")
"""Of a verb or a plural, with the letter that is doubled before it."""
_SEE_ALL = "`amp-lint rule` lists all"


def explain(arguments: Sequence[str]) -> int:
    """``amp-lint rule [CODE|NAME] [--full|--all]``: print the list or pages; the exit code.

    Raises:
        ConfigError: an option is unknown, or given without what it is about.
    """
    known = parser()
    chosen = known.read(arguments, argparse.Namespace())
    asked = " ".join(chosen.rule)
    if chosen.all and chosen.rule:
        known.error("--all is about all rules; leave out the one")
    if chosen.full and not (chosen.rule or chosen.all):
        known.error("--full needs a rule, as in `amp-lint rule AMP101 --full`")
    if chosen.all:
        return _print(map(_page, registry.every_rule()), between="\n\n")
    if not chosen.rule:
        return _print([*_list(registry.every_rule()), _LEGEND])
    if asked.upper() == SYNTAX_ERROR:
        return _print([_SYNTAX_ERROR_PAGE])
    if rule := registry.find(asked) or registry.find("-".join(asked.replace("_", " ").split())):
        return _show(rule, full=chosen.full)
    matching = [config.matching(word) for word in chosen.rule]
    if all(matching):
        return _print(_list(sorted({*itertools.chain(*matching)}, key=lambda rule: rule.code)))
    if named := [rule for rule in registry.every_rule() if _is_in_name(asked, rule)]:
        return _print(_list(named))
    return _other(asked)


def _is_in_name(asked: str, rule: Rule) -> bool:
    """Whether a rule's name has a part for each longer word: ``clip`` and ``clipping`` alike."""
    parts = rule.name.split("-")
    words = _WORD.findall(asked[:_LONGEST_NAME].lower())
    stems = [{word, _ENDING.sub("", word)} for word in words]
    return bool(words) and all(
        any(part.startswith(stem) for part in parts for stem in each) for each in stems
    )


def _show(rule: Rule, *, full: bool) -> int:
    """One rule: what matters, or its page."""
    if not full:
        return _print(page.screen(rule, pages.parse(registry.page(rule)), style_of(sys.stdout)))
    pager.show(_page(rule).rstrip())
    return CLEAN


def _other(asked: str) -> int:
    """What is called nearly so, or else what is about it."""
    asked = asked[:_LONGEST_NAME]
    meant = "" if _is_code(asked) or " " in asked else did_you_mean(asked, _words())
    is_name = _is_code(asked) or meant
    about = symptoms.index().read("" if is_name else asked)
    if about.matches:
        lines = reading.answer(about, style_of(sys.stdout))
        return _print([f"No rule is called {asked!r}; this is about it:", *lines])
    raise ConfigError(f"{asked}: no such rule{meant or f'; {_SEE_ALL}'}")


def _words() -> Iterator[str]:
    for rule in registry.every_rule():
        yield from (rule.code, rule.name)


def _is_code(asked: str) -> bool:
    head, tail = asked[:3], asked[3:]
    return head.upper() == "AMP" and tail.isdigit()


def parser() -> Parser:
    """The parser of its arguments."""
    made = Parser(
        "amp-lint rule",
        usage="amp-lint rule [CODE|NAME|SYMPTOM] [--full]\n       amp-lint rule --all",
        description="List all rules, or say what one is about.",
        allow_abbrev=False,
    )
    made.add_argument(
        "rule",
        nargs="*",
        metavar="CODE|NAME|SYMPTOM",
        help="which rule, such as AMP101; a prefix such as AMP1 lists rules, and words that are "
        "no name the rules that are about them",
    )
    made.add_argument("--full", action="store_true", help="print the whole page of the rule")
    made.add_argument("--all", action="store_true", help="print the pages of all rules")
    return made


def _print(texts: Iterable[str], between: str = "\n") -> int:
    print(between.join(text.rstrip() for text in texts))
    return CLEAN


def _page(rule: Rule) -> str:
    return "\n".join(page.render(registry.page(rule), style_of(sys.stdout)))


def _list(rules: Sequence[Rule]) -> Iterator[str]:
    """Two lines for each rule: what it is called and offers, what it finds."""
    style = style_of(sys.stdout)
    width = max(len(rule.name) for rule in registry.every_rule())
    for rule in rules:
        fixes = ", ".join(page.FIXES[kind] for kind in rule.fixes)
        offers = f"fix: {fixes}" if fixes else "no fix"
        when = "preview" if rule.preview else "if selected" if rule.about_comments else ""
        line = f"{rule.name:<{width}}  {offers:<25}{when}"
        yield f"{paint(rule.code, BOLD, style)}  {line}"
        yield f"{' ' * len(rule.code)}  {registry.summary(rule)}"
