"""Whether a program leaves no doubt about what the events of a path show."""

from __future__ import annotations

import functools
from collections.abc import Iterable

import libcst as cst

from amp_lint.amp.events import Event, Kind
from amp_lint.amp.roles import Roles
from amp_lint.flow.branches import contradict, deciding
from amp_lint.flow.conditions import is_mode_test, text
from amp_lint.flow.values import arguments
from amp_lint.syntax.assignments import targets_of
from amp_lint.syntax.names import dotted
from amp_lint.syntax.tree import Tree, descendants
from amp_lint.vocabulary.meaning import Part
from amp_lint.vocabulary.table import rows
from amp_lint.walk.handovers import scales
from amp_lint.walk.paths import Cycle, last_name
from amp_lint.walk.rounds import Rounds
from amp_lint.walk.steps import Steps
from amp_lint.walk.turns import Turns

_STRICT = {row.keyword(Part.STRICT) for row in rows(Kind.CLIP)} - {None}
"""What tells a clip to raise where gradients are not finite."""


class Certainty:
    """The questions that are asked of a mistake before it is told."""

    def __init__(
        self, tree: Tree, roles: Roles, steps: Steps, rounds: Rounds, turns: Turns
    ) -> None:
        self.tree = tree
        self.roles = roles
        self.steps = steps
        self.rounds = rounds
        self.turns = turns

    def is_certain(self, cause: Event, event: Event) -> bool:
        """Whether the second of two events is certain to come before an update.

        It is not where both are one call for two optimizers or in a loop of a single round, or
        where that call and the update are under two tests of what the loop changes, which may say
        the same: ``i % k == k - 1``, ``(i + 1) % k == 0``.
        """
        if cause.node is not event.node:
            return True
        if cause.varies or event.varies:
            return False
        loop = self.tree.ancestor(event.node, cst.For)
        if loop is not None and self.rounds.has_one_round(loop):
            return False
        mine, updates = self.rounds.picks(event.node), self.rounds.updates_beside(event.node)
        if any(map(self.turns.is_of_one_round, updates)):
            return False
        return not any(mine - other and other - mine for other in map(self.rounds.picks, updates))

    def is_before_steps(self, backward: Event, update: Event) -> bool:
        """Whether the steps of a function all stand below an update, and none is passed over.

        Those in another arm than it count as below. A test that has a step under it, above the
        update, may hold wherever that one's does.
        """
        home, order = self.rounds.home(update.node), self.tree.order
        if home is None or self.rounds.home(backward.node) is not home:
            return False
        recognizer = self.steps.recognizer
        calls = self.tree.below(home, cst.Call)
        steps = [call for call in calls if recognizer.kind(call) in (Kind.STEP, Kind.UNSCALE)]
        return bool(steps) and all(
            order(step) > order(update.node) or contradict(self.tree, step, update.node)
            for step in steps
        )

    def is_updated_elsewhere(self, event: Event) -> bool:
        """Whether what comes from elsewhere, and holds the scaler, may update it there.

        Nothing in sight makes such a scaler, and nothing updates one.
        """
        method = event.node.func if isinstance(event.node, cst.Call) else None
        scaler = method.value if isinstance(method, cst.Attribute) else None
        if not isinstance(scaler, cst.Attribute) or dotted(scaler.value) in ("self", "cls"):
            return False
        return not self.roles.scaler_origins(scaler) and not self.steps.recognizer.updates

    def is_unchecked(self, unscale: Event, step: Event) -> bool:
        """Whether nobody asks if gradients are finite between an ``unscale_`` and a step."""
        home, call = self.rounds.home(step.node), step.node
        if self.rounds.home(unscale.node) is not home or not isinstance(call, cst.Call):
            return False
        known = {text(test) for test, _ in deciding(self.tree, unscale.node)}
        tests = (test for test, _ in deciding(self.tree, call) if text(test) not in known)
        given = (
            arguments(each).keywords for each in self.tree.below(home or self.tree.module, cst.Call)
        )
        return (
            not call.args
            and all(map(is_mode_test, tests))
            and _STRICT.isdisjoint(name for keywords in given for name in keywords)
        )

    def must_scale(self, backward: Event, step: Event) -> bool:
        """Whether nothing but a scaled loss would be right: each scaler is made here, and enabled.

        Or by who calls, as far as that is seen. And the loss is not one that something called
        scale has made.
        """
        assert isinstance(step.node, cst.Call) and isinstance(backward.node, cst.Call)
        if not isinstance(step.node.func, cst.Attribute):
            return False
        return self.roles.is_always_on(step.node.func.value) and not scales(backward.node)

    def is_added(self, backward: Event) -> bool:
        """Whether gradients that nothing scaled are stepped by scalers alone.

        After an update, too, no optimizer may step them that no scaler steps.
        """
        roots = [root for root in self.steps.roots if any(backward in each for each in root.cycles)]
        every = _steps(cycle for root in roots for cycle in root.cycles)
        beside = _steps(cycle for root in roots for cycle in root.cycles if backward in cycle)
        by_scalers = {step.optimizer for step in every if step.scaler is not None}
        others = (step for step in every if step.optimizer not in by_scalers)
        is_plain = any(step.scaler is None for step in (*beside, *others))
        assert isinstance(backward.node, cst.Call)
        return not is_plain and not scales(backward.node)

    @functools.cached_property
    def own_events(self) -> set[int]:
        """Ids of the events that some path reaches with a loss which their own scaler scaled.

        A path on which another one did leaves something out, by a test that may never say so.
        """
        cycles = (cycle for root in self.steps.roots for cycle in root.cycles)
        events = (pair for cycle in cycles for pair in self.steps.states(cycle))
        return {id(event.node) for event, state in events if event.scaler in state.scalers}

    def are_two(self, one: Event, other: Event) -> bool:
        """Whether the scalers of two events are certainly two objects."""
        return (
            last_name(one.scaler or "") != last_name(other.scaler or "")
            and {last_name(one.scaler or ""), last_name(other.scaler or "")} <= self._made
        )

    @functools.cached_property
    def _made(self) -> set[str]:
        """The names that a new GradScaler is assigned to."""
        return {
            last_name(self.tree.source(target))
            for call in self.roles.all_scaler_calls
            for target in targets_of(self.tree, self._chosen(call))
        }

    def _chosen(self, call: cst.Call) -> cst.CSTNode:
        """The expression that is a call or something else: ``GradScaler() if amp else None``."""
        node: cst.CSTNode = call
        while isinstance(holder := self.tree.parent(node), (cst.IfExp, cst.BooleanOperation)):
            if isinstance(holder, cst.IfExp) and node is holder.test:
                break
            node = holder
        return node

    def gives_up(self, leaving: cst.CSTNode) -> bool:
        """Whether a step is left out because of its gradients, not until the last micro-batch."""
        if self.steps.relevance.asks_if_finite(leaving):
            return True
        holder = self.tree.ancestor(leaving, cst.If)
        tests = () if holder is None else self.steps.relevance.spelled_out(holder.test)
        parts = [part for test in tests for part in descendants(test)]
        sums = (part for part in parts if isinstance(part, cst.BinaryOperation))
        if any(isinstance(part.operator, cst.Modulo) for part in sums):
            return False
        compares = any(isinstance(part, cst.Comparison) for part in parts)
        return compares or self._ends_function(leaving)

    def _ends_function(self, leaving: cst.CSTNode) -> bool:
        """Whether no round of a loop is left, but a function that is called in each."""
        if isinstance(leaving, (cst.Continue, cst.Return)):
            return isinstance(leaving, cst.Return)
        holder = self.tree.ancestor(leaving, cst.For, cst.While, cst.FunctionDef)
        return isinstance(holder, cst.FunctionDef)


def _steps(cycles: Iterable[Cycle]) -> list[Event]:
    return [event for cycle in cycles for event in cycle if event.kind is Kind.STEP]
