"""Every rule's page is true: its examples are found and fixed as shown, its `ok` code is silent."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import pytest
from _pytest.mark import ParameterSet

from amp_lint import registry
from amp_lint.edit import edits
from amp_lint.handbook.pages import SECTIONS, Example, Fence, Page, PageError, parse, unmarked
from amp_lint.report import Finding, Style
from amp_lint.report.full import render
from amp_lint.rule import Rule
from amp_lint.text.diagnostic import Applicability, Diagnostic, Edit, Fix, Severity
from tests import pages

if TYPE_CHECKING:
    from amp_lint.model import Model

RULES = registry.all_rules()
ROOT = Path(__file__).parents[2]


@functools.cache
def page_of(rule: Rule) -> Page:
    """The rule's page; an empty one if it is missing, for which `test_page` fails."""
    try:
        return parse(registry.page(rule))
    except FileNotFoundError:
        return Page("", {})


def cases(select: Callable[[Page], Iterable[Example | Fence]]) -> list[ParameterSet]:
    """One parameter set for every example or fence that ``select`` takes from a page."""
    found = []
    for rule in RULES:
        for item in select(page_of(rule)):
            fence = item.flagged if isinstance(item, Example) else item
            found.append(pytest.param(rule, item, id=f"{rule.code}-line{fence.line}"))
    return found


examples = pytest.mark.parametrize(("rule", "example"), cases(lambda page: page.examples))


def test_there_are_rules() -> None:
    assert RULES


def test_every_page_has_a_rule() -> None:
    every = registry.every_rule()
    known = {type(rule).__module__.split(".", 2)[2].replace(".", "/") for rule in every}
    found = {p.relative_to(ROOT / "rules").with_suffix("") for p in ROOT.glob("rules/*/*.md")}
    assert {path.as_posix() for path in found} == known


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.code)
def test_page(rule: Rule) -> None:
    page = page_of(rule)
    assert rule.code in page.title and rule.name in page.title
    assert page.sections == SECTIONS
    assert page.examples, "a page without an example proves nothing"
    assert any(fence.kind == "ok" for fence in page.silent), "nothing says when it is silent"


@examples
def test_example_is_found(rule: Rule, example: Example) -> None:
    assert example.flagged.expected(), "an example without `# error: CODE`"
    pages.check_marks(rule, example.flagged)
    pages.check_sieve(rule, example.flagged)


@examples
@pytest.mark.parametrize("unsafe", [False, True], ids=["safe", "unsafe"])
def test_fix(rule: Rule, example: Example, unsafe: bool) -> None:
    pages.check_fix(rule, example, unsafe=unsafe)


@examples
def test_layouts(rule: Rule, example: Example) -> None:
    pages.check_layouts(rule, example)


@examples
def test_every_finding_says_what_to_do(rule: Rule, example: Example) -> None:
    """In one line of a terminal, whether a fix is offered or not."""
    source = pages.source_of(example.flagged)
    for found in pages.reported(rule, example.flagged):
        for finding in (Finding(source, found), Finding(source, replace(found, fix=None))):
            *_, last = (s for s in render([finding], Style()) if s.startswith("help: "))
            assert re.fullmatch(r"help: [A-Z`].{5,73}[^.;]\n", last), last
        assert found.help not in found.message


@examples
def test_wrong_fixes(example: Example, rule: Rule) -> None:
    pages.check_wrong(example)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.code)
def test_the_rule_knows_which_fixes_it_offers(rule: Rule) -> None:
    fences = [example.flagged for example in page_of(rule).examples]
    offered = {kind for fence in fences for kind in pages.offers(rule, fence)}
    assert rule.fixes == tuple(kind for kind in Applicability if kind in offered)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.code)
def test_summary(rule: Rule) -> None:
    """It has a line of a terminal for itself."""
    assert re.fullmatch(r"[a-z`].{10,70}[^.]", registry.summary(rule))


@pytest.mark.parametrize(("rule", "fence"), cases(lambda page: page.silent))
def test_silent(rule: Rule, fence: Fence) -> None:
    assert not fence.expected(), "a mark in code that must stay silent"
    ast.parse(fence.text)
    pages.check_marks(rule, fence)


# --- the harness itself can say no ----------------------------------------------------------------


class Toy(Rule):
    """Reports every call of ``bad`` and renames it ``good``; subclasses do it badly."""

    code = "AMP999"
    name = "toy"
    severity = Severity.ERROR
    requires: ClassVar[tuple[frozenset[str], ...]] = (frozenset({"bad"}),)
    applicability: ClassVar[Applicability] = Applicability.SAFE

    def check(self, model: Model) -> Iterator[Diagnostic]:
        for match in re.finditer(r"\bbad\(\)", model.tree.text):
            yield Diagnostic(
                self.code, self.name, self.severity, "bad", *match.span(), fix=self.fix(match)
            )

    def fix(self, match: re.Match[str]) -> Fix | None:
        return Fix("Rename", (Edit(*match.span(), "good()"),), self.applicability)


class Unsafe(Toy):
    applicability = Applicability.UNSAFE


class Eraser(Toy):
    """Loses the rest of the line."""

    def fix(self, match: re.Match[str]) -> Fix | None:
        end = match.string.index("\n", match.start())
        return Fix("Erase", (Edit(match.start(), end, "good()"),), self.applicability)


class Deaf(Toy):
    requires: ClassVar[tuple[frozenset[str], ...]] = (frozenset({"other"}),)


EXAMPLE = Fence("", "x = 1\nbad()  # error: AMP999\n", 1)
FIXED = Fence("fixed", "x = 1\ngood()\n", 6)


def test_toy_page_holds() -> None:
    example = Example(EXAMPLE, FIXED)
    pages.check_marks(Toy(), EXAMPLE)
    pages.check_sieve(Toy(), EXAMPLE)
    pages.check_fix(Toy(), example, unsafe=False)
    pages.check_layouts(Toy(), example)
    pages.check_fix(Unsafe(), Example(EXAMPLE, None, FIXED), unsafe=True)


@pytest.mark.parametrize(
    "text",
    [
        "bad()\n",
        "good()  # error: AMP999\n",
        "bad()\n\n# error: AMP999\n",
        "bad()  # error: AMP999, AMP999\n",
        "bad()  # error: AMP998\n",
    ],
)
def test_wrong_mark_fails(text: str) -> None:
    with pytest.raises(AssertionError):
        pages.check_marks(Toy(), Fence("", text, 1))


def test_sieve_fails() -> None:
    with pytest.raises(AssertionError, match="byte sieve"):
        pages.check_sieve(Deaf(), EXAMPLE)
    with pytest.raises(AssertionError, match="syntax sieve"):
        pages.check_sieve(Toy(), Fence("", "good('not bad')\n", 1))


@pytest.mark.parametrize(
    ("rule", "example", "unsafe"),
    [
        pytest.param(Toy(), Example(EXAMPLE), False, id="fix not shown"),
        pytest.param(Unsafe(), Example(EXAMPLE, FIXED), False, id="unsafe shown as safe"),
        pytest.param(
            Toy(), Example(EXAMPLE, Fence("fixed", "x = 1\nfine()\n", 6)), False, id="other text"
        ),
        pytest.param(
            Eraser(),
            Example(Fence("", "bad()  # why\n", 1), Fence("fixed", "good()\n", 4)),
            False,
            id="comment lost",
        ),
        pytest.param(
            Toy(),
            Example(EXAMPLE, Fence("fixed", "x = 1\ngood()  # error: AMP999\n", 6)),
            False,
            id="mark in fixed text without a finding",
        ),
    ],
)
def test_wrong_fix_fails(rule: Rule, example: Example, unsafe: bool) -> None:
    with pytest.raises(AssertionError):
        pages.check_fix(rule, example, unsafe=unsafe)


def test_change_outside_the_edits_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = edits.splice
    monkeypatch.setattr(edits, "splice", lambda *a: honest(*a).replace("x = 1", "x = 2"))
    with pytest.raises(AssertionError):
        pages.fix(Toy(), EXAMPLE, unsafe=False)


def test_layout_fails() -> None:
    class Newline(Toy):
        def fix(self, match: re.Match[str]) -> Fix | None:
            return Fix("Add", (Edit(*match.span(), "good()\n"),), self.applicability)

    with pytest.raises(AssertionError, match="CRLF"):
        pages.check_layouts(Newline(), Example(EXAMPLE))


def test_wrong_fence_fails() -> None:
    same = Fence("wrong", "x = 1\ngood()\n", 9)
    with pytest.raises(AssertionError):
        pages.check_wrong(Example(EXAMPLE, FIXED, wrong=[same]))


@pytest.mark.parametrize(
    "text",
    [
        "```py fixed\nx\n```\n",
        "```py wrong\nx\n```\n",
        "```py fine\nx\n```\n",
        "```python\nx\n```\n",
        "```py\nx\n```\n```py fixed\nx\n```\n```py fixed\nx\n```\n",
        "```py\nx\n",
    ],
)
def test_malformed_page_fails(text: str) -> None:
    with pytest.raises(PageError):
        parse(text)


def test_parse() -> None:
    text = "# AMP999 toy\n\n## Example\n\n```py target-torch=2.0\nbad()  # error: AMP999\n```\n"
    page = parse(text + "```toml\n[x]\n```\n```py ok\ngood()\n```\n")
    assert page.title == "AMP999 toy"
    assert page.sections == ("Example",)
    assert [e.flagged.target_torch for e in page.examples] == [(2, 0)]
    assert page.examples[0].flagged.line == 6
    assert [fence.text for fence in page.silent] == ["good()\n"]
    assert unmarked("a  # error: AMP999\n  # error: AMP999\nb") == "a\nb"
