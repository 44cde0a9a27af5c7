"""What each target of an assignment is given: ``a, b = x, y`` gives each of them its own value."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from amp_lint.syntax.tree import Tree

Pair = tuple[cst.BaseExpression, cst.BaseExpression | None]
"""One target, no tuple, and its value; None where no expression is the value of it alone."""
_KINDS = (cst.Assign, cst.AnnAssign, cst.NamedExpr)
_SEQUENCES = (cst.Tuple, cst.List)


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
    if not isinstance(target, _SEQUENCES):
        yield target, value
        return
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
