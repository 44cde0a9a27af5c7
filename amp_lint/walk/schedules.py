"""Steps of schedulers, against those of the optimizer that may be skipped."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import libcst as cst

from amp_lint.amp.events import Event, Kind, decides_by_scale, named
from amp_lint.amp.roles import Roles
from amp_lint.flow.branches import deciding
from amp_lint.flow.conditions import is_mode_test, text
from amp_lint.flow.counters import Counters
from amp_lint.syntax.assignments import assigned
from amp_lint.syntax.names import dotted
from amp_lint.syntax.tree import Tree
from amp_lint.vocabulary.meaning import Role
from amp_lint.walk.rounds import Rounds, stepped_itself
from amp_lint.walk.steps import Steps


class Schedules:
    """Whether a scheduler counts what a scaler skips."""

    def __init__(self, tree: Tree, roles: Roles, steps: Steps, rounds: Rounds) -> None:
        self.tree = tree
        self.roles = roles
        self.steps = steps
        self.rounds = rounds

    def is_scheduled(self, update: Event, schedule: Event) -> bool:
        """Whether a scheduler steps after each update, whatever that has found.

        Itself or in what is called there; not under a test of anything but settings, and of how
        far the run has come.
        """
        if update.enabled is False or update.absent or self.is_skipped_too(schedule):
            return False
        assert isinstance(schedule.node, cst.Call)
        return any(self._is_as_often(update, way) for way in self.rounds.ways_to(schedule.node))

    def _is_as_often(self, update: Event, way: Sequence[cst.Call]) -> bool:
        """Whether the last call that leads to a scheduler is run in each round of an update."""
        call, relevance = way[-1], self.steps.relevance
        around = self.rounds.round(call) or self.tree.ancestor(call, cst.FunctionDef)
        body = self.tree.module if around is None else around.body
        of_round = relevance.has_backward(body) and not relevance.holds_training_loop(body)
        ways = (
            update.node,
            *self.rounds.leading(update.node, self.steps.program.function_of(call)),
        )
        if any(self.rounds.are_arms(one, other) for one in ways for other in way):
            return False
        known = {text(test) for way in ways for test, _ in deciding(self.tree, way)}
        tests = (test for each in way for test, _ in deciding(self.tree, each))
        return (of_round or self.rounds.are_beside(update.node, call)) and all(
            is_mode_test(test) or self._counters.is_past(test)
            for test in tests
            if text(test) not in known
        )

    @functools.cached_property
    def _counters(self) -> Counters:
        return Counters(self.steps.program)

    def counts_skipped(self, schedule: Event, step: Event) -> bool:
        """Whether a framework may leave out a step, and was not given what counts each."""
        frameworks = self.roles.frameworks
        counts, optimizer = (stepped_itself(each.node) for each in (schedule, step))
        if counts is None or optimizer is None:
            return False
        may_skip = any(map(frameworks.may_skip, frameworks.preparations(optimizer)))
        may_skip = may_skip and self.rounds.are_beside(step.node, schedule.node)
        by_itself = frameworks.leaves_out(counts) or frameworks.counts_each(counts)
        return may_skip and (step.framework is Role.APEX or by_itself)

    def is_skipped_too(self, schedule: Event) -> bool:
        """Whether a test of the scale decides about the scheduler, or of what has the scaler."""
        values = self.steps.recognizer.values
        tests = [test for test, _ in deciding(self.tree, schedule.node)]
        told = self._told(schedule.node) if tests else frozenset()
        return any(
            decides_by_scale(test, values) or any(dotted(part) in told for part in named(test))
            for test in tests
        )

    def _told(self, node: cst.CSTNode) -> frozenset[str | None]:
        """The names in a function of what comes out of code that is not seen and has the scaler."""
        home, kind = self.rounds.home(node) or self.tree.module, self.steps.recognizer.kind
        calls = (c for c in self.tree.below(home, cst.Call) if kind(c) is Kind.OPAQUE)
        lines = (self.tree.statement(call) for call in calls)
        simple = (line for line in lines if isinstance(line, cst.SimpleStatementLine))
        parts = (part for line in simple for part in line.body)
        return frozenset(dotted(target) for part in parts for target, _ in assigned(part))
