"""Text surgery on the entries of a dict literal. Only insertions, so that nothing is lost."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amp_lint.text.diagnostic import Edit

if TYPE_CHECKING:
    import libcst as cst

    from amp_lint.syntax.tree import Tree


def add_entry(tree: Tree, literal: cst.Dict, entry: str) -> Edit:
    """Insert ``entry`` behind the last entry of a dict, on a line of its own if that one has."""
    last = literal.elements[-1]
    start = tree.outer_span(last)[0]
    end = tree.outer_span(last.value)[1]
    line = max(tree.text.rfind("\n", 0, start), tree.text.rfind("\r", 0, start)) + 1
    indent = tree.text[line:start]
    if indent.strip():
        return Edit(end, end, f", {entry}")
    newline = "\r\n" if tree.text[line - 2 : line] == "\r\n" else tree.text[line - 1]
    return Edit(end, end, f",{newline}{indent}{entry}")
