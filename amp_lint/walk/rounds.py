"""Which places of a training step are run as often as others."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from amp_lint.amp.events import named
from amp_lint.flow.branches import contradict, deciding
from amp_lint.flow.conditions import is_mode_test
from amp_lint.syntax.memo import per_node
from amp_lint.syntax.tree import Tree, descendants
from amp_lint.walk.steps import Steps

_MOST_CALLS = 3
"""Calls on the way to a step of a scheduler, itself among them."""


class Rounds:
    """Loops, functions and tests around the calls of a step."""

    def __init__(self, tree: Tree, steps: Steps) -> None:
        self.tree = tree
        self.steps = steps

    def home(self, node: cst.CSTNode) -> cst.CSTNode | None:
        """The function that a place is in."""
        return self.tree.ancestor(node, cst.FunctionDef)

    def updates_beside(self, node: cst.CSTNode) -> list[cst.Call]:
        """The updates in the function of a node."""
        home = self.home(node)
        return [call for call in self.steps.recognizer.updates if self.home(call) is home]

    def round(self, node: cst.CSTNode) -> cst.For | cst.While | None:
        """The loop around a call of a method, but for that over those whose method is called."""
        loop, owner = self.steps.program.loop(node), stepped_itself(node)
        while isinstance(loop, cst.For) and owner is not None and loop.target.deep_equals(owner):
            loop = self.steps.program.loop(loop)
        return loop

    def are_beside(self, one: cst.CSTNode, other: cst.CSTNode) -> bool:
        """Whether two nodes are run as often: by a helper, in no loop of its own or the same."""
        program = self.steps.program
        same = program.function_of(one) is program.function_of(other)
        return same and self.round(one) is self.round(other)

    def are_arms(self, one: cst.CSTNode, other: cst.CSTNode) -> bool:
        """Whether two places of one function are in arms of a test that exclude each other."""
        home = self.steps.program.function_of
        return home(one) is home(other) and contradict(self.tree, one, other)

    def leading(self, node: cst.CSTNode, home: cst.FunctionDef | None) -> list[cst.Call]:
        """The calls in a function that run the one around a node."""
        program = self.steps.program
        function = program.function_of(node)
        calls = program.calls_of(function) if function is not None else ()
        return [call for call in calls if program.function_of(call) is home]

    def ways_to(self, call: cst.Call) -> Iterator[tuple[cst.Call, ...]]:
        """A call, and those that lead to it, each way from the inside out."""
        ways: list[tuple[cst.Call, ...]] = [(call,)]
        for way in ways:
            yield way
            function = self.steps.program.function_of(way[-1])
            if function is not None and len(way) < _MOST_CALLS:
                ways += ((*way, outer) for outer in self.steps.program.calls_of(function))

    def tests_within(self, loop: cst.For, node: cst.CSTNode) -> Iterator[cst.BaseExpression]:
        """The tests of a loop's body that decide whether a round of it reaches a place."""
        tests = (test for test, _ in deciding(self.tree, node))
        return (test for test in tests if self.tree.contains(loop.body, test))

    @per_node
    def picks(self, node: cst.CSTNode) -> frozenset[tuple[cst.BaseExpression, bool]]:
        """The tests of what the loop around a call changes that decide about it, with outcomes.

        Or of what the function counts that is one round. Not whether something is finite, which
        any number of rounds in a row may be.
        """
        around = self.tree.ancestor(node, cst.For, cst.While, cst.FunctionDef)
        if around is None:
            return frozenset()
        bound = [] if isinstance(around, cst.FunctionDef) else self.steps.program.assigned(around)
        names = {self.tree.source(part) for each in bound for part in named(each)}

        def picks(test: cst.BaseExpression) -> bool:
            if isinstance(around, cst.FunctionDef):  # what its caller counts is no setting
                return not is_mode_test(test)
            return self._mentions(test, names) or _calls(test)

        return frozenset(
            (test, holds)
            for test, holds in deciding(self.tree, node)
            if self.tree.contains(around, test) and picks(test)
            if not self.steps.relevance.is_about_finiteness(test)
        )

    def _mentions(self, test: cst.BaseExpression, names: set[str]) -> bool:
        return any(self.tree.source(part) in names for part in named(test))

    def has_one_round(self, loop: cst.For) -> bool:
        """Whether a loop is one over ``range(1)``."""
        if not isinstance(loop.iter, cst.Call) or len(loop.iter.args) != 1:
            return False
        count = self.steps.recognizer.values.constants(loop.iter.args[0].value)
        return set(count) == {1} and self.tree.source(loop.iter.func) == "range"


def _calls(test: cst.BaseExpression) -> bool:
    """Whether a test calls something, which may say another thing each time."""
    calls = (part for part in descendants(test) if isinstance(part, cst.Call))
    return not all(map(is_mode_test, calls))


def stepped_itself(node: cst.CSTNode) -> cst.BaseExpression | None:
    """``x`` of ``x.step()``."""
    func = node.func if isinstance(node, cst.Call) else None
    return func.value if isinstance(func, cst.Attribute) else None
