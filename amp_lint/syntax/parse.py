"""Python's own parser: whether a text is a program, and which identifiers it uses."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator
from typing import Any

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
    for level in levels(module):
        for node in level:
            yield from own_identifiers(node)


def levels(module: ast.Module) -> Iterator[list[ast.AST]]:
    """The nodes of a tree, level by level from the top; not operators, nor how a name is used.

    Raises:
        TooDeepError: the tree is deeper than `MAX_DEPTH`.
    """
    level: list[ast.AST] = [module]
    for _ in range(MAX_DEPTH):
        if not level:
            return
        yield level
        level = _below(level)
    raise TooDeepError(f"nests more than {MAX_DEPTH} levels deep")


_WITHOUT_NODES = frozenset(
    {"arg", "asname", "attr", "conversion", "ctx", "id", "is_async", "kind", "level", "module",
     "op", "ops", "rest", "simple", "type_comment"}
)  # fmt: skip
"""Fields of nodes that hold none, or only `_SIGNS`."""
_LEAVES = (ast.Name, ast.Constant, ast.alias)
_SIGNS = (ast.boolop, ast.cmpop, ast.expr_context, ast.operator, ast.unaryop)
"""Which operator it is, and whether a name is read or written."""
FIELDS = {
    kind: tuple(name for name in kind._fields if kind not in _LEAVES and name not in _WITHOUT_NODES)
    for kind in vars(ast).values()
    if isinstance(kind, type) and issubclass(kind, ast.AST) and kind.__module__ == "ast"
    if not issubclass(kind, _SIGNS)
}
"""Kind of node, but for `_SIGNS` -> its fields that may hold others."""


def _below(level: list[ast.AST]) -> list[ast.AST]:
    """The nodes below some nodes; ``a and b and c`` as the two levels that libcst makes of it.

    Not the texts between the braces of a formatted string, which are no identifiers.
    """
    found: list[Any] = []
    for node in level:
        if isinstance(node, ast.BoolOp) and len(node.values) > 2:
            found += (ast.BoolOp(node.op, node.values[:-1]), node.values[-1])
            continue
        if isinstance(node, ast.JoinedStr) and len(node.values) > 1:
            found += (each for each in node.values if isinstance(each, ast.FormattedValue))
            continue
        for name in FIELDS[type(node)]:
            value = getattr(node, name, None)
            if type(value) is list:
                found += value
            elif value is not None:
                found.append(value)
    return [each for each in found if type(each) in FIELDS]


def nodes(root: ast.AST) -> list[ast.AST]:
    """A node and all below it, in any order, as `levels`: a third of what `ast.walk` takes."""
    found: list[Any] = [root]
    for node in found:  # grows while it is read
        for name in FIELDS[type(node)]:
            value = getattr(node, name, None)
            if type(value) is list:
                found += [each for each in value if type(each) in FIELDS]
            elif type(value) in FIELDS:
                found.append(value)
    return found


def own_identifiers(node: ast.AST) -> Iterable[str]:
    """The identifiers of a node itself, and the string that is one."""
    words = _WORDS.get(type(node))
    return words(node) if words is not None else ()


def _of_import(node: ast.ImportFrom) -> Iterable[str]:
    return node.module.split(".") if node.module else ()


def _of_constant(node: ast.Constant) -> Iterable[str]:
    return (node.value,) if isinstance(node.value, str) and node.value.isidentifier() else ()


_WORDS: dict[type[ast.AST], Callable[[Any], Iterable[str]]] = {
    ast.Name: lambda node: (node.id,),
    ast.Attribute: lambda node: (node.attr,),
    ast.keyword: lambda node: (node.arg,) if node.arg else (),
    ast.alias: lambda node: node.name.split("."),
    ast.Constant: _of_constant,
    ast.ClassDef: lambda node: (node.name,),
    ast.FunctionDef: lambda node: (node.name,),
    ast.arg: lambda node: (node.arg,),
    ast.ImportFrom: _of_import,
}
