"""Neutral edits of how a program is written: comments, quotes, parentheses, formatters."""

from __future__ import annotations

import ast
import itertools
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from fuzz.bases import LAYOUTS
from fuzz.change import Cut, Edits, around, put, swap
from fuzz.code import Place, Program

COMMENTS = ("# see below", "# scaler.unscale_(optimizer)", "# 1. forward, 2. backward", "# ä → b")


def _before(program: Program) -> Iterator[Place]:
    """The statements that a line can be put before."""
    for place in program.whole_lines:
        start, _ = program.line_span(place.node)
        if not is_docstring(place) and not program.text[:start].endswith("\\\n"):
            yield place


def is_docstring(place: Place) -> bool:
    node = place.node
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and not place.index


def is_future(place: Place) -> bool:
    return isinstance(place.node, ast.ImportFrom) and place.node.module == "__future__"


def comments(program: Program) -> Iterator[Edits]:
    """A comment on a line of its own."""
    for place, comment in zip(_before(program), itertools.cycle(COMMENTS), strict=False):
        start, _ = program.line_span(place.node)
        yield (put(start, f"{program.indent(place.node)}{comment}\n"),)


def trailing_comments(program: Program) -> Iterator[Edits]:
    """A comment behind a statement."""
    for place in program.whole_lines:
        _, end = program.span(place.node)
        if not program.text[end : program.line_end(end)].strip():
            yield (put(end, "  # so"),)


def blank_lines(program: Program) -> Iterator[Edits]:
    """Blank lines more or less."""
    for place in _before(program):
        start, _ = program.line_span(place.node)
        yield (put(start, "\n"),)
        if program.text[:start].endswith("\n\n"):
            yield (swap((start - 1, start)),)


def in_fstring(program: Program, node: ast.AST) -> bool:
    """Whether a node is in an f-string, where old versions of Python know no places."""
    return any(isinstance(above, ast.JoinedStr) for above in program.above(node))


def parentheses(program: Program) -> Iterator[Edits]:
    """Parentheses around an expression."""
    for node in program.nodes(ast.expr):
        parent = program.parents[node]
        if isinstance(node, (ast.GeneratorExp, ast.Starred, ast.Slice)):
            continue
        if isinstance(getattr(node, "ctx", None), (ast.Store, ast.Del)):
            continue
        if isinstance(node, ast.Tuple) and isinstance(parent, ast.Subscript):
            continue
        if in_fstring(program, node) or _no_expression(program, node, parent):
            continue
        yield around(program, program.span(node))


def _no_expression(program: Program, node: ast.AST, parent: ast.AST) -> bool:
    """Whether what looks like an expression stands where no parentheses may, or none help."""
    chain = [node, *program.above(node)]
    if any(isinstance(each, (ast.pattern, ast.JoinedStr)) for each in chain[1:]):
        return True
    return node in getattr(parent, "decorator_list", ())


def _plain_strings(program: Program) -> Iterator[ast.Constant]:
    """Strings of one token without a prefix, quotes and escapes."""
    for node in program.nodes(ast.Constant):
        if isinstance(node.value, str) and not in_fstring(program, node):
            source = program.source(node)
            if re.fullmatch(r"""(['"])[^'"\\\n{}]*\1""", source):
                yield node


def _is_value(program: Program, node: ast.Constant) -> bool:
    parent = program.parents[node]
    return not isinstance(parent, (ast.Expr, ast.MatchValue, ast.MatchMapping)) and not any(
        getattr(above, "annotation", None) is below or getattr(above, "returns", None) is below
        for below, above in itertools.pairwise([node, *program.above(node)])
    )


def quotes(program: Program) -> Iterator[Edits]:
    """Other quotes around a string."""
    for node in _plain_strings(program):
        start, end = program.span(node)
        other = '"' if program.text[start] == "'" else "'"
        for quote, prefix in ((other, ""), ('"""', ""), (other, "r"), (other, "u")):
            opened = swap((start, start + 1), prefix + quote)
            yield opened, swap((end - 1, end), quote)


def f_strings(program: Program) -> Iterator[Edits]:
    """An f-string without anything in braces."""
    for node in _plain_strings(program):
        if _is_value(program, node):
            yield (put(program.span(node)[0], "f"),)


def split_strings(program: Program) -> Iterator[Edits]:
    """A string of two tokens."""
    for node in _plain_strings(program):
        start, end = program.span(node)
        if _is_value(program, node) and end - start > 3:
            middle, quote = (start + end) // 2, program.text[start]
            yield *around(program, (start, end)), put(middle, f"{quote} {quote}")


def backslashes(program: Program) -> Iterator[Edits]:
    """A line that goes on after a backslash."""
    for place in program.whole_lines:
        if isinstance(place.node, ast.Assign):
            start, _ = program.span(place.node.value)
            if program.text[start - 2 : start] == "= ":
                yield (put(start, f"\\\n{program.indent(place.node)}    "),)


def joined_lines(program: Program) -> Iterator[Edits]:
    """Two simple statements on one line."""
    for place in program.whole_lines:
        if not place.index or hasattr(place.node, "body") or isinstance(place.node, ast.Match):
            continue
        before = place.block[place.index - 1]
        span = program.span(before)[1], program.span(place.node)[0]
        if hasattr(before, "body") or isinstance(before, ast.Match):
            continue
        if not program.text[slice(*span)].strip():
            yield (swap(span, "; "),)


def split_lines(program: Program) -> Iterator[Edits]:
    """Statements of one line on two."""
    for place in program.places:
        if place.index and not hasattr(place.node, "body"):
            before = place.block[place.index - 1]
            span = program.span(before)[1], program.span(place.node)[0]
            start = program.line_start(span[0])
            indent = program.text[start : program.span(before)[0]]
            if program.text[slice(*span)].strip() == ";" and not indent.strip():
                yield (swap(span, f"\n{indent}"),)


def wrapped_calls(program: Program) -> Iterator[Edits]:
    """Each argument of a call on a line of its own, with a comma behind the last."""
    for node in program.nodes(ast.Call):
        parts = [*node.args, *node.keywords]
        spans = sorted(program.span(part) for part in parts)
        lone = len(parts) == 1 and isinstance(parts[0], ast.GeneratorExp)
        if not parts or lone or in_fstring(program, node) or "\n" in program.source(node):
            continue
        _, end = program.span(node)
        if any(program.text[s - 1] not in "( " for s, _ in spans):
            continue  # parentheses around an argument
        if program.text[spans[-1][1] : end] != ")":
            continue
        yield *(put(start, "\n        ") for start, _ in spans), put(end - 1, ",\n    ")


def comments_in_calls(program: Program) -> Iterator[Edits]:
    """A comment behind the bracket of a call."""
    for node in program.nodes(ast.Call):
        _, end = program.span(node.func)
        if program.text[end] == "(" and not in_fstring(program, node):
            yield (put(end + 1, "  # these\n        "),)


# --- the whole text -------------------------------------------------------------------------------

Layout = Callable[[str], "str | None"]


def _black(text: str, columns: int = 100, *, strings: bool = True) -> str | None:
    import black

    try:
        return black.format_str(
            text, mode=black.Mode(line_length=columns, string_normalization=strings)
        )
    except ValueError:  # as when a file is none that black can read
        return None


def _black_narrow(text: str) -> str | None:
    return _black(text, 40, strings=False)


def _ruff(text: str, *options: str) -> str | None:
    program = Path(sys.executable).with_name("ruff")
    done = subprocess.run(
        [program, "format", "--isolated", "--stdin-filename", "a.py", *options, "-"],
        input=text.encode(),
        capture_output=True,
    )
    return done.stdout.decode() if done.returncode == 0 else None


def _ruff_single(text: str) -> str | None:
    return _ruff(text, "--line-length=60", "--config", "format.quote-style='single'")


def _of(name: str) -> Layout:
    return lambda text: LAYOUTS[name](text).removeprefix(b"\xef\xbb\xbf").decode()


FORMATS: dict[str, Layout] = {
    "black": _black,
    "black, narrow": _black_narrow,
    "ruff format": _ruff,
    "ruff format, narrow": _ruff_single,
    "CRLF": _of("CRLF"),
    "tabs": _of("tabs"),
    "two spaces": _of("two spaces"),
    "form feeds": _of("form feeds"),
}
CUTS: dict[str, Callable[[Program], Iterator[tuple[Cut, ...]]]] = {
    "comments": comments,
    "trailing comments": trailing_comments,
    "blank lines": blank_lines,
    "parentheses": parentheses,
    "quotes": quotes,
    "f-strings": f_strings,
    "split strings": split_strings,
    "backslashes": backslashes,
    "joined lines": joined_lines,
    "split lines": split_lines,
    "wrapped calls": wrapped_calls,
    "comments in calls": comments_in_calls,
}
