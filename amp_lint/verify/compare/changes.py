"""All that differs between two versions of a file, as obligations and as reasons."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from typing import Any

import libcst as cst

from amp_lint.amp.events import Kind
from amp_lint.amp.modules import HalfTraining
from amp_lint.model import Model
from amp_lint.syntax.names import dotted
from amp_lint.syntax.tree import is_a
from amp_lint.verify.compare import cover, marks, places, rewrites
from amp_lint.verify.compare.aliases import other_object
from amp_lint.verify.compare.align import Alignment
from amp_lint.verify.compare.alignment import differing
from amp_lint.verify.compare.casts import is_of_casts
from amp_lint.verify.compare.difference import Difference, NotComparableError, differences
from amp_lint.verify.compare.effect_free import patched
from amp_lint.verify.compare.effects import Effect
from amp_lint.verify.compare.erase import Eraser
from amp_lint.verify.compare.imports import imports
from amp_lint.verify.compare.numbers import as_tensors, of_numbers
from amp_lint.verify.compare.places.saved import dropped, states
from amp_lint.verify.compare.places.scalers import kept_events, own_scalers
from amp_lint.verify.compare.places.scripted import scripted, uncompiled
from amp_lint.verify.compare.plain import Plain
from amp_lint.verify.compare.regions import regions, shown, yields
from amp_lint.verify.compare.rewrites import Function
from amp_lint.verify.compare.side import Side, States, open_terms
from amp_lint.verify.compare.traces import MAX_TRACES, are_many, changed, kept, splits
from amp_lint.verify.compare.units import common, name_of
from amp_lint.verify.compare.uses import compare_uses, lonely_uses
from amp_lint.verify.obligations import (
    Autocast,
    Comparison,
    Construct,
    Event,
    Expression,
    Object,
    Obligation,
    Place,
    Policy,
    Program,
    Step,
    Unbound,
    Use,
)
from amp_lint.verify.terms import Form, Global, Input, Op, Term, show, walk
from amp_lint.vocabulary.amp import AUTOCAST, DEVICE_AUTOCAST
from amp_lint.vocabulary.meaning import Part, Role
from amp_lint.vocabulary.table import words

_MAX_POLICIES = 16
_OF_STEP = Kind.STEP, Kind.CLIP, Kind.ZERO_GRAD, Kind.BACKWARD
_TOO_MANY = ("too many operations run in another region",)
_LOW = {"half": "float16", "bfloat16": "bfloat16"}
"""Methods that cast a module to a low precision."""


def compared(old: Eraser, new: Eraser) -> Comparison:
    """Everything that has to be shown, the cheapest first."""
    sides = before, after = old.side, new.side
    whole = any(_spans_updates(side.model) for side in sides)
    whole = whole or len({*map(_updates, sides)}) > 1 or _updated(old) != _updated(new)
    before.whole = after.whole = whole
    expressions, other_losses, other_objects = _expressions(old, new)
    uses = [*compare_uses(before.uses, after.uses)]
    entered = {use.place.function for use in uses if not _is_entered(use.before)}
    entered |= {*_with_other_managers(before, after)}
    chosen = {name_of(after.model, context) for context in _chosen_otherwise(old, new)}
    steps = [
        step
        for step in _steps(before, after, entered)
        if step.place.function not in chosen and not _is_of_any(step, after, other_losses)
    ]
    policies = [p for p in _policies(before, after) if p.place.function not in entered]
    obligations: list[Obligation] = [*_unbound(before, after), *imports(before, after)]
    obligations += states(before, after)
    obligations += (use for use in uses if not _shown(use, steps))
    obligations += (*policies[:_MAX_POLICIES], *expressions, *steps)
    covering = _covering(old, new, expressions, steps)
    coverage = covering.all
    obligations += covering.casts
    found = {
        "unowned": cover.reasons(coverage),
        "loss": _unknown_losses(before, after),
        "turned": _turned(old, new),
        "condition": _conditional(old, new),
        "too-many": _TOO_MANY if len(policies) > _MAX_POLICIES else (),
        "object": other_objects,
        "scaler-moved": covering.moved(),
        "step-moved": _moved_steps(before, after),
        "state": dropped(before, after),
        "patched": [
            *(_patched(after) if expressions else ()),
            *own_scalers(after, steps),
            *kept_events(after, steps),
        ],
        **_uncompared(old, new, entered, uses),
    }
    coded = {reason: code for code, reasons in found.items() for reason in reasons}
    return Comparison(tuple(obligations), tuple(coded), tuple(coded.values()), coverage)


def _patched(side: Side) -> Iterator[str]:
    """Functions of torch that the file replaces by its own."""
    tree, names = side.model.tree, side.model.names
    targets: list[cst.CSTNode] = [each.target for each in tree.nodes(cst.AssignTarget)]
    for target in targets:
        known = names.qualified(target) if isinstance(target, cst.Attribute) else ()
        if any(map(patched, known)):
            yield f"line {side.line(target)}: `{shown(side, target)}` is made another function"
    for call in tree.nodes(cst.Call):
        owner = call.args[0].value if len(call.args) > 1 else None
        if owner is not None and names.is_any(call.func, {"builtins.setattr"}):
            known = names.qualified(owner)
            if any(patched(f"{name}.x") for name in known):
                yield f"line {side.line(call)}: `{shown(side, call)}` may make another function"


def _covering(
    old: Eraser, new: Eraser, expressions: Sequence[Expression], steps: Sequence[Step]
) -> cover.Cover:
    """Every place that differs without AMP, and what answers for it."""

    def rewrite(one: Plain, other: Plain) -> tuple[Plain, Plain]:
        if one.kind == other.kind == "FunctionDef":
            return rewrites.alike(Function(old, one), Function(new, other))
        return rewrites.alike_expressions(old, new, one, other)

    found = Alignment(old.tree, new.tree, rewrite)
    return cover.Cover(old, new, found, expressions, steps)


def _turned(old: Eraser, new: Eraser) -> Iterator[str]:
    """Tests of AMP behind which something of a scaler changed sides."""
    for (name, test), holds in new.modes.items():
        if old.modes.get((name, test), holds) is not holds:
            yield f"`{test}` in `{name}` is asked the other way round"


def _is_of_any(step: Step, side: Side, names: set[str]) -> bool:
    """Whether a step is one of some functions, called by others or not."""
    lines = {event.line for trace in step.after.traces for event in trace}
    return any(
        side.line(side.units[name]) <= line <= side.last_line(side.units[name])
        for name in names
        for line in lines
    )


def _unknown_losses(before: Side, after: Side) -> Iterator[str]:
    """Losses that are others, as far as one can tell."""
    for _, one, other in _programs(before, after):
        come = {*map(show, _unfollowed_losses(one, other, before, after)[1])}
        events = (event for event in itertools.chain(*other.traces) if event.loss in come)
        for event in events:
            yield f"line {event.line}: `{event.source}`: whether the loss is the same is not known"


def _unfollowed_losses(
    one: Program, other: Program, before: Side, after: Side
) -> tuple[tuple[Term, ...], tuple[Term, ...]]:
    """The losses of two programs that differ where what a function gives, or gets, is not followed.

    They may be the same: what is not lifted, and differs, is not two inputs.
    """
    old, new = [*_losses(one, before)], [*_losses(other, after)]
    shown_old, shown_new = ({show(term) for term, _ in each} for each in (old, new))
    gone = tuple(dict.fromkeys(term for term, _ in old if show(term) not in shown_new))
    come = tuple(dict.fromkeys(term for term, _ in new if show(term) not in shown_old))
    if not gone or not come or any(was in walk(term) for was in gone for term in come):
        return (), ()
    places = (
        {name for term, name in each if term in terms} for each, terms in ((old, gone), (new, come))
    )
    if len({*map(frozenset, places)}) > 1:
        return gone, come
    known = {name.rpartition(".")[2] for side in (before, after) for name in side.units} - {""}
    was, becomes = (_calls_of(known, terms) for terms in (gone, come))
    return (gone, come) if was != becomes else ((), ())


def _with_losses(program: Program, losses: dict[Term, Term]) -> Program:
    """A program in which some losses are others."""
    named = {show(term): show(other) for term, other in losses.items()}
    traces = [
        tuple(replace(event, loss=named.get(event.loss or "", event.loss)) for event in trace)
        for trace in program.traces
    ]
    return replace(program, traces=tuple(traces))


def _losses(program: Program, side: Side) -> Iterator[tuple[Term, str]]:
    """What is backpropagated, each with the name of the function that does so."""
    known = side.tracer.shown_losses
    places = ((event.loss, event.line) for event in itertools.chain(*program.traces))
    return (known[place] for place in dict.fromkeys(places) if place in known)


def _calls_of(names: set[str], terms: Iterable[Term]) -> set[str]:
    """The calls of some functions in terms, as they are shown."""
    return {show(part) for term in terms for part in walk(term) if _called(part) in names}


def _called(term: Term) -> str:
    """The last name of what a term calls, if it is no function of torch's."""
    callee = term.args[0] if isinstance(term, Op) and term.form is Form.APPLY else None
    return callee.key.rpartition(".")[2] if isinstance(callee, Input) else ""


def _conditional(old: Eraser, new: Eraser) -> Iterator[str]:
    """Events under conditions of which no replayed path knows when they hold."""
    side = new.side
    for call in itertools.chain(_scaled_otherwise(old, new), _stepped_otherwise(old, new)):
        yield f"line {side.line(call)}: `{shown(side, call)}` runs under other conditions"


def _scaled_otherwise(old: Eraser, new: Eraser) -> Iterator[cst.Call]:
    """What a scaler does under conditions that neither the old text nor the step has."""
    known = old.stacks(Kind.UNSCALE, Kind.UPDATE)
    others = Kind.STEP, Kind.CLIP, Kind.GRADIENT_READ
    stacks = (new.stacks(*others, of_all=of_all) for of_all in (False, True))
    beside = {(name, stack) for found in stacks for name, _, stack in found}
    scaled = new.stacks(Kind.UNSCALE, Kind.UPDATE)
    for (name, kind, stack), call in scaled.items():
        wider = kind is Kind.UPDATE and any(
            (where, each) == (name, Kind.UNSCALE) and not {*around}.issuperset(stack)
            for where, each, around in scaled
        )
        if not stack or (name, kind, stack) in known:
            continue
        if (name, stack) not in beside or wider:
            yield call


def _stepped_otherwise(old: Eraser, new: Eraser) -> Iterator[cst.Call]:
    """What is done without AMP as well, under tests that no event of the old text has.

    Loops are compared elsewhere.
    """
    stacks = (old.stacks(*_OF_STEP, of_all=of_all) for of_all in (False, True))
    known = {(name, _tests(stack)) for found in stacks for name, _, stack in found}
    for (name, _, stack), call in new.stacks(*_OF_STEP).items():
        tests = _tests(stack)
        if tests and (name, tests) not in known:
            yield call


def _tests(stack: Sequence[str]) -> tuple[str, ...]:
    return tuple(each for each in stack if each not in ("For", "While"))


def _uncompared(
    old: Eraser, new: Eraser, entered: set[str], uses: Sequence[Object]
) -> dict[str, Iterable[str]]:
    """By their code, reasons for what differs in AMP itself, and no obligation is about."""
    both = before, after = old.side, new.side
    names = common(before.units, after.units)
    return {
        "region": [
            *itertools.chain.from_iterable(yields(*both, name) for name in names),
            *regions(*both, entered),
            *_other_states(*both),
            *_other_switches(*both, uses),
            *_other_choices(old, new),
            *places.reasons("region", *both),
        ],
        **{code: places.reasons(code, *both) for code in places.CODES},
        "float16": [*_casts(*both), *_half_left(*both)],
        "scaler-state": _states(old, new),
        "scaler-made": _not_made(before, after),
        "interface": [*lonely_uses(before.uses, after.uses), *_unscaled_otherwise(*both)],
    }


def _unscaled_otherwise(before: Side, after: Side) -> Iterator[str]:
    """What ``unscale_`` is given that is no optimizer, as far as both texts tell: it may raise."""
    known = {about for side in (before, after) for about, _ in _given(side, Kind.STEP)}
    known |= {about for about, _ in _given(before, Kind.UNSCALE)}
    for about, call in _given(after, Kind.UNSCALE):
        given = [arg.value for arg in call.args[:1]]
        if about not in known and not any(_is_held(after, value) for value in given):
            yield f"line {after.line(call)}: `{shown(after, call)}` is given what nothing steps"


def _is_held(side: Side, value: cst.BaseExpression) -> bool:
    """Whether what nothing steps is an optimizer all the same: a name, or one that ``self`` has.

    What an attribute of something else is, its name alone does not tell.
    """
    model = side.model
    owner = value.value if isinstance(value, cst.Attribute) else None
    around = (each for each in model.tree.ancestors(value) if is_a(each, cst.FunctionDef))
    if owner is not None and dotted(owner) not in map(model.program.receiver_name, around):
        return False
    return model.roles.is_optimizer(value) and not model.roles.is_scaler(value)


def _given(side: Side, kind: Kind) -> Iterator[tuple[str, cst.Call]]:
    """What events of a kind are about, as it is written, and their calls."""
    recognizer = side.model.steps.recognizer
    for call in side.model.tree.nodes(cst.Call):
        meaning = recognizer.meaning(call) if recognizer.kind(call) is kind else None
        if meaning is not None and not meaning.every:  # a framework's, of all that it prepared
            yield marks.about(side.model, kind, call), call


def _other_choices(old: Eraser, new: Eraser) -> Iterator[str]:
    """Regions that may be none, which the old text enters under no such test."""
    for context in _chosen_otherwise(old, new):
        side = new.side
        yield f"line {side.line(context)}: `{shown(side, context)}` depends on something else"


def _chosen_otherwise(old: Eraser, new: Eraser) -> Iterator[cst.CSTNode]:
    known = {key for key, _ in old.choices()}
    yield from (context for key, context in new.choices() if key not in known)


def _states(old: Eraser, new: Eraser) -> Iterator[str]:
    """The state of a scaler that is not saved or loaded any more, or from somewhere else."""
    for name in common(old.side.units, new.side.units):
        was, becomes = (
            [
                (call, eraser.plain(call).digest, {*eraser.around(call)})
                for call in _state_calls(eraser.side, name)
            ]
            for eraser in (old, new)
        )
        for call, digest, around in was:
            kept = next((each for each in becomes if each[1] == digest), None)
            if kept is None:
                yield f"line {old.side.line(call)}: `{shown(old.side, call)}` was removed"
                continue
            becomes.remove(kept)
            if not kept[2] <= around:
                code = shown(new.side, kept[0])
                yield f"line {new.side.line(kept[0])}: `{code}` runs under other conditions"


def _not_made(before: Side, after: Side) -> Iterator[str]:
    """What a scaler is bound to in the old text, and in the new one nothing, or elsewhere.

    Nothing that the new text has the name of. Where it is made says how often it is made anew.
    """
    tree = after.model.tree
    targets = [each.target for each in tree.nodes(cst.AssignTarget)]
    targets += [each.target for each in tree.nodes(cst.AnnAssign)]
    bound = {_within_class(after, target) for target in targets}
    made = [*_scaler_targets(after)]
    for call, key in _scaler_targets(before):
        _, name = key
        if key not in bound and tree.named(name.rpartition(".")[2]):
            yield f"line {before.line(call)}: `{name}` is not made any more"
        where = [name_of(after.model, other) for other, its in made if its == key]
        known = {
            name_of(before.model, other) for other, its in _scaler_targets(before) if its == key
        }
        if where and (name_of(before.model, call) not in where or not known.issuperset(where)):
            yield f"line {before.line(call)}: `{name}` is made in another function"


def _scaler_targets(side: Side) -> Iterator[tuple[cst.Call, tuple[str, str]]]:
    """The calls that make scalers, with what they are bound to."""
    for call in side.model.roles.scaler_calls:
        holder = side.model.tree.parent(call)
        for each in holder.targets if isinstance(holder, cst.Assign) else ():
            yield call, _within_class(side, each.target)


def _within_class(side: Side, target: cst.BaseExpression) -> tuple[str, str]:
    """What is bound, as it is written, with the class in which it is."""
    holder = side.model.tree.ancestor(target, cst.ClassDef)
    return holder.name.value if holder is not None else "", side.model.tree.source(target)


def _state_calls(side: Side, name: str) -> Iterator[cst.Call]:
    calls = side.calls.get(id(side.units[name]), ())
    return filter(side.lifter.is_scaler_state, calls)


def _spans_updates(model: Model) -> bool:
    """Whether something is wrong with what comes after a step or an update, and goes with it."""
    mistakes = model.mistakes
    is_there = mistakes.early_updates or mistakes.steps_without_update
    return bool(is_there) or any(not stale.loops for stale in model.caches.stale)


def _updates(side: Side) -> int:
    """How often an update of a scaler is written."""
    marks = (mark for found in side.effects.values() for mark in found.marks)
    return sum(mark.kind == Kind.UPDATE.value for mark in marks)


def _updated(eraser: Eraser) -> set[object]:
    """Where scalers are updated, as far as tests and loops tell."""
    return {*eraser.stacks(Kind.UPDATE)}


def _with_other_managers(before: Side, after: Side) -> Iterator[str]:
    """Functions that enter something else which may open a region, or not."""
    for name in common(before.units, after.units):
        old, new = (Counter(side.effects[name].managers) for side in (before, after))
        if old != new:
            yield name


def _is_entered(use: Use) -> bool:
    """Whether an autocast region is entered at all, as far as a dtype in its place tells.

    What runs inside one that is not has no state that the new code could keep. One without a
    device raises too: of what it would be nothing is known, so that nothing is held against it.
    """
    if use.kind == "partial" or not use.name.endswith(tuple(words(Role.REGION))):
        return True
    if use.kind != "call":
        return False
    if use.name in DEVICE_AUTOCAST:
        return not use.args or not isinstance(use.args[0], Global)
    return len(use.args) < 2 or isinstance(use.args[1], Global)


def _shown(use: Object, steps: list[Step]) -> bool:
    """Whether a scaler or a cache was only switched on or off, and steps show what that does."""
    old, new = _as_construct(use.before), _as_construct(use.after)
    cache, enabled = (AUTOCAST.keyword(part) for part in (Part.CACHE, Part.ENABLED))
    if _without(old, cache) == _without(new, cache):
        return any(_entries(step.before) for step in steps)
    if _without(old, enabled) != _without(new, enabled):
        return False
    return any({old, new} <= {*_made(step.before), *_made(step.after)} for step in steps)


def _made(program: Program) -> Iterator[Construct]:
    """How the scalers of training steps are made."""
    return (made for _, made in program.scalers)


def _as_construct(use: Use) -> Construct:
    return Construct(use.name, use.args, use.keywords)


def _without(made: Construct, switch: str) -> Construct:
    return replace(made, keywords=tuple(item for item in made.keywords if item[0] != switch))


def _entries(program: Program) -> bool:
    """Whether a region stays open over a step and another forward."""
    events = [event for trace in program.traces for event in trace]
    return any(event.forward is not None and event.forward.entry for event in events)


def _unbound(before: Side, after: Side) -> Iterator[Unbound]:
    for key, node in after.unbound.items():
        if key not in before.unbound:
            name, early = key
            place = Place(0, after.line(node), name_of(after.model, node))
            yield Unbound(place, name, bool(early))


# --- effects ----------------------------------------------------------------------------------


def _expressions(before: Eraser, after: Eraser) -> tuple[list[Expression], set[str], list[str]]:
    """The expressions that became others, wherever they are used.

    And the functions of which a loss is another one, in what only the user's code could tell, and
    reasons for what is another object, whatever its numbers are.
    """
    other_losses: set[str] = set()
    other_objects: dict[str, None] = {}
    found: dict[tuple[object, ...], Expression] = {}
    one, other = before.side, after.side
    compiled = scripted(other)
    for name in common(one.units, other.units):
        if before.header(name) != after.header(name):
            continue  # names may stand for something else
        arrays = {*_arrays(one, name)}
        tensors, numbers = as_tensors(_terms(one.effects[name].done)), {*_numbers(one, name)}
        absent = (*sorted(one.lifter.absent & other.lifter.absent),)
        pairs = [*differing(one.effects[name].done, other.effects[name].done)]
        changed_effects = [(old, new) for old, new in pairs if old is not None and new is not None]
        for old, new in changed_effects:
            place = Place(one.line(old.node), other.line(new.node), name)
            is_loss = old.kind == Kind.BACKWARD.value
            try:
                given_to = _given_to(old, new, changed_effects)
                for item in _differences(old, new):
                    if is_of_casts(*item.pair):
                        continue  # each cast is told by itself
                    made = Expression(place, *item.pair, item.contexts, given_to, absent)
                    key = *item.pair, item.contexts  # what is right in one may be wrong in another
                    known = found.get(key, made)
                    found[key] = min(known, made, key=lambda each: each.given_to)
                    how = other_object(item) or _is_of_array(arrays, item.pair)
                    how = how or of_numbers(item, tensors, numbers)
                    how = how or (_is_uncompiled(item.pair) if name in compiled else "")
                    if how:
                        text = f"line {place.after}: `{show(item.pair[1])}` {how}"
                        other_objects[text] = None
                if is_loss:
                    other.alias[new.term] = old.term
            except NotComparableError:
                if is_loss and old.term not in walk(new.term) and new.term not in walk(old.term):
                    other_losses.add(name)
    return [*found.values()], other_losses, [*other_objects]


def _terms(effects: Iterable[Effect]) -> Iterator[Term]:
    for effect in effects:
        yield from (*effect.guards, effect.term)


_ARRAYS = "numpy."
_NUMBERS = frozenset({"float", "int"})


def _annotated(side: Side, name: str) -> Iterator[tuple[str, frozenset[str]]]:
    """The parameters of a function that are said to be something, each with what it may be."""
    unit = side.units[name]
    for param in (
        side.model.tree.below(unit, cst.Param) if isinstance(unit, cst.FunctionDef) else ()
    ):
        note = param.annotation.annotation if param.annotation is not None else None
        if note is not None:
            known = side.model.names.qualified(note)
            yield param.name.value, frozenset(known or {side.model.tree.source(note)})


def _arrays(side: Side, name: str) -> Iterator[str]:
    """The parameters of a function that are said to be arrays of NumPy."""
    for param, kinds in _annotated(side, name):
        if any(kind.startswith(_ARRAYS) for kind in kinds):
            yield param


def _numbers(side: Side, name: str) -> Iterator[Term]:
    """The parameters of a function that are said to be numbers of Python's."""
    for param, kinds in _annotated(side, name):
        if {kind.removeprefix("builtins.") for kind in kinds} <= _NUMBERS:
            yield Input(param)


def _is_of_array(arrays: AbstractSet[str], pair: tuple[Term, Term]) -> str:
    """How an expression of arrays is shown by tensors: not at all."""
    inputs = {part.key for term in pair for part in walk(term) if isinstance(part, Input)}
    return "is computed of an array, not of a tensor" if inputs & arrays else ""


def _is_uncompiled(pair: tuple[Term, Term]) -> str:
    """How an expression of a function that is compiled fails, if it does."""
    part = uncompiled(*pair)
    return f"is compiled, and TorchScript may not know `{part}`" if part else ""


def _given_to(old: Effect, new: Effect, changed: Sequence[tuple[Effect, Effect]]) -> str:
    """The call that is the effect, if code that became another one uses its result; or ""."""
    own = {item.pair for item in _differences(old, new)}
    for was, becomes in changed:
        if old.term not in walk(was.term):
            continue
        try:
            beyond = {item.pair for item in _differences(was, becomes)} - own
        except NotComparableError:
            continue
        if beyond:
            return show(new.term)
    return ""


def _differences(old: Effect, new: Effect) -> Iterator[Difference]:
    for one, other in zip((*old.guards, old.term), (*new.guards, new.term), strict=True):
        yield from differences(one, other)


# --- autocast states --------------------------------------------------------------------------


def _policies(before: Side, after: Side) -> list[Policy]:
    found: dict[tuple[object, ...], Policy] = {}
    for name in common(before.units, after.units):
        old, new = before.states(name), after.states(name)
        for term in common(old, new):
            if len(old[term]) != len(new[term]):
                continue  # `_other_states` looks at them
            for (one, was), (other, becomes) in zip(old[term], new[term], strict=True):
                if was != becomes:
                    place = Place(before.line(one), after.line(other), name)
                    key = _operation(term), was, becomes
                    moved = _is_among(new, was) or _is_among(old, becomes)
                    own = _is_own_function(after, other)
                    found.setdefault(key, Policy(place, term, was, becomes, moved, own))
    inner_first = sorted(found.values(), key=lambda p: (before.lifter.size(p.term), p.place.before))
    return inner_first


def _is_among(states: States, state: Autocast | None) -> bool:
    """Whether something of a function runs in a region like one that something else ran in."""
    return state is not None and any(
        state == other for found in states.values() for _, other in found
    )


def _is_own_function(side: Side, node: cst.CSTNode) -> bool:
    """Whether a function of the file is called, of which more is known than that it is called."""
    return (
        isinstance(node, cst.Call)
        and side.model.program.target(node) is not None
        and not side.lifter.is_inlined(node)
    )


def _other_states(before: Side, after: Side) -> Iterator[str]:
    """Operations that are written more or less often, and somewhere in a state they were never."""
    for name in common(before.units, after.units):
        old, new = before.states(name), after.states(name)
        for term in common(old, new):
            known = [state for _, state in old[term]]
            for node, state in new[term]:
                if len(old[term]) != len(new[term]) and state not in known:
                    yield f"line {after.line(node)}: `{shown(after, node)}` runs in another region"


def _other_switches(before: Side, after: Side, uses: Sequence[Object]) -> Iterator[str]:
    """Operations in a like region that something else decides about, other than by an argument.

    Of regions that are paired the arguments are compared.
    """
    told = {(_switches(use.before), _switches(use.after)) for use in uses}
    for name in common(before.units, after.units):
        old, new = before.states(name), after.states(name)
        for term in common(old, new):
            known = [(state, before.switches(node)) for node, state in old[term]]
            paired = len(known) == len(new[term])
            for at, (node, state) in enumerate(new[term]):
                others = known[at : at + 1] if paired else known
                was = [switches for other, switches in others if other == state]
                becomes = after.switches(node)
                if was and not any(one == becomes or (one, becomes) in told for one in was):
                    yield f"line {after.line(node)}: `{shown(after, node)}` runs in another region"


def _switches(use: Use) -> frozenset[Term]:
    return open_terms((*use.args, *(value for _, value in use.keywords)))


def _operation(term: Term) -> object:
    if not isinstance(term, Op):
        return term
    return (term.form, term.name) if term.form is not Form.APPLY else term.form


# --- training steps ---------------------------------------------------------------------------


def _steps(before: Side, after: Side, entered: set[str]) -> Iterator[Step]:
    """The training steps that differ; in ``entered``, regions are compared elsewhere."""
    removed, moved = _halves(before, after)
    seen = False
    for name, one, other in _programs(before, after):
        gone, come = _unfollowed_losses(one, other, before, after)
        if len(gone) != len(come):
            continue
        other = _with_losses(other, dict(zip(come, gone, strict=True)))
        if name in entered:
            one, other = _without_regions(one), _without_regions(other)
            one = replace(one, scalers=other.scalers)  # its uses are compared one by one
        if _concerns(removed, before, name):
            one, seen = replace(one, half=("*",)), True
            other = replace(other, inputs="float16" if [*_fed_half(before, after, removed)] else "")
        elif _concerns(before.model.modules.half_trainings, before, name):
            one, other = replace(one, half=("*",)), replace(other, half=("*",))
        elif any(event.forward for trace in other.traces for event in trace):
            one = replace(one, **_cast_before(before, after, name))
        different = changed(one, other)
        if _concerns(moved, before, name):
            different = one, other  # the cast is still made, only elsewhere
        if different is not None:
            place = Place(_first_line(different[0]), _first_line(different[1]), name)
            cut = max(len(one.traces), len(other.traces)) > MAX_TRACES
            by_steps = changed(_without_regions(one), _without_regions(other)) is not None
            is_cut = name in before.tracer.cut | after.tracer.cut or are_many(one, other)
            left = by_steps and is_cut
            split, same = splits(one, other), kept(one, other)
            yield Step(place, *different, splits=split, cut=cut, left=left, kept=same)
    if not seen:
        yield from (_training(before, half) for half in removed[:1])


def _programs(before: Side, after: Side) -> Iterator[tuple[str, Program, Program]]:
    """What each function trains in both texts, but where a step left one and another got one."""
    old, new = _compared_programs(before, after), _compared_programs(after, before)
    moved = {*itertools.chain(*_moved_programs(old, new))}
    for name in dict.fromkeys((*old, *new)):
        if name not in moved:
            yield name, old.get(name, Program(())), new.get(name, Program(()))


def _moved_programs(
    old: Mapping[str, Program], new: Mapping[str, Program]
) -> tuple[list[str], list[str]]:
    """The functions that train in one text alone, if there are such in both: it may be the same."""
    left = [name for name in old if name not in new]
    come = [name for name in new if name not in old]
    return (left, come) if left and come else ([], [])


def _moved_steps(before: Side, after: Side) -> Iterator[str]:
    """That a step is in another function now, which may run at another time, or never."""
    old, new = _compared_programs(before, after), _compared_programs(after, before)
    left, come = (", ".join(map("`{}`".format, names)) for names in _moved_programs(old, new))
    if left:
        yield f"what {left} trained is in {come} now: whether it runs as often is not known"


def _compared_programs(side: Side, other: Side) -> dict[str, Program]:
    """What functions train, but those that the other text lacks, and their callers run."""
    called = side.model.steps.called
    return {
        name: program
        for name, program in side.tracer.programs.items()
        if name in other.units or name not in side.units or id(side.units[name]) not in called
    }


def _cast_before(before: Side, after: Side, name: str) -> dict[str, Any]:
    """That the modules of a function were of a low precision, where it casts them no more.

    The optimizer may be made elsewhere: the module is called, and so it is what is trained.
    """
    old, new = ({*_low_modules(side, name)} for side in (before, after))
    dtypes = {dtype for _, dtype in old - new}
    return {"half": ("*",), "half_dtype": dtypes.pop()} if len(dtypes) == 1 else {}


def _low_modules(side: Side, name: str) -> Iterator[tuple[str, str]]:
    """The modules that a function casts to a low precision and calls, each with its dtype."""
    calls = side.calls.get(id(side.units[name]), ()) if name in side.units else ()
    called = {side.model.tree.source(call.func) for call in calls}
    for call in calls:
        dtype = isinstance(call.func, cst.Attribute) and _LOW.get(call.func.attr.value)
        if dtype:
            yield from ((text, dtype) for text in called.intersection(_module_names(side, call)))


def _without_regions(program: Program) -> Program:
    """A program whose regions are compared elsewhere."""
    return replace(
        program,
        traces=tuple(
            tuple(replace(event, forward=None, active=None) for event in trace)
            for trace in program.traces
        ),
    )


def _first_line(program: Program) -> int:
    return program.traces[0][0].line if program.traces else 0


def _halves(before: Side, after: Side) -> tuple[list[HalfTraining], list[HalfTraining]]:
    """The casts of trained modules to float16 that are gone, and those that were moved.

    A cast is gone if its function casts that module nowhere any more.
    """
    trained = [_half_key(after, half.cast) for half in after.model.modules.half_trainings]
    calls = filter(after.model.modules.is_half_cast, after.model.tree.nodes(cst.Call))
    left = [_half_key(after, call) for call in calls]
    removed, moved = [], []
    for half in before.model.modules.half_trainings:
        key = _half_key(before, half.cast)
        if key not in left:
            removed.append(half)
        else:
            left.remove(key)
            if key not in trained:
                moved.append(half)
    return removed, moved


def _fed_half(before: Side, after: Side, removed: Iterable[HalfTraining]) -> Iterator[cst.CSTNode]:
    """Casts to float16 in calls of modules that were float16 and are not any more."""
    modules = {text for half in removed for text in _module_names(before, half.cast)}
    tree = after.model.tree
    for node in after.model.halves.left_over:
        cast = tree.ancestor(node, cst.Call)
        holder = tree.parent(cast) if cast is not None else None
        call = tree.parent(holder) if isinstance(holder, cst.Arg) else None
        if isinstance(call, cst.Call) and tree.source(call.func) in modules:
            yield node


def _module_names(side: Side, cast: cst.Call) -> Iterator[str]:
    """How a module is written that a call casts: ``model`` in ``model = Net().half()``."""
    if isinstance(cast.func, cst.Attribute):
        yield side.model.tree.source(cast.func.value)
    holder = side.model.tree.ancestor(cast, cst.Assign)
    if holder is not None:
        yield from (side.model.tree.source(target.target) for target in holder.targets)


def _half_left(before: Side, after: Side) -> Iterator[str]:
    """What still says float16 where a module is not float16 any more, and may no longer match."""
    removed, _ = _halves(before, after)
    if removed:
        for node in after.model.halves.left_over:
            yield f"line {after.line(node)}: `{shown(after, node)}` is still float16"


def _casts(before: Side, after: Side) -> Iterator[str]:
    """Casts of trained modules to float16 that the old text does not have."""
    left = Counter(_half_key(before, half.cast) for half in before.model.modules.half_trainings)
    for half in after.model.modules.half_trainings:
        key = _half_key(after, half.cast)
        if not left[key]:
            yield f"line {after.line(half.cast)}: `{shown(after, half.cast)}` was added"
        left[key] -= 1


def _half_key(side: Side, cast: cst.Call) -> tuple[str, str]:
    """The function in which a module is made float16, and how."""
    return name_of(side.model, cast), side.model.tree.source(cast.func)


def _concerns(halves: Iterable[HalfTraining], side: Side, name: str) -> bool:
    return any(
        name in (name_of(side.model, half.cast), name_of(side.model, half.trained))
        for half in halves
    )


def _training(before: Side, half: HalfTraining) -> Step:
    """A step with the optimizer that is made for float16 parameters, stepped in another file."""
    made = before.tracer.optimizer(half.trained)
    line = before.line(half.trained)
    trace = tuple(
        Event(kind, line, kind.value, optimizer="optimizer", loss=loss)
        for kind, loss in (
            (Kind.ZERO_GRAD, None),
            (Kind.BACKWARD, "loss"),
            (Kind.STEP, None),
        )
    )
    program = Program((trace,), (), () if made is None else (("optimizer", made),))
    place = Place(line, line, name_of(before.model, half.trained))
    return Step(place, replace(program, half=("*",)), program)
