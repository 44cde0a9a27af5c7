"""Functions that a context of AMP decorates."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from amp_lint.syntax.names import callee
from amp_lint.syntax.references import is_read
from amp_lint.verify.compare.lift import is_amp
from amp_lint.verify.compare.places.callers import callers
from amp_lint.verify.compare.side import Side, open_terms
from amp_lint.verify.compare.units import common, name_of


def reasons(before: Side, after: Side) -> Iterator[str]:
    """Functions that a context of AMP decorates, and is not known to be on in all that they run."""
    for name in common(before.units, after.units):
        one, other = before.units[name], after.units[name]
        if not isinstance(one, cst.FunctionDef) or not isinstance(other, cst.FunctionDef):
            continue
        is_same = _order(before, one) == _order(after, other)
        if not is_same and not (_is_plain(after, other) and _is_plain(before, one)):
            line = after.line(other)
            yield f"line {line}: the decorators of `{other.name.value}` are others"


def _order(side: Side, function: cst.FunctionDef) -> list[bool]:
    """Of each decorator, whether it is AMP's: the others are compared like all code."""
    return [_is_amp(side, each.decorator) for each in function.decorators]


def _is_amp(side: Side, node: cst.BaseExpression) -> bool:
    return any(map(is_amp, side.model.names.qualified(callee(node))))


def _is_plain(side: Side, function: cst.FunctionDef) -> bool:
    """Whether a function runs where it is called, alone, and its decorators get literals."""
    given = [
        side.lifter.term(arg.value, {})
        for each in function.decorators
        if isinstance(each.decorator, cst.Call)
        for arg in each.decorator.args
    ]
    below = side.model.tree.below
    runs_later = function.asynchronous is not None or bool(below(function, cst.Yield))
    calls_itself = name_of(side.model, function.body) in callers(side, function)
    alone = all(_order(side, function)) and not _is_read(side, function.name.value)
    return alone and not runs_later and not calls_itself and not open_terms(given)


def _is_read(side: Side, name: str) -> bool:
    """Whether something reads a function, or what it knows of itself, other than to call it."""
    tree = side.model.tree
    for node in tree.named(name):
        parent = tree.parent(node)
        whole = parent if isinstance(parent, cst.Attribute) and parent.attr is node else node
        if not isinstance(tree.parent(whole), cst.Call) and is_read(tree, whole):
            return True
    return False
