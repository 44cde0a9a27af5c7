"""Entries that are added to dict literals, in every layout."""

from __future__ import annotations

import libcst as cst
import pytest

from amp_lint.edit import dict_edits, edits
from amp_lint.syntax.tree import Tree


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("x = {1: 2}", "x = {1: 2, 3: 4}"),
        ("x = {1: 2,}", "x = {1: 2, 3: 4,}"),
        ("x = {1: (2)}", "x = {1: (2), 3: 4}"),
        ("x = {1: 2, **y}", "x = {1: 2, **y, 3: 4}"),
        ("x = {\n    1: 2,\n    2: 3,\n}", "x = {\n    1: 2,\n    2: 3,\n    3: 4,\n}"),
        ("x = {\n    1: 2\n}", "x = {\n    1: 2,\n    3: 4\n}"),
        ("x = {1: 2,\r\n     2: 3}", "x = {1: 2,\r\n     2: 3,\r\n     3: 4}"),
        ("x = {1: 2,\r     2: 3}", "x = {1: 2,\r     2: 3,\r     3: 4}"),
        ("x = {\n  1: 2,  # why\n}", "x = {\n  1: 2,\n  3: 4,  # why\n}"),
        ("x = {\n  1: f(\n    2\n  ),\n}", "x = {\n  1: f(\n    2\n  ),\n  3: 4,\n}"),
    ],
)
def test_add_entry(before: str, after: str) -> None:
    tree = Tree(before)
    (literal,) = tree.nodes(cst.Dict)
    assert edits.splice(before, [dict_edits.add_entry(tree, literal, "3: 4")]) == after
