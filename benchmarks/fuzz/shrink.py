"""Makes a program that shows something as small as it gets."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator

from amp_lint.text.diagnostic import Edit
from fuzz.code import Program, shifted

Shows = Callable[[str], bool]


def shrunk(text: str, shows: Shows, most: int = 400) -> str:
    """A small text for which ``shows`` still holds, found in at most so many questions."""
    left = most

    def ask(option: str) -> bool:
        nonlocal left
        left -= 1
        return left >= 0 and shows(option)

    before = None
    while before != text and left > 0:
        before = text
        text = _without_lines(text, ask)
        text = _simplified(text, ask)
    return text


def _without_lines(text: str, ask: Shows) -> str:
    """Without every run of lines that it can do without, the longest runs first."""
    lines = text.splitlines(keepends=True)
    size = max(len(lines) // 2, 1)
    while size:
        at = 0
        while at < len(lines):
            option = lines[:at] + lines[at + size :]
            if option and ask("".join(option)):
                lines = option
            else:
                at += size
        size //= 2
    return "".join(lines)


def _simplified(text: str, ask: Shows) -> str:
    """With simpler statements, one after the other; calls keep their arguments."""
    try:
        program = Program(text)
    except SyntaxError:
        return text
    for option in _simpler(program):
        if option != text and ask(option):
            return _simplified(option, ask)
    return text


def _simpler(program: Program) -> Iterator[str]:
    for place in program.whole_lines:
        if getattr(place.node, "body", None):
            yield from _unwrapped(program, place.node)
    for node in program.walked:
        if isinstance(node, (ast.BinOp, ast.BoolOp, ast.Compare, ast.IfExp)):
            for child in ast.iter_child_nodes(node):
                if isinstance(child, ast.expr):
                    yield program.after(program.replaced(node, program.source(child)))


def _unwrapped(program: Program, node: ast.stmt) -> Iterator[str]:
    """The body of a compound statement in its place."""
    body: list[ast.stmt] = node.body  # type: ignore[attr-defined]
    start, end = program.line_span(node)[0], program.line_span(body[-1])[1]
    begin = program.line_span(body[0])[0]
    if begin > start:
        inner = shifted(program.text[begin:end], program.indent(body[0]), program.indent(node))
        yield program.after(Edit(start, program.line_span(node)[1], inner))
        yield program.after(Edit(start, end, inner))
