"""What a thing is called says less than what is done with it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest
from fuzz import renames
from fuzz.change import Cut, changed
from fuzz.code import Program

from amp_lint import engine, registry
from amp_lint.handbook.pages import FENCE
from amp_lint.rule import Rule
from amp_lint.selection import Selection
from amp_lint.text.source import Source

ALL = Selection(registry.all_rules(), preview=True)
TOLD_BY_NAME = {
    ("AMP103", "AMP103"): "a parameter called accelerator",
    ("AMP110", "AMP110"): "parameters called optimizer, of which only `step()` is called",
    ("AMP112", "AMP112"): "a parameter called scheduler, of which only `step()` is called",
    ("AMP201", "AMP110"): "a parameter called optimizer, of which only `step()` is called",
    ("AMP201", "AMP112"): "a parameter called scheduler, of which only `step()` is called",
    ("AMP201", "AMP201"): "parameters called accelerator and engine",
    ("AMP204", "AMP204"): "a parameter called accelerator",
    ("AMP205", "AMP205"): "a parameter called mask",
    ("AMP501", "AMP501"): "a parameter called accelerator",
}
"""Page and code of findings that differ, and what nothing but its name tells."""


@pytest.mark.parametrize("rule", registry.all_rules(), ids=lambda rule: rule.code)
def test_names_of_variables_change_nothing(rule: Rule) -> None:
    """Every local and parameter of a page's code is renamed at once, to v0, v1 and so on."""
    different = {code for text in _texts(rule) for code in _different(text)}
    assert different == {code for page, code in TOLD_BY_NAME if page == rule.code}


def _texts(rule: Rule) -> Iterator[str]:
    for fence in FENCE.finditer(registry.page(rule)):
        if fence["info"].split()[:1] == ["py"] and "wrong" not in fence["info"]:
            yield fence["text"]


def _different(text: str) -> set[str]:
    program = Program(text)
    old, new = _found(text), _found(changed(program, [*_renamed(program)]).text)
    return {code for code, _ in (old - new) + (new - old)}


def _renamed(program: Program) -> Iterator[Cut]:
    for number, name in enumerate(sorted(renames.variables(program))):
        if not renames.in_fstrings(program, name):
            yield from renames.renaming(program, name, renames.fresh(program, f"v{number}"))


def _found(text: str) -> Counter[tuple[str, int]]:
    source = Source(text.encode(), "page.py")
    found = engine.check(source, ALL, named=True)
    return Counter((one.code, source.position(one.start)[0]) for one in found)
