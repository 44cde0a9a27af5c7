"""Values that count the rounds of a run, and tests of how far it has come."""

from __future__ import annotations

import functools
from collections.abc import Iterator

import libcst as cst

from amp_lint.flow.conditions import is_mode_test
from amp_lint.flow.program import Program
from amp_lint.flow.values import literal
from amp_lint.syntax.assignments import assignments
from amp_lint.syntax.names import dotted

_ORDER = (cst.LessThan, cst.LessThanEqual, cst.GreaterThan, cst.GreaterThanEqual)
_COUNTING = frozenset({"builtins.enumerate", "builtins.range", "itertools.count"})
_MOST_STEPS = 4
"""Names that a count may go through."""


class Counters:
    """What counts, by what is done with it: ``for i, x in enumerate(...)``, ``step += 1``."""

    def __init__(self, program: Program) -> None:
        self._program = program

    def is_past(self, test: cst.BaseExpression) -> bool:
        """Whether a test is of how far a run has come: ``step > warmup``, true from then on."""
        while isinstance(test, cst.UnaryOperation) and isinstance(test.operator, cst.Not):
            test = test.expression
        if not isinstance(test, cst.Comparison) or len(test.comparisons) != 1:
            return False
        (target,) = test.comparisons
        sides = test.left, target.comparator
        ordered = isinstance(target.operator, _ORDER) and all(map(is_mode_test, sides))
        return ordered and any(map(self.counts, sides))

    def counts(self, node: cst.BaseExpression, steps: int = _MOST_STEPS) -> bool:
        """Whether a name, or an attribute of whatever object, is a count."""
        if steps <= 0:
            return False
        if isinstance(node, cst.Attribute):
            name = node.attr.value
            given = self._given.get(name, [])
            return name in self._raised or any(self.counts(each, steps - 1) for each in given)
        if not isinstance(node, cst.Name):
            return False
        if node.value in self._raised or self._is_of_loop(node):
            return True
        return any(self.counts(each, steps - 1) for each in self._program.given_by_all(node))

    def counts_rounds(self, node: cst.BaseExpression, call: cst.Call) -> bool:
        """Whether a count is raised by one in each round of the loop around a call.

        Or by the function, where there is no loop in it.
        """
        program = self._program
        around = program.loop(call) or program.function_of(call)
        name = dotted(node)
        raised = program.tree.below(around.body, cst.AugAssign) if around and name else ()
        return any(
            dotted(each.target) == name and program.loop(each) is program.loop(call)
            for each in raised
            if isinstance(each.operator, cst.AddAssign) and literal(each.value) == 1
        )

    def _is_of_loop(self, name: cst.Name) -> bool:
        """Whether a loop counts by a name."""
        program = self._program
        for binding in program.names.bindings(name):
            if isinstance(binding.node, cst.For) and isinstance(binding.node.iter, cst.Call):
                iterable, target = binding.node.iter, binding.node.target
                first = target.elements[0].value if isinstance(target, cst.Tuple) else target
                counted = isinstance(first, cst.Name) and first.value == name.value
                if counted and program.names.is_any(iterable.func, _COUNTING):
                    return True
        return False

    @functools.cached_property
    def _raised(self) -> frozenset[str]:
        """The names of what is made larger by a number that is written out."""
        return frozenset(self._raises())

    def _raises(self) -> Iterator[str]:
        for node in self._program.tree.nodes(cst.AugAssign):
            if isinstance(node.operator, cst.AddAssign) and isinstance(node.value, cst.Integer):
                target = node.target.attr if isinstance(node.target, cst.Attribute) else node.target
                if isinstance(target, cst.Name):
                    yield target.value

    @functools.cached_property
    def _given(self) -> dict[str, list[cst.BaseExpression]]:
        """Attributes, and the names that they are given."""
        found: dict[str, list[cst.BaseExpression]] = {}
        for target, value in assignments(self._program.tree):
            if isinstance(target, cst.Attribute) and isinstance(value, cst.Name):
                found.setdefault(target.attr.value, []).append(value)
        return found
