"""Functions of a file that change something, whatever their names promise."""

from __future__ import annotations

from collections.abc import Iterable

import libcst as cst

from amp_lint.model import Model
from amp_lint.syntax.assignments import assigned
from amp_lint.syntax.returns import own_nodes

_STORED = (cst.Attribute, cst.Subscript)


def active(model: Model) -> frozenset[str]:
    """The names of functions and methods that store something, or call what does.

    Or call something for nothing but what it does.
    """
    functions = model.tree.nodes(cst.FunctionDef)
    bodies = [(each.name.value, [*own_nodes(each)]) for each in functions]
    found = {name for name, nodes in bodies if any(map(_stores, nodes))}
    fresh = found
    while fresh:
        fresh = {name for name, nodes in bodies if not found.isdisjoint(_read(nodes))} - found
        found |= fresh
    return frozenset(found)


def _stores(node: cst.CSTNode) -> bool:
    match node:
        case cst.Expr(value=value):
            return isinstance(value, cst.Call)
        case cst.AugAssign(target=target):
            return isinstance(target, _STORED)
        case cst.Global() | cst.Nonlocal() | cst.Del():
            return True
    return any(isinstance(target, _STORED) for target, _ in assigned(node))


def _read(nodes: Iterable[cst.CSTNode]) -> set[str]:
    """The names of what is called, and of attributes."""
    calls = (each.func for each in nodes if isinstance(each, cst.Call))
    named = (each.value for each in calls if isinstance(each, cst.Name))
    return {*named, *(each.attr.value for each in nodes if isinstance(each, cst.Attribute))}
