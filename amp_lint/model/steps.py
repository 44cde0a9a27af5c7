"""The training-step events in control-flow order, path by path.

Each function, and the module's own script, is run symbolically: branches, loops (none, one and
two rounds), ``try``, ``with``, early exits. A call of a function of the same file runs that
function in its place. What comes out are *cycles*: the events from one ``update`` to the next,
as some feasible path meets them. Rules ask whether an event comes in the wrong state in a cycle.

Paths are bounded: where there would be more than `MAX_PATHS`, those that differ in nothing but
what they know are merged, then the rest is dropped. That can hide a finding, never make one.
"""

from __future__ import annotations

import enum
import functools
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import libcst as cst

from amp_lint.model.conditions import (
    Facts,
    Formula,
    Truthy,
    atoms,
    formula,
    is_mode_test,
    text,
)
from amp_lint.model.events import Event, Kind, Recognizer, is_gradient
from amp_lint.model.names import Names, dotted
from amp_lint.model.regions import Region, Regions
from amp_lint.model.roles import Roles
from amp_lint.model.values import Values, arguments, literal
from amp_lint.tree import Tree, children, descendants

MAX_PATHS = 64
"""Paths followed at one point of a function."""
MAX_DEPTH = 5
"""Calls within calls that are followed."""
MAX_STATEMENTS = 20_000
"""Statements run for one function, all paths and followed calls together."""

_PROTOCOL = frozenset({"scale", "unscale_", "step", "update"})
_DEFINITIONS = (cst.FunctionDef, cst.ClassDef, cst.Lambda)
_ALIAS_ROUNDS = 2  # names for one setting that are followed from a test to where it is set
_EXITS = (cst.Return, cst.Raise, cst.Break, cst.Continue)
_IDLE = frozenset({Kind.ZERO_GRAD, Kind.OPAQUE})
"""Events that say nothing of one another before a backward: the last one stands for all."""
_BEGINNINGS = frozenset({Kind.ZERO_GRAD, Kind.BACKWARD})
"""Events that begin the next cycle where no scaler takes part, and so nothing is updated."""
Cycle = tuple[Event, ...]


@dataclass(frozen=True, slots=True)
class Ref:
    """A value that has a name: the same key is the same object."""

    key: str


@dataclass(frozen=True, slots=True)
class Scaled:
    """A loss multiplied by the scale of ``scaler``."""

    scaler: str


Value = Ref | Scaled | None


def last_name(key: str) -> str:
    """What an object is called where it is used: ``scaler`` for ``train@12:self.scaler``."""
    return key.rpartition(":")[2].rpartition(".")[2]


class Exit(enum.Enum):
    """How a path left a block."""

    NONE = enum.auto()
    BREAK = enum.auto()
    CONTINUE = enum.auto()
    RETURN = enum.auto()
    RAISE = enum.auto()


_EXIT_OF = {
    cst.Break: Exit.BREAK,
    cst.Continue: Exit.CONTINUE,
    cst.Return: Exit.RETURN,
    cst.Raise: Exit.RAISE,
}


@dataclass(frozen=True, slots=True)
class Path:
    """One way through the code so far. Immutable."""

    env: dict[str, Value] = field(default_factory=dict)
    facts: Facts = field(default_factory=Facts)
    trace: Cycle = ()
    regions: tuple[tuple[Region, Formula], ...] = ()
    exit: Exit = Exit.NONE
    value: Value = None

    def signature(self) -> tuple[object, ...]:
        """Equal for paths that behave alike from here on."""
        return (*self.outline(), self.facts.signature())

    def outline(self) -> tuple[object, ...]:
        """The signature without what the path knows."""
        env = frozenset(item for item in self.env.items() if isinstance(item[1], Scaled))
        return tuple(map(id, self.trace)), self.exit, self.value, env, len(self.regions)

    @property
    def scaled_backward(self) -> bool | None:
        """Whether the last backward of this cycle was scaled; None if there was none."""
        for event in reversed(self.trace):
            if event.kind is Kind.BACKWARD:
                return event.scaler is not None
        return None


@dataclass(frozen=True, slots=True)
class Frame:
    """A function that is being run."""

    function: cst.FunctionDef | cst.Module
    prefix: str
    """What the keys of its local names begin with."""
    local: frozenset[str]
    stack: tuple[int, ...]
    """Ids of the functions entered, outermost first."""


@dataclass(frozen=True, slots=True)
class Root:
    """What running one function, or the module's script, gave."""

    function: cst.FunctionDef | cst.Module
    cycles: tuple[Cycle, ...]
    truncated: bool
    """Whether paths were dropped, so that "no path does" cannot be concluded."""


class Steps:
    """The cycles of every function in which something happens."""

    def __init__(
        self, tree: Tree, names: Names, values: Values, roles: Roles, regions: Regions
    ) -> None:
        self.tree = tree
        self.names = names
        self.values = values
        self.roles = roles
        self.regions = regions
        self.recognizer = Recognizer(tree, names, values, roles)

    @functools.cached_property
    def roots(self) -> tuple[Root, ...]:
        """The module's script and the functions with events, each run as its own start.

        A function that another one calls is seen there, in its real context; it is run by itself
        only where no complete run met it.
        """
        eventful = self.recognizer.eventful
        functions = [f for f in self.tree.nodes(cst.FunctionDef) if id(f) in eventful]
        functions.sort(key=lambda function: id(function) in self.called)
        roots: list[Root] = []
        met: set[int] = set()
        for start in (self.tree.module, *functions):
            if id(start) not in met:
                run = _Run(self, start)
                roots.append(run.root())
                met |= set() if run.truncated else run.entered
        return tuple(roots)

    @functools.cached_property
    def backwards(self) -> list[Event]:
        """Every backward call once, in source order; inside a region, if any path has it so."""
        found: dict[int, Event] = {}
        for root in self.roots:
            for cycle in root.cycles:
                for event in cycle:
                    if event.kind is Kind.BACKWARD:
                        known = found.setdefault(id(event.node), event)
                        if known.region is None or (event.region and event.outer):
                            found[id(event.node)] = event
        return sorted(found.values(), key=lambda event: self.tree.order(event.node))

    @functools.cached_property
    def called(self) -> frozenset[int]:
        """Ids of the functions that a function with events of this file calls."""
        calls = self.tree.nodes(cst.Call)
        targets = (self.recognizer.target(call) for call in calls)
        return frozenset(id(target) for target in targets if target is not None)

    @functools.cached_property
    def hot(self) -> frozenset[int]:
        """Ids of the nodes that hold an event, not counting functions defined inside them."""
        return self._holders([*self.recognizer.event_nodes(), *self._eventful_calls])

    @functools.cached_property
    def leaving(self) -> frozenset[int]:
        """Ids of the compound statements that hold a return, raise, break or continue."""
        found: set[int] = set()
        for kind in _EXITS:
            for node in self.tree.nodes(kind):
                for holder in self.tree.ancestors(node):
                    if isinstance(holder, (cst.FunctionDef, cst.ClassDef)):
                        break
                    found.add(id(holder))
        return frozenset(found)

    def assigned(self, node: cst.CSTNode) -> tuple[cst.BaseExpression, ...]:
        """The targets that are assigned anywhere below a node, one of each spelling."""
        if id(node) not in self._assigned:
            by_text = {text(target): target for target in _targets(node)}
            self._assigned[id(node)] = tuple(by_text.values())
        return self._assigned[id(node)]

    @functools.cached_property
    def _assigned(self) -> dict[int, tuple[cst.BaseExpression, ...]]:
        return {}

    def is_idle(self, line: cst.SimpleStatementLine) -> bool:
        """Whether a line has no events, assigns nothing and goes on to the next one."""
        return id(line) not in self.hot and all(
            isinstance(small, (cst.Expr, cst.Pass, cst.Import, cst.ImportFrom))
            for small in line.body
        )

    def uses_scaler(self, node: cst.CSTNode) -> bool:
        """Whether a call of the scaler protocol stands below a node."""
        return id(node) in self._holding_protocol

    @functools.cached_property
    def _holding_protocol(self) -> frozenset[int]:
        return self._holders(
            call
            for call in self.tree.nodes(cst.Call)
            if isinstance(call.func, cst.Attribute)
            and call.func.attr.value in _PROTOCOL
            and (call.func.attr.value == "unscale_" or self.roles.is_scaler(call.func.value))
        )

    def has_backward(self, node: cst.CSTNode) -> bool:
        """Whether a backward call, or a call of something with events, stands below a node."""
        return id(node) in self._holding_backward

    @functools.cached_property
    def _holding_backward(self) -> frozenset[int]:
        calls = self.tree.nodes(cst.Call)
        backwards = [c for c in calls if self.recognizer.kind(c) is Kind.BACKWARD]
        return self._holders([*backwards, *self._eventful_calls])

    @functools.cached_property
    def _eventful_calls(self) -> list[cst.Call]:
        """The calls of functions of this file in which something happens."""
        return [
            call
            for call in self.tree.nodes(cst.Call)
            if (target := self.recognizer.target(call)) is not None
            and id(target) in self.recognizer.eventful
        ]

    def _holders(self, nodes: Iterable[cst.CSTNode]) -> frozenset[int]:
        """Ids of the nodes and of all that holds them in their function."""
        found: set[int] = set()
        for node in nodes:
            found.add(id(node))
            for holder in self.tree.ancestors(node):
                if id(holder) in found or isinstance(holder, _DEFINITIONS):
                    break
                found.add(id(holder))
        return frozenset(found)

    def matters(self, keys: Iterable[str], test: cst.CSTNode | None = None) -> bool:
        """Whether some test besides ``test`` decides about events by one of these values.

        What a path knows beyond that need not be kept: it would tell paths apart that behave
        alike.
        """
        own = 1 if test is not None and id(test) in self.hot else 0
        return any(self._deciding[_last_word(key)] > own for key in keys)

    @functools.cached_property
    def _deciding(self) -> Counter[str]:
        """How many tests and switches around events look at a name, under this name or another."""
        deciders = [
            node.test
            for kind in (cst.If, cst.IfExp, cst.While)
            for node in self.tree.nodes(kind)
            if id(node) in self.hot
        ]
        deciders += [region.enabled for region in self.regions.all if region.enabled is not None]
        for call in self.roles.scaler_calls():
            deciders += [arg.value for arg in call.args]
        found = Counter(word for test in deciders for word in set(_words(test)))
        for _ in range(_ALIAS_ROUNDS):
            for target, value in self._copies:
                extra = max((found[word] for word in _words(target)), default=0)
                found.update({word: extra for word in _words(value) if not found[word]})
        return found

    @functools.cached_property
    def _copies(self) -> list[tuple[cst.BaseExpression, cst.BaseExpression]]:
        """Pairs of a name and what it is a copy of: parameters and their arguments, aliases."""
        found: list[tuple[cst.BaseExpression, cst.BaseExpression]] = []
        for call in self._eventful_calls:
            target = self.recognizer.target(call)
            assert target is not None
            names = [param.name for param in target.params.params]
            found += [(name, arg.value) for name in names for arg in call.args]
        for assign in self.tree.nodes(cst.Assign):
            if isinstance(assign.value, (cst.Name, cst.Attribute, cst.BooleanOperation)):
                found += [(t.target, assign.value) for t in assign.targets]
        return found

    @functools.cached_property
    def hot(self) -> frozenset[int]:
        """Ids of the nodes that hold an event, not counting functions defined inside them."""
        return self._holders([*self.recognizer.event_nodes(), *self._eventful_calls])

    @functools.cached_property
    def leaving(self) -> frozenset[int]:
        """Ids of the compound statements that hold a return, raise, break or continue."""
        found: set[int] = set()
        for kind in _EXITS:
            for node in self.tree.nodes(kind):
                for holder in self.tree.ancestors(node):
                    if isinstance(holder, (cst.FunctionDef, cst.ClassDef)):
                        break
                    found.add(id(holder))
        return frozenset(found)

    def assigned(self, node: cst.CSTNode) -> tuple[cst.BaseExpression, ...]:
        """The targets that are assigned anywhere below a node, one of each spelling."""
        if id(node) not in self._assigned:
            by_text = {text(target): target for target in _targets(node)}
            self._assigned[id(node)] = tuple(by_text.values())
        return self._assigned[id(node)]

    @functools.cached_property
    def _assigned(self) -> dict[int, tuple[cst.BaseExpression, ...]]:
        return {}

    def uses_scaler(self, node: cst.CSTNode) -> bool:
        """Whether a call of the scaler protocol stands below a node."""
        return id(node) in self._holding_protocol

    @functools.cached_property
    def _holding_protocol(self) -> frozenset[int]:
        return self._holders(
            call
            for call in self.tree.nodes(cst.Call)
            if isinstance(call.func, cst.Attribute)
            and call.func.attr.value in _PROTOCOL
            and (call.func.attr.value == "unscale_" or self.roles.is_scaler(call.func.value))
        )

    def has_backward(self, node: cst.CSTNode) -> bool:
        """Whether a backward call, or a call of something with events, stands below a node."""
        return id(node) in self._holding_backward

    @functools.cached_property
    def _holding_backward(self) -> frozenset[int]:
        calls = self.tree.nodes(cst.Call)
        backwards = [c for c in calls if self.recognizer.kind(c) is Kind.BACKWARD]
        return self._holders([*backwards, *self._eventful_calls])

    @functools.cached_property
    def _eventful_calls(self) -> list[cst.Call]:
        """The calls of functions of this file in which something happens."""
        return [
            call
            for call in self.tree.nodes(cst.Call)
            if (target := self.recognizer.target(call)) is not None
            and id(target) in self.recognizer.eventful
        ]

    def _holders(self, nodes: Iterable[cst.CSTNode]) -> frozenset[int]:
        """Ids of the nodes and of all that holds them in their function."""
        found: set[int] = set()
        for node in nodes:
            found.add(id(node))
            for holder in self.tree.ancestors(node):
                if id(holder) in found or isinstance(holder, _DEFINITIONS):
                    break
                found.add(id(holder))
        return frozenset(found)

    def is_tested_again(self, key: str) -> bool:
        """Whether more than one test may look at the value under ``key``.

        What a path learns from a test that is the only one of its kind need not be kept: it
        would tell paths apart that behave alike.
        """
        return self._tested[_last_word(key)] > 1

    @functools.cached_property
    def _tested(self) -> Counter[str]:
        """How often a name stands where its truth may matter: tests, switches, arguments."""
        places: list[cst.BaseExpression] = []
        for kind in (cst.If, cst.IfExp, cst.While, cst.Assert):
            places += [node.test for node in self.tree.nodes(kind)]
        for call in (*self._eventful_calls, *self.roles.scaler_calls()):
            places += [arg.value for arg in call.args]
        places += [r.enabled for r in self.regions.all if r.enabled is not None]
        found = Counter(word for place in places for word in _words(place))
        for call in self._eventful_calls:  # a parameter is another name of its argument
            target = self.recognizer.target(call)
            assert target is not None
            found.update(param.name.value for param in target.params.params)
        for assign in self.tree.nodes(cst.Assign):  # so is a copy
            if isinstance(assign.value, (cst.Name, cst.Attribute, cst.BooleanOperation)):
                found.update(word for t in assign.targets for word in _words(t.target))
                found.update(_words(assign.value))
        return found


class _Run:
    """Runs one function symbolically."""

    def __init__(self, steps: Steps, start: cst.FunctionDef | cst.Module) -> None:
        self.steps = steps
        self.tree = steps.tree
        self.recognizer = steps.recognizer
        self.start = start
        self.cycles: dict[tuple[int, ...], Cycle] = {}
        self.events: dict[tuple[object, ...], Event] = {}
        self.entered: set[int] = set()
        self.truncated = False
        self.budget = MAX_STATEMENTS

    def root(self) -> Root:
        frame = self._frame(self.start, "", ())
        path = Path(regions=self._decorated(self.start, frame))
        for end in self.block(self.start.body, [path], frame):
            self._close(end.trace)
        return Root(self.start, tuple(self.cycles.values()), self.truncated)

    def _decorated(
        self, function: cst.FunctionDef | cst.Module, frame: Frame
    ) -> tuple[tuple[Region, Formula], ...]:
        if isinstance(function, cst.Module):
            return ()
        region = self.steps.regions.decorating(function)
        return ((region, self._enabled(region, Path(), frame)),) if region else ()

    def _frame(
        self, function: cst.FunctionDef | cst.Module, prefix: str, stack: tuple[int, ...]
    ) -> Frame:
        scope = self.steps.names.scope_of(function)
        local = frozenset(scope.bindings) - scope.foreign
        return Frame(function, prefix, local, (*stack, id(function)))

    def _close(self, trace: Cycle) -> None:
        if trace:
            self.cycles.setdefault(tuple(map(id, trace)), trace)

    # --- statements ---------------------------------------------------------------------------

    def block(self, body: object, paths: Iterable[Path], frame: Frame) -> list[Path]:
        """Run the statements of a body on every path; paths that left it come out as they are."""
        statements = _statements(body)
        live, done = list(paths), []
        for statement in statements:
            after = [end for path in live for end in self.statement(statement, path, frame)]
            after = self._bounded(after)
            done += [path for path in after if path.exit is not Exit.NONE]
            live = [path for path in after if path.exit is Exit.NONE]
            if not live:
                break
        return self._bounded(live + done)

    def _bounded(self, paths: list[Path]) -> list[Path]:
        if len(paths) < 2:
            return paths
        paths = list({path.signature(): path for path in reversed(paths)}.values())[::-1]
        if len(paths) > MAX_PATHS:
            paths = list({path.outline(): path for path in reversed(paths)}.values())[::-1]
        if len(paths) > MAX_PATHS:
            self.truncated = True
            del paths[MAX_PATHS:]
        return paths

    def statement(self, node: cst.CSTNode, path: Path, frame: Frame) -> list[Path]:
        """The paths that running one statement leads to."""
        self.budget -= 1
        if self.budget < 0:
            self.truncated = True
            return []
        if isinstance(node, (cst.FunctionDef, cst.ClassDef)):
            return [path]
        if isinstance(node, cst.SimpleStatementLine):
            if self.steps.is_idle(node):
                return [path]
            return self._simple_line(node.body, path, frame)
        if id(node) not in self.steps.hot and id(node) not in self.steps.leaving:
            return [self._forget(path, self.steps.assigned(node), frame)]
        match node:
            case cst.If():
                return self._if(node, path, frame)
            case cst.For() | cst.While():
                return self._loop(node, path, frame)
            case cst.With():
                return self._with(node, path, frame)
            case cst.Try() | cst.TryStar():
                return self._try(node, path, frame)
            case cst.Match():
                return self._match(node, path, frame)
        return [path]

    def _simple_line(
        self, body: Sequence[cst.BaseSmallStatement], path: Path, frame: Frame
    ) -> list[Path]:
        paths = [path]
        for small in body:
            paths = [
                after
                for before in paths
                for after in (
                    self._small(small, before, frame) if before.exit is Exit.NONE else [before]
                )
            ]
        return paths

    def _small(self, node: cst.BaseSmallStatement, path: Path, frame: Frame) -> list[Path]:
        match node:
            case cst.Expr(value=value):
                return [after for after, _ in self.evaluate(value, path, frame)]
            case cst.Assign():
                targets = [target.target for target in node.targets]
                return self._assign(targets, node.value, path, frame)
            case cst.AnnAssign(value=cst.BaseExpression() as value):
                return self._assign([node.target], value, path, frame)
            case cst.AugAssign():
                return self._augment(node, path, frame)
            case cst.Return(value=cst.BaseExpression() as value):
                ends = self.evaluate(value, path, frame)
                return [self._leave(after, Exit.RETURN, result, frame) for after, result in ends]
            case cst.Return() | cst.Raise() | cst.Break() | cst.Continue():
                return [self._leave(path, _EXIT_OF[type(node)], None, frame)]
            case cst.Assert():
                ways = path.facts.assume(self._formula(node.test, path, frame))
                return [replace(path, facts=facts) for facts in ways]
        return [path]

    def _leave(self, path: Path, how: Exit, value: Value, frame: Frame) -> Path:
        """Out of a block; whoever leaves the first function needs to know nothing any more."""
        ends = how in (Exit.RETURN, Exit.RAISE) and len(frame.stack) == 1
        facts = Facts() if ends else path.facts
        return replace(path, exit=how, value=value, facts=facts)

    def _assign(
        self,
        targets: Sequence[cst.BaseExpression],
        value: cst.BaseExpression,
        path: Path,
        frame: Frame,
    ) -> list[Path]:
        if isinstance(value, cst.IfExp) and not self._is_hot(value):
            return self._assign_choice(targets, value, path, frame)
        paths: list[Path] = []
        for after, result in self.evaluate(value, path, frame):
            for target in targets:
                after = self._store(target, value, result, after, frame)
            paths.append(after)
        return paths

    def _assign_choice(
        self,
        targets: Sequence[cst.BaseExpression],
        value: cst.IfExp,
        path: Path,
        frame: Frame,
    ) -> list[Path]:
        """``x = a if test else None``: what x is goes with the test."""
        if not any(literal(arm) is not ... for arm in (value.body, value.orelse)):
            return [self._forget(path, targets, frame)]
        paths: list[Path] = []
        for truth, arm in ((True, value.body), (False, value.orelse)):
            for facts in path.facts.assume(self._formula(value.test, path, frame), truth):
                paths += self._assign(targets, arm, replace(path, facts=facts), frame)
        return paths

    def _store(
        self,
        target: cst.BaseExpression,
        node: cst.BaseExpression,
        value: Value,
        path: Path,
        frame: Frame,
    ) -> Path:
        if isinstance(target, (cst.Tuple, cst.List)):
            return self._forget(path, (target,), frame)
        if is_gradient(target):
            clears = literal(node) is None
            kind = Kind.ZERO_GRAD if clears else Kind.GRADIENT_WRITE
            return self._emit(path, Event(kind, target))
        key = self.own_key(target, path, frame)
        path = self._forget(path, (target,), frame)
        if key is None:
            return path
        if value is not None and value != Ref(key):
            path = replace(path, env={**path.env, key: value})
        constant = literal(node)
        known: Formula | None = None
        if constant is not ...:
            known = formula(_comparison_with(target, node), lambda _: key)
        elif isinstance(node, cst.Call) and self.steps.roles.scaler_origins(node):
            known = Truthy(key)
        wanted = known is not None and self.steps.matters([key])
        ways = path.facts.assume(known) if known is not None and wanted else []
        return replace(path, facts=ways[0]) if ways else path

    def _augment(self, node: cst.AugAssign, path: Path, frame: Frame) -> list[Path]:
        if is_gradient(node.target):
            return [self._emit(path, Event(Kind.GRADIENT_WRITE, node))]
        paths: list[Path] = []
        for after, result in self.evaluate(node.value, path, frame):
            old = self.value(node.target, after, frame)
            kept = next((v for v in (old, result) if isinstance(v, Scaled)), None)
            key = self.own_key(node.target, after, frame)
            after = self._forget(after, (node.target,), frame)
            if kept is not None and key is not None:
                after = replace(after, env={**after.env, key: kept})
            paths.append(after)
        return paths

    def _forget(self, path: Path, targets: Sequence[cst.BaseExpression], frame: Frame) -> Path:
        if not path.env and not path.facts.by_key:
            return path
        keys = {
            key
            for target in targets
            for name in _simple_targets(target)
            if (key := self.own_key(name, path, frame)) is not None
        }
        if not keys:
            return path
        env = {key: value for key, value in path.env.items() if key not in keys}
        return replace(path, env=env, facts=path.facts.forget(keys))

    # --- branches -----------------------------------------------------------------------------

    def _if(self, node: cst.If, path: Path, frame: Frame) -> list[Path]:
        paths: list[Path] = []
        for before, _ in self.evaluate(node.test, path, frame):
            condition = self._formula(node.test, before, frame)
            ways = [
                (truth, facts)
                for truth in (True, False)
                for facts in before.facts.assume(condition, truth)
            ]
            lasting = self.steps.matters(atoms(condition), node)
            for truth, facts in self._likely(node, before, ways):
                arm = node.body if truth else node.orelse
                chosen = replace(before, facts=facts) if lasting else before
                paths += self._arm(arm, chosen, frame)
        return paths

    def _arm(self, arm: cst.CSTNode | None, path: Path, frame: Frame) -> list[Path]:
        match arm:
            case None:
                return [path]
            case cst.If():
                return self.statement(arm, path, frame)
            case cst.Else():
                return self.block(arm.body, [path], frame)
        return self.block(arm, [path], frame)

    def _likely(
        self, node: cst.If, path: Path, ways: list[tuple[bool, Facts]]
    ) -> list[tuple[bool, Facts]]:
        """Leave out the arm that contradicts how the loss was scaled.

        Real code guards the scaler by many names for one mode: ``if args.amp:``, then
        ``if scaler is not None:``, then ``if self.fp16:``. A setting that guards calls of the
        scaler on one side only is taken to be on when the loss was scaled, off when it was not.
        """
        scaled = path.scaled_backward
        if scaled is None or {truth for truth, _ in ways} != {True, False}:
            return ways
        if not is_mode_test(node.test):
            return ways
        body = self.steps.uses_scaler(node.body)
        other = node.orelse is not None and self.steps.uses_scaler(node.orelse)
        if body is other:
            return ways
        return [(truth, facts) for truth, facts in ways if truth is (body is scaled)]

    def _match(self, node: cst.Match, path: Path, frame: Frame) -> list[Path]:
        ends = [path]
        for case in node.cases:
            ends += self.block(case.body, [path], frame)
        return ends

    def _try(self, node: cst.Try | cst.TryStar, path: Path, frame: Frame) -> list[Path]:
        ends = self.block(node.body, [path], frame)
        if node.orelse is not None:
            normal = [end for end in ends if end.exit is Exit.NONE]
            ends = [end for end in ends if end.exit is not Exit.NONE]
            ends += self.block(node.orelse.body, normal, frame)
        if node.handlers:
            ends = [end for end in ends if end.exit is not Exit.RAISE] or ends
        for handler in node.handlers:
            ends += self.block(handler.body, [path], frame)
        if node.finalbody is None:
            return ends
        return [
            last if last.exit is not Exit.NONE else replace(last, exit=end.exit, value=end.value)
            for end in ends
            for last in self.block(
                node.finalbody.body, [replace(end, exit=Exit.NONE, value=None)], frame
            )
        ]

    def _with(self, node: cst.With, path: Path, frame: Frame) -> list[Path]:
        paths = [path]
        for item in node.items:
            paths = [end for p in paths for end, _ in self.evaluate(item.item, p, frame)]
            region = self.steps.regions.of(item.item)
            if region is not None:
                paths = [self._enter(region, p, frame) for p in paths]
        ends = self.block(node.body, paths, frame)
        return [replace(end, regions=path.regions) for end in ends]

    def _enter(self, region: Region, path: Path, frame: Frame) -> Path:
        enabled = self._enabled(region, path, frame)
        return replace(path, regions=(*path.regions, (region, enabled)))

    def _enabled(self, region: Region, path: Path, frame: Frame) -> Formula:
        return True if region.enabled is None else self._formula(region.enabled, path, frame)

    # --- loops --------------------------------------------------------------------------------

    def _loop(self, node: cst.For | cst.While, path: Path, frame: Frame) -> list[Path]:
        """No, one and two rounds.

        A loop that holds no backward walks over optimizers or parameters: it is entered, and one
        round stands for all.
        """
        trains = self.steps.has_backward(node.body)
        skips = trains or not self._is_hot(node.body)
        if isinstance(node, cst.For):
            starts = [end for end, _ in self.evaluate(node.iter, path, frame)]
        else:
            starts = [path]
            skips = skips and literal(node.test) is not True
        ends: list[Path] = list(starts) if skips else []
        left: list[Path] = []
        for _ in range(2 if trains else 1):
            rounds = self._round(node, starts, frame)
            if not skips:
                rounds = _that_acted(rounds, starts)
            left += [replace(p, exit=Exit.NONE) for p in rounds if p.exit is Exit.BREAK]
            left += [p for p in rounds if p.exit in (Exit.RETURN, Exit.RAISE)]
            starts = self._bounded(
                [
                    replace(p, exit=Exit.NONE)
                    for p in rounds
                    if p.exit in (Exit.NONE, Exit.CONTINUE)
                ]
            )
            ends += starts
        if node.orelse is not None:
            ends = self.block(node.orelse.body, self._bounded(ends), frame)
        return self._bounded(ends + left)

    def _round(
        self, node: cst.For | cst.While, starts: list[Path], frame: Frame
    ) -> list[Path]:
        changed = self.steps.assigned(node.body)
        paths: list[Path] = []
        for path in starts:
            path = self._forget(path, changed, frame)
            if isinstance(node, cst.For):
                path = self._bind_target(node, self._forget(path, (node.target,), frame), frame)
                paths.append(path)
            else:
                ways = path.facts.assume(self._formula(node.test, path, frame))
                paths += [replace(path, facts=facts) for facts in ways]
        return self.block(node.body, paths, frame)

    def _bind_target(self, node: cst.For, path: Path, frame: Frame) -> Path:
        """Name the loop variable after what is looped over: one object for all its rounds."""
        iterable = self.own_key(node.iter, path, frame)
        if iterable is None or not isinstance(node.target, cst.Name):
            return path
        key = self.own_key(node.target, path, frame)
        return replace(path, env={**path.env, key or "": Ref(f"{iterable}[*]")})

    # --- expressions --------------------------------------------------------------------------

    def _is_hot(self, node: cst.CSTNode) -> bool:
        return id(node) in self.steps.hot

    def evaluate(
        self, node: cst.BaseExpression, path: Path, frame: Frame
    ) -> list[tuple[Path, Value]]:
        """Run the events of an expression; the paths they lead to, each with the value."""
        if not self._is_hot(node):
            return [(path, self.value(node, path, frame))]
        if isinstance(node, cst.Lambda):
            return [(path, None)]
        if isinstance(node, cst.Call):
            return self._call(node, path, frame)
        if isinstance(node, cst.IfExp):
            return self._choice(node, path, frame)
        ends: list[tuple[Path, Value]] = [(path, None)]
        for child in _expressions(node):
            ends = [
                (after, result if isinstance(result, Scaled) else value)
                for before, value in ends
                for after, result in self.evaluate(child, before, frame)
            ]
        return ends

    def _choice(
        self, node: cst.IfExp, path: Path, frame: Frame
    ) -> list[tuple[Path, Value]]:
        condition = self._formula(node.test, path, frame)
        return [
            end
            for truth, arm in ((True, node.body), (False, node.orelse))
            for facts in path.facts.assume(condition, truth)
            for end in self.evaluate(arm, replace(path, facts=facts), frame)
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
            return [(path, self._scale(node.func.value, path, frame))]
        kind = self.recognizer.kind(node)
        if kind is not None:
            return [(self._happen(kind, node, path, owner, values, frame), None)]
        target = self.recognizer.target(node)
        if target is not None and id(target) in self.recognizer.eventful:
            return self._inline(target, node, path, values, frame)
        scaled = next((v for v in (owner, *values) if isinstance(v, Scaled)), None)
        return [(path, scaled)]

    def _scale(self, scaler: cst.BaseExpression, path: Path, frame: Frame) -> Value:
        """The scaled loss; nothing is scaled by a scaler that is known to be disabled."""
        key = self.key(scaler, path, frame) or text(scaler)
        for origin in self.steps.roles.scaler_origins(scaler):
            enabled = arguments(origin).get(None, "enabled")
            if enabled is not None and not path.facts.assume(self._formula(enabled, path, frame)):
                return None
        return Scaled(key)

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
        match kind:
            case Kind.BACKWARD:
                scaled = next((v for v in (owner, *values) if isinstance(v, Scaled)), None)
                scaler = scaled.scaler if scaled else None
                region, outer = self._active(path), self._active(path, 1)
                path = self._emit(path, Event(kind, node, scaler, region=region, outer=outer))
            case Kind.UNSCALE | Kind.UPDATE:
                path = self._emit(path, Event(kind, node, name, first))
            case Kind.STEP:
                through = receiver is not None and self.steps.roles.is_scaler(receiver)
                scaler, optimizer = (name, first) if through else (None, name)
                region = self._active(path)
                path = self._emit(path, Event(kind, node, scaler, optimizer, region))
            case Kind.CLIP:
                path = self._emit(path, Event(kind, node, params=first))
            case _:
                path = self._emit(path, Event(kind, node, optimizer=name))
        if kind is Kind.UPDATE:
            self._close(path.trace)
            path = replace(path, trace=())
        return path

    def _first_key(self, node: cst.Call, path: Path, frame: Frame) -> str | None:
        """The key of the first argument; for ``m.parameters()`` that of ``m``."""
        given = arguments(node)
        first = given.positional[0] if given.positional else given.get(None, "optimizer")
        first = first or given.get(None, "parameters")
        if first is None:
            return None
        if isinstance(first, cst.Call) and isinstance(first.func, cst.Attribute):
            if first.func.attr.value == "parameters":
                first = first.func.value
        return self.key(first, path, frame) or text(first)

    def _active(self, path: Path, without: int = 0) -> Region | None:
        """The region whose autocast is on here: the innermost, unless it is off on this path.

        ``without`` as many of the innermost regions.
        """
        if len(path.regions) <= without:
            return None
        region, enabled = path.regions[-1 - without]
        return region if path.facts.assume(enabled) else None

    def _emit(self, path: Path, event: Event) -> Path:
        identity = (
            event.kind, id(event.node), event.scaler, event.optimizer, id(event.region),
            id(event.outer), event.params,
        )  # fmt: skip
        event = self.events.setdefault(identity, event)
        if event.kind in _IDLE and all(other.kind in _IDLE for other in path.trace):
            return replace(path, trace=(event,))
        if event.kind in _BEGINNINGS and _is_plain_step(path.trace):
            self._close(path.trace)
            return replace(path, trace=(event,))
        return replace(path, trace=(*path.trace, event))

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
        prefix = f"{frame.prefix}{target.name.value}@{self.tree.order(node)}:"
        inner = self._frame(target, prefix, frame.stack)
        start = self._bind(target, node, path, values, frame, inner)
        regions = (*start.regions, *self._decorated(target, inner))
        ends = self.block(target.body, [replace(start, regions=regions)], inner)
        return [
            (_without(prefix, replace(end, regions=path.regions)), _outside(prefix, end.value))
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
    ) -> Path:
        """Give the parameters of a called function their values."""
        names = [p.name.value for p in (*target.params.posonly_params, *target.params.params)]
        env = dict(path.env)
        if _is_method(target, self.tree) and names:
            receiver = node.func.value if isinstance(node.func, cst.Attribute) else node.func
            key = self.key(receiver, path, outer)
            env[inner.prefix + names.pop(0)] = Ref(key) if key else None
        given: dict[str, cst.BaseExpression] = {}
        position = 0
        for arg, value in zip(node.args, values, strict=True):
            if arg.star:
                break
            if arg.keyword is not None:
                name = arg.keyword.value
            elif position < len(names):
                name, position = names[position], position + 1
            else:
                continue
            given[name] = arg.value
            env[inner.prefix + name] = value
        path = replace(path, env=env)
        for param in (*target.params.params, *target.params.kwonly_params):
            default = given.get(param.name.value, param.default)
            if default is not None and literal(default) is not ...:
                path = self._store(param.name, default, None, path, inner)
        return path

    # --- names of values ----------------------------------------------------------------------

    def value(self, node: cst.BaseExpression, path: Path, frame: Frame) -> Value:
        """What an expression without events stands for."""
        if isinstance(node, (cst.Name, cst.Attribute, cst.Subscript)):
            key = self.own_key(node, path, frame)
            if key is None:
                return None
            found = path.env.get(key)
            return found if found is not None else Ref(key)
        if any(isinstance(value, Scaled) for value in path.env.values()):
            for part in _expressions(node):
                inside = self.value(part, path, frame)
                if isinstance(inside, Scaled):
                    return inside
        return None

    def key(self, node: cst.BaseExpression, path: Path, frame: Frame) -> str | None:
        """The key of the object that an expression stands for, aliases followed."""
        value = self.value(node, path, frame)
        return value.key if isinstance(value, Ref) else None

    def own_key(self, node: cst.BaseExpression, path: Path, frame: Frame) -> str | None:
        """The key of a variable, attribute or item itself."""
        if isinstance(node, cst.Name):
            return frame.prefix + node.value if node.value in frame.local else node.value
        if isinstance(node, cst.Attribute):
            base = self.key(node.value, path, frame)
            return f"{base}.{node.attr.value}" if base is not None else None
        if isinstance(node, cst.Subscript):
            base = self.key(node.value, path, frame)
            inner = ", ".join(text(e.slice.value) for e in node.slice if isinstance(e.slice, cst.Index))
            return f"{base}[{inner}]" if base is not None and inner else None
        return None

    def _formula(self, test: cst.BaseExpression, path: Path, frame: Frame) -> Formula:
        return formula(test, lambda node: self.key(node, path, frame))


def _is_plain_step(trace: Cycle) -> bool:
    """Whether a cycle was stepped and no scaler had a part in it."""
    return any(event.kind is Kind.STEP for event in trace) and not any(
        event.scaler is not None or event.kind is Kind.OPAQUE for event in trace
    )


_NAME = re.compile(r"[\w.@:\[\]*'\"]+")


def _last_word(key: str) -> str:
    """What `_words` calls the value under a key: its last name, or the text of a whole test."""
    return re.findall(r"\w+", key)[-1] if _NAME.fullmatch(key) else key


def _words(node: cst.BaseExpression) -> Iterator[str]:
    """The names and items of the values that an expression looks at, and the texts of its parts."""
    for part in descendants(node):
        match part:
            case cst.Name(value=word):
                yield word
            case cst.SimpleString():
                yield str(part.evaluated_value)
            case cst.Comparison() | cst.Call() | cst.BinaryOperation():
                yield text(part)


def _that_acted(ends: list[Path], starts: list[Path]) -> list[Path]:
    """The paths of a walk over optimizers that met the one in use, if any did.

    ``if i != active: continue`` in one such loop goes the same way in the next.
    """
    idle = {tuple(map(id, path.trace)) for path in starts}
    return [end for end in ends if tuple(map(id, end.trace)) not in idle] or ends


def _statements(body: object) -> Sequence[cst.CSTNode]:
    if isinstance(body, cst.IndentedBlock):
        return body.body
    if isinstance(body, cst.SimpleStatementSuite):
        return [cst.SimpleStatementLine(body=body.body)]
    assert isinstance(body, (list, tuple))
    return body


def _expressions(node: cst.CSTNode) -> Iterator[cst.BaseExpression]:
    """The expressions right below a node, through arguments, elements and the like."""
    for child in children(node):
        if isinstance(child, cst.BaseExpression):
            yield child
        elif not isinstance(child, (cst.BaseStatement, cst.Parameters)):
            yield from _expressions(child)


def _targets(node: cst.CSTNode) -> Iterator[cst.BaseExpression]:
    for item in descendants(node):
        match item:
            case cst.AssignTarget(target=target) | cst.For(target=target):
                yield target
            case cst.AugAssign(target=target) | cst.AnnAssign(target=target):
                yield target
            case cst.NamedExpr(target=target):
                yield target


def _simple_targets(target: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
    if isinstance(target, (cst.Tuple, cst.List)):
        for item in target.elements:
            yield from _simple_targets(item.value)
    else:
        yield target


def _comparison_with(target: cst.BaseExpression, constant: cst.BaseExpression) -> cst.Comparison:
    """``target == constant`` as an expression."""
    return cst.Comparison(target, [cst.ComparisonTarget(cst.Equal(), constant)])


def _is_method(function: cst.FunctionDef, tree: Tree) -> bool:
    static = any(dotted(d.decorator) == "staticmethod" for d in function.decorators)
    holder = tree.ancestor(function, cst.FunctionDef, cst.ClassDef)
    return isinstance(holder, cst.ClassDef) and not static


def _without(prefix: str, path: Path) -> Path:
    """The path without the local names of a function that has returned."""
    env = {key: value for key, value in path.env.items() if not key.startswith(prefix)}
    facts = {key: fact for key, fact in path.facts.by_key.items() if prefix not in key}
    return replace(path, env=env, facts=Facts(facts), exit=Exit.NONE, value=None)


def _outside(prefix: str, value: Value) -> Value:
    return None if isinstance(value, Ref) and value.key.startswith(prefix) else value
