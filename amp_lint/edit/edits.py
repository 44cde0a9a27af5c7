"""The only text surgery: what fixes are made of, and how they are applied."""

from __future__ import annotations

import io
import itertools
import tokenize
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from amp_lint._lazy import cst
from amp_lint.text.diagnostic import Edit, Fix
from amp_lint.text.lines import changes, lines_of
from amp_lint.text.source import LINE_END

if TYPE_CHECKING:
    from amp_lint.syntax.tree import Tree


def replace_node(tree: Tree, node: cst.CSTNode, content: str) -> Edit:
    """Write ``content`` in place of a node's own text; parentheses around it stay."""
    return Edit(*tree.span(node), content)


def rewrite(tree: Tree, node: cst.CSTNode, changes: Iterable[Edit]) -> str:
    """A node's own text after changes inside it."""
    start, _ = tree.span(node)
    moved = [Edit(edit.start - start, edit.end - start, edit.content) for edit in changes]
    return splice(tree.source(node), moved)


def insert_before(
    tree: Tree, statement: cst.BaseStatement, line: str, guard: str | None = None
) -> Edit:
    """Add a line with the statement's own indentation, right above it and below its comments.

    Or several, in one text. With a ``guard`` they are added under ``if guard:``.
    """
    start, _ = tree.span(statement)
    indent = tree.text[_line_start(tree.text, start) : start]
    lines = line.split("\n")
    if guard is not None:
        lines = [f"if {guard}:", *(tree.module.default_indent + each for each in lines)]
    newline = _newline(tree, start)
    return Edit(start, start, "".join(f"{each}{newline}{indent}" for each in lines))


def enter_around(
    tree: Tree, line: cst.SimpleStatementLine, context: cst.BaseExpression, inner: str
) -> Edit:
    """Write ``with context:`` and a statement in it in place of a statement."""
    start, end = tree.span(line.body[0])
    indent = tree.text[_line_start(tree.text, start) : start] + tree.module.default_indent
    return Edit(start, end, f"with {tree.source(context)}:{_newline(tree, start)}{indent}{inner}")


def guard(tree: Tree, line: cst.SimpleStatementLine, test: str) -> Edit:
    """Put a statement that fits on its line under a test."""
    start, _ = tree.span(line)
    inner = tree.text[_line_start(tree.text, start) : start] + tree.module.default_indent
    return Edit(start, start, f"if {test}:{_newline(tree, start)}{inner}")


def insert_after(tree: Tree, statement: cst.BaseStatement, line: str) -> Edit:
    """Add a line with the statement's own indentation right below the line it ends on."""
    start, end = tree.span(statement)
    indent = tree.text[_line_start(tree.text, start) : start]
    match = LINE_END.search(tree.text, end)
    at = match.start() if match else len(tree.text)
    return Edit(at, at, f"{_newline(tree, start)}{indent}{line}")


def move_behind(
    tree: Tree, line: cst.SimpleStatementLine, holder: cst.BaseCompoundStatement
) -> tuple[Edit, ...] | None:
    """Put a line of a statement's block behind the statement; None if the line is no lone one.

    The last line of it stays where it is, with the indentation of the statement.
    """
    if len(line.body) != 1:
        return None
    start, _ = tree.span(line)
    if tree.end(line) == tree.end(holder):
        return (Edit(_line_start(tree.text, start), start, _indent(tree, holder)),)
    removed = remove_statement(tree, line.body[0])
    return (removed, insert_after(tree, holder, tree.source(line))) if removed else None


def insert_block_after(tree: Tree, statement: cst.BaseStatement, head: str, line: str) -> Edit:
    """The same of a block of one line."""
    inner = _indent(tree, statement) + tree.module.default_indent
    return insert_after(tree, statement, f"{head}{_newline(tree, 0)}{inner}{line}")


def delete_call_suffix(tree: Tree, call: cst.Call) -> Edit | None:
    """``x.half()`` -> ``x``: drop the last attribute; None if a comment would go too."""
    assert isinstance(call.func, cst.Attribute)
    start, end = tree.outer_span(call.func.value)[1], tree.span(call)[1]
    return Edit(start, end, "") if "#" not in tree.text[start:end] else None


def remove_argument(tree: Tree, call: cst.Call, arg: cst.Arg) -> Edit | None:
    """Delete one of several arguments of a call with a comma; None if a comment would go too."""
    index = next(i for i, other in enumerate(call.args) if other is arg)
    start, end = tree.span(arg)[0], tree.outer_span(arg.value)[1]
    if index + 1 < len(call.args):
        end = tree.span(call.args[index + 1])[0]
    else:
        start = tree.outer_span(call.args[index - 1].value)[1]
    return Edit(start, end, "") if "#" not in tree.text[start:end] else None


def remove_statement(tree: Tree, small: cst.BaseSmallStatement, moved: str = "") -> Edit | None:
    """Delete a statement that has its line for itself.

    Its comments stay where they are, except those that are in the text ``moved`` elsewhere.

    An ``if`` without ``else`` that would have nothing left to do goes with it, unless its test
    calls something; another block that would be empty gets a ``pass``.
    """
    holder = tree.parent(small)
    if not isinstance(holder, (cst.SimpleStatementLine, cst.SimpleStatementSuite)):
        return None
    if len(holder.body) != 1:
        return None
    block = tree.parent(holder) if isinstance(holder, cst.SimpleStatementLine) else holder
    assert isinstance(block, (cst.Module, cst.IndentedBlock, cst.SimpleStatementSuite))
    if isinstance(holder, cst.SimpleStatementLine) and (
        isinstance(block, cst.Module) or len(block.body) > 1
    ):
        return _remove_lines(tree, holder, moved)
    owner = tree.parent(block)
    if isinstance(owner, cst.If) and _only_guards(tree, owner):
        return _remove_if(tree, owner)
    return Edit(*tree.span(small), "pass")


def _only_guards(tree: Tree, node: cst.If) -> bool:
    is_elif = isinstance(tree.parent(node), cst.If)
    return node.orelse is None and not is_elif and not tree.below(node.test, cst.Call)


def _remove_if(tree: Tree, node: cst.If) -> Edit | None:
    block = tree.parent(node)
    if not isinstance(block, cst.IndentedBlock) or len(block.body) > 1:
        return _remove_lines(tree, node)
    owner = tree.parent(block)
    if isinstance(owner, cst.If) and _only_guards(tree, owner):
        return _remove_if(tree, owner)
    return Edit(*tree.span(node), "pass") if "#" not in tree.source(node) else None


def _remove_lines(tree: Tree, statement: cst.BaseStatement, moved: str = "") -> Edit:
    """Cut the lines of a statement out of its block, but leave the comments in them."""
    start, end = tree.span(statement)
    begin = _line_start(tree.text, start)
    match = LINE_END.search(tree.text, end)
    stop = match.end() if match else len(tree.text)
    indent = tree.text[begin:start]
    left = [comment for comment in _comments(tree.text[start:stop]) if comment not in moved]
    return Edit(begin, stop, "".join(f"{indent}{c}{_newline(tree, start)}" for c in left))


def _comments(text: str) -> list[str]:
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    return [token.string for token in tokens if token.type == tokenize.COMMENT]


def dedent_tail(
    tree: Tree,
    holder: cst.BaseCompoundStatement,
    first: cst.BaseStatement,
    rest: cst.BaseStatement | None = None,
) -> Edit:
    """Move ``first`` and all that follows it in the block of ``holder`` out of the block.

    Or what follows it up to ``rest``. Continuation lines move with their statements; the lines of
    triple-quoted strings and comments that stand further left stay where they are.
    """
    inner, outer = _indent(tree, first), _indent(tree, holder)
    begin = _first_line(tree, first, inner)
    end = _first_line(tree, rest, inner) if rest is not None else _end(tree, holder)
    return Edit(begin, end, _moved(tree, holder, (begin, end), inner, outer))


def leave(
    tree: Tree,
    holder: cst.With,
    item: cst.WithItem,
    first: cst.BaseStatement,
    rest: cst.BaseStatement | None,
) -> tuple[Edit, ...]:
    """Let one context of a ``with`` end before ``first``, and begin again at ``rest``.

    Its other contexts stay around all of it; () if a comment would go.
    """
    header = f"with {tree.source(item.item)}:{_newline(tree, tree.span(holder)[0])}"
    whole = holder.body.body[0] is first
    if len(holder.items) > 1:
        return _inside(tree, holder, item, header, (None if whole else first, first, rest))
    moved = dissolve(tree, holder, rest) if whole else dedent_tail(tree, holder, first, rest)
    if moved is None:
        return ()
    again = _indent(tree, holder) + header if rest is not None else ""
    return (Edit(moved.start, moved.end, moved.content + again),)


def _inside(
    tree: Tree,
    holder: cst.With,
    item: cst.WithItem,
    header: str,
    parts: tuple[cst.BaseStatement | None, cst.BaseStatement, cst.BaseStatement | None],
) -> tuple[Edit, ...]:
    """Take a context out of the head of a ``with`` and put it around parts of the block."""
    front, first, rest = parts
    start, end = (tree.outer_span(holder.items[at].item)[at] for at in (0, -1))
    others = ", ".join(tree.source(each.item) for each in holder.items if each is not item)
    inner = _indent(tree, first)
    deeper = inner + inner[len(_indent(tree, holder)) :]
    found = [Edit(start, end, others)]
    block = holder.body.body[0]
    if front is not None and isinstance(block, cst.BaseStatement):
        span = _first_line(tree, block, inner), _first_line(tree, first, inner)
        found.append(Edit(*span, inner + header + _moved(tree, holder, span, inner, deeper)))
    if rest is not None:
        span = _first_line(tree, rest, inner), _end(tree, holder)
        found.append(Edit(*span, inner + header + _moved(tree, holder, span, inner, deeper)))
    return tuple(found) if "#" not in tree.text[start:end] else ()


def dissolve(tree: Tree, holder: cst.With, rest: cst.BaseStatement | None = None) -> Edit | None:
    """Put the block of a ``with``, or what is before ``rest``, in its place.

    None if its head holds a comment or a name.
    """
    first = holder.body.body[0]
    if any(item.asname is not None for item in holder.items):
        return None
    if not isinstance(first, cst.BaseStatement):
        return None
    moved = dedent_tail(tree, holder, first, rest)
    start = _line_start(tree.text, tree.span(holder)[0])
    if "#" in tree.text[start : moved.start]:
        return None
    return Edit(start, moved.end, moved.content)


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


def _end(tree: Tree, holder: cst.BaseCompoundStatement) -> int:
    return min(tree.outer_span(holder.body)[1], len(tree.text))  # libcst ends each line


def _moved(tree: Tree, holder: cst.CSTNode, span: tuple[int, int], inner: str, outer: str) -> str:
    """Lines of a block with another indentation."""
    fixed = _strings(tree, holder, span[0])
    return "".join(
        line if offset in fixed else _reindent(line, inner, outer)
        for offset, line in _lines(tree.text, *span)
    )


def _first_line(tree: Tree, statement: cst.BaseStatement, indent: str) -> int:
    """Where the comment lines right above a statement begin, if they share its indentation."""
    begin = _line_start(tree.text, tree.span(statement)[0])
    while begin > 0:
        end = begin - 2 if tree.text.endswith("\r\n", 0, begin) else begin - 1
        above = _line_start(tree.text, end)
        line = tree.text[above:begin]
        if not (line.startswith(indent + "#")):
            break
        begin = above
    return begin


def _strings(tree: Tree, holder: cst.CSTNode, begin: int) -> set[int]:
    """Offsets of the lines that begin inside a string, and so must not be changed."""
    inside: set[int] = set()
    for kind in (cst.SimpleString, cst.FormattedString):
        for node in tree.below(holder, kind):
            start, end = tree.span(node)
            if end > begin and "\n" in tree.text[start:end]:
                inside.update(
                    offset for offset, _ in _lines(tree.text, start, end) if offset != start
                )
    return inside


def difference(old: str, new: str) -> list[Edit]:
    """What makes one text of another: whole lines, without what they begin and end with alike."""
    before, after = lines_of(old), lines_of(new)
    starts = [0, *itertools.accumulate(map(len, before))]
    return [
        _narrowed(old, Edit(starts[i], starts[j], "".join(after[k:m])))
        for i, j, k, m in changes(before, after)
    ]


def _narrowed(old: str, edit: Edit) -> Edit:
    start, end, content = edit.start, edit.end, edit.content
    while start < end and content and old[start] == content[0]:
        start, content = start + 1, content[1:]
    while start < end and content and old[end - 1] == content[-1]:
        end, content = end - 1, content[:-1]
    return Edit(start, end, content)
