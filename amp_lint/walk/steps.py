"""The training-step events in control-flow order, path by path.

Each function, and the module's own script, is run symbolically: branches, loops (none, one and
two rounds), ``try``, ``with``, early exits. A call of a function of the same file runs that
function in its place. What comes out are *cycles*: the events from one ``update`` to the next,
as some feasible path meets them. Rules ask whether an event comes in the wrong state in a cycle.

Paths of equal state, which know the same, go on as one that keeps the history of each: what it
meets is a cycle of all of them. Paths are bounded: where there would be more than `MAX_PATHS`,
those that differ in nothing but what they know are merged, then the rest is dropped. So are the
cycles that one event ends, of which there are `MAX_CYCLES` at most. That can hide a finding, never
make one.
So are statements, in proportion to the size of a function and of the file: when half of those a
function may have are spent, fewer paths are followed; after three quarters no call is, and
anything may have happened in it.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass

import libcst as cst

from amp_lint.amp.events import Event, Kind, Recognizer
from amp_lint.amp.regions import Regions
from amp_lint.amp.roles import Roles
from amp_lint.flow.program import Program
from amp_lint.walk.evaluate import Parts
from amp_lint.walk.gradients import Gradients
from amp_lint.walk.paths import Cycle, LeftStep
from amp_lint.walk.relevance import Relevance
from amp_lint.walk.run import Run

MAX_ROUNDS = 16
"""Times that the statements of a function may be run on average, if that is the larger bound."""
MAX_FILE_STATEMENTS = 100_000
"""Statements run for all functions of a file before that becomes the only bound."""
_STATEMENTS = (
    cst.SimpleStatementLine,
    cst.If,
    cst.For,
    cst.While,
    cst.With,
    cst.Try,
    cst.Match,
)


@dataclass(frozen=True, slots=True)
class Root:
    """What running one function, or the module's script, gave."""

    function: cst.FunctionDef | cst.Module
    cycles: tuple[Cycle, ...]
    truncated: bool
    """Whether paths were dropped or merged, so that "no path does" cannot be concluded."""
    early: tuple[tuple[Event, Event], ...] = ()
    """Updates, each with a step or update that comes after it for the same gradients."""
    left: tuple[LeftStep, ...] = ()
    """Direct steps after an update, on what that left scaled."""
    statements: int = 0
    """Statements that were run, each once for every path it was met on."""


class Steps:
    """The cycles of every function in which something happens."""

    def __init__(
        self,
        program: Program,
        roles: Roles,
        regions: Regions,
        *,
        exact: bool = False,
        whole: bool = False,
    ) -> None:
        """Prepare; ``exact`` and ``whole`` as for `Parts`."""
        self.program = program
        self.tree = program.tree
        self.roles = roles
        self.recognizer = Recognizer(program, roles)
        self.relevance = Relevance(program, roles, regions, self.recognizer)
        parts = (program, roles, regions, self.recognizer, self.relevance)
        self._parts = Parts(*parts, exact=exact, whole=whole)
        self.cleared: Gradients[Event] = Gradients()
        """The state that a cycle begins in."""
        self._after: dict[tuple[int, int], tuple[Gradients[Event], Gradients[Event]]] = {}

    @functools.cached_property
    def roots(self) -> tuple[Root, ...]:
        """The module's script and the functions with events, each run as its own start.

        A function that another one calls is seen there, in its real context; it is run by itself
        only where no complete run met it. Scripts of other files come last, and are one way of
        several in which something is run.
        """
        eventful = self.recognizer.eventful
        own = filter(self.tree.is_own, self.tree.nodes(cst.FunctionDef))
        functions = [f for f in own if id(f) in eventful]
        functions.sort(key=lambda function: id(function) in self.called)
        functions = [*self._callers(functions), *functions]
        roots: list[Root] = []
        met: set[int] = set()
        left = MAX_FILE_STATEMENTS
        scripts = self._scripts(functions)
        starts: list[cst.FunctionDef | cst.Module] = [self.tree.module, *functions, *scripts]
        for start in starts:
            if id(start) not in met:
                run = Run(self._parts, start, least=MAX_ROUNDS * self._size(start), most=left)
                left -= run.statements
                roots.append(_root(start, run))
                met |= set() if run.truncated else run.entered
        return tuple(roots)

    def _scripts(self, functions: list[cst.FunctionDef]) -> list[cst.Module]:
        """The modules of other files that call some functions of this file in no function."""
        calls = [call for each in functions for call in self.program.calls_of(each)]
        outside = (c for c in calls if not self.tree.is_own(c) and not self.program.function_of(c))
        homes = [self.tree.ancestor(call, cst.Module) for call in outside]
        return [*{id(home): home for home in homes if home is not None}.values()]

    def _callers(self, functions: list[cst.FunctionDef]) -> list[cst.FunctionDef]:
        """The functions of other files that call some of this file, and that no function calls."""
        calls = [call for each in functions for call in self.program.calls_of(each)]
        running = self.program.running(call for call in calls if not self.tree.is_own(call))
        found = (f for f in self.tree.nodes(cst.FunctionDef) if id(f) in running)
        return [f for f in found if not self.tree.is_own(f) and not self._has_callers(f)]

    def _has_callers(self, function: cst.FunctionDef) -> bool:
        """Whether a function is called by others, not only by a script."""
        return any(map(self.program.function_of, self.program.calls_of(function)))

    def _size(self, function: cst.FunctionDef | cst.Module) -> int:
        """How many statements a function has."""
        return sum(len(self.tree.below(function, kind)) for kind in _STATEMENTS)

    def states(
        self, cycle: Cycle, start: Gradients[Event] | None = None
    ) -> Iterator[tuple[Event, Gradients[Event]]]:
        """Each event of a cycle with the state it comes in."""
        state = start or self.cleared
        for event in cycle:
            yield event, state
            state = self.after(state, event)

    def after(self, state: Gradients[Event], event: Event) -> Gradients[Event]:
        """The state that an event leads to; worked out once for cycles that begin alike."""
        key = (id(state), id(event))
        if key not in self._after:  # with the state itself, so that its id stays its own
            self._after[key] = state.after(event), state
        return self._after[key][0]

    @functools.cached_property
    def backwards(self) -> list[Event]:
        """Every backward call once, in source order; inside a region, if any path has it so."""
        found: dict[int, Event] = {}
        for root in self.roots:
            for cycle in root.cycles:
                for event in cycle:
                    if event.kind is Kind.BACKWARD:
                        known = found.setdefault(id(event.place), event)
                        if known.region is None or (event.region and event.outer):
                            found[id(event.place)] = event
        return sorted(found.values(), key=lambda event: self.tree.order(event.place))

    def is_own(self, backward: Event) -> bool:
        """Whether a backward in its region is a matter of this file, not of one that it imports."""
        region = None if backward.region is None else backward.region.node
        return self.tree.is_own(backward.node) or (region is not None and self.tree.is_own(region))

    @functools.cached_property
    def called(self) -> frozenset[int]:
        """Ids of the functions that a function with events of this file calls."""
        calls = self.tree.nodes(cst.Call)
        targets = (self.program.target(call) for call in calls)
        return frozenset(id(target) for target in targets if target is not None)


def _root(start: cst.FunctionDef | cst.Module, run: Run) -> Root:
    cut = run.truncated or run.merged
    cycles, early = tuple(run.cycles.values()), tuple(run.early.values())
    return Root(start, cycles, cut, early, tuple(run.left.values()), run.statements)
