"""Which value each target of an assignment is given."""

from __future__ import annotations

import libcst as cst
import pytest

from amp_lint.syntax.assignments import assignments, taken, targets_of
from amp_lint.syntax.tree import Tree


def pairs(text: str) -> list[str]:
    tree = Tree(text)
    source = tree.source
    return [f"{source(t)}={'?' if v is None else source(v)}" for t, v in assignments(tree)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a = x", ["a=x"]),
        ("a = b.c = x", ["a=x", "b.c=x"]),
        ("a: int = x", ["a=x"]),
        ("a: int", []),
        ("a, b = x, y", ["a=x", "b=y"]),
        ("(a, [b, c.d]) = x, (y, z)", ["a=x", "b=y", "c.d=z"]),
        ("a, (b, c) = x, y", ["a=x", "b=?", "c=?"]),
        ("a, b = f()", ["a=?", "b=?"]),
        ("a, *b = x, y", ["a=?", "b=?"]),
        ("a, b = *x, y", ["a=?", "b=?"]),
        ("if (a := x): pass", ["a=x"]),
        ("a += x", []),
    ],
)
def test_assignments(text: str, expected: list[str]) -> None:
    assert pairs(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a = x", ["a"]),
        ("a = b = x", ["a", "b"]),
        ("a, b = y, x", ["b"]),
        ("a: int = x", ["a"]),
        ("a = f(x)", []),
        ("a = [x]", []),
        ("a = {'k': x}", []),
        ("f(x)", []),
    ],
)
def test_targets_of(text: str, expected: list[str]) -> None:
    tree = Tree(text)
    (value,) = tree.named("x")
    assert [tree.source(target) for target in targets_of(tree, value)] == expected


@pytest.mark.parametrize(
    ("loop", "expected"),
    [
        ("a in x", ["a=x"]),
        ("a in x.values()", ["a=x"]),
        ("a in reversed(x)", ["a=x"]),
        ("i, a in enumerate(x, 1)", ["a=x"]),
        ("k, a in x.items()", ["a=x"]),
        ("a, b in zip(x, y)", ["a=x", "b=y"]),
        ("i, (a, b) in enumerate(zip(x, y))", ["a=x", "b=y"]),
        ("a, b in x", []),
        ("k, (a, b) in x.items()", []),
        ("a in x.items()", []),
        ("a, b, c in zip(x, *y)", []),
    ],
)
def test_taken(loop: str, expected: list[str]) -> None:
    tree = Tree(f"for {loop}:\n    pass\n")
    (node,) = tree.nodes(cst.For)
    assert [f"{tree.source(t)}={tree.source(held)}" for t, held in taken(node)] == expected
