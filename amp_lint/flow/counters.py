"""Values that count the rounds of a run, and tests of how far it has come."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Iterator
from collections.abc import Set as AbstractSet

import libcst as cst

from amp_lint.flow.conditions import is_mode_test, text
from amp_lint.flow.program import Program
from amp_lint.flow.values import literal
from amp_lint.syntax.assignments import assignments
from amp_lint.syntax.names import dotted
from amp_lint.syntax.tree import descendants
from amp_lint.vocabulary.purity import PROGRESS_BARS

_ORDER = (cst.LessThan, cst.LessThanEqual, cst.GreaterThan, cst.GreaterThanEqual)
_COUNTING = frozenset({"builtins.enumerate", "builtins.range", "itertools.count"})
_ENDING: dict[type[cst.BaseCompOp], bool] = {
    cst.Equal: True,
    cst.GreaterThanEqual: True,
    cst.NotEqual: False,
    cst.LessThan: False,
}
"""Signs between a count and its end, with what they give in the last round alone."""
_MIRRORED: dict[type[cst.BaseCompOp], type[cst.BaseCompOp]] = {
    cst.LessThanEqual: cst.GreaterThanEqual,
    cst.GreaterThan: cst.LessThan,
    cst.GreaterThanEqual: cst.LessThanEqual,
    cst.LessThan: cst.GreaterThan,
}
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
        if node.value in self._raised or any(self._loops(node)):
            return True
        return any(self.counts(each, steps - 1) for each in self._program.given_by_all(node))

    def raised(self, node: cst.BaseExpression, call: cst.Call) -> list[cst.AugAssign]:
        """Where a count is raised by one, in the loop around a call.

        Or in the function, where there is no loop in it.
        """
        program = self._program
        around = program.loop(call) or program.function_of(call)
        name = dotted(node)
        raised = program.tree.below(around.body, cst.AugAssign) if around and name else ()
        return [
            each
            for each in raised
            if isinstance(each.operator, cst.AddAssign) and literal(each.value) == 1
            if dotted(each.target) == name and program.loop(each) is program.loop(call)
        ]

    def end_tests(self, loop: cst.For) -> list[tuple[cst.Comparison, bool]]:
        """The comparisons in a loop by which it finds its last round, with what each gives there.

        ``i == len(loader) - 1`` in ``for i, x in enumerate(loader)``, be it wrapped in a bar that
        shows the progress.
        """
        count, first, ends = self._counted(loop)
        tests = self._program.tree.below(loop.body, cst.Comparison) if count else ()
        found = ((test, self._at_the_end(test, count, first, ends)) for test in tests)
        return [(test, holds) for test, holds in found if holds is not None]

    def _at_the_end(
        self, test: cst.Comparison, count: str, first: int, ends: AbstractSet[str]
    ) -> bool | None:
        """What a comparison of a count with the number of rounds gives in the last one.

        None if it is no such comparison, or one that holds in other rounds, too.
        """
        if len(test.comparisons) != 1:
            return None
        (target,) = test.comparisons
        (left, more), (right, less) = map(self._shifted, (test.left, target.comparator))
        sign = type(target.operator)
        if text(right) == count:
            (left, more), (right, less), sign = (
                (right, less),
                (left, more),
                _MIRRORED.get(sign, sign),
            )
        if text(left) != count or text(right) not in ends or first - 1 + more != less:
            return None
        return _ENDING.get(sign)

    def _shifted(self, node: cst.BaseExpression) -> tuple[cst.BaseExpression, int]:
        """``a`` and 1 of ``a + 1``, also where that has a name."""
        values = [*self._program.values.alternatives(node)]
        sums = [value for value in values if isinstance(value, cst.BinaryOperation)]
        return _shifted(sums[0] if len(values) == len(sums) == 1 else node)

    def _counted(self, loop: cst.For) -> tuple[str, int, frozenset[str]]:
        """By what name a loop counts from where, and how the number of its rounds is written."""
        target = (
            loop.target.elements[0].value if isinstance(loop.target, cst.Tuple) else loop.target
        )
        made = next((e for e in self._walked(loop.iter) if self._is_counting(e)), None)
        if not isinstance(target, cst.Name) or not isinstance(made, cst.Call):
            return "", 0, frozenset()
        given = [arg.value for arg in made.args]
        if len(given) == 1 and dotted(made.func) == "range":
            return target.value, 0, frozenset({text(given[0])})
        start = literal(given[1]) if len(given) == 2 else 0
        if dotted(made.func) != "enumerate" or type(start) is not int:
            return "", 0, frozenset()
        lengths = {f"len({text(each)})" for each in self._walked(given[0])}
        named = (name for name, value in self._named_lengths if value in lengths)
        return target.value, start, frozenset({*lengths, *named})

    def _is_counting(self, node: cst.BaseExpression) -> bool:
        if not isinstance(node, cst.Call) or not node.args:
            return False
        return self._program.names.is_only(node.func, _COUNTING)

    def _walked(self, iterable: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
        """What is looped over, itself and within bars that show the progress."""
        yield iterable
        values = [*self._program.values.alternatives(iterable)]
        if len(values) == 1 and isinstance(values[0], cst.Call) and values[0].args:
            names = self._program.names.qualified(values[0].func)
            if names and all(name.startswith(PROGRESS_BARS) for name in names):
                yield from self._walked(values[0].args[0].value)

    @functools.cached_property
    def _named_lengths(self) -> list[tuple[str, str]]:
        """The names that are given the length of something once, and that."""
        program = self._program
        given = [(text(t), text(v)) for t, v in assignments(program.tree) if v is not None]
        counts = Counter(name for name, _ in given)
        return [(name, value) for name, value in given if counts[name] == 1 and value[:4] == "len("]

    def rounds(self, node: cst.BaseExpression, call: cst.Call) -> list[cst.CSTNode]:
        """What raises the numbers that one is made of with each round of the loop around a call.

        The loop itself, which counts, or where they are raised in it.
        """
        parts = [p for p in (node, *descendants(node)) if isinstance(p, (cst.Name, cst.Attribute))]
        found: list[cst.CSTNode] = [each for part in parts for each in self.raised(part, call)]
        loop = self._program.loop(call)
        names = (part for part in parts if isinstance(part, cst.Name))
        return found + [each for name in names for each in self._loops(name) if each is loop]

    def _loops(self, name: cst.Name) -> Iterator[cst.For]:
        """The loops that count by a name."""
        program = self._program
        for binding in program.names.bindings(name):
            if isinstance(binding.node, cst.For) and isinstance(binding.node.iter, cst.Call):
                iterable, target = binding.node.iter, binding.node.target
                first = target.elements[0].value if isinstance(target, cst.Tuple) else target
                counted = isinstance(first, cst.Name) and first.value == name.value
                if counted and program.names.is_any(iterable.func, _COUNTING):
                    yield binding.node

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


def _shifted(node: cst.BaseExpression) -> tuple[cst.BaseExpression, int]:
    """``a`` and 1 of ``a + 1``."""
    if isinstance(node, cst.BinaryOperation) and isinstance(node.right, cst.Integer):
        number = int(node.right.value)
        if isinstance(node.operator, (cst.Add, cst.Subtract)):
            return node.left, number if isinstance(node.operator, cst.Add) else -number
    return node, 0
