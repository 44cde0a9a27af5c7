"""What of AMP is erased from both texts and still depends on where, how often or by whom it is run.

Objects that are made and contexts that are entered, loops around events, decorators, keys of
checkpoints, names in texts, functions that somebody else calls, and what sees an event.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import libcst as cst

from amp_lint.amp.events import Kind
from amp_lint.amp.gradient_values import is_gradient
from amp_lint.syntax.names import dotted
from amp_lint.syntax.tree import descendants
from amp_lint.verify.compare.effect_free import is_opaque
from amp_lint.verify.compare.effects import Made
from amp_lint.verify.compare.lift import is_amp
from amp_lint.verify.compare.marks import Mark
from amp_lint.verify.compare.regions import shown
from amp_lint.verify.compare.side import Side, open_terms
from amp_lint.verify.compare.units import common
from amp_lint.verify.terms import Const, Form, Input, Op, Term, mapped, walk

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
            apart = apart or _is_repeated(mark, new)
            if not known.issuperset(_loops(mark)) or (mark.kind in _BY_SCALER and apart):
                line, code = after.line(mark.node), shown(after, mark.node)
                yield f"line {line}: `{code}` runs in another loop"


def _is_repeated(mark: Mark, marks: Sequence[Mark]) -> bool:
    """Whether a loop repeats an event for the gradients of one backward pass.

    An update, which belongs behind all steps; or an ``unscale_`` with a clip behind each.
    """
    backwards = [m for m in marks if m.kind == Kind.BACKWARD.value]
    clips = [m for m in marks if m.kind == Kind.CLIP.value and _loops(m) == _loops(mark)]
    clips = [clip for clip in clips if not _is_of_round(clip)]
    inner = bool(backwards) and all(len(_loops(b)) < len(_loops(mark)) for b in backwards)
    return inner and (mark.kind == Kind.UPDATE.value or bool(clips))


def _is_of_round(clip: Mark) -> bool:
    """Whether a clip is of what its loop walks over: each round has another one."""
    loop = _loops(clip)[-1] if _loops(clip) else None
    target = loop.args[1] if isinstance(loop, Op) and len(loop.args) > 1 else None
    walked = str(target.value) if isinstance(target, Const) else ""
    names = (part.value for part in descendants(clip.node) if isinstance(part, cst.Name))
    return any(_names(walked, name) for name in names)


def unlooped(before: Side, after: Side) -> Iterator[str]:
    """Clips that were repeated for the gradients of one backward pass, and are not any more."""
    for name in common(before.units, after.units):
        old, new = before.effects[name].marks, after.effects[name].marks
        backwards = [len(_loops(m)) for m in old if m.kind == Kind.BACKWARD.value]
        left = {_loops(m) for m in new if m.kind == Kind.CLIP.value}
        for mark in old if left else ():
            inner = bool(backwards) and len(_loops(mark)) > max(backwards)
            if mark.kind == Kind.CLIP.value and inner and _loops(mark) not in left:
                line, code = before.line(mark.node), shown(before, mark.node)
                yield f"line {line}: `{code}` left its loop"


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
    texts = [node.value for node in tree.nodes(cst.SimpleString)]
    for name in sorted(lost):
        if after.lifter.names_by_text or any(_asks_for(text, name) for text in texts):
            yield f"`{name}` is another name, and may be asked for by its text"


def _asks_for(text: str, name: str) -> bool:
    """Whether a text is a name, dotted or not, or holds code that uses it; no sentence."""
    content = text.strip("rbuRBU").strip("\"'")
    return content.rpartition(".")[2] == name or (">>>" in text and _names(text, name))


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


# --- what is run by somebody else, or read in between -------------------------------------------


def elsewhere(before: Side, after: Side) -> Iterator[str]:
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
    marks = [mark for mark in side.effects[name].marks if mark.kind in _BY_SCALER]
    return not inside and all(side.line(mark.node) in seen for mark in marks)


def _in_lambdas(side: Side) -> Iterator[str]:
    """What scalers do in lambdas, as it is written."""
    recognizer = side.model.steps.recognizer
    for inner in side.model.tree.nodes(cst.Lambda):
        for call in side.model.tree.below(inner, cst.Call):
            if recognizer.is_scale(call) or recognizer.kind(call) is not None:
                yield side.model.tree.source(call)


def _of_scaler(side: Side, name: str) -> list[tuple[str, str]]:
    return [(m.kind, m.about) for m in side.effects[name].marks if m.kind in _EVENTS]


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


_GRADIENTS, _SCALE, _ALL, _LEAVES = "of gradients", "of the scaler", "of all", "may leave"
_AHEAD = {
    Kind.ZERO_GRAD.value: {_GRADIENTS, _ALL, _LEAVES},
    Kind.UPDATE.value: {_SCALE, _ALL},
    Kind.STEP.value: {_ALL},
}
"""Events by what they must not be moved in front of."""
_BEHIND = {
    Kind.UNSCALE.value: {_GRADIENTS, _ALL, _LEAVES},
    Kind.UPDATE.value: {_ALL, _LEAVES},
}
"""Events by what they must not be moved behind."""


def moved(before: Side, after: Side) -> Iterator[str]:
    """Events that changed places with what sees what they do, or may leave in between."""
    for name in common(before.units, after.units):
        old, new = (_sequence(side, name) for side in (before, after))
        for (kind, text), place in new.items():
            was = old.get((kind, text))
            for (other, reads), at in new.items() if was is not None and kind in _EVENTS else ():
                stood = old.get((other, reads))
                if stood is None or was is None:
                    continue
                ahead = was > stood and place < at and other in _AHEAD.get(kind, ())
                behind = was < stood and place > at and other in _BEHIND.get(kind, ())
                if ahead or behind:
                    yield f"`{text}` of `{name}` and `{reads}` changed places"


def _sequence(side: Side, name: str) -> dict[tuple[str, str], int]:
    """Events and what sees them by what they are and how they are written; none that is twice."""
    tree, unit = side.model.tree, side.units[name]
    found = [(m.kind, tree.source(m.node), tree.order(m.node)) for m in side.effects[name].marks]
    for node in (
        *tree.below(unit, cst.Attribute), *tree.below(unit, cst.Yield),
        *tree.below(unit, cst.Await), *tree.below(unit, cst.Assert), *tree.below(unit, cst.Del),
    ):  # fmt: skip
        what = _sees(side, node) if side.holder(node) is unit else ""
        if what:
            statement = tree.statement(node) or node
            found.append((what, tree.source(statement).strip().splitlines()[0], tree.order(node)))
    keys = [(kind, text) for kind, text, _ in found]
    return {(kind, text): at for kind, text, at in found if keys.count((kind, text)) == 1}


def _sees(side: Side, node: cst.CSTNode) -> str:
    """What of a training step something looks at."""
    recognizer, tree = side.model.steps.recognizer, side.model.tree
    match node:
        case cst.Yield() | cst.Await():
            return _ALL
        case cst.Assert() | cst.Del():
            return _LEAVES
        case cst.Attribute() if is_gradient(node):
            return _GRADIENTS
        case cst.Attribute(value=owner) if side.model.roles.is_scaler(owner):
            call = tree.parent(node)
            is_event = isinstance(call, cst.Call) and recognizer.kind(call) is not None
            return "" if is_event else _SCALE
    return ""
