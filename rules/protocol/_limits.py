"""Steps of scalers and those without one: what limits the gradients before each."""

from __future__ import annotations

import functools

import libcst as cst

from amp_lint.amp.events import Event
from amp_lint.model import Model
from amp_lint.vocabulary.meaning import Kind
from amp_lint.walk.paths import Cycle

_LIMITING = frozenset({Kind.CLIP, Kind.GRADIENT_READ, Kind.GRADIENT_WRITE, Kind.OPAQUE})
"""What may limit gradients, or is there for that."""


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
