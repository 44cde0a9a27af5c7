"""Events of a scaler in code that somebody else calls."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from amp_lint.amp.events import Kind
from amp_lint.syntax.references import is_read
from amp_lint.verify.compare.marks import BY_SCALER, IN_ORDER
from amp_lint.verify.compare.side import Side
from amp_lint.verify.compare.units import common

_TRAINING = (*IN_ORDER, Kind.BACKWARD.value)


def reasons(before: Side, after: Side) -> Iterator[str]:
    """Events of a scaler that changed in lambdas, or in functions whose calls are not all seen."""
    old, new = (sorted(_in_lambdas(side)) for side in (before, after))
    if old != new:
        yield "what a scaler does in a lambda is something else"
    for name in common(before.units, after.units):
        unit = after.units[name]
        changed = [_of_scaler(side, name) for side in (before, after)]
        if not isinstance(unit, cst.FunctionDef) or changed[0] == changed[1]:
            continue
        alone = _is_whole(after, unit) and all(_is_alone(side, name) for side in (before, after))
        if _is_handed_on(after, unit) and not alone:
            yield f"line {after.line(unit)}: who calls `{unit.name.value}` is not known"
        elif not _is_followed(after, unit, name):
            yield f"line {after.line(unit)}: not all that calls `{unit.name.value}` is followed"


def _is_followed(side: Side, function: cst.FunctionDef, name: str) -> bool:
    """Whether what a function does to scaled gradients is seen wherever it is called."""
    found = callers(side, function)
    if name in found or _may_be_overridden(side, function):
        return False
    programs = side.tracer.programs
    of_callers = [programs[caller] for caller in found if caller in programs]
    if name in programs:
        return not found
    lines = {side.line(mark.node) for mark in side.effects[name].marks if mark.kind in BY_SCALER}
    seen = [{e.line for trace in made.traces for e in trace} for made in of_callers]
    return all(lines <= each for each in seen)


def callers(side: Side, function: cst.FunctionDef) -> set[str]:
    """The functions that run a function, through whatever others; the script has no name."""
    by_node = {id(unit): name for name, unit in side.units.items()}
    found: set[str] = set()
    fresh: list[cst.CSTNode] = [function]
    while fresh:
        called = fresh.pop()
        calls = side.model.program.calls_of(called) if isinstance(called, cst.FunctionDef) else ()
        for caller in map(side.holder, calls):
            name = by_node.get(id(caller), "")
            if name not in found:
                found.add(name)
                fresh.append(caller)
    return found


def _may_be_overridden(side: Side, function: cst.FunctionDef) -> bool:
    """Whether calls of a method may run that of another class, or the other way round."""
    values, name = side.model.values, function.name.value
    owner = values.enclosing_class(function)
    if owner is None:
        return False
    kin = (values.method(each, name) for each in (*values.heirs(owner), *values.lineage(owner)))
    others = (each for each in kin if each is not None and each is not function)
    return not all(any(side.model.tree.below(each, cst.Raise)) for each in others)


def _in_lambdas(side: Side) -> Iterator[str]:
    """What scalers do in lambdas, as it is written."""
    recognizer = side.model.steps.recognizer
    for inner in side.model.tree.nodes(cst.Lambda):
        for call in side.model.tree.below(inner, cst.Call):
            if recognizer.kind(call) is not None:
                yield side.model.tree.source(call)


def _of_scaler(side: Side, name: str) -> list[tuple[str, str]]:
    return [(m.kind, m.about) for m in side.effects[name].marks if m.kind in IN_ORDER]


def _is_handed_on(side: Side, function: cst.FunctionDef) -> bool:
    """Whether a function is read other than to be called, or named by a text."""
    tree, name = side.model.tree, function.name.value
    is_special = name.startswith("__") and name != "__init__"
    if is_special and not side.model.program.calls_of(function) and not _is_whole(side, function):
        return True
    for node in tree.named(name):
        parent = tree.parent(node)
        whole = parent if isinstance(parent, cst.Attribute) else node
        if not isinstance(tree.parent(whole), cst.Call) and _is_function(side, whole):
            return True
    quoted = {f'"{name}"', f"'{name}'"}
    by_text = any(tree.named(word) for word in ("globals", "getattr", "vars", "methodcaller"))
    return by_text and any(text.value in quoted for text in tree.nodes(cst.SimpleString))


def _is_whole(side: Side, function: cst.FunctionDef) -> bool:
    """Whether a function is a training step by itself, from its backward pass to its step."""
    kinds = {side.model.steps.recognizer.kind(c) for c in side.model.tree.below(function, cst.Call)}
    return {Kind.BACKWARD, Kind.STEP} <= kinds


def _is_alone(side: Side, name: str) -> bool:
    """Whether no other function of a text has a part in training: nothing around a call counts."""
    others = (done.marks for other, done in side.effects.items() if other != name)
    in_lambdas = any(True for _ in _in_lambdas(side))
    return not in_lambdas and not any(m.kind in _TRAINING for marks in others for m in marks)


def _is_function(side: Side, node: cst.Name | cst.Attribute) -> bool:
    """Whether what is read may be a function of the file, and not only something of its name."""
    values = side.model.values
    if isinstance(node, cst.Attribute):
        owner = values.instance_class(node.value)
        method = values.method(owner, node.attr.value) if owner is not None else None
        return isinstance(method or values.function(node), cst.FunctionDef)
    bindings = side.model.names.bindings(node) if is_read(side.model.tree, node) else ()
    return any(isinstance(each.node, cst.FunctionDef) for each in bindings)
