"""Events of a scaler in code that somebody else calls."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from amp_lint.verify.compare.marks import BY_SCALER, IN_ORDER
from amp_lint.verify.compare.side import Side
from amp_lint.verify.compare.units import common


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
        if _is_handed_on(after, unit):
            yield f"line {after.line(unit)}: who calls `{unit.name.value}` is not known"
        elif not _is_followed(after, unit, name):
            yield f"line {after.line(unit)}: not all that calls `{unit.name.value}` is followed"


def _is_followed(side: Side, function: cst.FunctionDef, name: str) -> bool:
    """Whether what a function does to scaled gradients is seen wherever it is called."""
    calls = side.model.program.calls_of(function)
    programs = side.tracer.programs
    if name in programs:
        return not calls
    inside = any(side.model.tree.contains(function, call) for call in calls)
    seen = {event.line for made in programs.values() for trace in made.traces for event in trace}
    marks = [mark for mark in side.effects[name].marks if mark.kind in BY_SCALER]
    return not inside and all(side.line(mark.node) in seen for mark in marks)


def _in_lambdas(side: Side) -> Iterator[str]:
    """What scalers do in lambdas, as it is written."""
    recognizer = side.model.steps.recognizer
    for inner in side.model.tree.nodes(cst.Lambda):
        for call in side.model.tree.below(inner, cst.Call):
            if recognizer.is_scale(call) or recognizer.kind(call) is not None:
                yield side.model.tree.source(call)


def _of_scaler(side: Side, name: str) -> list[tuple[str, str]]:
    return [(m.kind, m.about) for m in side.effects[name].marks if m.kind in IN_ORDER]


def _is_handed_on(side: Side, function: cst.FunctionDef) -> bool:
    """Whether a function is read other than to be called, or named by a text."""
    tree, name = side.model.tree, function.name.value
    for node in tree.named(name):
        holder = tree.parent(node)
        called = isinstance(holder, cst.Call) and holder.func is node
        if node is not function.name and not called and _is_value(holder):
            return True
    quoted = {f'"{name}"', f"'{name}'"}
    by_text = any(tree.named(word) for word in ("globals", "getattr", "vars", "methodcaller"))
    return by_text and any(text.value in quoted for text in tree.nodes(cst.SimpleString))


def _is_value(holder: cst.CSTNode | None) -> bool:
    values = (cst.Arg, cst.Element, cst.DictElement, cst.IfExp, cst.Return, cst.Tuple, cst.List)
    return isinstance(holder, values)
