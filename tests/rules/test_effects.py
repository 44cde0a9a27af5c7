"""What findings do to a run, as severities, pages and rules agree."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from amp_lint import engine, registry
from amp_lint.handbook.pages import parse
from amp_lint.rule import Rule
from amp_lint.selection import Selection
from amp_lint.text.diagnostic import Diagnostic, Effect, Severity
from amp_lint.text.source import Source
from tests import pages

ERROR, WARNING, INFO = Severity.ERROR, Severity.WARNING, Severity.INFO
RULES = registry.all_rules()


def finding(severity: Severity) -> Diagnostic:
    return Diagnostic("AMP101", "rule", severity, "wrong", 0, 1)


@pytest.mark.parametrize(
    ("one", "effect"),
    [
        (finding(ERROR), Effect.RUINS),
        (finding(WARNING), Effect.LOSES),
        (finding(INFO), Effect.NOTE),
        (replace(finding(WARNING), deprecated="torch.old"), Effect.DEPRECATION),
    ],
)
def test_effects(one: Diagnostic, effect: Effect) -> None:
    assert one.effect is effect


def reported(rule: Rule) -> list[Diagnostic]:
    """What a rule reports in the examples of its page."""
    sources = [
        (Source(example.flagged.text.encode(), "page.py"), pages.selection(rule, example.flagged))
        for example in parse(registry.page(rule)).examples
    ]
    return [found for each in sources for found in engine.check(*each, named=True)]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.code)
def test_effects_are_those_of_the_page(rule: Rule) -> None:
    """A page says that its rule is a note, and a message that something is deprecated."""
    found = reported(rule)
    effects = {each.effect for each in found}
    says_deprecated = any("deprecated" in each.message for each in found)
    says_note = bool(re.search(r"\ba\s+note\b", registry.page(rule).partition("## Why")[0]))
    assert (Effect.NOTE in effects) is says_note
    assert (Effect.DEPRECATION in effects) is says_deprecated


@pytest.mark.parametrize(
    ("name", "text", "severity"),
    [
        ("uncalled-autocast", "with torch.autocast:\n    pass\n", ERROR),
        ("uncalled-autocast", 'torch.autocast("cuda")\n', WARNING),
        ("autocast-arguments", 'torch.amp.GradScaler("cuda", False)\n', ERROR),
        ("autocast-arguments", 'torch.amp.GradScaler("cuda", True)\n', WARNING),
        ("autocast-arguments", "torch.amp.GradScaler(1024.0)\n", WARNING),
        ("autocast-arguments", "torch.autocast(True)\n", ERROR),
        ("private-scaler-state", 'torch.amp.GradScaler("cuda")._scale = 4\n', WARNING),
        ("private-scaler-state", 'torch.amp.GradScaler("cuda")._init_scale = 4\n', INFO),
    ],
)
def test_what_runs_on_is_less_severe(name: str, text: str, severity: Severity) -> None:
    rule = registry.find(name)
    assert rule is not None
    selection = Selection((rule,))
    (found,) = engine.check(Source(f"import torch\n\n{text}".encode(), "a.py"), selection)
    assert found.severity is severity
