"""Python's own parser: whether a text is a program, and which identifiers it uses."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

MAX_DEPTH = 400
"""Nesting of the syntax tree beyond which a file is refused; real files stay below 100."""


class TooDeepError(Exception):
    """The file nests more deeply than can be analysed."""


def parse(data: bytes | str) -> ast.Module:
    """``ast.parse`` without warnings, its ways to say "too deep" made one.

    A lack of memory cannot be told from them.

    Raises:
        SyntaxError: the file is not Python.
        TooDeepError: the interpreter's own parser gave up.
    """
    import warnings

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(data)
    except (RecursionError, MemoryError) as error:
        raise TooDeepError("nests too deeply, or is too large, to be parsed") from error
    except ValueError as error:  # bytes that Python's own decoder refuses
        raise SyntaxError(str(error)) from error


def identifiers(module: ast.Module) -> Iterator[str]:
    """Every identifier that the code uses, and strings that are one (``dtype="float16"``).

    Raises:
        TooDeepError: the tree is deeper than `MAX_DEPTH`.
    """
    level: list[ast.AST] = [module]
    for _ in range(MAX_DEPTH):
        if not level:
            return
        for node in level:
            yield from _own_identifiers(node)
        level = [child for node in level for child in _children(node)]
    raise TooDeepError(f"nests more than {MAX_DEPTH} levels deep")


def _children(node: ast.AST) -> Iterable[ast.AST]:
    """The nodes below; ``a and b and c`` as the two levels that libcst makes of it."""
    if isinstance(node, ast.BoolOp) and len(node.values) > 2:
        return ast.BoolOp(node.op, node.values[:-1]), node.values[-1]
    return ast.iter_child_nodes(node)


def _own_identifiers(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.Name(id=word) | ast.Attribute(attr=word) | ast.keyword(arg=str(word)):
            yield word
        case ast.alias(name=dotted):
            yield from dotted.split(".")
        case ast.Constant(value=str(word)) if word.isidentifier():
            yield word
        case ast.ClassDef(name=word) | ast.FunctionDef(name=word) | ast.arg(arg=word):
            yield word
        case ast.ImportFrom(module=str(dotted)):
            yield from dotted.split(".")
