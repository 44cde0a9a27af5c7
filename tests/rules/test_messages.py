"""Findings say what happens to the run in at most two short lines, whatever the code looks like."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from textwrap import wrap

import pytest

from amp_lint import engine, registry
from amp_lint.handbook.pages import Fence, parse
from amp_lint.report import Finding, Style
from amp_lint.report.full import render
from amp_lint.rule import Rule
from amp_lint.selection import Selection
from amp_lint.text.diagnostic import LONGEST_CODE, Diagnostic, quoted
from amp_lint.text.source import Source
from tests import pages

LINE = 100
"""Characters of a short line."""
RULES = registry.all_rules()
EXAMPLES = sorted(Path(__file__).parents[2].glob("examples/*.py"))
LONG = "_of_the_experiment" * 8
"""What names end in where they are long."""


def examples(rule: Rule) -> Iterator[Fence]:
    yield from (example.flagged for example in parse(registry.page(rule)).examples)


def findings(rule: Rule, text: str, fence: Fence) -> tuple[Diagnostic, ...]:
    return pages.reported(rule, replace(fence, text=text))


class Lengthen(ast.NodeTransformer):
    """Gives long names to what a program names itself, but for methods, which torch calls."""

    def __init__(self, module: ast.Module) -> None:
        self.names = {node.name for node in module.body if isinstance(node, ast.FunctionDef)}
        for node in ast.walk(module):
            if isinstance(node, ast.arg):
                self.names.add(node.arg)
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                self.names.add(node.id)
        self.names.discard("self")

    def visit_Name(self, node: ast.Name) -> ast.Name:
        return ast.Name(self.long(node.id), node.ctx)

    def visit_arg(self, node: ast.arg) -> ast.arg:
        return ast.arg(self.long(node.arg), None)

    def visit_keyword(self, node: ast.keyword) -> ast.keyword:
        return ast.keyword(node.arg, self.visit(node.value))

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        node.name = self.long(node.name)
        return self.generic_visit(node)

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        own = isinstance(node.value, ast.Name) and node.value.id == "self"
        if own and ("scaler" in node.attr or "optimizer" in node.attr):
            node.attr += LONG
        return self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> ast.Constant:
        if isinstance(node.value, str) and node.value.startswith("--"):
            return ast.Constant(node.value + LONG)
        return node

    def long(self, name: str) -> str:
        return name + LONG if name in self.names else name


def lengthened(text: str) -> str:
    module = ast.parse(text)
    return ast.unparse(ast.fix_missing_locations(Lengthen(module).visit(module)))


def check_lines(finding: Diagnostic) -> None:
    """Two lines for the message, one for each way to say what to do."""
    assert len(wrap(finding.message, LINE)) <= 2, finding.message
    for line in (finding.help, finding.fix.title if finding.fix else "Do"):
        assert len(line) <= LINE, line
        assert "\n" not in line
    assert "\n" not in finding.message


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.code)
def test_messages_are_short(rule: Rule) -> None:
    """One line, but for the code that a message quotes."""
    for fence in examples(rule):
        found = findings(rule, fence.text, fence)
        assert found
        for finding in found:
            check_lines(finding)
            own = re.sub(r"`[^`]*`", "`code`", finding.message)
            assert len(own) <= LINE, finding.message
            assert re.match(r"[a-zA-Z`]", finding.message)
            assert not re.search(r"[.;]$", finding.message)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.code)
def test_long_code_is_cut(rule: Rule) -> None:
    short = [each for fence in examples(rule) for each in findings(rule, fence.text, fence)]
    found = [
        finding
        for fence in examples(rule)
        for finding in findings(rule, lengthened(fence.text), fence)
    ]
    assert 3 * len(found) >= len(short), "hardly anything is found where names are long"
    for finding in found:
        check_lines(finding)


def test_long_function_names_are_cut() -> None:
    """A name that a message quotes, which `lengthened` code does not show."""
    rule = registry.find("uncalled-autocast")
    assert rule is not None
    text = f"import torch\nfrom torch import autocast as autocast{LONG}\n\n"
    fence = Fence("", text + f"with autocast{LONG}:\n    pass\n", 1)
    (finding,) = findings(rule, fence.text, fence)
    check_lines(finding)
    assert "…` is the class" in finding.message
    assert finding.help.endswith("…`")


@pytest.mark.parametrize("width", [80, LINE])
@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.code)
def test_a_terminal_breaks_no_line(rule: Rule, width: int) -> None:
    style = Style(width=width, wrap=True)
    for fence in examples(rule):
        source = Source(fence.text.encode(), "page.py")
        found = [Finding(source, each) for each in findings(rule, fence.text, fence)]
        lines = "".join(render(found, style)).splitlines()
        assert max(map(len, lines)) <= width, max(lines, key=len)


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_examples(path: Path) -> None:
    found = engine.check(Source(path.read_bytes(), path.name), Selection(RULES, preview=True))
    assert found
    for finding in found:
        check_lines(finding)
        assert len(finding.message) <= LINE


def test_code_is_quoted_on_one_line() -> None:
    assert quoted("f(\n    a,\n    b)") == "`f( a, b)`"
    assert quoted("x" * LONGEST_CODE) == f"`{'x' * LONGEST_CODE}`"
    assert quoted("x" * (LONGEST_CODE + 1)) == f"`{'x' * (LONGEST_CODE - 1)}…`"
