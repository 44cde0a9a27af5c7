"""Events that changed places with what sees what they do."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import libcst as cst

from amp_lint.amp.events import Kind, is_made_from_scale
from amp_lint.amp.gradient_values import is_gradient
from amp_lint.flow.values import literal
from amp_lint.syntax.names import dotted
from amp_lint.syntax.references import is_read
from amp_lint.syntax.tree import descendants
from amp_lint.verify.compare.regions import shown
from amp_lint.verify.compare.side import Side
from amp_lint.verify.compare.touches import shared
from amp_lint.verify.compare.units import Unit, common
from amp_lint.vocabulary.amp import STATE_DICT
from amp_lint.vocabulary.modules import PARAMETERS
from amp_lint.vocabulary.purity import DIVIDED, MULTIPLIED
from amp_lint.vocabulary.written import reads_scale

_GRADIENTS, _SCALE, _ALL, _LEAVES = "of gradients", "of the scaler", "of all", "may leave"
_WEIGHTS, _RAISES, _SAVES = "of weights", "may raise", "of its state"
_NUMBER = "of the scale itself"
_AHEAD = {
    Kind.ZERO_GRAD.value: {_GRADIENTS, _ALL, _LEAVES},
    Kind.UPDATE.value: {_SCALE, _ALL, _SAVES},
    Kind.STEP.value: {_ALL, _WEIGHTS},
}
"""Events by what they must not be moved in front of."""
_BEHIND = {
    Kind.UNSCALE.value: {_GRADIENTS, _ALL, _LEAVES},
    Kind.UPDATE.value: {_ALL, _LEAVES, _RAISES, _SAVES},
    Kind.STEP.value: {_ALL, _WEIGHTS},
}
"""Events by what they must not be moved behind."""
_DIVISIONS = (cst.Divide, cst.FloorDivide, cst.Modulo)
_FACTORS = (
    cst.Divide, cst.DivideAssign, cst.Multiply, cst.MultiplyAssign,
)  # fmt: skip
_SCALING = frozenset({"div", "mul", DIVIDED, MULTIPLIED})
_TESTED = (cst.If, cst.While, cst.For)
_RECEIVERS = ("self", "cls")
_OF_MODULES = PARAMETERS | STATE_DICT.words | {"bias", "weight"}

_Placed = dict[tuple[str, str], int]
"""Where events and what sees them stand, by what they are and how they are written."""


def reasons(before: Side, after: Side) -> Iterator[str]:
    """Events that changed places with what sees what they do, or may leave in between."""
    for name in common(before.units, after.units):
        old, new = (_sequence(side, side.units[name], name) for side in (before, after))
        yield from _unscaled_twice(name, old, new)
        if {*_read_unscaled(after, name)} - {*_read_unscaled(before, name)}:
            yield from _divided_twice(before, after)
        for (kind, text), place in new.items():
            was = old.get((kind, text))
            for (other, reads), at in new.items():
                stood = old.get((other, reads))
                if was is None or stood is None:
                    continue
                ahead = was > stood and place < at and other in _AHEAD.get(kind, ())
                behind = was < stood and place > at and other in _BEHIND.get(kind, ())
                if ahead or behind:
                    yield f"`{text}` of `{name}` and `{reads}` changed places"


def _unscaled_twice(name: str, old: _Placed, new: _Placed) -> Iterator[str]:
    """What reads the scale while gradients are unscaled that were not: it may divide by it."""
    come = [
        at
        for (kind, text), at in new.items()
        if kind == Kind.UNSCALE.value and (kind, text) not in old
    ]
    steps = [at for (kind, _), at in new.items() if kind == Kind.STEP.value]
    for (what, text), at in new.items():
        within = any(first < at < step for first in come for step in steps)
        if what == _NUMBER and within and (what, text) in old:
            yield f"`{text}` of `{name}` reads the scale where the gradients are unscaled now"


def _read_unscaled(side: Side, name: str) -> Iterator[str]:
    """What reads gradients between where a function unscales and steps them."""
    tree, marks = side.model.tree, side.effects[name].marks
    unscaled, steps = (
        [tree.order(mark.node) for mark in marks if mark.kind == kind.value]
        for kind in (Kind.UNSCALE, Kind.STEP)
    )
    for first in unscaled:
        until = min((at for at in steps if at > first), default=tree.end(side.units[name]))
        for node in tree.between(cst.Attribute, first, until):
            if is_gradient(node):
                yield tree.source(node)
        for call in tree.between(cst.Call, first, until):
            target = side.model.program.target(call)
            if target is not None and any(map(is_gradient, tree.below(target, cst.Attribute))):
                yield tree.source(call)


def _divided_twice(before: Side, after: Side) -> Iterator[str]:
    """What multiplies or divides gradients by the scale, as before: they may be unscaled now."""
    known = {before.model.tree.source(each) for each in _factors(before)}
    for each in _factors(after):
        if after.model.tree.source(each) in known:
            text = f"`{shown(after, each)}` is of gradients that may be unscaled now"
            yield f"line {after.line(each)}: {text}"


def _factors(side: Side) -> Iterator[cst.CSTNode]:
    """Products and quotients with the scale, in functions that read gradients."""
    tree, values = side.model.tree, side.model.values
    made = tree.nodes(cst.BinaryOperation), tree.nodes(cst.AugAssign), tree.nodes(cst.Call)
    for node in itertools.chain[cst.CSTNode](*made):
        reads = any(map(is_gradient, tree.below(side.holder(node), cst.Attribute)))
        if reads and any(is_made_from_scale(each, values) for each in _operands(node)):
            yield node


def _operands(node: cst.CSTNode) -> Iterator[cst.BaseExpression]:
    """What is multiplied or divided; the number of ``x.div(2)`` alone."""
    match node:
        case cst.BinaryOperation(left=left, operator=operator, right=right):
            yield from (left, right) if isinstance(operator, _FACTORS) else ()
        case cst.AugAssign(operator=operator, value=value):
            yield from (value,) if isinstance(operator, _FACTORS) else ()
        case cst.Call(func=cst.Attribute(attr=attr), args=[given]) if attr.value in _SCALING:
            yield given.value


def _sequence(side: Side, unit: Unit, name: str) -> _Placed:
    """None that is written twice."""
    tree = side.model.tree
    found = {
        (m.kind, tree.source(m.node), tree.order(m.node)): None for m in side.effects[name].marks
    }
    events = {id(tree.statement(mark.node)) for mark in side.effects[name].marks}
    for statement in _statements(side, unit):
        parts = _own(statement)
        line = tree.source(statement).strip().splitlines()[0]
        seen = {what for part in parts for what in _sees(side, part)}
        if id(statement) not in events and _may_read_weights(side, parts):
            seen.add(_WEIGHTS)
        found.update(dict.fromkeys((what, line, tree.order(statement)) for what in seen))
    keys = [(kind, text) for kind, text, _ in found]
    return {(kind, text): at for kind, text, at in found if keys.count((kind, text)) == 1}


def _statements(side: Side, unit: Unit) -> Iterator[cst.CSTNode]:
    """Those of a function itself."""
    for kind in (cst.SimpleStatementLine, *_TESTED, cst.With):
        for node in side.model.tree.below(unit, kind):
            if side.holder(node) is unit:
                yield node


def _own(statement: cst.CSTNode) -> list[cst.CSTNode]:
    """What is computed by a statement itself, not by the ones in it."""
    match statement:
        case cst.If(test=head) | cst.While(test=head) | cst.For(iter=head):
            heads: tuple[cst.CSTNode, ...] = (head,)
        case cst.With(items=items):
            heads = tuple(item.item for item in items)
        case _:
            heads = (statement,)
    return [part for head in heads for part in (head, *descendants(head))]


def _sees(side: Side, node: cst.CSTNode) -> Iterator[str]:
    """What of a training step something looks at."""
    recognizer, tree = side.model.steps.recognizer, side.model.tree
    match node:
        case cst.Yield() | cst.Await():
            yield _ALL
        case cst.Assert() | cst.Del():
            yield _LEAVES
        case cst.Attribute() if is_gradient(node):
            yield _GRADIENTS
        case cst.Attribute(value=owner) if side.model.roles.is_scaler(owner):
            call = tree.parent(node)
            if not isinstance(call, cst.Call) or recognizer.kind(call) is None:
                yield _SCALE
            if reads_scale(node.attr.value):
                yield _NUMBER
        case cst.Arg(value=value) if side.model.roles.is_scaler(value):
            call = tree.parent(node)
            target = side.model.program.target(call) if isinstance(call, cst.Call) else None
            if target is None:
                yield _SCALE
            elif any(map(tree.contains, itertools.repeat(target), _saves(side))):
                yield _SAVES
        case cst.Call() if recognizer.kind(node) is None and _may_run_any(side, node):
            yield _ALL
        case cst.BinaryOperation(operator=operator, right=right) if isinstance(
            operator, _DIVISIONS
        ):
            if literal(right) in (..., 0):
                yield _RAISES
        case cst.Subscript() if not isinstance(tree.parent(node), cst.AssignTarget):
            yield _RAISES


def _may_run_any(side: Side, call: cst.Call) -> bool:
    """Whether a call gets all that there is, or may run a function without a name that has events.

    That is one of which nothing is known.
    """
    if any(dotted(arg.value) in _RECEIVERS for arg in call.args):
        return True
    known = side.model.names.qualified(call.func) or side.model.program.target(call) is not None
    return not known and side.has_kept_events


def _saves(side: Side) -> list[cst.Attribute]:
    """Where something is asked for its state."""
    found = side.model.tree.nodes(cst.Attribute)
    return [each for each in found if each.attr.value in STATE_DICT.words]


def _may_read_weights(side: Side, parts: list[cst.CSTNode]) -> bool:
    """Whether a statement reads anything but what was computed for the function's own names.

    Or what is called as parts of a module are.
    """
    tree = side.model.tree
    for part in parts:
        if isinstance(part, cst.Attribute) and part.attr.value in _OF_MODULES:
            return True
        if not isinstance(part, cst.Name) or not is_read(tree, part):
            continue
        for binding in side.model.names.bindings(part):
            if binding.kind == "parameter" or (
                binding.value is not None and any(shared(binding.value))
            ):
                return True
    return False
