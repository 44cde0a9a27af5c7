"""What no experiment looks at: it must be the same in both texts.

Experiments show that expressions, steps and autocast objects still do what they did. All else that
a function is made of is compared here: its parameters, what stands around the events of its
training steps, their arguments, and their order among the ordinary calls.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import replace

import libcst as cst

from amp_lint.amp.events import Kind
from amp_lint.syntax.tree import descendants
from amp_lint.verify.compare.alignment import pairings
from amp_lint.verify.compare.erasures import compact, erasures, shown
from amp_lint.verify.compare.lift import ERASED
from amp_lint.verify.compare.marks import Mark
from amp_lint.verify.compare.side import Side
from amp_lint.verify.compare.units import common
from amp_lint.verify.terms import Form, Op, Term, children

_CORE = frozenset({Kind.BACKWARD.value, Kind.STEP.value, Kind.ZERO_GRAD.value})
"""Events that code without AMP has too: a fix leaves them where they are."""
_ON_GRADIENTS = frozenset({Kind.CLIP.value, Kind.GRADIENT_WRITE.value})
"""Events whose place counts where other calls may change gradients."""
_OPPOSITES = {"is_not": "is_", "ne": "eq", "not_in": "in_", "ge": "lt", "gt": "le"}
_ORDERS = frozenset({"lt", "le", "gt", "ge", "eq"})
_NOTHING = Op(Form.OTHER, "given")


def unexamined(before: Side, after: Side) -> Iterator[str]:
    """A reason for each thing that differs and that nothing else compares."""
    for name in before.units:
        if name in after.units:
            for check in _CHECKS:
                yield from check(before, after, name)


# --- how a function is declared -----------------------------------------------------------------


def redeclared(before: Side, after: Side, name: str) -> Iterator[str]:
    """What stands in front of the body of a function or class, where it is other than before."""
    old, new = dict(_header(before, name)), dict(_header(after, name))
    for what in old:
        if old[what] != new.get(what):
            line = before.line(before.units[name])
            yield f"line {line}: the {what} of `{name}` were rewritten"


def _header(side: Side, name: str) -> Iterator[tuple[str, object]]:
    """What stands in front of a body, but AMP and the annotations."""
    unit = side.units[name]
    if isinstance(unit, cst.Module):
        return
    decorators = [side.lifter.term(each.decorator, {}) for each in unit.decorators]
    yield "decorators", [term for term in decorators if not is_amp_term(term)]
    if isinstance(unit, cst.ClassDef):
        given = (*unit.bases, *unit.keywords)
        yield "bases", [(_keyword(arg), side.lifter.term(arg.value, {})) for arg in given]
    else:
        yield "parameters", [unit.asynchronous is None, *_parameters(unit.params)]


def _keyword(arg: cst.Arg) -> str:
    return arg.star if arg.keyword is None else arg.keyword.value


def _parameters(given: cst.Parameters) -> Iterator[str]:
    """Names in order, marked if only positional or only by keyword; defaults are effects."""
    for kind, params in (
        ("/", given.posonly_params),
        ("", given.params),
        ("*", (given.star_arg,)),
        ("=", given.kwonly_params),
        ("**", (given.star_kwarg,)),
    ):
        for param in params:
            if isinstance(param, cst.Param):
                yield kind + param.name.value


# --- events -------------------------------------------------------------------------------------


def _marks(side: Side, name: str) -> list[Mark]:
    return [mark for mark in side.effects[name].marks if mark.kind != "yield"]


def _by_kind(marks: Iterable[Mark]) -> dict[str, list[Mark]]:
    found: dict[str, list[Mark]] = defaultdict(list)
    for mark in marks:
        found[mark.kind].append(mark)
    return found


def _arguments(before: Side, after: Side, name: str) -> Iterator[str]:
    """Arguments of events that no trace holds: ``inputs=``, the parameters that are clipped."""
    old, new = _by_kind(_marks(before, name)), _by_kind(_marks(after, name))
    for kind, marks in new.items():
        known = old.get(kind, [])
        if len(known) == len(marks):
            pairs = zip(known, marks, strict=True)
            strange = [other for one, other in pairs if one.given != other.given]
        else:
            given = {mark.given for mark in known} | {_NOTHING}
            strange = [mark for mark in marks if mark.given not in given]
        for mark in strange:
            if known or kind != Kind.ZERO_GRAD.value:
                yield _reason(after, mark, "is called with other arguments")


def _objects(before: Side, after: Side, name: str) -> Iterator[str]:
    """Which optimizers or modules are stepped and cleared: a trace may not tell them apart."""
    old, new = _by_kind(_marks(before, name)), _by_kind(_marks(after, name))
    for kind in (Kind.STEP.value, Kind.ZERO_GRAD.value):
        for side, marks, others in ((before, old, new), (after, new, old)):
            known = {mark.about for mark in others.get(kind, [])}
            for mark in marks.get(kind, []):
                if known and mark.about not in known:
                    yield _reason(side, mark, "is about another object")


def _guards(before: Side, after: Side, name: str) -> Iterator[str]:
    """Tests, loops and contexts around events."""
    old, new = _Stacks(before, after, name, which=0), _Stacks(before, after, name, which=1)
    for mark in new.marks:
        if not old.explains(new, mark):
            yield _reason(after, mark, "runs under other conditions")
    for mark in old.marks:
        if mark.kind in _CORE and new.has(mark) and not new.explains(old, mark):
            yield _reason(before, mark, "runs under other conditions")


def _polarities(before: Side, after: Side, name: str) -> Iterator[str]:
    """What a scaler does may not go from one arm of a test to the other."""
    old, new = _by_text(before, name), _by_text(after, name)
    for written in common(old, new):
        ways = [
            set.intersection(*({_polar(g) for g in m.guards} for m in marks))
            for marks in (old[written], new[written])
        ]
        turned = any((test, not way) in ways[1] for test, way in ways[0])
        compared = [{way for way in found if _compares(way[0])} for found in ways]
        if turned or (all(compared) and compared[0] != compared[1]):
            yield _reason(after, new[written][0], "runs under other conditions")


def _by_text(side: Side, name: str) -> dict[str, list[Mark]]:
    """The events of a function that name a scaler, by what is written."""
    found: dict[str, list[Mark]] = defaultdict(list)
    for mark in _marks(side, name):
        parts = (n for n in descendants(mark.node) if isinstance(n, (cst.Name, cst.Attribute)))
        if any(map(side.model.roles.is_scaler, parts)):
            found[compact(side, mark.node)].append(mark)
    return found


def _polar(guard: Term) -> tuple[Term, bool]:
    """A test without its negations, and whether it must hold."""
    if isinstance(guard, Op) and guard.name == "not_":
        test, way = _polar(guard.args[0])
        return test, not way
    if isinstance(guard, Op) and guard.name in _OPPOSITES:
        return replace(guard, name=_OPPOSITES[guard.name]), False
    return guard, True


def _compares(test: Term) -> bool:
    """Whether a test is about a number: another bound, or another order, is another test."""
    return isinstance(test, Op) and test.name in _ORDERS


class _Stacks:
    """What stands around the events of a function in one of two texts."""

    def __init__(self, before: Side, after: Side, name: str, *, which: int) -> None:
        sides = before, after
        self.marks = _marks(sides[which], name)
        amp = [side.effects[name].about_amp for side in sides]
        self._amp = amp[0] | amp[1]
        self._blocks = {self._without_amp(b) for b in sides[which].effects[name].blocks}
        self._own: dict[tuple[str, str], set[tuple[Term, ...]]] = defaultdict(set)
        for mark in self.marks:
            self._own[mark.kind, mark.about].add(self.reduced(mark))

    def reduced(self, mark: Mark) -> tuple[Term, ...]:
        """What stands around an event, but for AMP."""
        return self._without_amp(mark.guards)

    def _without_amp(self, guards: tuple[Term, ...]) -> tuple[Term, ...]:
        return tuple(guard for guard in guards if not self._is_amp(guard))

    def has(self, mark: Mark) -> bool:
        """Whether there is an event of that kind about the same object."""
        return bool(self._own.get((mark.kind, mark.about)))

    def explains(self, other: _Stacks, mark: Mark) -> bool:
        """Whether what stands around an event of the other text stands around a block here.

        Around the same event, if it is one that code without AMP has.
        """
        stack = other.reduced(mark)
        if mark.kind in _CORE and self.has(mark):
            return stack in self._own[mark.kind, mark.about]
        return stack in self._blocks

    def _is_amp(self, guard: Term) -> bool:
        if guard in self._amp or is_amp_term(guard):
            return True
        negated = isinstance(guard, Op) and guard.name == "not_"
        return negated and self._is_amp(children(guard)[0])


def is_amp_term(term: Term) -> bool:
    """Whether an expression holds something of AMP."""
    return term == ERASED or any(map(is_amp_term, children(term)))


def _reason(side: Side, mark: Mark, how: str) -> str:
    return f"line {side.line(mark.node)}: `{shown(side, mark.node)}` {how}"


def _stars(before: Side, after: Side, name: str) -> Iterator[str]:
    """``from x import *`` may give any name another meaning."""
    if before.effects[name].stars != after.effects[name].stars:
        line = before.line(before.units[name])
        yield f"line {line}: what `{name}` imports by `*` is other than before"


# --- what was not followed ----------------------------------------------------------------------


def unread_events(before: Side, after: Side) -> Iterator[str]:
    """Events that the traces of one text hold, and those of the other do not.

    They stand on paths that were not followed, or are not taken for events there.
    """
    for one, other in ((before, after), (after, before)):
        for name in common(one.units, other.units):
            texts = {compact(other, mark.node) for mark in _marks(other, name)}
            calls = {compact(one, e.node): e.node for e in one.effects[name].done}
            own = {compact(one, mark.node) for mark in _marks(one, name)}
            for text in common(calls, texts - own):
                yield f"line {one.line(calls[text])}: `{shown(one, calls[text])}` is another call"
            left = _missed(other, name)
            for key, mark in _missed(one, name).items():
                if key not in left:
                    yield _reason(one, mark, "is on no path that was followed")


def _missed(side: Side, name: str) -> dict[object, Mark]:
    """The events of a function that are in no trace."""
    found: dict[object, Mark] = {}
    for mark in _marks(side, name):
        if (side.line(mark.node), side.model.tree.source(mark.node)) not in side.tracer.followed:
            found[mark.kind, mark.about, mark.guards, mark.given] = mark
    return found


# --- order --------------------------------------------------------------------------------------


def _order(before: Side, after: Side, name: str) -> Iterator[str]:
    """Events but those of a scaler must stand among the ordinary calls as they stood."""
    old, new = before.effects[name], after.effects[name]
    paired = [p for p in pairings(old.done, new.done) if None not in p]
    kept = [(i, j) for i, j in paired if i is not None and j is not None]
    kept = [(i, j) for i, j in kept if old.done[i].kind != Kind.BACKWARD.value]
    one = _places(old.marks, [i for i, _ in kept])
    other = _places(new.marks, [j for _, j in kept])
    for key in common(one, other):
        places = [place for place, _ in one[key]], [place for place, _ in other[key]]
        if Counter(places[0]) - Counter(places[1]) and Counter(places[1]) - Counter(places[0]):
            mark = next(m for place, m in other[key] if place not in places[0])
            yield _reason(after, mark, "was moved over a call")


def _places(
    marks: Iterable[Mark], kept: list[int]
) -> dict[tuple[str, str], list[tuple[frozenset[int], Mark]]]:
    """For each of those events the ordinary effects, by their number, that come before it."""
    found: dict[tuple[str, str], list[tuple[frozenset[int], Mark]]] = defaultdict(list)
    for mark in marks:
        if mark.kind in _CORE or mark.kind in _ON_GRADIENTS:
            ahead = frozenset(n for n, index in enumerate(kept) if index < mark.before)
            found[mark.kind, mark.about].append((ahead, mark))
    return found


# --- autocast -----------------------------------------------------------------------------------


def _yields(before: Side, after: Side, name: str) -> Iterator[str]:
    """What is active at a ``yield`` is active in the code that runs in between."""
    old, new = (
        [m for m in side.effects[name].marks if m.kind == "yield" and m.regions]
        for side in (before, after)
    )
    for mark in new[len(old) :]:
        yield _reason(after, mark, "leaves the function inside a region")


def regions(before: Side, after: Side, entered: set[str]) -> Iterator[str]:
    """Where an old region raises instead of being entered, it must be around what it was."""
    for name in common(before.units, after.units):
        old, new = before.effects[name].contexts, after.effects[name].contexts
        lost = [node for node in old if before.model.regions.of(node) is None]
        if not lost and name not in entered:
            continue
        node = (*lost, *old, before.units[name])[0]
        if len(old) != len(new):
            yield f"line {before.line(node)}: a region was added or removed"
        elif _inside(before, name) != _inside(after, name):
            yield f"line {before.line(node)}: a region encloses other code than before"


def _inside(side: Side, name: str) -> Counter[object]:
    """How often each operation and event runs in each region of a function."""
    found = side.effects[name]
    events: list[object] = [(m.kind, m.about, m.regions) for m in found.marks if m.kind in _CORE]
    return Counter(events + [(found.terms[key], inside) for key, inside in found.regions.items()])


_CHECKS = (
    redeclared,
    _arguments,
    _objects,
    _guards,
    _polarities,
    _order,
    _yields,
    _stars,
    erasures,
)
