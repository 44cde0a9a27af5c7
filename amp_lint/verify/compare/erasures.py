"""What terms are lifted without, and no experiment sees: none of it may come or go unnoticed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator

import libcst as cst

from amp_lint.amp.events import Kind
from amp_lint.verify.compare.side import Side


def erasures(before: Side, after: Side, name: str) -> Iterator[str]:
    """What terms are lifted without: scaled losses, the state of scalers, where they are made."""
    for found, how in (
        (_other_scales, "is used beside the backward pass"),
        (_made_in_loops, "is made anew in each round"),
        (_unknown_writes, "was added"),
    ):
        yield from _more(before, after, name, found, how)
    for found, how in ((_saved, "was removed"), (_unknown_writes, "was removed")):
        yield from _more(after, before, name, found, how)


Finder = Callable[[Side, str], Iterator[cst.CSTNode]]


def _more(before: Side, after: Side, name: str, find: Finder, how: str) -> Iterator[str]:
    left = Counter(compact(before, node) for node in find(before, name))
    for node in find(after, name):
        if not left[compact(after, node)]:
            yield f"line {after.line(node)}: `{shown(after, node)}` {how}"
        left[compact(after, node)] -= 1


def shown(side: Side, node: cst.CSTNode) -> str:
    """The first line of a piece of code."""
    return side.model.tree.source(node).splitlines()[0]


def compact(side: Side, node: cst.CSTNode) -> str:
    """A piece of code without white space."""
    return "".join(side.model.tree.source(node).split())


def _calls(side: Side, name: str) -> Iterator[cst.Call]:
    """The calls of a function itself, not of those in it."""
    yield from side.calls.get(id(side.units[name]), ())


def _other_scales(side: Side, name: str) -> Iterator[cst.Call]:
    """Scaled losses that something else than a backward pass may see."""
    for call in filter(side.model.steps.recognizer.is_scale, _calls(side, name)):
        holder = side.model.tree.parent(call)
        if not _feeds(side, call) and not (
            isinstance(holder, cst.Assign)
            and all(_feeds(side, read) for read in _reads(side, holder))
        ):
            yield call


def _feeds(side: Side, node: cst.CSTNode) -> bool:
    """Whether backward is called on an expression, and nothing else is done with it."""
    attribute = side.model.tree.parent(node)
    call = None if attribute is None else side.model.tree.parent(attribute)
    return isinstance(call, cst.Call) and call.func is attribute and _is_backward(side, call)


def _is_backward(side: Side, call: cst.Call) -> bool:
    return side.model.steps.recognizer.kind(call) is Kind.BACKWARD


def _reads(side: Side, made: cst.Assign) -> Iterator[cst.Name]:
    """Where the name is read that a statement binds."""
    names = side.model.names
    for node in side.model.tree.nodes(cst.Name):
        if node is not made.targets[0].target and any(
            binding.node is made for binding in names.bindings(node)
        ):
            yield node


def _made_in_loops(side: Side, name: str) -> Iterator[cst.Call]:
    """Scalers that a loop makes."""
    tree = side.model.tree
    for call in side.model.roles.scaler_calls:
        around = tree.ancestor(call, cst.For, cst.While, cst.FunctionDef)
        if isinstance(around, (cst.For, cst.While)) and side.holder(call) is side.units[name]:
            yield call


def _saved(side: Side, name: str) -> Iterator[cst.Call]:
    """What saves or loads the state of a scaler."""
    return filter(side.lifter.is_scaler_state, _calls(side, name))


def _unknown_writes(side: Side, name: str) -> Iterator[cst.CSTNode]:
    """Changes of gradients by something else than a number or the scale."""
    for mark in side.effects[name].marks:
        if mark.kind == Kind.GRADIENT_WRITE.value and side.tracer.factor(mark.node) is None:
            yield mark.node
