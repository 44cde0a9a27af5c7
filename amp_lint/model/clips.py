"""Gradient clips that are reached with scaled gradients, and where an unscale_ would go."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass

import libcst as cst

from amp_lint.model.conditions import is_mode_test, text
from amp_lint.model.events import Event, Kind, mentions_scale
from amp_lint.model.names import dotted
from amp_lint.model.paths import Cycle, last_name
from amp_lint.model.protocol import State, replay
from amp_lint.model.roles import Roles
from amp_lint.model.steps import Root, Steps
from amp_lint.model.values import Values, arguments, literal
from amp_lint.tree import Tree, descendants

INITIAL_SCALE = 65536.0
_LIMITS = {"clip_grad_value_": "clip_value", "clip_grads_with_norm_": "max_norm"}
_INFINITE = frozenset({"inf", "infty", "Infinity"})


@dataclass(frozen=True, slots=True)
class Place:
    """Where ``unscale_`` can be called so that the clip sees true gradients."""

    statement: cst.BaseStatement
    """The statement to insert before."""
    code: str
    guard: str | None
    """The test under which the scaler is in use, where the clip serves other modes too."""
    certain: bool


@dataclass(frozen=True, slots=True)
class ScaledClip:
    """A clip that some feasible path reaches with scaled gradients."""

    call: cst.Call
    function: str
    parameter: str
    backward: Event
    step: Event | None
    limit: float | None
    """The literal limit, if there is one."""
    scale: float
    """The scale at the start of a run."""
    place_for_unscale: Place | None

    @property
    def clips(self) -> bool:
        """Whether the call changes the gradients, and not only measures them."""
        return self.function != "get_total_norm"


class Clips:
    """Looks for clips in the wrong state among the cycles of a file."""

    def __init__(self, tree: Tree, values: Values, roles: Roles, steps: Steps) -> None:
        self.tree = tree
        self.values = values
        self.roles = roles
        self.steps = steps

    @functools.cached_property
    def scaled(self) -> list[ScaledClip]:
        """Every clip reached with scaled gradients, once, in source order."""
        found: dict[int, ScaledClip] = {}
        for root in self.steps.roots:
            for cycle in root.cycles:
                for clip, backward in self._wrong(root, cycle):
                    if id(clip.node) not in found:
                        found[id(clip.node)] = self._describe(clip, backward, root, cycle)
        return sorted(found.values(), key=lambda clip: self.tree.order(clip.call))

    def _wrong(self, root: Root, cycle: Cycle) -> Iterator[tuple[Event, Event]]:
        for index, (event, state) in enumerate(replay(cycle, self._entry(root, cycle))):
            if event.kind is Kind.CLIP and state.is_scaled and not self._is_exempt(event):
                assert state.scaled is not None
                step = next((e for e in cycle[index:] if e.kind is Kind.STEP), None)
                if step is None or step.scaler:  # else nothing divides by the scale any more
                    yield event, state.scaled

    def _is_exempt(self, clip: Event) -> bool:
        """A limit made from the scale is right; an infinite one only measures."""
        assert isinstance(clip.node, cst.Call)
        limit = clip_limit(clip.node)
        if limit is not None and is_infinite(limit):
            return True
        return mentions_scale(clip.node, self.values)

    def _entry(self, root: Root, cycle: Cycle) -> State:
        """The state a function is entered in: scaled, if it steps what another method scaled.

        Certain only when nothing in this file calls the function, it neither runs backward nor
        unscales, and no unscale_ stands anywhere else in the file.
        """
        if isinstance(root.function, cst.Module) or id(root.function) in self.steps.called:
            return State()
        kinds = {event.kind for event in cycle}
        if kinds & {Kind.BACKWARD, Kind.UNSCALE} or self._unscales:
            return State()
        scalers = {e.scaler for e in cycle if e.kind is Kind.STEP and e.scaler}
        names = {last_name(scaler) for scaler in scalers}
        return State(next((e for e in self._scalings if last_name(e.scaler or "") in names), None))

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
        call = clip.node
        assert isinstance(call, cst.Call)
        following = cycle[cycle.index(clip) :]
        step = next((e for e in following if e.kind is Kind.STEP and e.scaler), None)
        name = (dotted(call.func) or "").rpartition(".")[2]
        limit = literal(clip_limit(call))
        return ScaledClip(
            call=call,
            function=name,
            parameter=_LIMITS.get(name, "max_norm"),
            backward=backward,
            step=step,
            limit=float(limit) if isinstance(limit, (int, float)) else None,
            scale=self._initial_scale(backward),
            place_for_unscale=self._place(clip, root),
        )

    def _initial_scale(self, backward: Event) -> float:
        for call in self.roles.scaler_calls():
            given = arguments(call)
            scale = literal(given.get(None, "init_scale"))
            if isinstance(scale, (int, float)) and scale > 0:
                return float(scale)
        return INITIAL_SCALE

    def _place(self, clip: Event, root: Root) -> Place | None:
        """Before the clip, if the gradients of just one optimizer are stepped after it.

        Clips that run before the same step share one place, before the first of them. None where
        an inserted call could run twice before ``update``, which raises.
        """
        cycles, clips = self._together(clip)
        steps = {
            id(e.node): e for cycle in cycles for e in cycle if e.kind is Kind.STEP and e.scaler
        }
        if len(steps) != 1 or any(e.kind is Kind.UNSCALE for cycle in cycles for e in cycle):
            return None
        (step,) = steps.values()
        if any(self._runs_again(clip, step, cycle) for cycle in cycles):
            return None
        if any(_comes_before(step, clip, cycle) for cycle in cycles):
            return None
        assert isinstance(step.node, cst.Call) and isinstance(step.node.func, cst.Attribute)
        given = arguments(step.node)
        if not given.positional:
            return None
        scaler = self.tree.source(step.node.func.value)
        code = f"{scaler}.unscale_({self.tree.source(given.positional[0])})"
        block = self._block(step.node)
        statement = self._statement(clips, step, block)
        if statement is not None:
            return Place(statement, code, None, certain=not root.truncated)
        return self._guarded(clips, step, code)

    def _together(self, clip: Event) -> tuple[list[Cycle], list[cst.CSTNode]]:
        """The cycles in which a clip runs, and the clips in them, the given one first."""
        nodes = {id(clip.node): clip.node}
        while True:
            cycles = [
                cycle
                for root in self.steps.roots
                for cycle in root.cycles
                if any(id(event.node) in nodes for event in cycle)
            ]
            found = {id(e.node): e.node for c in cycles for e in c if e.kind is Kind.CLIP}
            if len(found) == len(nodes):
                return cycles, list(nodes.values())
            nodes |= found

    def _runs_again(self, clip: Event, step: Event, cycle: Cycle) -> bool:
        """Whether the clip runs twice before an update, or may: it is left without any."""
        places = [index for index, event in enumerate(cycle) if event.node is clip.node]
        if len(places) > 1:
            return True
        ended = {event.kind for index in places for event in cycle[index:]}
        return not ended & {Kind.STEP, Kind.UPDATE} and self._leaves_between(clip.node, step)

    def _guarded(self, clips: list[cst.CSTNode], step: Event, code: str) -> Place | None:
        """The clip is common to two modes, the step belongs to one: unscale in that one only."""
        guard = self.tree.ancestor(step.node, cst.If)
        block = self._block(step.node)
        if guard is None or block is not guard.body or not is_mode_test(guard.test):
            return None
        statement = self._statement(clips, step, self._block(guard))
        if statement is None:
            return None
        return Place(statement, code, text(guard.test), certain=False)

    def _statement(
        self, clips: list[cst.CSTNode], step: Event, block: cst.CSTNode | None
    ) -> cst.BaseStatement | None:
        """The statement before which a line runs once for each run of ``block``, before all clips.

        As near to the clips as can be. None if there is no such place after the backward.
        """
        for inner in self._blocks_up_to(block, clips[0]):
            if all(self.tree.contains(inner, clip) for clip in clips):
                break
        else:
            return None
        assert isinstance(inner, (cst.IndentedBlock, cst.Module))
        statement = next(s for s in inner.body if any(self.tree.contains(s, c) for c in clips))
        if isinstance(statement, cst.SimpleStatementLine):
            return statement if len(statement.body) == 1 else None
        if self.steps.relevance.has_backward(statement) or self._leaves_between(statement, step):
            return None
        return statement if isinstance(statement, cst.BaseStatement) else None

    def _blocks_up_to(self, block: cst.CSTNode | None, node: cst.CSTNode) -> list[cst.CSTNode]:
        """The blocks around ``node`` up to ``block``, innermost first, that no loop repeats.

        [] if ``node`` is not in ``block`` or in another function.
        """
        found: list[cst.CSTNode] = []
        for holder in self.tree.ancestors(node):
            if isinstance(holder, (cst.FunctionDef, cst.Lambda)):
                return []
            if isinstance(holder, (cst.For, cst.While)):
                found.clear()
            if isinstance(holder, (cst.IndentedBlock, cst.Module)):
                found.append(holder)
            if holder is block:
                return found
        return []

    def _leaves_between(self, statement: cst.CSTNode, step: Event) -> bool:
        """Whether something may leave between a statement and the step: then no update follows."""
        first, last = self.tree.order(statement), self.tree.order(step.node)
        return any(
            first < self.tree.order(node) < last
            for kind in (cst.Continue, cst.Break, cst.Return)
            for node in self.tree.nodes(kind)
        )

    def _block(self, node: cst.CSTNode) -> cst.CSTNode | None:
        return self.tree.ancestor(node, cst.IndentedBlock, cst.Module)


def _comes_before(one: Event, other: Event, cycle: Cycle) -> bool:
    """Whether both are in a cycle, in this order."""
    nodes = [event.node for event in cycle]
    if one.node not in nodes or other.node not in nodes:
        return False
    return nodes.index(one.node) < nodes.index(other.node)


def clip_limit(call: cst.Call) -> cst.BaseExpression | None:
    """The argument of a clip that says how large gradients may be."""
    given = arguments(call)
    return given.get(1, None) or given.get(None, "max_norm") or given.get(None, "clip_value")


def is_infinite(node: cst.BaseExpression) -> bool:
    """``float("inf")``, ``math.inf``, ``torch.inf``."""
    value = literal(node)
    if value is not ...:
        return value == float("inf")
    parts = (part for part in descendants(node))
    return any(
        (isinstance(part, cst.Attribute) and part.attr.value in _INFINITE)
        or (isinstance(part, cst.SimpleString) and part.evaluated_value in _INFINITE)
        for part in parts
    )
