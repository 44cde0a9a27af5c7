"""Loops that step one optimizer after the other, and update after each."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from amp_lint.amp.events import Event, Kind, stepped
from amp_lint.mistake import Mistake
from amp_lint.syntax.tree import Tree
from amp_lint.walk.found import Found
from amp_lint.walk.paths import Cycle
from amp_lint.walk.rounds import Rounds
from amp_lint.walk.steps import Root, Steps

_STEPPING = frozenset({Kind.UNSCALE, Kind.CLIP, Kind.STEP, Kind.UPDATE})
"""What is done with gradients that a backward left, and no more."""


class Turns:
    """Finds the updates that come before the step of the next optimizer."""

    def __init__(self, tree: Tree, steps: Steps, rounds: Rounds) -> None:
        self.tree = tree
        self.steps = steps
        self.rounds = rounds

    def updates_in_turn(self, cycle: Cycle, root: Root) -> Iterator[Found]:
        """The updates of a loop over optimizers: another one of them steps after each."""
        program, trained = self.steps.program, any(e.kind is Kind.BACKWARD for e in cycle)
        for index, update in enumerate(cycle):
            loop = program.loop(update.node) if update.kind is Kind.UPDATE else None
            if not isinstance(loop, cst.For) or self.steps.relevance.has_backward(loop.body):
                continue
            if not trained and not self._only_steps(loop):
                continue
            for step in cycle[:index]:
                each = step.kind is Kind.STEP and step.scaler == update.scaler is not None
                if (
                    each
                    and program.loop(step.node) is loop
                    and self._takes_turns(loop, step, update)
                ):
                    yield Found(Mistake.EARLY_UPDATE, update, step, root, ())

    def _takes_turns(self, loop: cst.For, step: Event, update: Event) -> bool:
        """Whether each round of a loop steps another optimizer, by one scaler."""
        call = step.node
        optimizer = stepped(call) if isinstance(call, cst.Call) else None
        if (
            optimizer is None
            or not self._varies(loop, optimizer)
            or self._has_one_element(loop.iter)
        ):
            return False
        assert isinstance(call, cst.Call)  # it gave the optimizer
        tests = (
            test for each in (step, update) for test in self.rounds.tests_within(loop, each.node)
        )
        return not any(self._varies(loop, each) for each in (call.func, *tests))

    def _has_one_element(self, iterable: cst.BaseExpression) -> bool:
        """Whether a loop may walk over a list of one element, be it one that a caller gives."""
        program = self.steps.program
        parts = (iterable, *self.tree.below(iterable, cst.Name))
        given = (each for p in parts if isinstance(p, cst.Name) for each in program.given_by_all(p))
        return any(
            isinstance(value, (cst.List, cst.Tuple)) and len(value.elements) < 2
            for each in (*parts, *given)
            for value in program.values.alternatives(each)
        )

    def _varies(self, loop: cst.For, node: cst.BaseExpression) -> bool:
        """Whether an expression asks for what a loop takes another thing for in each round."""
        targets = {target.value for target in self.tree.below(loop.target, cst.Name)}
        meant = (node, *self.steps.program.values.alternatives(node))
        names = (name for each in meant for name in self.tree.below(each, cst.Name))
        return any(name.value in targets for name in names)

    def _only_steps(self, loop: cst.For) -> bool:
        """Whether a loop steps one optimizer after the other and runs nothing that is not seen.

        Then it does so on the same gradients, wherever they are from.
        """
        calls = self.tree.below(loop.body, cst.Call)
        return {*map(self.steps.recognizer.kind, calls)} <= _STEPPING

    def is_of_one_round(self, update: cst.Call) -> bool:
        """Whether a walk over optimizers updates in some of its rounds only, such as the last."""
        loop = self.steps.program.loop(update)
        if not isinstance(loop, cst.For) or self.steps.relevance.has_backward(loop.body):
            return False
        return any(self._varies(loop, test) for test in self.rounds.tests_within(loop, update))
