"""How a scaler outlives a run: what of it is saved, under which key, and how that is loaded."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import libcst as cst

from amp_lint.flow.values import literal
from amp_lint.verify.compare.side import Side
from amp_lint.verify.compare.units import name_of
from amp_lint.verify.obligations import Place, State


@dataclass(frozen=True, slots=True)
class _Kept:
    """Something of a scaler in a checkpoint."""

    save: str
    load: str
    node: cst.CSTNode


def states(before: Side, after: Side) -> Iterator[State]:
    """What has to be shown of each scaler that is kept in another way than before."""
    old, new = dict(_kept(before)), dict(_kept(after))
    for key, now in new.items():
        was = old.get(key)
        if was is None or (was.save, was.load) != (now.save, now.load):
            line = 0 if was is None else before.line(was.node)
            place = Place(line, after.line(now.node), name_of(after.model, now.node))
            yield State(place, now.save, now.load)


def dropped(before: Side, after: Side) -> Iterator[str]:
    """Loads of a scaler's state that do not ask whether there is one.

    The old text asked, or loaded none, and saved none: its checkpoints were loaded.
    """
    asked = {key for key, node in _loading(before) if _is_asked(before, node, key)}
    known = {key for key, _ in _loading(before)}.union(_saved(before))
    for key, node in _loading(after):
        if (key in asked or key not in known) and not _is_asked(after, node, key):
            yield f"line {after.line(node)}: a checkpoint without the scaler is not loaded any more"


def _saved(side: Side) -> Iterator[str]:
    """The keys under which a text keeps something that a scaler is asked for."""
    elements = side.model.tree.nodes(cst.DictElement)
    keys = [(literal(each.key), each.value) for each in elements]
    for assign in side.model.tree.nodes(cst.Assign):
        subscripts = [t.target for t in assign.targets if isinstance(t.target, cst.Subscript)]
        keys += [(key, assign.value) for each in subscripts for key in _item(each)]
    yield from (key for key, value in keys if isinstance(key, str) and _asked(side, value))


def _item(node: cst.Subscript) -> Iterator[str]:
    """The word that is asked for in ``state["scaler"]``."""
    keys = [literal(e.slice.value) for e in node.slice if isinstance(e.slice, cst.Index)]
    yield from (key for key in keys if isinstance(key, str))


def _is_asked(side: Side, node: cst.Call, key: str) -> bool:
    """Whether a test around a load names its key, or what it is saved in.

    Of a dict that the file itself writes, with that key, and has filled, it says nothing.
    """
    item = node.args[0].value
    if isinstance(item, cst.Subscript) and any(_is_written(side, item.value, key)):
        return False
    tests = (h.test for h in side.model.tree.ancestors(node) if isinstance(h, cst.If))
    texts = (part for test in tests for part in side.model.tree.below(test, cst.SimpleString))
    return any(literal(text) == key for text in texts)


def _is_written(side: Side, owner: cst.BaseExpression, key: str) -> Iterator[bool]:
    """For each value of what is loaded, whether it is a dict that is written out with a key."""
    for value in side.model.values.alternatives(owner):
        elements = value.elements if isinstance(value, cst.Dict) else ()
        yield any(isinstance(e, cst.DictElement) and literal(e.key) == key for e in elements)


def _kept(side: Side) -> Iterator[tuple[str, _Kept]]:
    """By their key, what checkpoints hold of scalers, and what loads it."""
    loads = dict(_loads(side))
    for element in side.model.tree.nodes(cst.DictElement):
        method = _asked(side, element.value)
        key = literal(element.key)
        if method and isinstance(key, str) and key in loads:
            yield key, _Kept(method, loads[key], element.value)


def _asked(side: Side, node: cst.BaseExpression) -> str:
    """The method of a scaler that is called without arguments; "" for all else."""
    if not isinstance(node, cst.Call) or node.args or not isinstance(node.func, cst.Attribute):
        return ""
    return node.func.attr.value if side.model.roles.is_scaler(node.func.value) else ""


def _loads(side: Side) -> Iterator[tuple[str, str]]:
    """The keys of what is handed to scalers, each with the method that gets it."""
    for key, call in _loading(side):
        assert isinstance(call.func, cst.Attribute)
        yield key, call.func.attr.value


def _loading(side: Side) -> Iterator[tuple[str, cst.Call]]:
    """The same, each with the call."""
    for call in side.model.tree.nodes(cst.Call):
        if not isinstance(call.func, cst.Attribute) or len(call.args) != 1:
            continue
        item = call.args[0].value
        if isinstance(item, cst.Subscript) and side.model.roles.is_scaler(call.func.value):
            yield from ((key, call) for key in _item(item))
