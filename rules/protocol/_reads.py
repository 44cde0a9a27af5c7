"""Looks at gradients that are still multiplied by the loss scale: for a log, or for a test."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass

import libcst as cst

from amp_lint.amp.events import Event, Kind
from amp_lint.flow.values import arguments, literal
from amp_lint.model import Model
from amp_lint.syntax.assignments import targets_of
from amp_lint.syntax.tree import descendants
from amp_lint.vocabulary.kernels import DIVIDE, MULTIPLY
from amp_lint.vocabulary.purity import DIVIDED, MULTIPLIED
from amp_lint.vocabulary.training import WATCHED_GRADIENTS, WATCHES
from amp_lint.vocabulary.written import NOT_FINITE, reads_scale
from amp_lint.walk.clips import clip_limit, is_infinite
from amp_lint.walk.mistake_rows import SCALED_ADDITION, SCALED_READ
from amp_lint.walk.paths import Cycle
from amp_lint.walk.relevance import FINITE
from amp_lint.walk.steps import Root
from amp_lint.walk.unscale_places import UnscalePlace

_LIMITING = frozenset({Kind.CLIP, Kind.GRADIENT_READ, Kind.GRADIENT_WRITE, Kind.OPAQUE})
"""What may limit gradients, or is there for that."""
_BY_SCALE = (cst.Multiply, cst.Divide)
_PRODUCTS = frozenset({MULTIPLY, MULTIPLIED, DIVIDE, DIVIDED})
_RUNS = frozenset({"wandb.init"})


@dataclass(frozen=True, slots=True)
class ScaledRead:
    """A look at scaled gradients, on some feasible path."""

    call: cst.Call
    backward: Event
    step: Event | None
    place_for_unscale: UnscalePlace | None
    hides: str
    """What it also replaces, inf or NaN, so that no scaler sees it; "" if nothing."""


@dataclass(frozen=True, slots=True)
class Addition:
    """What is added to scaled gradients, on some feasible path, and is not scaled itself."""

    node: cst.CSTNode
    backward: Event
    step: Event
    place_for_unscale: UnscalePlace | None


@dataclass(frozen=True, slots=True)
class Watch:
    """A call that has gradients logged as soon as backward makes them."""

    call: cst.Call
    cause: cst.CSTNode
    """Where a loss is scaled, or else what makes the scaler."""


class Reads:
    """Looks for reads in the wrong state among the cycles of a file."""

    def __init__(self, model: Model) -> None:
        self.tree = model.linked
        self.names = model.names
        self.values = model.values
        self.origins = model.origins
        self.steps = model.steps
        self.places = model.places
        self.clips = model.clips

    @functools.cached_property
    def scaled(self) -> list[ScaledRead]:
        """Every look at scaled gradients, once, in source order."""
        found: dict[int, ScaledRead] = {}
        for root in self.steps.roots:
            for cycle in root.cycles:
                for event, backward, step in self._wrong(cycle):
                    if id(event.node) not in found and not self._is_exempt(event):
                        found[id(event.node)] = self._describe(event, backward, step, root)
        for event, backward, step in self.clips.loose_reads:
            if not self._is_exempt(event):
                read = self._describe(event, backward, step, None)
                found.setdefault(id(event.node), read)
        return sorted(found.values(), key=lambda read: self.tree.order(read.call))

    @functools.cached_property
    def added(self) -> list[Addition]:
        """The weights, or random numbers, where they are added to scaled gradients."""
        found: dict[int, Addition] = {}
        for root in self.steps.roots:
            for cycle in root.cycles:
                for index, (event, state) in enumerate(self.steps.states(cycle)):
                    backward = SCALED_ADDITION.judge(event, state)
                    step = next((e for e in cycle[index:] if e.kind is Kind.STEP), None)
                    if backward is None or step is None or step.scaler is None:
                        continue
                    if self.tree.is_own(event.place) and self._adds_unscaled(event.node):
                        place = self.places.before(event, root)
                        made = Addition(event.place, backward, step, place)
                        found.setdefault(id(event.place), made)
        return sorted(found.values(), key=lambda each: self.tree.order(each.node))

    def _adds_unscaled(self, write: cst.CSTNode) -> bool:
        """Whether what is added is not scaled, where nothing corrects it by the scale."""
        gradients = self.steps.recognizer.gradients
        corrects = self._uses_scale(self.tree.ancestor(write, cst.FunctionDef))
        return not corrects and gradients.adds_unscaled(self.tree, write)

    @functools.cached_property
    def watched(self) -> list[Watch]:
        """Calls of `wandb.watch` for gradients, in a file that scales losses or makes what does.

        Or of that method of a run of wandb, or of what is given an argument that only it has.
        """
        calls = [call for call in self.tree.nodes(cst.Call) if self._is_watch(call)]
        cause = self._scaling() if calls else None
        if cause is None:
            return []
        return [Watch(call, cause) for call in calls if self._logs_gradients(call)]

    def _scaling(self) -> cst.CSTNode | None:
        scaled = [e.place for e in self.steps.backwards if e.scaler is not None]
        made = (
            call for call in self.steps.roles.scaler_calls if not self.steps.roles.is_never_on(call)
        )
        updates = self.steps.recognizer.updates
        owners = filter(None, map(self.values.enclosing_class, updates))
        wrapped = (call for owner in owners for call in self.origins.constructions(owner))
        return next(filter(self.tree.is_own, (*scaled, *made, *wrapped)), None)

    def _is_watch(self, call: cst.Call) -> bool:
        if self.names.is_only(call.func, WATCHES):
            return True
        if not isinstance(call.func, cst.Attribute) or call.func.attr.value != "watch":
            return False
        made = self.values.alternatives(call.func.value)
        runs = (each for each in made if isinstance(each, cst.Call))
        if any(self.names.is_any(each.func, _RUNS) for each in runs):
            return True
        log = arguments(call).get(None, "log")
        known = self.steps.program.target(call) is not None
        return not known and log is not None and literal(log) in WATCHED_GRADIENTS

    def _logs_gradients(self, call: cst.Call) -> bool:
        given = arguments(call)
        log = given.get(2, "log")
        return not given.starred and (log is None or literal(log) in WATCHED_GRADIENTS)

    def _wrong(self, cycle: Cycle) -> Iterator[tuple[Event, Event, Event | None]]:
        """Each look at scaled gradients, with the backward, and the step that divides by it."""
        for index, (event, state) in enumerate(self.steps.states(cycle)):
            backward = SCALED_READ.judge(event, state)
            if backward is not None and self._is_read(event):
                step = next((e for e in cycle[index:] if e.kind is Kind.STEP), None)
                if step is None or step.scaler:
                    yield event, backward, step

    def _is_read(self, event: Event) -> bool:
        """Whether an event does nothing to gradients but measure them."""
        if event.kind is Kind.CLIP:
            assert isinstance(event.node, cst.Call)
            limit = clip_limit(self.steps.recognizer.direct(event.node))
            used = not isinstance(self.tree.parent(event.node), cst.Expr)
            return used and limit is not None and is_infinite(limit)
        return event.kind in (Kind.GRADIENT_READ, Kind.GRADIENT_REPAIR)

    def _describe(
        self, event: Event, backward: Event, step: Event | None, root: Root | None
    ) -> ScaledRead:
        assert isinstance(event.node, cst.Call)
        hides = self._replaced(event.node) if event.kind is Kind.GRADIENT_REPAIR else ""
        place = self.places.before(event, root) if root is not None else None
        return ScaledRead(event.node, backward, step, place, hides)

    def _replaced(self, repair: cst.Call) -> str:
        """What a call puts other numbers in the place of: NaN alone, if it asks for that alone."""
        names = {part.value for part in descendants(repair) if isinstance(part, cst.Name)}
        return "NaN" if names & NOT_FINITE == {"isnan"} else "inf and NaN"

    # --- looks that are right -----------------------------------------------------------------

    def _is_exempt(self, event: Event) -> bool:
        """Whether what is read is corrected by the scale, or matters only if it is not finite."""
        assert isinstance(event.node, cst.Call)
        target = self.steps.program.target(event.node)
        homes = [self.tree.ancestor(event.node, cst.FunctionDef), *([target] if target else [])]
        if any(map(self._uses_scale, homes)) or self._asks_if_finite(event.node):
            return True
        inside = self._measured_by(target) if target and event.kind is Kind.GRADIENT_READ else []
        return bool(inside) and all(map(self._asks_if_finite, inside))

    def _measured_by(self, function: cst.FunctionDef) -> list[cst.Call]:
        """The measures that a function takes of gradients, or those that it calls."""
        program, recognizer = self.steps.program, self.steps.recognizer
        todo = [function]
        found: list[cst.Call] = []
        for each in todo:  # grows while it is read
            calls = self.tree.below(each, cst.Call)
            found += (call for call in calls if recognizer.kind(call) is Kind.GRADIENT_READ)
            called = filter(None, map(program.target, calls))
            todo += (one for one in dict.fromkeys(called) if one not in todo)
        return found

    def _uses_scale(self, home: cst.FunctionDef | None) -> bool:
        """Whether something is multiplied or divided by the scale in a function, or outside of all.

        Or by what is computed from the scale.
        """
        for node in descendants(self.tree.module if home is None else home.body):
            if isinstance(node, cst.BinaryOperation) and isinstance(node.operator, _BY_SCALE):
                parts = [node.left, node.right]
            elif isinstance(node, cst.AugAssign):
                parts = [node.value]
            elif (
                isinstance(node, cst.Call)
                and isinstance(node.func, cst.Attribute)
                and node.func.attr.value in _PRODUCTS
            ):
                parts = [each.value for each in node.args]
            else:
                continue
            if any(map(self._is_scale, parts)) and (
                home is not None or self.tree.ancestor(node, cst.FunctionDef) is None
            ):
                return True
        return False

    def _is_scale(self, node: cst.BaseExpression) -> bool:
        return any(
            isinstance(part, cst.Attribute) and reads_scale(part.attr.value)
            for value in self.values.alternatives(node)
            for part in descendants(value)
        )

    def _asks_if_finite(self, node: cst.Call) -> bool:
        """Whether nothing is done with a number but to ask whether it is finite."""
        if self._is_tested(node):
            return True
        target = next(iter(targets_of(self.tree, node)), None)
        if not isinstance(target, cst.Name):
            return False
        home = self.tree.ancestor(node, cst.FunctionDef) or self.tree.module
        uses = [
            name
            for name in self.tree.named(target.value)
            if name is not target and self.tree.contains(home, name) and not self._is_attr(name)
        ]
        return all(map(self._is_tested, uses))

    def _is_attr(self, name: cst.Name) -> bool:
        """Whether a name is that of an attribute, such as ``norm`` of ``torch.norm``."""
        holder = self.tree.parent(name)
        return isinstance(holder, cst.Attribute) and holder.attr is name

    def _is_tested(self, node: cst.BaseExpression) -> bool:
        """Whether an expression is an argument of ``isfinite``, ``isinf`` or ``isnan``.

        Or is compared with 0, divided by another measure, or what gradients are divided by: the
        scale does not change that.
        """
        for holder in self.tree.ancestors(node):
            if isinstance(holder, cst.Comparison) and self._is_with_zero(holder):
                return True
            if isinstance(holder, cst.BinaryOperation) and (
                self._is_ratio(holder) or self._is_direction(holder, node)
            ):
                return True
            if isinstance(holder, cst.Call) and FINITE.search(self.tree.source(holder.func)):
                return True
            if isinstance(holder, (cst.BaseStatement, cst.BaseSmallStatement)):
                return False
        return False

    def _is_with_zero(self, comparison: cst.Comparison) -> bool:
        return any(literal(each.comparator) == 0 for each in comparison.comparisons)

    def _is_ratio(self, operation: cst.BinaryOperation) -> bool:
        measure = self.steps.recognizer.gradients.is_measure
        return isinstance(operation.operator, cst.Divide) and all(
            any(isinstance(part, cst.Call) and measure(part) for part in descendants(side))
            for side in (operation.left, operation.right)
        )

    def _is_direction(self, operation: cst.BinaryOperation, measure: cst.CSTNode) -> bool:
        """``p.grad / norm``, where it is not what a step takes then, which divides by the scale."""
        if not isinstance(operation.operator, cst.Divide):
            return False
        gradients = self.steps.recognizer.gradients
        if not self.tree.contains(operation.right, measure) or not gradients.holds(operation.left):
            return False
        home = self.tree.ancestor(operation, cst.FunctionDef) or self.tree.module
        return not any(map(self._is_written, self._events_in(home)))

    def _events_in(self, home: cst.CSTNode) -> Iterator[cst.CSTNode]:
        nodes = self.steps.recognizer.event_nodes()
        return (node for node in nodes if self.tree.contains(home, node))

    def _is_written(self, node: cst.CSTNode) -> bool:
        """Whether an event gives gradients other numbers."""
        kind = self.steps.recognizer.kind(node) if isinstance(node, cst.Call) else None
        return kind is Kind.GRADIENT_WRITE or not isinstance(node, cst.Call)


class LimitedSteps:
    """The steps of scalers, and those without one with a clip before each, on the paths met."""

    def __init__(self, model: Model) -> None:
        self.scaled: dict[int, Event] = {}
        self.plain: list[tuple[Event, Event]] = []
        self.limited: set[int] = set()
        """Ids of the nodes of steps of scalers before which something may limit gradients."""
        self.cut: set[int] = set()
        """The same of steps that other paths may lead to, which were not met."""
        for root in model.steps.roots:
            for cycle in root.cycles:
                self._add(cycle, root.truncated)

    def _add(self, cycle: Cycle, truncated: bool) -> None:
        before: list[Event] = []
        for event in cycle:
            if event.kind is Kind.STEP and event.scaler is None:
                self.plain += [(event, each) for each in before if each.kind is Kind.CLIP]
            elif event.kind is Kind.STEP:
                self.scaled.setdefault(id(event.node), event)
                self.limited |= {id(event.node)} if before else set()
                self.cut |= {id(event.node)} if truncated else set()
            before += [event] if event.kind in _LIMITING else []


class Unmet:
    """What may limit gradients, by its place alone: for paths that were not met."""

    def __init__(self, model: Model) -> None:
        self.tree = model.linked
        self.flow = model.flow
        self.program = model.steps.program
        self.recognizer = model.steps.recognizer

    def has_none(self, step: Event) -> bool:
        """Whether the function of a step goes backward itself, and all such there excludes it."""
        home = self.program.function_of(step.node)
        if home is None or not any(map(self._goes_backward, self.tree.below(home, cst.Call))):
            return False
        inside = (node for node in self._nodes if self.program.function_of(node) is home)
        calls = (call for call in self.tree.below(home, cst.Call) if self._runs_one(call))
        return all(self.flow.exclusive(step.node, node) for node in (*inside, *calls))

    def _goes_backward(self, call: cst.Call) -> bool:
        return self.recognizer.kind(call) is Kind.BACKWARD

    def _runs_one(self, call: cst.Call) -> bool:
        """Whether a call runs a function in which something may limit gradients."""
        return id(self.program.target(call)) in self._running

    @functools.cached_property
    def _nodes(self) -> list[cst.CSTNode]:
        """All that may limit gradients, or hands them on."""
        events = self.recognizer.event_nodes()
        return [node for node in events if self._limits(node)]

    def _limits(self, node: cst.CSTNode) -> bool:
        """Whether an event does; what is assigned to gradients always may."""
        kind = self.recognizer.kind(node) if isinstance(node, cst.Call) else Kind.GRADIENT_WRITE
        return kind in _LIMITING

    @functools.cached_property
    def _running(self) -> frozenset[int]:
        """Ids of the functions in which there is such a place."""
        return self.program.running(self._nodes)
