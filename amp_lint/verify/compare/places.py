"""Where AMP's objects are made and its contexts entered: what they are given is read there."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from amp_lint.amp.events import Kind
from amp_lint.syntax.names import dotted
from amp_lint.verify.compare.effect_free import is_opaque
from amp_lint.verify.compare.effects import Made
from amp_lint.verify.compare.lift import is_amp
from amp_lint.verify.compare.marks import Mark
from amp_lint.verify.compare.regions import shown
from amp_lint.verify.compare.side import Side, open_terms
from amp_lint.verify.compare.units import common
from amp_lint.verify.terms import Form, Input, Op, Term, mapped, walk

_BY_SCALER = (Kind.UNSCALE.value, Kind.UPDATE.value)
_EVENTS = (*_BY_SCALER, Kind.STEP.value, Kind.CLIP.value, Kind.ZERO_GRAD.value)


def timeless(term: Term) -> Term:
    """A term, whenever its inputs are read."""
    if isinstance(term, Input):
        return Input(term.key)
    return mapped(term, timeless) if isinstance(term, Op) else term


def made(before: Side, after: Side) -> Iterator[str]:
    """What is made, or entered, where something else is read for it, or at another time.

    Of scalers with one name, and of what the same settings are read for.
    """
    for name in common(before.units, after.units):
        old, new = before.effects[name].made, after.effects[name].made
        for each in new:
            alike = [one for one in old if _is_like(one, each)]
            if alike and not any(_is_same(one, each) for one in alike):
                yield _reason(after, each, "is made, or entered, at another place")
        asked, asks = (
            sorted(str(timeless(part)) for each in found for part in _asked(each))
            for found in (old, new)
        )
        if asked != asks:
            line = after.line(after.units[name]) if not new else after.line(new[0].node)
            yield f"line {line}: what AMP is given is asked for more or less often"


def _asked(each: Made) -> Iterator[Term]:
    """What of the arguments does more than compute."""
    yield from (part for term in each.given for part in walk(term) if is_opaque(part))


def _is_like(one: Made, other: Made) -> bool:
    if one.target or other.target:
        return one.target == other.target
    return bool(one.written) and one.written == other.written


def _is_same(one: Made, other: Made) -> bool:
    """Whether it is made of the same, and where it was, or for a local name further out."""
    if one.written == other.written and {*one.given} != {*other.given}:
        return False
    if not one.target:
        return True
    kept = [*map(timeless, one.guards)], [*map(timeless, other.guards)]
    if "." in one.target:
        return kept[0] == kept[1] and one.at == other.at
    return kept[0][: len(kept[1])] == kept[1]


def _reason(side: Side, each: Made, how: str) -> str:
    return f"line {side.line(each.node)}: `{shown(side, each.node)}` {how}"


# --- loops --------------------------------------------------------------------------------------


def looped(before: Side, after: Side) -> Iterator[str]:
    """Events in a loop in which there was none, or in another one than the step that they serve."""
    for name in common(before.units, after.units):
        old, new = before.effects[name].marks, after.effects[name].marks
        known = {loop for mark in old for loop in _loops(mark)}
        pairs = {(mark.kind, mark.about, _loops(mark)) for mark in old}
        steps = [mark for mark in new if mark.kind == Kind.STEP.value]
        for mark in new:
            if mark.kind not in _EVENTS or (mark.kind, mark.about, _loops(mark)) in pairs:
                continue
            of_step = [s for s in steps if mark.kind == Kind.UPDATE.value or s.about == mark.about]
            apart = bool(of_step) and all(_loops(s) != _loops(mark) for s in of_step)
            if not known.issuperset(_loops(mark)) or (mark.kind in _BY_SCALER and apart):
                line, code = after.line(mark.node), shown(after, mark.node)
                yield f"line {line}: `{code}` runs in another loop"


def _loops(mark: Mark) -> tuple[Term, ...]:
    return tuple(
        timeless(guard)
        for guard in mark.guards
        if isinstance(guard, Op) and guard.form is Form.OTHER and guard.name in ("for", "while")
    )


# --- decorators ---------------------------------------------------------------------------------


def decorated(before: Side, after: Side) -> Iterator[str]:
    """Functions that a context of AMP decorates, and is not known to be on in all that they run."""
    for name in common(before.units, after.units):
        one, other = before.units[name], after.units[name]
        if not isinstance(one, cst.FunctionDef) or not isinstance(other, cst.FunctionDef):
            continue
        old, new = _order(before, one), _order(after, other)
        changes = old.count("") != new.count("")
        if old != new and not (changes and _is_plain(after, other) and _is_plain(before, one)):
            line = after.line(other)
            yield f"line {line}: the decorators of `{other.name.value}` are others"


def _order(side: Side, function: cst.FunctionDef) -> list[str]:
    """The decorators; AMP's as ""."""
    return [
        "" if _is_amp(side, each.decorator) else dotted(each.decorator) or "..."
        for each in function.decorators
    ]


def _is_amp(side: Side, node: cst.BaseExpression) -> bool:
    called = node.func if isinstance(node, cst.Call) else node
    return any(map(is_amp, side.model.names.qualified(called)))


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
    name = function.name.value
    calls_itself = any(each.value == name for each in below(function.body, cst.Name))
    alone = len(function.decorators) == 1
    return alone and not runs_later and not calls_itself and not open_terms(given)


# --- checkpoints --------------------------------------------------------------------------------


def keys(before: Side, after: Side) -> Iterator[str]:
    """The state of a scaler under a key that something else has, or that a ``**`` may have."""
    known = dict(_saved(before))
    for element, owner in _saved_at(after):
        display = after.model.tree.parent(element)
        if not isinstance(display, cst.Dict) or not isinstance(element, cst.DictElement):
            continue
        key = after.lifter.term(element.key, {})
        others = [each for each in display.elements if each is not element]
        twice = any(
            isinstance(each, cst.DictElement) and after.lifter.term(each.key, {}) == key
            for each in others
        )
        place = display.elements.index(element)
        behind = any(isinstance(e, cst.StarredDictElement) for e in display.elements[place:])
        other = known.get(key, owner) != owner
        if twice or other or behind:
            yield f"line {after.line(element)}: `{shown(after, element)}` may not be what is saved"


def _saved(side: Side) -> Iterator[tuple[Term, str]]:
    for element, owner in _saved_at(side):
        if isinstance(element, cst.DictElement):
            yield side.lifter.term(element.key, {}), owner


def _saved_at(side: Side) -> Iterator[tuple[cst.CSTNode, str]]:
    """The elements of dicts that hold the state of a scaler, each with the scaler."""
    for call in side.model.tree.nodes(cst.Call):
        holder = side.model.tree.parent(call)
        if isinstance(holder, cst.DictElement) and side.lifter.is_scaler_state(call):
            func = call.func
            owner = side.model.tree.source(func.value) if isinstance(func, cst.Attribute) else ""
            yield holder, owner


# --- names --------------------------------------------------------------------------------------


def named(before: Side, after: Side) -> Iterator[str]:
    """Names that are bound no more, or mean something else, and that a text names."""
    inside = [dict(_in_classes(side)) for side in (before, after)]
    for name in inside[0]:
        if inside[0][name] != inside[1].get(name):
            yield f"`{name}` is an attribute of a class, and another one"
    old, new = (_module_names(side) for side in (before, after))
    lost = {name for name, means in old.items() if new.get(name) != means}
    if not lost:
        return
    tree = after.model.tree
    dynamic = [word for word in ("globals", "eval", "exec", "vars", "modules") if tree.named(word)]
    texts = [node.value for node in tree.nodes(cst.SimpleString)]
    texts = [text for text in texts if ">>>" in text or len(text) < _LONG]
    for name in sorted(lost):
        if dynamic or any(_names(text, name) for text in texts):
            yield f"`{name}` is another name, and may be asked for by its text"


_LONG = 80
"""Characters of what is no name."""


def _names(text: str, name: str) -> bool:
    words = "".join(c if c.isalnum() or c == "_" else " " for c in text).split()
    return name in words


def _in_classes(side: Side) -> Iterator[tuple[str, str]]:
    """What is imported in classes, and so an attribute of them."""
    for binding in side.model.names.every_binding():
        holder = side.model.tree.ancestor(binding.node, cst.FunctionDef, cst.ClassDef)
        if binding.qualified is not None and isinstance(holder, cst.ClassDef):
            yield binding.name, binding.qualified


def _module_names(side: Side) -> dict[str, frozenset[str]]:
    """What imports bind in the module and its classes, and what that is."""
    found: dict[str, frozenset[str]] = {}
    for binding in side.model.names.every_binding():
        if binding.kind == "import" and binding.qualified is not None:
            found[binding.name] = found.get(binding.name, frozenset()) | {binding.qualified}
    return found
