"""Gradient clips that are reached with scaled gradients."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass

import libcst as cst

from amp_lint.amp.events import Event, Kind, mentions_scale, stepped
from amp_lint.amp.roles import Roles
from amp_lint.flow.conditions import text
from amp_lint.flow.origins import Origin, Origins
from amp_lint.flow.values import Values, arguments, literal
from amp_lint.syntax.memo import per_node
from amp_lint.syntax.names import dotted
from amp_lint.syntax.tree import Tree, descendants
from amp_lint.vocabulary.meaning import Part
from amp_lint.vocabulary.table import rows
from amp_lint.vocabulary.training import CLIP_NORM, TOTAL_NORM
from amp_lint.walk.gradients import Gradients
from amp_lint.walk.mistake_rows import LOOSE_CLIP, LOOSE_READ, SCALED_CLIP, Row
from amp_lint.walk.paths import Cycle, last_name
from amp_lint.walk.steps import Root, Steps
from amp_lint.walk.unscale_places import UnscalePlace, UnscalePlaces

INITIAL_SCALE = 65536.0
_LIMITS = {
    word: limit
    for row in rows(Kind.CLIP)
    if (limit := row.keyword(Part.LIMIT))
    for word in row.words
}
_INFINITE = frozenset({"inf", "infty", "Infinity"})


@dataclass(frozen=True, slots=True)
class ScaledClip:
    """A clip that some feasible path reaches with scaled gradients."""

    call: cst.Call
    """The clip, or what runs it in another file."""
    function: str
    parameter: str
    backward: Event
    step: Event | None
    limit: float | None
    """The literal limit, if there is one."""
    scale: float
    """The scale at the start of a run."""
    place_for_unscale: UnscalePlace | None

    @property
    def clips(self) -> bool:
        """Whether the call changes the gradients, and not only measures them."""
        return self.function not in TOTAL_NORM.words


class Clips:
    """Looks for clips in the wrong state among the cycles of a file."""

    def __init__(
        self,
        tree: Tree,
        values: Values,
        origins: Origins,
        roles: Roles,
        steps: Steps,
        places: UnscalePlaces,
    ) -> None:
        self.tree = tree
        self.values = values
        self.names = values.names
        self.origins = origins
        self.roles = roles
        self.steps = steps
        self.places = places

    @functools.cached_property
    def scaled(self) -> list[ScaledClip]:
        """Every clip reached with scaled gradients, once, in source order."""
        found: dict[int, ScaledClip] = {}
        for root in self.steps.roots:
            for cycle in root.cycles:
                for clip, backward in self._wrong(root, cycle):
                    if id(clip.place) not in found and self._is_own(clip, backward):
                        found[id(clip.place)] = self._describe(clip, backward, root, cycle)
        return sorted(found.values(), key=lambda clip: self.tree.order(clip.call))

    @functools.cached_property
    def loose(self) -> list[tuple[Event, Event, Event]]:
        """Clips of what a framework scaled, once, with the backward and the step around each."""
        return [each for each in self._loose(LOOSE_CLIP) if not self._is_exempt(each[0].node)]

    @functools.cached_property
    def loose_reads(self) -> list[tuple[Event, Event, Event]]:
        """Looks at what a framework scaled, in the same way."""
        return self._loose(LOOSE_READ)

    def _loose(self, row: Row) -> list[tuple[Event, Event, Event]]:
        """Events that a row is about, once, with the backward and the step around each."""
        found: dict[int, tuple[Event, Event, Event]] = {}
        for cycle in (cycle for root in self.steps.roots for cycle in root.cycles):
            for event, backward, step in self._too_early(cycle, row):
                if self.tree.is_own(event.node) and self.tree.is_own(backward.node):
                    found.setdefault(id(event.node), (event, backward, step))
        return sorted(found.values(), key=lambda each: self.tree.order(each[0].node))

    def _too_early(self, cycle: Cycle, row: Row) -> Iterator[tuple[Event, Event, Event]]:
        for index, (event, state) in enumerate(self.steps.states(cycle)):
            backward = row.judge(event, state)
            if backward is None:
                continue
            step = next((e for e in cycle[index:] if e.kind is Kind.STEP), None)
            if step is None or step.scaler is not None:
                continue
            prepared = step.framework in (backward.framework, None)  # None: not in this file
            if prepared and self._may_be_scaled(backward):
                yield event, backward, step

    def _may_be_scaled(self, backward: Event) -> bool:
        """Whether a framework may scale losses in the precision that it is made with."""
        call, role = backward.node, backward.framework
        assert isinstance(call, cst.Call) and isinstance(call.func, cst.Attribute)
        return role is not None and self.roles.frameworks.may_scale(role, call.func.value)

    def _wrong(self, root: Root, cycle: Cycle) -> Iterator[tuple[Event, Event]]:
        for index, (event, state) in enumerate(self.steps.states(cycle, self._entry(root, cycle))):
            if event.kind is not Kind.CLIP:
                continue
            step = next((e for e in cycle[index:] if e.kind is Kind.STEP), None)
            if step is not None and not step.scaler:
                continue  # nothing divides by the scale any more
            backward = SCALED_CLIP.judge(event, state) or _before_other_step(state, step)
            backward = backward or self._of_another(event, state, cycle[index:])
            if backward is not None and not self._is_exempt(event.node):
                yield event, backward

    def _of_another(self, clip: Event, state: Gradients[Event], following: Cycle) -> Event | None:
        """The backward, if one optimizer is unscaled and modules of another one are clipped.

        Which modules they train is seen where they are made; the scaler steps the other one later.
        """
        if state.pending is None or state.touched or not state.divided:
            return None
        assert isinstance(clip.node, cst.Call)
        ready = [self._trained(each.node) for each in state.unscaled.values()]
        if not all(ready):
            return None
        scaled = self._modules(clip.node).difference(*ready)
        steps = (e for e in following if e.kind is Kind.STEP and e.scaler)
        later = (self._trained(step.node) for step in steps)
        return state.pending if any(each and each <= scaled for each in later) else None

    def _trained(self, call: cst.CSTNode) -> frozenset[Origin]:
        """The modules whose parameters the optimizer has that a call of the scaler is about."""
        optimizer = stepped(call) if isinstance(call, cst.Call) else None
        made = self.origins.makers(optimizer) if optimizer is not None else ()
        return self._modules(made[0]) if len(made) == 1 else frozenset()

    def _modules(self, call: cst.Call) -> frozenset[Origin]:
        """The modules whose ``parameters()`` are among the arguments of a call, each one object.

        Nothing where one of them is not known, or may be several.
        """
        found: set[Origin] = set()
        for part in (part for arg in call.args for part in self.tree.below(arg, cst.Call)):
            if isinstance(part.func, cst.Attribute) and not self.names.qualified(part.func):
                origin = self.origins.one(part.func.value)
                if origin is None:
                    return frozenset()
                found.add(origin)
        return frozenset(found)

    def _is_own(self, clip: Event, backward: Event) -> bool:
        """Whether the mistake is in this file, and not one within a file that it imports."""
        return self.tree.is_own(clip.place) and any(
            map(self.tree.is_own, (clip.node, backward.node))
        )

    @per_node
    def _is_exempt(self, clip: cst.CSTNode) -> bool:
        """A limit made from the scale is right; an infinite one only measures."""
        assert isinstance(clip, cst.Call)
        call = self.steps.recognizer.direct(clip)
        limit = clip_limit(call)
        if limit is not None and is_infinite(limit):
            return True
        return mentions_scale(call, self.values) or self._is_given_scale(clip)

    def _is_given_scale(self, clip: cst.Call) -> bool:
        """Whether the function that clips is called with the scale."""
        function = self.tree.ancestor(clip, cst.FunctionDef)
        calls = self.steps.program.calls_of(function) if function is not None else ()
        return any(mentions_scale(call, self.values) for call in calls)

    def _entry(self, root: Root, cycle: Cycle) -> Gradients[Event]:
        """The state a function is entered in: scaled, if it steps what another method scaled.

        Certain only when nothing in this file calls the function, it neither runs backward nor
        unscales, and no unscale_ stands anywhere else in the file.
        """
        if isinstance(root.function, cst.Module) or id(root.function) in self.steps.called:
            return self.steps.cleared
        kinds = {event.kind for event in cycle}
        if kinds & {Kind.BACKWARD, Kind.UNSCALE} or self._unscales:
            return self.steps.cleared
        scalers = {e.scaler for e in cycle if e.kind is Kind.STEP and e.scaler}
        names = {last_name(scaler) for scaler in scalers}
        scalings = (e for e in self._scalings if last_name(e.scaler or "") in names)
        return Gradients(pending=next(scalings, None))

    @functools.cached_property
    def _scalings(self) -> list[Event]:
        """Where losses are scaled: backward events, then calls of ``scale`` for want of one."""
        events = (e for root in self.steps.roots for cycle in root.cycles for e in cycle)
        found = [e for e in events if e.kind is Kind.BACKWARD and e.scaler]
        for call in self.tree.nodes(cst.Call):
            if self.steps.recognizer.is_scale(call):
                assert isinstance(call.func, cst.Attribute)
                found.append(Event(Kind.BACKWARD, call, scaler=text(call.func.value)))
        return found

    @functools.cached_property
    def _unscales(self) -> bool:
        """Whether anything in the file unscales, by whatever name."""
        return any(
            isinstance(call.func, cst.Attribute) and "unscale" in call.func.attr.value
            for call in self.tree.nodes(cst.Call)
        )

    # --- one finding --------------------------------------------------------------------------

    def _describe(self, clip: Event, backward: Event, root: Root, cycle: Cycle) -> ScaledClip:
        call, place = clip.node, clip.place
        assert isinstance(call, cst.Call) and isinstance(place, cst.Call)
        following = cycle[cycle.index(clip) :]
        steps = [e for e in following if e.kind is Kind.STEP and e.scaler]
        modules = self._modules(call)
        own = (e for e in steps if modules and self._trained(e.node) == modules)
        written = self.steps.recognizer.direct(call)
        name = (dotted(written.func) or "").rpartition(".")[2]
        limit = literal(clip_limit(written))
        return ScaledClip(
            call=place,
            function=name,
            parameter=_LIMITS.get(name, CLIP_NORM.keyword(Part.LIMIT)),
            backward=backward,
            step=next(own, next(iter(steps), None)),
            limit=float(limit) if isinstance(limit, (int, float)) else None,
            scale=self.initial_scale,
            place_for_unscale=self.places.before(clip, root),
        )

    @functools.cached_property
    def initial_scale(self) -> float:
        """The scale at the start of a run, if all scalers of the file start with one literal."""
        given = map(self.roles.initial_scale, self.roles.scaler_calls)
        scales = {literal(scale) if scale is not None else INITIAL_SCALE for scale in given}
        scale = scales.pop() if len(scales) == 1 else None
        return float(scale) if isinstance(scale, (int, float)) and scale > 0 else INITIAL_SCALE


def _before_other_step(state: Gradients[Event], step: Event | None) -> Event | None:
    """The backward, if the scaler has stepped, and the next step is that of another optimizer.

    What that one steps on is scaled, until the scaler divides it right before.
    """
    other = step is not None and bool(state.used) and state.is_scaled_for(step.optimizer)
    return state.waiting if other else None


def clip_limit(call: cst.Call) -> cst.BaseExpression | None:
    """The argument of a clip that says how large gradients may be."""
    given = arguments(call)
    named = (given.get(None, name) for name in _LIMITS.values())
    return given.get(1, None) or next(filter(None, named), None)


def is_infinite(node: cst.BaseExpression) -> bool:
    """``float("inf")``, ``math.inf``, ``torch.inf``."""
    value = literal(node)
    if value is not ...:
        return value == float("inf")
    parts = (part for part in descendants(node))
    return any(
        (isinstance(part, cst.Attribute) and part.attr.value in _INFINITE)
        or (
            isinstance(part, (cst.SimpleString, cst.ConcatenatedString))
            and part.evaluated_value in _INFINITE
        )
        for part in parts
    )
