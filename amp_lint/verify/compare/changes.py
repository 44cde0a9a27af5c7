"""All that differs between two versions of a file, as obligations and as reasons."""

from __future__ import annotations

import builtins
import difflib
import functools
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

import libcst as cst

from amp_lint.model import Model
from amp_lint.model.modules import HalfTraining
from amp_lint.model.regions import DEVICE_AUTOCAST
from amp_lint.tree import descendants
from amp_lint.verify.compare.difference import Difference, NotComparableError, differences
from amp_lint.verify.compare.effects import Effect, Effects, Walker
from amp_lint.verify.compare.lift import ERASED, Lifter
from amp_lint.verify.compare.traces import Tracer, changed
from amp_lint.verify.compare.units import Unit, name_of, units
from amp_lint.verify.compare.uses import compare_uses
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
from amp_lint.verify.terms import Const, Form, Global, Op, Term

_MAX_POLICIES = 4
_BUILTINS = frozenset(dir(builtins)) | {"__file__", "__name__", "__doc__", "__path__", "__class__"}
_CAST_OPERATORS = (cst.MatrixMultiply, cst.Power)
_DECIDED_ELSEWHERE = frozenset({"backward"})
"""Effects that may come and go: the traces say whether they still do what they did."""


@dataclass(eq=False)
class Side:
    """One of the two texts, and what was lifted from it."""

    model: Model
    lifter: Lifter = field(init=False)
    alias: dict[Term, Term] = field(default_factory=dict)
    """Losses that were found to be those of the other side, written in another way."""
    whole: bool = False
    """Whether what comes after a step or an update belongs to the same trace."""

    def __post_init__(self) -> None:
        self.lifter = Lifter(self.model)

    @functools.cached_property
    def units(self) -> dict[str, Unit]:
        """Functions, classes and the script by name."""
        return dict(units(self.model))

    @functools.cached_property
    def effects(self) -> dict[str, Effects]:
        """What each unit does."""
        return {name: Walker(self.lifter, unit).found for name, unit in self.units.items()}

    @functools.cached_property
    def tracer(self) -> Tracer:
        """Makes the programs of this side."""
        found = self.effects.values()
        losses = {key: term for e in found for key, term in e.losses.items()}
        return Tracer(self.lifter, losses, self.alias, whole=self.whole)

    @functools.cached_property
    def unbound(self) -> dict[tuple[str, str], cst.Name]:
        """The names that nothing binds, each with its first use.

        And those that only later lines of their function bind, which is the second part of the key.
        """
        found: dict[tuple[str, str], cst.Name] = {}
        names = self.model.names
        if names.module.star_imports:
            return found
        imported = self._imported
        for node in self.model.tree.nodes(cst.Name):
            if not self._is_read(node) or id(node) in imported:
                continue
            if node.value not in _BUILTINS and not names.bindings(node):
                found.setdefault((node.value, ""), node)
            elif names.is_early(node.value, node):
                found.setdefault((node.value, name_of(self.model, node)), node)
        return found

    def _is_read(self, node: cst.Name) -> bool:
        """Whether a name stands for its value here, and is not a part of something longer."""
        holder = self.model.tree.parent(node)
        return not isinstance(holder, (cst.Attribute, cst.Arg)) or holder.value is node

    @property
    def _imported(self) -> set[int]:
        """The nodes of import statements, by id."""
        tree = self.model.tree
        imports = (*tree.nodes(cst.Import), *tree.nodes(cst.ImportFrom))
        return {id(node) for statement in imports for node in descendants(statement)}

    def line(self, node: cst.CSTNode) -> int:
        """The line on which a node starts."""
        return self.model.source.position(self.model.tree.span(node)[0])[0]

    def states(self, name: str) -> dict[Term, list[tuple[cst.CSTNode, Autocast | None]]]:
        """What may be cast by autocast in a unit, with the state that it runs in."""
        found: dict[Term, list[tuple[cst.CSTNode, Autocast | None]]] = defaultdict(list)
        unit = self.units[name]
        nodes: list[cst.Call | cst.BinaryOperation] = [
            *self.model.tree.nodes(cst.Call),
            *self.model.tree.nodes(cst.BinaryOperation),
        ]
        for node in nodes:
            term = self.effects[name].terms.get(id(node))
            if term is None or not self._is_cast(node, term):
                continue
            if self.model.tree.contains(unit, node):
                around = self.model.regions.around(node)
                state = self.tracer.autocast(around[0], node) if around else None
                found[term].append((node, _casts(state)))
        return found

    def _is_cast(self, node: cst.Call | cst.BinaryOperation, term: Term) -> bool:
        if isinstance(node, cst.BinaryOperation):
            return isinstance(node.operator, _CAST_OPERATORS)
        return isinstance(term, Op) and not self.model.regions.is_inert_call(node)


def changes(before: Side, after: Side) -> Comparison:
    """Everything that has to be shown, the cheapest first."""
    before.whole = after.whole = _spans_updates(before.model) or _spans_updates(after.model)
    expressions, reasons = _expressions(before, after)
    steps = list(_steps(before, after))
    uses = [*compare_uses(before.lifter, after.lifter)]
    entered = {use.place.function for use in uses if not _is_entered(use.before)}
    obligations: list[Obligation] = [*_unbound(before, after)]
    obligations += (use for use in uses if not _shown(use, steps))
    obligations += (p for p in _policies(before, after) if p.place.function not in entered)
    obligations += expressions
    obligations += (step for step in steps if step.place.function not in entered)
    return Comparison(tuple(obligations), tuple(dict.fromkeys(reasons)))


def _spans_updates(model: Model) -> bool:
    """Whether something is wrong with what comes after a step or an update, and goes with it."""
    mistakes = model.mistakes
    misplaced = mistakes.early_updates or mistakes.second_updates
    left_out = mistakes.steps_without_update or mistakes.left_early or mistakes.bypasses
    return bool(misplaced or left_out) or any(not stale.loops for stale in model.caches.stale)


def _casts(state: Autocast | None) -> Autocast | None:
    """What decides about the dtype of one operation."""
    return state and replace(state, cache_enabled=None, entry="", lasting=False)


def _is_entered(use: Use) -> bool:
    """Whether an autocast region is entered at all, and does not raise by its arguments alone.

    What runs inside one that is not has no state that the new code could keep.
    """
    if not use.name.endswith("autocast"):
        return True
    if use.kind != "call":
        return False
    if use.name in DEVICE_AUTOCAST:
        return not use.args or not isinstance(use.args[0], Global)
    texts = [isinstance(term, Const) and isinstance(term.value, str) for term in use.args]
    names = [name for name, _ in use.keywords]
    has_device = texts[:1] == [True] or (not texts and "device_type" in names)
    return has_device and (len(texts) < 2 or isinstance(use.args[1], Global))


def _shown(use: Object, steps: list[Step]) -> bool:
    """Whether a scaler or a cache was only switched on or off, and steps show what that does."""
    old, new = _as_construct(use.before), _as_construct(use.after)
    if _without(old, "cache_enabled") == _without(new, "cache_enabled"):
        return any(_entries(step.before) for step in steps)
    if _without(old, "enabled") != _without(new, "enabled"):
        return False
    return any(
        old in (made for _, made in step.before.scalers)
        and new in (made for _, made in step.after.scalers)
        for step in steps
    )


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


def _expressions(before: Side, after: Side) -> tuple[list[Expression], list[str]]:
    found: dict[tuple[Term, Term], Expression] = {}
    reasons: list[str] = []
    for name in [*before.units, *(n for n in after.units if n not in before.units)]:
        if name not in after.units or name not in before.units:
            how = "removed" if name in before.units else "added"
            reasons.append(f"`{name}` was {how}")
            continue
        for old, new in _aligned(before.effects[name].done, after.effects[name].done):
            if old is None or new is None:
                reasons += _lonely(before, after, old, new)
                continue
            place = Place(before.line(old.node), after.line(new.node), name)
            try:
                for item in _differences(old, new):
                    found.setdefault(item.pair, Expression(place, *item.pair, item.contexts))
                if old.kind == "backward":
                    after.alias[new.term] = old.term
            except NotComparableError as error:
                reasons.append(f"line {place.before}: {error}")
    return list(found.values()), reasons


def _differences(old: Effect, new: Effect) -> Iterator[Difference]:
    for one, other in zip((*old.guards, old.term), (*new.guards, new.term), strict=True):
        yield from differences(one, other)


def _aligned(
    before: list[Effect], after: list[Effect]
) -> Iterator[tuple[Effect | None, Effect | None]]:
    """Effects of both sides that differ, side by side; None where one side has none."""
    old, new = [e.key for e in before], [e.key for e in after]
    for tag, i, j, k, m in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if tag != "equal":
            yield from _matched(before[i:j], after[k:m])


def _matched(
    before: list[Effect], after: list[Effect]
) -> Iterator[tuple[Effect | None, Effect | None]]:
    rest = list(after)
    for old in before:
        new = next((e for e in rest if _outline(e) == _outline(old)), None)
        if new is not None:
            rest.remove(new)
        yield old, new
    yield from ((None, new) for new in rest)


def _outline(effect: Effect) -> tuple[object, ...]:
    head = (effect.term.form, effect.term.name) if isinstance(effect.term, Op) else None
    callee = effect.term.args[0] if head and head[0] is Form.APPLY else None  # type: ignore[union-attr]
    return effect.kind, len(effect.guards), (head, callee) if effect.kind == "do" else None


def _lonely(before: Side, after: Side, old: Effect | None, new: Effect | None) -> Iterator[str]:
    side, effect, how = (before, old, "removed") if old else (after, new, "added")
    assert effect is not None
    if effect.kind in _DECIDED_ELSEWHERE or effect.term == ERASED:
        return
    text = side.model.tree.source(effect.node).splitlines()[0]
    yield f"line {side.line(effect.node)}: `{text}` was {how}"


# --- autocast states --------------------------------------------------------------------------


def _policies(before: Side, after: Side) -> list[Policy]:
    found: dict[tuple[object, ...], Policy] = {}
    for name in before.units.keys() & after.units.keys():
        old, new = before.states(name), after.states(name)
        for term in old.keys() & new.keys():
            if len(old[term]) != len(new[term]):
                continue
            for (one, was), (other, becomes) in zip(old[term], new[term], strict=True):
                if was != becomes:
                    place = Place(before.line(one), after.line(other), name)
                    key = _operation(term), was, becomes
                    found.setdefault(key, Policy(place, term, was, becomes))
    inner_first = sorted(found.values(), key=lambda p: (before.lifter.size(p.term), p.place.before))
    return inner_first[:_MAX_POLICIES]


def _operation(term: Term) -> object:
    if not isinstance(term, Op):
        return term
    return (term.form, term.name) if term.form is not Form.APPLY else term.form


# --- training steps ---------------------------------------------------------------------------


def _steps(before: Side, after: Side) -> Iterator[Step]:
    removed, moved = _halves(before, after)
    kept = [half for half in before.model.modules.half_trainings if half not in removed]
    old, new = before.tracer.programs, after.tracer.programs
    seen = False
    for name in old.keys() | new.keys():
        one, other = old.get(name, Program(())), new.get(name, Program(()))
        if _concerns(removed, before, name):
            one, seen = replace(one, half=("*",)), True
        elif _concerns(kept, before, name):
            one, other = replace(one, half=("*",)), replace(other, half=("*",))
        different = changed(one, other)
        if different is None and _concerns(moved, before, name):
            different = one, other  # the cast is still made, only elsewhere
        if different is not None:
            place = Place(_first_line(different[0]), _first_line(different[1]), name)
            yield Step(place, *different)
    if removed and not seen:
        yield _training(before, removed[0])


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
    made = before.tracer.optimizer(half.trained) or Construct("")
    line = before.line(half.trained)
    trace = tuple(
        Event(kind, line, kind, optimizer="optimizer", loss="loss" if kind == "backward" else None)
        for kind in ("zero_grad", "backward", "step")
    )
    program = Program((trace,), (), (("optimizer", made),))
    place = Place(line, line, name_of(before.model, half.trained))
    return Step(place, replace(program, half=("*",)), program)
