"""What each target of an assignment is given: ``a, b = x, y`` gives each of them its own value."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import libcst as cst

from amp_lint.syntax.tree import Tree, is_a

if TYPE_CHECKING:
    from amp_lint.syntax.names import Binding

Pair = tuple[cst.BaseExpression, cst.BaseExpression | None]
"""One target, no tuple, and its value; None where no expression is the value of it alone."""
_KINDS = (cst.Assign, cst.AnnAssign, cst.NamedExpr)
_SEQUENCES = (cst.Tuple, cst.List)
_COPIES = frozenset({"iter", "list", "reversed", "set", "sorted", "tuple"})
"""Functions that give the elements of what they are given."""
_PAIRED = frozenset({"named_buffers", "named_children", "named_modules", "named_parameters"})
"""Methods that give the parts of a module with their names."""


def assignments(tree: Tree) -> Iterator[Pair]:
    """Every target of a file with its value; assignments with ``for`` and the like have none."""
    for kind in _KINDS:
        for node in tree.nodes(kind):
            yield from assigned(node)


def assigned(node: cst.CSTNode) -> Iterator[Pair]:
    """The targets of one assignment with their values; none for another node."""
    match node:
        case cst.Assign():
            for target in node.targets:
                yield from paired(target.target, node.value)
        case cst.AnnAssign(value=cst.BaseExpression() as value) | cst.NamedExpr(value=value):
            yield from paired(node.target, value)


def paired(target: cst.BaseExpression, value: cst.BaseExpression | None) -> Iterator[Pair]:
    """The targets in ``a, (b, c.d)`` with what each gets of a value."""
    if not is_a(target, _SEQUENCES):
        yield target, value
        return
    assert isinstance(target, _SEQUENCES)
    parts = value.elements if isinstance(value, _SEQUENCES) else ()
    starred = any(isinstance(item, cst.StarredElement) for item in (*target.elements, *parts))
    known = len(parts) == len(target.elements) and not starred
    for index, item in enumerate(target.elements):
        yield from paired(item.value, parts[index].value if known else None)


def targets_of(tree: Tree, value: cst.CSTNode) -> list[cst.BaseExpression]:
    """The targets that get just this value; [] if it is only a part of what is assigned."""
    for holder in tree.ancestors(value):
        if isinstance(holder, _KINDS):
            return [target for target, given in assigned(holder) if given is value]
        if not isinstance(holder, (cst.Element, *_SEQUENCES)):
            break
    return []


def taken(loop: cst.For | cst.CompFor) -> Iterator[tuple[cst.BaseExpression, cst.BaseExpression]]:
    """The targets of a loop, no tuples, with what each gets the elements, or values, of.

    Those are left out of which that is not known.
    """
    yield from _elements(loop.target, loop.iter)


def held_in(binding: Binding) -> list[cst.BaseExpression]:
    """What a loop's variable is one element of after the other; [] for another variable."""
    pairs = taken(binding.node) if isinstance(binding.node, (cst.For, cst.CompFor)) else ()
    return [
        container
        for target, container in pairs
        if isinstance(target, cst.Name) and target.value == binding.name
    ]


def numbered(
    loop: cst.For | cst.CompFor,
) -> Iterator[tuple[cst.BaseExpression, cst.BaseExpression, cst.BaseExpression]]:
    """Of ``for i, x in enumerate(xs)`` i, x and xs: x is ``xs[i]`` there."""
    yield from _numbered(loop.target, loop.iter)


def _numbered(
    target: cst.BaseExpression, container: cst.BaseExpression
) -> Iterator[tuple[cst.BaseExpression, cst.BaseExpression, cst.BaseExpression]]:
    parts = [e.value for e in target.elements] if isinstance(target, _SEQUENCES) else []
    match container:
        case cst.Call(func=cst.Name(value="enumerate"), args=[first]) if len(parts) == 2:
            for part, held in _elements(parts[1], first.value):
                yield parts[0], part, held
        case cst.Call(func=cst.Name(value="zip"), args=given) if len(parts) <= len(given):
            for part, arg in zip(parts, given, strict=False):
                yield from _numbered(part, arg.value)


def _elements(
    target: cst.BaseExpression, container: cst.BaseExpression
) -> Iterator[tuple[cst.BaseExpression, cst.BaseExpression]]:
    parts = [e.value for e in target.elements] if isinstance(target, _SEQUENCES) else []
    match container:
        case cst.Call(func=cst.Name(value="enumerate"), args=[first, *_]) if len(parts) == 2:
            yield from _elements(parts[1], first.value)
        case cst.Call(func=cst.Name(value="zip"), args=given) if len(parts) <= len(given):
            for part, arg in zip(parts, given, strict=False):
                yield from _elements(part, arg.value)
        case cst.Call(func=cst.Name(value=name), args=[first, *_]) if name in _COPIES:
            yield from _elements(target, first.value)
        case cst.Call(func=cst.Attribute(value=owner, attr=cst.Name(value="items")), args=[]):
            if len(parts) == 2 and not isinstance(parts[1], _SEQUENCES):
                yield parts[1], owner
        case cst.Call(func=cst.Attribute(attr=cst.Name(value=name))) if (
            name in _PAIRED and len(parts) == 2 and not isinstance(parts[1], _SEQUENCES)
        ):
            yield parts[1], container
        case cst.Call(func=cst.Attribute(value=owner, attr=cst.Name(value="values")), args=[]):
            if not parts:
                yield target, owner
        case _ if not parts:
            yield target, container
