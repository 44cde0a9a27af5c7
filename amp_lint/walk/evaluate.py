"""Runs the expressions of a path: the events in them, and the calls within the file."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, replace

import libcst as cst

from amp_lint.amp.events import EVERY, Event, Kind, Recognizer
from amp_lint.amp.gradient_values import is_limit
from amp_lint.amp.regions import Region, Regions
from amp_lint.amp.roles import Roles
from amp_lint.flow.branches import arms
from amp_lint.flow.conditions import (
    Equals,
    Formula,
    Not,
    Truthy,
    atoms,
    both,
    either,
    formula,
    is_mode_test,
    item_text,
    mentions,
    opposite,
    size,
    text,
)
from amp_lint.flow.program import Program
from amp_lint.flow.values import arguments, literal
from amp_lint.syntax.returns import returned
from amp_lint.syntax.tree import descendants, is_a, last_statement
from amp_lint.vocabulary.meaning import Part
from amp_lint.vocabulary.table import ROWS
from amp_lint.walk.gradients import LEAVING_SCALED, Left
from amp_lint.walk.paths import (
    Answer,
    Cycle,
    Environment,
    Exit,
    Frame,
    LeftStep,
    Path,
    Ref,
    Scaled,
    Value,
    events,
    ways,
)
from amp_lint.walk.relevance import Relevance

_CONSTANTS = frozenset({"None", "True", "False"})  # names to libcst
_KEYED = frozenset({cst.Name, cst.Attribute, cst.Subscript})
_LARGEST_TEST = 6  # parts of a test that a name is assigned, for it to be remembered
MAX_DEPTH = 5
"""Calls within calls that are followed."""
MAX_CYCLES = 256
"""Cycles that one event ends; but for a quarter, each holds an event in a state that is new."""

_IDLE = frozenset({Kind.ZERO_GRAD, Kind.OPAQUE})
"""Events that say nothing of one another before a backward: the last one stands for all."""
_RENEWING = frozenset(
    {Kind.BACKWARD, Kind.ZERO_GRAD, Kind.UNSCALE, Kind.GRADIENT_WRITE, Kind.OPAQUE}
)
"""Events after which nobody knows whether gradients that an update left are scaled."""
_NORMS = frozenset({Kind.CLIP, Kind.UNSCALE})
"""Events that give the norm of gradients: accelerate's clip unscales them."""
_FIRST = sorted({row.order[0] for row in ROWS if row.does and row.order})
"""What the first argument of an event may be called."""
_BEGINNINGS = frozenset({Kind.ZERO_GRAD, Kind.BACKWARD})
"""Events that begin the next cycle where no scaler takes part, and so nothing is updated."""


@dataclass(frozen=True, slots=True)
class Parts:
    """The parts of the model that running code needs."""

    program: Program
    roles: Roles
    regions: Regions
    recognizer: Recognizer
    relevance: Relevance
    exact: bool = False
    """Whether every ``zero_grad`` counts, to run the events and not only to judge their order."""
    whole: bool = False
    """Whether nothing ends a cycle but the end of the function."""


class Evaluator(ABC):
    """Evaluates expressions on paths. Statements are left to the class that runs them."""

    def __init__(self, parts: Parts) -> None:
        self.program = parts.program
        self.tree = parts.program.tree
        self.names = parts.program.names
        self.values = parts.program.values
        self.roles = parts.roles
        self.regions = parts.regions
        self.recognizer = parts.recognizer
        self.relevance = parts.relevance
        self.exact = parts.exact
        self.whole = parts.whole
        self.cycles: dict[tuple[int, ...], Cycle] = {}
        self._met: set[int] = set()
        """Ids of the histories in them: of each event in each state that it came in."""
        self._noted: dict[Event | None, int] = defaultdict(int)
        """How many of them an event ended; None is the end of the function."""
        self.merged = False
        """Whether paths that differ were taken for one."""
        self.events: dict[tuple[object, ...], Event] = {}
        self.early: dict[tuple[int, int], tuple[Event, Event]] = {}
        """Updates, each with what comes after it: what belongs before it, steps of a scheduler."""
        self.left: dict[int, LeftStep] = {}
        self.entered: set[int] = set()
        """Ids of the functions that were run in the place of a call."""

    @abstractmethod
    def block(self, body: object, paths: Iterable[Path], frame: Frame) -> list[Path]:
        """Run the statements of a body on every path; paths that left it come out as they are."""

    def frame(
        self,
        function: cst.FunctionDef | cst.Module,
        prefix: str = "",
        stack: tuple[int, ...] = (),
        calls: tuple[cst.Call, ...] = (),
    ) -> Frame:
        """A function about to be run."""
        local = self.names.local(function)
        return Frame(function, prefix, local, (*stack, id(function)), calls)

    def decorated(
        self, function: cst.FunctionDef | cst.Module, frame: Frame
    ) -> tuple[tuple[Region, Formula], ...]:
        """The region that a decorator puts around a function."""
        if isinstance(function, cst.Module):
            return ()
        region = self.regions.decorating(function)
        return ((region, self.enabled(region, Path.start(), frame)),) if region else ()

    def enabled(self, region: Region, path: Path, frame: Frame) -> Formula:
        """When the autocast of a region is on."""
        switch = True if region.enabled is None else self.formula(region.enabled, path, frame)
        chosen = [self._is_chosen(context, path, frame) for context in region.choices]
        return both(switch, either(*chosen)) if chosen else switch

    def _is_chosen(self, context: cst.BaseExpression, path: Path, frame: Frame) -> Formula:
        """When one of several contexts is taken, by the settings that decide it in a function."""
        if self.tree.ancestor(context, cst.FunctionDef) is not frame.function:
            return True
        tests = [(test, holds) for test, holds in arms(self.tree, context) if is_mode_test(test)]
        formulas = ((self.formula(test, path, frame), holds) for test, holds in tests)
        return both(*(part if holds else opposite(part) for part, holds in formulas))

    def close(self, path: Path, by: Event | None = None) -> None:
        """Note the cycles that are complete with a path, by an event or at the end of it all."""
        noted = self._noted[by]
        for way in ways(path.histories, MAX_CYCLES // 4 - noted):
            cycle = events(way)
            key = tuple(map(id, cycle))
            if not key or key in self.cycles:
                continue
            states = set(map(id, way))
            if 4 * noted >= MAX_CYCLES and (noted == MAX_CYCLES or states <= self._met):
                self.merged = True
                continue
            noted += 1
            self.cycles[key] = cycle
            self._met |= states
        self._noted[by] = noted

    # --- expressions --------------------------------------------------------------------------

    def is_hot(self, node: cst.CSTNode) -> bool:
        """Whether a node holds an event."""
        return id(node) in self.relevance.hot

    def evaluate(
        self, node: cst.BaseExpression, path: Path, frame: Frame
    ) -> list[tuple[Path, Value]]:
        """Run the events of an expression; the paths they lead to, each with the value."""
        if not self.is_hot(node):
            return [(path, self.value(node, path, frame))]
        if isinstance(node, cst.Lambda):
            return [(path, None)]
        if isinstance(node, cst.Call):
            return self._call(node, path, frame)
        if isinstance(node, cst.IfExp):
            return self._choice(node, path, frame)
        ends: list[tuple[Path, Value]] = [(path, None)]
        for child in self.relevance.expressions(node):
            ends = [
                (after, result if isinstance(result, Scaled) else value)
                for before, value in ends
                for after, result in self.evaluate(child, before, frame)
            ]
        return ends

    def _choice(self, node: cst.IfExp, path: Path, frame: Frame) -> list[tuple[Path, Value]]:
        condition = self.formula(node.test, path, frame)
        return [
            end
            for truth, arm in ((True, node.body), (False, node.orelse))
            for facts in path.facts.assume(condition, truth)
            for end in self.evaluate(arm, path._replace(facts=facts), frame)
        ]

    def _call(self, node: cst.Call, path: Path, frame: Frame) -> list[tuple[Path, Value]]:
        receiver = node.func.value if isinstance(node.func, cst.Attribute) else None
        ends: list[tuple[Path, Value, list[Value]]] = [(path, None, [])]
        if receiver is not None:
            ends = [(p, v, []) for p, v in self.evaluate(receiver, path, frame)]
        for arg in node.args:
            ends = [
                (after, owner, [*values, result])
                for before, owner, values in ends
                for after, result in self.evaluate(arg.value, before, frame)
            ]
        return [
            end for p, owner, values in ends for end in self._invoke(node, p, owner, values, frame)
        ]

    def _invoke(
        self, node: cst.Call, path: Path, owner: Value, values: list[Value], frame: Frame
    ) -> list[tuple[Path, Value]]:
        if self.recognizer.is_scale(node):
            assert isinstance(node.func, cst.Attribute)
            scaler = node.func.value
            ways = self._switched(scaler, path, frame)
            return [(way, self._scale(scaler, way, frame)) for way in ways]
        kind = self.recognizer.kind(node)
        if kind is not None:
            return [(self._happen(kind, node, path, owner, values, frame), None)]
        target = self.program.target(node)
        if target is not None and id(target) in self.recognizer.eventful:
            return self._inline(target, node, path, values, frame)
        scaled = next((v for v in (owner, *values) if isinstance(v, Scaled)), None)
        return [(self._entered_by(node, path, frame), scaled)]

    def _entered_by(self, node: cst.Call, path: Path, frame: Frame) -> Path:
        """The path after a call that may enter a region, or end one."""
        if (region := self.regions.entered_by(node)) is not None:
            return self.enter(region, path, frame)
        left = self.regions.left_by(node)
        known = left is not None and any(each.node is left.node for each, _ in path.regions[-1:])
        return path._replace(regions=path.regions[:-1]) if known else path

    def enter(self, region: Region, path: Path, frame: Frame) -> Path:
        """The path inside of a region."""
        enabled = self.enabled(region, path, frame)
        return path._replace(regions=(*path.regions, (region, enabled)))

    def _switched(self, scaler: cst.BaseExpression, path: Path, frame: Frame) -> list[Path]:
        """The paths on which a scaler is on, and off, if other tests look at what decides that."""
        made = self._constructors(scaler, frame)
        switches = [(self.roles.switch(origin), at) for origin, at in made]
        if len(switches) != 1 or switches[0][0] is None:
            return [path]
        condition = self.formula(switches[0][0], path, switches[0][1])
        if not self.relevance.branches(atoms(condition)):
            return [path]
        ways = (facts for truth in (True, False) for facts in path.facts.assume(condition, truth))
        return [path._replace(facts=facts) for facts in ways]

    def _scale(self, scaler: cst.BaseExpression, path: Path, frame: Frame) -> Value:
        """The scaled loss; nothing is scaled by a scaler that is off, or whose scale stays 1."""
        key = self.key(scaler, path, frame) or text(scaler)
        for origin, at in self._constructors(scaler, frame):
            scale = self.roles.initial_scale(origin)
            if scale is not None and literal(scale) == 1 and not self.recognizer.updates:
                return None
            if self._is_made_on(origin, path, at) is False:
                return Scaled(key, enabled=False)
        return Scaled(key, self._is_on(scaler, path, frame))

    def _is_on(self, scaler: cst.BaseExpression | None, path: Path, frame: Frame) -> bool | None:
        """Whether what a scaler may be was made enabled; None if this path does not tell."""
        made = self._constructors(scaler, frame) if scaler is not None else []
        known = {self._is_made_on(each, path, at) for each, at in made}
        return known.pop() if len(known) == 1 else None

    def _constructors(
        self, scaler: cst.BaseExpression, frame: Frame
    ) -> list[tuple[cst.Call, Frame]]:
        """What may have made a scaler, and where: a parameter was made by who calls.

        Where paths are exact, that is not followed: others may call, too.
        """
        node: cst.BaseExpression | None = scaler
        while node is not None and not (found := self.roles.scaler_origins(node)):
            called = frame.function
            if not isinstance(node, cst.Name) or not frame.calls or self.exact:
                return []
            assert isinstance(called, cst.FunctionDef)
            node = self.program.bind(called, frame.calls[-1]).get(node.value)
            frame = self._outer(called, frame)
        return [(each, frame) for each in found] if node is not None else []

    def _outer(self, called: cst.FunctionDef, frame: Frame) -> Frame:
        """The frame of who calls the function of a frame."""
        *calls, call = frame.calls
        prefix = frame.prefix.removesuffix(self._prefix(called, call))
        around = self.program.function_of(call) or self.tree.module
        return self.frame(around, prefix, frame.stack[:-2], tuple(calls))

    def _prefix(self, called: cst.FunctionDef, call: cst.Call) -> str:
        """What the keys of a function's local names have before them in a call."""
        return f"{called.name.value}@{self.tree.order(call)}:"

    def _is_made_on(self, constructor: cst.Call, path: Path, frame: Frame) -> bool | None:
        """Whether the test that a scaler is made enabled under is true; None if it may be both."""
        if self.roles.is_never_on(constructor):
            return False
        enabled = self.roles.switch(constructor)
        if enabled is None:
            return None
        condition = self.formula(enabled, path, frame)
        may = [truth for truth in (True, False) if path.facts.assume(condition, truth)]
        return may[0] if len(may) == 1 else None

    def _happen(
        self,
        kind: Kind,
        node: cst.Call,
        path: Path,
        owner: Value,
        values: list[Value],
        frame: Frame,
    ) -> Path:
        receiver = node.func.value if isinstance(node.func, cst.Attribute) else None
        name = self.key(receiver, path, frame) if receiver is not None else None
        first = self._first_key(node, path, frame)
        meaning = self.recognizer.meaning(node)
        match kind:
            case Kind.BACKWARD:
                scaled = next((v for v in (owner, *values) if isinstance(v, Scaled)), None)
                event = self._backward(node, scaled, path, frame)
                if scaled is None and self.recognizer.continues(node):
                    event = Event(Kind.OPAQUE, node)
                path = self.emit(path, event)
            case Kind.UNSCALE if meaning is not None and meaning.every:
                if not self._unscaled_others(node, path):
                    path = self.emit(path, Event(kind, node, name, EVERY, params=first))
            case Kind.UNSCALE if self._is_disabled(receiver, path):
                path = self.emit(path, Event(Kind.OPAQUE, node, optimizer=name))
            case Kind.UNSCALE | Kind.UPDATE:
                absent, varies = self._is_absent(name, path), self._varies(first, path)
                event = Event(kind, node, name, first, absent=absent, varies=varies)
                on = self._is_on(receiver, path, frame)
                path = self.emit(path, replace(event, enabled=on))
            case Kind.STEP:
                through = receiver is not None and self.roles.is_scaler(receiver)
                keys = (name, first) if through else (None, name)
                on = self._is_on(receiver, path, frame) if through else None
                path = self.emit(path, replace(self._step(node, *keys, path), enabled=on))
            case Kind.CLIP:
                path = self.emit(path, self._clipped(node, first, frame))
            case Kind.GRADIENT_READ | Kind.GRADIENT_REPAIR:
                path = self._read(node, path, frame, kind)
            case Kind.GRADIENT_WRITE:
                path = self._changed(node, path, frame, name)
            case _:
                owned = self.recognizer.framework(node)
                path = self.emit(path, Event(kind, node, optimizer=name, framework=owned))
        return self._updated(path) if kind is Kind.UPDATE else path

    def _backward(self, node: cst.Call, scaled: Scaled | None, path: Path, frame: Frame) -> Event:
        enabled = scaled.enabled if scaled else None
        scaler = scaled.scaler if scaled and enabled is not False else None
        idle = scaled.scaler if scaled and scaler is None else None
        if scaled is None and self.exact:
            idle = self._idle(path, frame)
        region, outer = self._active(path), self._active(path, 1)
        call, owner = self._through(node, frame), self.recognizer.framework(node)
        return Event(
            Kind.BACKWARD, node, scaler, region=region, outer=outer, through=call, framework=owner,
            enabled=enabled, idle=idle,
        )  # fmt: skip

    def _clipped(self, node: cst.Call, params: str | None, frame: Frame) -> Event:
        return Event(Kind.CLIP, node, params=params, through=self._through(node, frame))

    def _idle(self, path: Path, frame: Frame) -> str | None:
        """The only scaler, made in this function, that this path knows to be off.

        By a parameter that nothing else is assigned to: so it was off when it was made.
        """
        if len(self.roles.scaler_calls) != 1:
            return None
        (call,) = self.roles.scaler_calls
        holder, switch = self.roles.tree.parent(call), self.roles.switch(call)
        bound = self.names.bindings(switch) if isinstance(switch, cst.Name) else []
        if [each.kind for each in bound] != ["parameter"] or not isinstance(holder, cst.Assign):
            return None
        home = self.tree.ancestor(call, cst.FunctionDef)
        if home is not frame.function or self._is_made_on(call, path, frame) is not False:
            return None
        return self.key(holder.targets[0].target, path, frame)

    def _step(self, node: cst.Call, scaler: str | None, optimizer: str | None, path: Path) -> Event:
        region, absent = self._active(path), self._is_absent(scaler, path)
        varies, owner = self._varies(optimizer, path), self.recognizer.framework(node)
        return Event(
            Kind.STEP, node, scaler, optimizer, region,
            absent=absent, varies=varies, framework=owner,
        )  # fmt: skip

    def _unscaled_others(self, node: cst.Call, path: Path) -> bool:
        """Whether a framework unscales one optimizer by name, and did so with others before."""
        optimizer = self._unscaled(node)
        every = (e.node for e in path.trace if e.kind is Kind.UNSCALE and e.optimizer == EVERY)
        return optimizer is not None and not {*map(self._unscaled, every)} <= {None, optimizer}

    def _unscaled(self, node: cst.CSTNode) -> str | None:
        """The optimizer that a framework is told to unscale; None if it unscales all."""
        meaning = self.recognizer.meaning(node) if isinstance(node, cst.Call) else None
        if meaning is None or not isinstance(node, cst.Call):
            return None
        given = arguments(node).get(*meaning.place(Part.OPTIMIZER))
        return text(given) if given is not None else None

    def _through(self, node: cst.Call, frame: Frame) -> cst.Call | None:
        """The call of this file that led to a node of another one."""
        if self.tree.is_own(node):
            return None
        return next((call for call in reversed(frame.calls) if self.tree.is_own(call)), None)

    def _read(
        self, node: cst.Call, path: Path, frame: Frame, kind: Kind = Kind.GRADIENT_READ
    ) -> Path:
        """The path after gradients were looked at; as before it, where they are not scaled.

        What a helper looks at is read by the call in the function that ran backward.
        """
        backward = self._scaling(path)
        if backward is None:
            return path
        at = self._led(backward, frame) or node
        last = path.latest
        if last is not None and last.kind is kind and last.node is at:
            return path
        return self.emit(path, Event(kind, at))

    def _led(self, backward: Event, frame: Frame) -> cst.Call | None:
        """The call that led here from the function that ran backward; None within that itself."""
        home = self.tree.ancestor(backward.node, cst.FunctionDef)
        at_home = (c for c in frame.calls if self.tree.ancestor(c, cst.FunctionDef) is home)
        return next(at_home, None)

    def written(self, node: cst.CSTNode, path: Path, frame: Frame) -> Event:
        """A change of gradients, which is made by the call in the function that ran backward."""
        backward = self._scaling(path)
        led = self._led(backward, frame) if backward is not None else None
        return Event(Kind.GRADIENT_WRITE, node, through=led)

    def _changed(self, node: cst.Call, path: Path, frame: Frame, owner: str | None) -> Path:
        """The path after a call changed gradients, which looks at them if it limits them."""
        event = replace(self.written(node, path, frame), optimizer=owner)
        return self.emit(self._read(node, path, frame) if is_limit(node) else path, event)

    def _scaling(self, path: Path) -> Event | None:
        """The backward that left gradients scaled; if all events count, the last one anyway."""
        state = path.gradients
        left = (state.scaled_last or state.loose) if state.since <= LEAVING_SCALED else None
        return state.last if self.exact else left

    def _updated(self, path: Path) -> Path:
        """The path after an update, which ends its cycle."""
        if self.whole:
            return path
        update, kinds = path.latest, path.gradients.kinds
        trained, alone = Kind.BACKWARD in kinds, Kind.STEP in kinds
        self.close(path, update)
        if not trained and (path.updated is not None or not alone):
            return path.with_events()
        stepped = any(e.kind is Kind.STEP and e.scaler is not None for e in path.trace)
        path = path.with_events()._replace(updated=update, updated_alone=not trained)
        return path._replace(earlier=update if stepped else None)

    def _varies(self, key: str | None, path: Path) -> bool:
        """Whether each round of the loop around takes another object for a key."""
        return key is not None and any(mentions(key, name) for name in path.varying)

    def _is_disabled(self, scaler: cst.BaseExpression | None, path: Path) -> bool:
        """Whether a test of ``scaler.is_enabled()`` was false on this path: it does nothing."""
        asked = Truthy(f"{text(scaler)}.is_enabled()") if scaler is not None else True
        return not path.facts.assume(asked)

    def _is_absent(self, key: str | None, path: Path) -> bool:
        """Whether an object is known to be None."""
        return key is not None and not path.facts.assume(Not(Equals(key, None)))

    def _first_key(self, node: cst.Call, path: Path, frame: Frame) -> str | None:
        """The key of the first argument; for ``m.parameters()`` that of ``m``."""
        given = arguments(node)
        named = (given.get(0, name) for name in _FIRST)
        first = next((value for value in named if value is not None), None)
        if first is None:
            return None
        if isinstance(first, cst.Call):
            function = first.func
            if isinstance(function, cst.Attribute) and function.attr.value == "parameters":
                first = function.value
        known = self.key(first, path, frame)
        if known is not None:
            return known
        receiver = isinstance(frame.function, cst.FunctionDef) and self.program.receiver_name(
            frame.function
        )  # whose methods give the same to all of them
        names = {part.value for part in descendants(first) if isinstance(part, cst.Name)}
        is_local = not frame.local.isdisjoint(names - {receiver})
        return (frame.prefix if is_local else "") + text(first)

    def _active(self, path: Path, without: int = 0) -> Region | None:
        """The region whose autocast is on here: the innermost, unless it is off on this path.

        ``without`` as many of the innermost regions.
        """
        if len(path.regions) <= without:
            return None
        region, enabled = path.regions[-1 - without]
        return region if path.facts.assume(enabled) else None

    def emit(self, path: Path, event: Event) -> Path:
        """The path after one more event."""
        identity = (
            event.kind, id(event.node), event.scaler, event.optimizer, id(event.region),
            id(event.outer), event.params, id(event.through), event.absent, event.varies,
            event.enabled, event.idle,
        )  # fmt: skip
        event = self.events.setdefault(identity, event)
        self._note_early(path, event)
        self._note_left(path, event)
        if event.kind is Kind.BACKWARD and path.updated is not None:
            path = path._replace(updated=None)
        if event.kind is Kind.UPDATE or (event.kind in _RENEWING and path.left is not None):
            path = path._replace(left=self._beyond(path) if event.kind is Kind.UPDATE else None)
        state = path.gradients
        if event.kind in _IDLE and state.kinds <= _IDLE:
            kept = tuple(e for e in path.trace if e.kind is Kind.ZERO_GRAD and e is not event)
            return path.with_events(*(kept if self.exact else ()), event)
        stepped = Kind.STEP in state.kinds and not state.by_scaler
        if event.kind in _BEGINNINGS and stepped and not self.whole:
            self.close(path, event)
            return path.with_events(event)
        return path.after(event)

    def _note_early(self, path: Path, event: Event) -> None:
        """Note a step or update of a scaler that comes after the update of the same gradients.

        Or a step of a scheduler, which may come in the next round, before its update.
        """
        update = path.updated
        if update is None and event.kind is Kind.SCHEDULE and path.earlier is not None:
            self.early.setdefault((id(path.earlier.node), id(event.node)), (path.earlier, event))
        kinds = path.gradients.kinds
        if update is None or Kind.BACKWARD in kinds:
            return
        late = event.kind in (Kind.STEP, Kind.UPDATE) and event.scaler == update.scaler is not None
        late = late and Kind.OPAQUE not in kinds  # which makes no scheduler's step depend on it
        sets_scale = event.kind is Kind.UPDATE and event.optimizer is not None
        late = late and not path.updated_alone
        late = late and not sets_scale and not self._is_cleared(path, event)
        if late or event.kind is Kind.SCHEDULE:
            self.early.setdefault((id(update.node), id(event.node)), (update, event))

    def _beyond(self, path: Path) -> Left[Event] | None:
        """What an update leaves scaled; None if nobody knows which optimizers were stepped."""
        left = path.gradients.left()
        if left is not None and any(event.varies for event in path.trace):
            return None
        return left

    def _note_left(self, path: Path, event: Event) -> None:
        """Note a direct step on what an update left scaled, as it is another optimizer's."""
        direct = event.kind is Kind.STEP and event.scaler is None and event.framework is None
        left, update = path.left if direct and not event.varies else None, path.updated
        if left is not None and update is not None and left.is_scaled_for(event.optimizer):
            self.left.setdefault(id(event.node), LeftStep(left.backward, update, event))

    def _is_cleared(self, path: Path, late: Event) -> bool:
        """Whether the gradients that a step, or the one before an update, used were cleared."""
        state = path.gradients
        stepped = {*state.stepped, *state.direct}
        if late.kind is Kind.STEP:
            stepped.add(late.optimizer or "")
        return bool(stepped) and self.recognizer.are_cleared(state.cleared, stepped)

    # --- calls within the file ----------------------------------------------------------------

    def _inline(
        self,
        target: cst.FunctionDef,
        node: cst.Call,
        path: Path,
        values: list[Value],
        frame: Frame,
    ) -> list[tuple[Path, Value]]:
        if id(target) in frame.stack or len(frame.stack) > MAX_DEPTH:
            return [(path, None)]
        self.entered.add(id(target))
        prefix = frame.prefix + self._prefix(target, node)
        inner = self.frame(target, prefix, frame.stack, (*frame.calls, node))
        regions = (*path.regions, *self.decorated(target, inner))
        starts = self._bind(target, node, path, values, frame, inner)
        ends = self.block(target.body, [s._replace(regions=regions) for s in starts], inner)
        return [
            (end._replace(regions=path.regions).without(prefix), _outside(prefix, end.value))
            for end in ends
            if end.exit is not Exit.RAISE
        ]

    def _bind(
        self,
        target: cst.FunctionDef,
        node: cst.Call,
        path: Path,
        values: list[Value],
        outer: Frame,
        inner: Frame,
    ) -> list[Path]:
        """Give the parameters of a called function their values."""
        given = self.program.bind(target, node)
        results = {id(arg.value): value for arg, value in zip(node.args, values, strict=True)}
        env = Environment({**path.env, **self._receiver(target, node, path, outer, inner)})
        env |= {inner.prefix + n: results.get(id(argument)) for n, argument in given.items()}
        path = path._replace(env=env)
        for param in (*target.params.params, *target.params.kwonly_params):
            name = param.name.value
            known = given.get(name) or self.program.default(target, name)
            if known is not None and literal(known) is not ...:
                path = self.learn(inner.prefix + name, known, path)
        paths = [path]
        for name, argument in given.items():
            key = inner.prefix + name
            paths = [way for p in paths for way in self.learn_truth(key, argument, p, outer)]
        return paths

    # --- names of values ----------------------------------------------------------------------

    def value(self, node: cst.BaseExpression, path: Path, frame: Frame) -> Value:
        """What an expression without events stands for."""
        if type(node) in _KEYED:
            if type(node) is cst.Name and node.value in _CONSTANTS:
                return None
            key = self.own_key(node, path, frame)
            if key is not None:
                found = path.env.get(key)
                return found if found is not None else Ref(key)
        if type(node) is cst.Call:
            condition = self._called(node, path, frame)
            if condition is not None:
                return Answer(condition)
        if path.env.scaled:
            for part in self.relevance.expressions(node):
                inside = self.value(part, path, frame)
                if isinstance(inside, Scaled):
                    return inside
        return None

    def key(self, node: cst.BaseExpression, path: Path, frame: Frame) -> str | None:
        """The key of the object that an expression stands for, aliases followed."""
        value = self.value(node, path, frame)
        if isinstance(value, Answer):
            return self.own_key(node, path, frame)
        return value.key if isinstance(value, Ref) else None

    def own_key(self, node: cst.BaseExpression, path: Path, frame: Frame) -> str | None:
        """The key of a variable, attribute or item itself."""
        if type(node) is cst.Name:
            return frame.prefix + node.value if node.value in frame.local else self.names.key(node)
        if type(node) is cst.Attribute:
            base = self.key(node.value, path, frame)
            name = node.attr.value if self.exact else self.values.setting(node)
            return f"{base}.{name}" if base is not None else None
        if type(node) is cst.Subscript:
            base = self.key(node.value, path, frame)
            inner = ", ".join(
                item_text(e.slice.value) for e in node.slice if isinstance(e.slice, cst.Index)
            )
            return f"{base}[{inner}]" if base is not None and inner else None
        return None

    def formula(self, test: cst.BaseExpression, path: Path, frame: Frame) -> Formula:
        """The formula that a test stands for on a path."""
        return formula(
            test,
            lambda node: self.key(node, path, frame),
            self.values.constant,
            lambda node: self._answer(node, path, frame),
        )

    def besides(self, condition: Formula) -> Formula:
        """What is so on every path of the values that a test asks for."""
        return True if self.exact else self.program.choices.about(atoms(condition))

    def _answer(self, node: cst.BaseExpression, path: Path, frame: Frame) -> Formula | None:
        """The test that a value is the answer of; None if it is not known to be one."""
        value = self.value(node, path, frame)
        return value.condition if isinstance(value, Answer) else None

    def _called(self, call: cst.Call, path: Path, frame: Frame) -> Formula | None:
        """The test that a function answers, about what its caller can name; None if it is none."""
        target, test = self.program.target(call), self.program.answered(call)
        if target is None or test is None or id(target) in self.recognizer.eventful:
            return None
        inner = self.frame(target, frame.prefix + self._prefix(target, call))
        given = self.program.bind(target, call).items()
        env = Environment(self._receiver(target, call, path, frame, inner))
        env |= {inner.prefix + name: self.value(each, path, frame) for name, each in given}
        inside = path._replace(env=env)
        named: set[str] = set()

        def key_of(node: cst.BaseExpression) -> str | None:
            key = self.key(node, inside, inner)
            named.update((key,) if key is not None and not key.startswith(inner.prefix) else ())
            return key

        found = formula(test, key_of, self.values.constant)
        return found if atoms(found) <= named else None

    def _receiver(
        self, target: cst.FunctionDef, node: cst.Call, path: Path, outer: Frame, inner: Frame
    ) -> dict[str, Value]:
        """What a method's first parameter stands for, under its key; nothing for a function."""
        if (itself := self.program.receiver_name(target)) is None:
            return {}
        receiver = node.func.value if isinstance(node.func, cst.Attribute) else node.func
        key = self.key(receiver, path, outer)
        return {inner.prefix + itself: Ref(key) if key else None}

    def learn(self, key: str, node: cst.BaseExpression, path: Path) -> Path:
        """What assigning ``node`` to a name tells of its value, if a test will ask for it."""
        constant = literal(node)
        known: Formula | None = None
        if constant is None or isinstance(constant, (bool, int, float, str)):
            known = Equals(key, constant)
        elif is_a(node, cst.Call) and self.roles.gives_scaler(node):
            known = Truthy(key)
        elif is_a(node, cst.Call) and self._gives_norm(node):
            known = Not(Equals(key, None))
        if known is None or not self.relevance.matters([key]):
            return path
        ways = path.facts.forget([key]).assume(known)
        return path._replace(facts=ways[0]) if ways else path

    def _gives_norm(self, call: cst.Call) -> bool:
        """Whether a call returns what a clip does, itself or as a helper: a norm, never None."""
        if self.recognizer.kind(call) in _NORMS:
            return True
        target = self.program.target(call)
        if target is None or not isinstance(last_statement(target.body), cst.Return):
            return False
        values = returned(target)
        calls = [value for value in values if isinstance(value, cst.Call)]
        clips = any(self.recognizer.kind(value) in _NORMS for value in calls)
        return clips and len(calls) == len(values)

    def learn_truth(
        self, key: str, test: cst.BaseExpression, path: Path, frame: Frame
    ) -> list[Path]:
        """The paths on which a name that is assigned a test is true, and those where it is not."""
        if not _is_test(test) or not self.relevance.matters([key]):
            return [path]
        condition = self.formula(test, path, frame)
        if isinstance(condition, bool) or size(condition) > _LARGEST_TEST:
            return [path]
        return [
            path._replace(facts=known)
            for truth in (True, False)
            for facts in path.facts.assume(condition, truth)
            for known in facts.forget([key]).assume(Truthy(key), truth)
        ]


def _is_test(node: cst.BaseExpression) -> bool:
    """Whether an expression is true or false by its form."""
    if is_a(node, cst.UnaryOperation):
        return isinstance(node.operator, cst.Not)
    if is_a(node, cst.Call):
        return isinstance(node.func, cst.Name) and node.func.value == "bool"
    return is_a(node, (cst.BooleanOperation, cst.Comparison))


def _outside(prefix: str, value: Value) -> Value:
    """What a function gives back, if its caller can name it."""
    if isinstance(value, Answer):
        is_inner = any(key.startswith(prefix) for key in atoms(value.condition))
        return None if is_inner else value
    return None if isinstance(value, Ref) and value.key.startswith(prefix) else value
