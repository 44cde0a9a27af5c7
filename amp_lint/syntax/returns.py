"""What a function returns, and whether it is called by reading an attribute."""

from __future__ import annotations

import functools
from collections.abc import Iterator

import libcst as cst

from amp_lint.syntax.names import dotted
from amp_lint.syntax.tree import children

_INNER = (cst.FunctionDef, cst.ClassDef, cst.Lambda)
_PROPERTIES = frozenset({"property", "cached_property"})


def own_nodes(function: cst.FunctionDef) -> Iterator[cst.CSTNode]:
    """The nodes of a function's body, but for those of functions and classes inside it."""
    todo: list[cst.CSTNode] = [function.body]
    while todo:
        node = todo.pop()
        yield node
        if not isinstance(node, _INNER):
            todo.extend(reversed(tuple(children(node))))


@functools.lru_cache(maxsize=1024)
def returned(function: cst.FunctionDef) -> tuple[cst.BaseExpression, ...]:
    """The values that a function returns, in source order; () for a generator or a coroutine."""
    nodes = [*own_nodes(function)]
    if function.asynchronous is not None or any(isinstance(node, cst.Yield) for node in nodes):
        return ()
    return tuple(n.value for n in nodes if isinstance(n, cst.Return) and n.value is not None)


def is_property(function: cst.FunctionDef) -> bool:
    """Whether reading an attribute calls a function."""
    return any(map(_makes_property, function.decorators))


def _makes_property(decorator: cst.Decorator) -> bool:
    return (dotted(decorator.decorator) or "").rpartition(".")[2] in _PROPERTIES
