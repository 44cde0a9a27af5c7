"""What the web site is made of; ``mkdocs build --strict`` looks at its links elsewhere."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

from amp_lint import registry
from amp_lint.handbook import pages
from amp_lint.handbook.uncovered import CAUSES

pytest.importorskip("mkdocs")
ROOT = Path(__file__).parents[2]
HOOKS = runpy.run_path(str(ROOT / "site" / "hooks.py"))


def test_the_menu_leads_to_pages() -> None:
    for path in (*HOOKS["_GUIDES"].values(), *HOOKS["_PROJECT"].values()):
        assert path == "messages/index.md" or (ROOT / path).is_file(), path
    assert all((ROOT / HOOKS["page_of"](rule)).is_file() for rule in registry.every_rule())


def test_each_message_has_a_page_with_all_that_is_about_it() -> None:
    made = dict(HOOKS["messages"]())
    texts = {text for cause in CAUSES for text in cause.messages}
    for rule in registry.every_rule():
        for symptom in pages.parse(registry.page(rule)).symptoms:
            if symptom.message:
                texts.add(symptom.text)
                assert f"[{rule.code} " in made[HOOKS["_path"](symptom.text)]
    assert len(made) == len(texts) + 1, "two messages have one path"
    assert made["messages/index.md"].count("\n* [") == len(texts)
