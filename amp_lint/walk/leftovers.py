"""Gradients that an update leaves, and a later step takes."""

from __future__ import annotations

import functools

import libcst as cst

from amp_lint.amp.events import Kind
from amp_lint.amp.roles import Roles
from amp_lint.flow.branches import contradict
from amp_lint.syntax.tree import Tree
from amp_lint.vocabulary.purity import NOTING, PURE_METHODS, QUERIES, is_pure_function
from amp_lint.walk.paths import LeftStep
from amp_lint.walk.rounds import Rounds
from amp_lint.walk.steps import Root, Steps

_FACTORS = (cst.MultiplyAssign, cst.DivideAssign)


class Leftovers:
    """Whether a step takes what is left, and nothing else has come to it."""

    def __init__(self, tree: Tree, roles: Roles, steps: Steps, rounds: Rounds) -> None:
        self.tree = tree
        self.roles = roles
        self.steps = steps
        self.rounds = rounds

    def is_sure_of(self, left: LeftStep, root: Root) -> bool:
        """Whether a step after an update takes what that left: nothing else may have come to it.

        All is in the function of the step, or backward and update are in one that this calls once.
        """
        step, update, backward = left.step.node, left.update.node, left.backward.node
        home, inner, made = (
            self.rounds.home(node) or self.tree.module for node in (step, update, backward)
        )
        if made is not inner or self.makes_gradients(step) or self._wraps_optimizer(step):
            return False
        calls, program = self.tree.below(home, cst.Call), self.steps.program
        through = [call for call in calls if program.target(call) is inner]
        if home is not inner and len(through) != 1:
            return False
        done = update if home is inner else through[0]
        if program.loop(done) is not program.loop(step):
            return False
        start = backward if home is inner else done
        spans = [(self.tree.end(start), self.tree.order(step))]
        if home is not inner:
            spans.append((self.tree.end(backward), self.tree.end(inner)))
        mixed = any(
            event.scaler is None and not contradict(self.tree, event.node, backward)
            for event in self.steps.backwards
        )
        given = isinstance(backward, cst.Call) and backward.args  # it may be for some weights only
        hooked = bool(self.tree.named("register_hook"))
        each = self._is_in_own_loop(left, root)  # the optimizers have another name there
        later = self.tree.order(done) < self.tree.order(step)
        sure = later and not mixed and not given and not hooked and not each
        return sure and not any(self._may_change_gradients(*span) for span in spans)

    def _may_change_gradients(self, first: int, end: int) -> bool:
        """Whether something between two places is no log: a call that nobody knows, ``g /= 2``."""
        calls = self.tree.between(cst.Call, first, end)
        changes = self.tree.between(cst.AugAssign, first, end)
        by_hand = any(isinstance(each.operator, _FACTORS) for each in changes)
        return by_hand or not all(map(self._changes_no_gradients, calls))

    def _is_in_own_loop(self, left: LeftStep, root: Root) -> bool:
        """Whether another loop than the one of the update steps, or unscales, optimizers."""
        loop = self.steps.program.loop
        return any(
            loop(event.node) is not loop(left.update.node) or self._is_comprehended(event.node)
            for cycle in root.cycles
            if left.update in cycle
            for event in cycle
            if event.kind in (Kind.STEP, Kind.UNSCALE) and event.scaler is not None
        )

    def _is_comprehended(self, node: cst.CSTNode) -> bool:
        """Whether a comprehension runs something again and again."""
        for holder in self.tree.ancestors(node):
            if isinstance(holder, (cst.BaseComp, cst.BaseStatement)):
                return isinstance(holder, cst.BaseComp)
        return False

    def _wraps_optimizer(self, step: cst.CSTNode) -> bool:
        """Whether what steps was made of an optimizer, whose gradients it takes."""
        if not isinstance(step, cst.Call) or not isinstance(step.func, cst.Attribute):
            return False
        owner = step.func.value
        made = (v for v in self.steps.program.values.alternatives(owner) if isinstance(v, cst.Call))
        return any(self.roles.is_optimizer(arg.value) for call in made for arg in call.args)

    def _changes_no_gradients(self, call: cst.Call, steps: int = 2) -> bool:
        """Whether a call is known to make and change no gradients: an event, a log, arithmetic."""
        recognizer, program = self.steps.recognizer, self.steps.program
        if recognizer.kind(call) is not None or recognizer.is_scale(call):
            return True
        if (target := program.target(call)) is not None:
            inner = self.tree.below(target.body, cst.Call)
            return steps > 0 and all(self._changes_no_gradients(c, steps - 1) for c in inner)
        names = program.names.qualified(call.func)
        if names and all(map(is_pure_function, names)):
            return True
        method = call.func.attr.value if isinstance(call.func, cst.Attribute) else ""
        return method in QUERIES | PURE_METHODS | NOTING

    def makes_gradients(self, step: cst.CSTNode) -> bool:
        """Whether a direct step is given a closure that runs backward, on a loss as it is."""
        given = step.args if isinstance(step, cst.Call) else ()
        values = self.steps.program.values
        closures = [v for arg in given for v in values.alternatives(arg.value)]
        bodies = [values.function(each) or each for each in closures]
        calls = [call for body in bodies for call in self.tree.below(body, cst.Call)]
        recognizer = self.steps.recognizer
        trains = any(self._runs(call, recognizer.training, Kind.BACKWARD) for call in calls)
        return trains and not any(self._runs(call, self._scaling) for call in calls)

    def _runs(self, call: cst.Call, functions: frozenset[int], kind: Kind | None = None) -> bool:
        """Whether a call is of one of some functions, or itself what they run."""
        recognizer = self.steps.recognizer
        own = recognizer.kind(call) is kind if kind is not None else recognizer.is_scale(call)
        return own or id(self.steps.program.target(call)) in functions

    @functools.cached_property
    def _scaling(self) -> frozenset[int]:
        """Ids of the functions that scale a loss, themselves or in what they call."""
        is_scale = self.steps.recognizer.is_scale
        calls = (call for call in self.tree.nodes(cst.Call) if is_scale(call))
        return self.steps.program.running(calls)
