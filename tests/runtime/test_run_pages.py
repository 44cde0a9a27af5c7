"""Pages of mistakes that only runs show: the examples are programs, which are run here."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from amp_lint import registry
from amp_lint.handbook.pages import SECTIONS, Fence, parse
from amp_lint.rule import Rule
from amp_lint.runtime.tell import said
from amp_lint.runtime.watch import Watch
from tests.runtime.conftest import execute

RULES = [rule for rule in registry.every_rule() if rule.run_only]
FENCES = [
    pytest.param(fence, id=f"{rule.code}-line{fence.line}")
    for rule in RULES
    for page in [parse(registry.page(rule))]
    for fence in (*(example.flagged for example in page.examples), *page.silent)
]


@pytest.mark.parametrize("fence", FENCES)
def test_an_example_shows_what_its_marks_say(fence: Fence, tmp_path: Path) -> None:
    with Watch() as watch:
        execute(fence.text, tmp_path / "page.py")
    seen = Counter((each.place.row, each.rule.code) for each in said(watch.record))
    assert seen == fence.expected()


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.code)
def test_page(rule: Rule) -> None:
    page = parse(registry.page(rule))
    assert rule.code in page.title and rule.name in page.title
    assert page.sections == SECTIONS
    assert page.examples and page.silent
    assert not rule.requires and not rule.fixes


def test_every_rule_that_a_run_shows_says_what_it_means() -> None:
    accounts = [account for rule in registry.every_rule() for account in rule.observed]
    assert all(account.message and account.help for account in accounts)
    assert all(rule.observed for rule in RULES)
