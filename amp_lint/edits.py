"""The only text surgery: what fixes are made of, and how they are applied."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from amp_lint._lazy import cst
from amp_lint.rule import Edit, Fix
from amp_lint.source import LINE_END

if TYPE_CHECKING:
    from amp_lint.tree import Tree


def replace_node(tree: Tree, node: cst.CSTNode, content: str) -> Edit:
    """Write ``content`` in place of a node's own text; parentheses around it stay."""
    return Edit(*tree.span(node), content)


def insert_before(tree: Tree, statement: cst.BaseStatement, line: str) -> Edit:
    """Add a line with the statement's own indentation, right above it and below its comments."""
    start, _ = tree.span(statement)
    line_start = _line_start(tree.text, start)
    indent = tree.text[line_start:start]
    return Edit(start, start, f"{line}{_newline(tree, start)}{indent}")


def delete_call_suffix(tree: Tree, call: cst.Call) -> Edit:
    """``x.half()`` -> ``x``: drop the last attribute and its arguments."""
    assert isinstance(call.func, cst.Attribute)
    _, keep = tree.outer_span(call.func.value)
    return Edit(keep, tree.span(call)[1], "")


def dedent_tail(tree: Tree, holder: cst.BaseCompoundStatement, first: cst.BaseStatement) -> Edit:
    """Move ``first`` and all that follows it in the block of ``holder`` out of the block.

    Continuation lines move with their statements; the lines of triple-quoted strings and
    comments that stand further left stay where they are.
    """
    start, _ = tree.span(first)
    line_start = _line_start(tree.text, start)
    inner = tree.text[line_start:start]
    outer = _indent(tree, holder)
    begin = _leading_comments_start(tree, first, line_start, inner)
    end = tree.outer_span(holder.body)[1]
    fixed = _strings(tree, holder, begin)
    content = "".join(
        line if offset in fixed else _reindent(line, inner, outer)
        for offset, line in _lines(tree.text, begin, end)
    )
    return Edit(begin, end, content)


def apply(text: str, fixes: Iterable[Fix]) -> tuple[str, list[Fix]]:
    """The text after as many fixes as do not touch each other, and the fixes applied.

    A fix that overlaps one applied before it is left for a later round; an edit that two fixes
    share (an import both need) is made once.
    """
    taken: dict[Edit, None] = {}
    applied: list[Fix] = []
    for fix in sorted(fixes, key=lambda fix: min((e.start, e.end) for e in fix.edits)):
        fresh = [edit for edit in fix.edits if edit not in taken]
        if not any(_overlap(edit, other) for edit in fresh for other in taken):
            taken.update(dict.fromkeys(fresh))
            applied.append(fix)
    return splice(text, list(taken)), applied


def splice(text: str, edits: Sequence[Edit]) -> str:
    """The text with all edits made; they must not overlap."""
    parts: list[str] = []
    at = 0
    for edit in sorted(edits, key=lambda edit: (edit.start, edit.end)):
        parts += [text[at : edit.start], edit.content]
        at = edit.end
    return "".join([*parts, text[at:]])


def _overlap(one: Edit, other: Edit) -> bool:
    if one.start == other.start:
        return True  # two insertions at one place have no order
    return one.start < other.end and other.start < one.end


def _newline(tree: Tree, offset: int) -> str:
    """The line end in use near ``offset``."""
    end = tree.text.find("\n", offset)
    if end < 0:
        return tree.module.default_newline
    return "\r\n" if tree.text[end - 1 : end] == "\r" else "\n"


def _line_start(text: str, offset: int) -> int:
    return max(text.rfind("\n", 0, offset), text.rfind("\r", 0, offset)) + 1


def _indent(tree: Tree, statement: cst.BaseStatement) -> str:
    start, _ = tree.span(statement)
    return tree.text[_line_start(tree.text, start) : start]


def _lines(text: str, begin: int, end: int) -> Iterable[tuple[int, str]]:
    """The lines of ``text[begin:end]`` with their offsets; a form feed does not end a line."""
    while begin < end:
        match = LINE_END.search(text, begin, end)
        stop = match.end() if match else end
        yield begin, text[begin:stop]
        begin = stop


def _reindent(line: str, inner: str, outer: str) -> str:
    return outer + line[len(inner) :] if line.startswith(inner) else line


def _leading_comments_start(
    tree: Tree, statement: cst.BaseStatement, line_start: int, indent: str
) -> int:
    """Where the comment lines right above a statement begin, if they share its indentation."""
    begin = line_start
    while begin > 0:
        above = _line_start(tree.text, begin - 1)
        line = tree.text[above:begin]
        if not (line.startswith(indent + "#")):
            break
        begin = above
    return begin


def _strings(tree: Tree, holder: cst.CSTNode, begin: int) -> set[int]:
    """Offsets of the lines that begin inside a string, and so must not be changed."""
    inside: set[int] = set()
    for kind in (cst.SimpleString, cst.FormattedString):
        for node in tree.nodes(kind):
            start, end = tree.span(node)
            if end > begin and "\n" in tree.text[start:end] and tree.contains(holder, node):
                inside.update(offset for offset, _ in _lines(tree.text, start, end) if offset != start)
    return inside
