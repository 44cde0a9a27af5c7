"""What a fix needs to know of the steps and updates around a mistake."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import libcst as cst

from amp_lint.amp.events import Event, Kind
from amp_lint.syntax.tree import Tree
from amp_lint.walk.found import Found
from amp_lint.walk.paths import last_name
from amp_lint.walk.rounds import Rounds
from amp_lint.walk.steps import Steps


@dataclass(frozen=True, slots=True, eq=False)
class TestedUpdate:
    """An ``update`` that is all there is under an ``if``."""

    call: cst.Call
    holder: cst.If


class StepPlaces:
    """Where calls of the protocol stand, and which can be moved."""

    def __init__(self, tree: Tree, steps: Steps, rounds: Rounds) -> None:
        self.tree = tree
        self.steps = steps
        self.rounds = rounds

    def follows(self, first: cst.CSTNode, second: cst.CSTNode) -> bool:
        """Whether two calls are lines of one block, the second below the first."""
        one, other = self.tree.statement(first), self.tree.statement(second)
        if not isinstance(one, cst.SimpleStatementLine) or one is other:
            return False
        same = self.tree.parent(one) is self.tree.parent(other) if other is not None else False
        lines = isinstance(other, cst.SimpleStatementLine)
        return same and lines and self.tree.order(first) < self.tree.order(second)

    def scaler_text(self, scaled: Event, event: Event) -> str | None:
        """How the scaler of ``scaled`` is written, if it can be at the place of ``event``.

        Which is where it scales a loss, or unscales.
        """
        function, node = self.tree.ancestor(event.node, cst.FunctionDef), scaled.node
        if scaled.kind is Kind.UNSCALE and self.rounds.home(node) is function:
            assert isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute)
            return self.tree.source(node.func.value)
        for call in self.tree.nodes(cst.Call):
            if not self.steps.recognizer.is_scale(call) or not isinstance(call.func, cst.Attribute):
                continue
            if self.tree.ancestor(call, cst.FunctionDef) is function:
                written = self.tree.source(call.func.value)
                if last_name(scaled.scaler or "") == last_name(written):
                    return written
        return None

    def is_updated(self, event: Event) -> bool:
        """Whether an update follows an event on every path."""
        cycles = [c for root in self.steps.roots for c in root.cycles if event in c]
        return bool(cycles) and all(cycle[-1].kind is Kind.UPDATE for cycle in cycles)

    def is_stepped_by_scaler(self, direct: Event) -> bool:
        """Whether some path steps the same optimizer through a scaler too, before its update."""
        return any(any(steps) for steps in self._scaled_steps(direct))

    def is_stepped_again(self, direct: Event) -> bool:
        """Whether the scaler steps the optimizer next on every path, on the same gradients."""
        return all(steps[:1] == [True] for steps in self._scaled_steps(direct))

    def _scaled_steps(self, direct: Event) -> Iterator[list[bool]]:
        """From a direct step on and round again, for each cycle: what happens to the gradients.

        True is a step of the same optimizer through a scaler, False is anything else.
        """
        decisive = (
            Kind.STEP,
            Kind.BACKWARD,
            Kind.ZERO_GRAD,
            Kind.UPDATE,
            Kind.GRADIENT_WRITE,
        )
        for cycle in (cycle for root in self.steps.roots for cycle in root.cycles):
            for index, event in enumerate(cycle):
                if event.node is direct.node:
                    rest = (*cycle[index + 1 :], *cycle[:index])
                    yield [
                        event.kind is Kind.STEP and event.scaler is not None
                        for event in rest
                        if event.kind in decisive and event.optimizer in (None, direct.optimizer)
                    ]

    def update_under_test(self, step: Event) -> TestedUpdate | None:
        """The ``update`` below a step that stands alone under an ``if``; None if there are more."""
        updates = self.rounds.updates_beside(step.node)
        if len(updates) != 1:
            return None
        (call,) = updates
        line = self.tree.parent(self.tree.parent(call) or call)
        block = self.tree.parent(line) if line is not None else None
        holder = self.tree.parent(block) if block is not None else None
        if not isinstance(block, cst.IndentedBlock) or len(block.body) != 1:
            return None
        if not isinstance(holder, cst.If) or holder.orelse is not None or holder.leading_lines:
            return None
        statement = self.tree.statement(step.node)
        beside = statement is not None and self.tree.parent(holder) is self.tree.parent(statement)
        return TestedUpdate(call, holder) if beside else None

    def end_of_steps(self, found: Found) -> cst.SimpleStatementLine | None:
        """Where an update can follow all steps of a round, in a file that has none at all.

        None unless they stand side by side, each once after its backward, and no optimizer twice.
        """
        if self.steps.recognizer.updates:
            return None
        events = [e for e in found.cycle if e.kind is Kind.STEP and e.scaler == found.event.scaler]
        optimizers = {id(event.node): event.optimizer for event in events}
        if len({*optimizers.values()}) < len(optimizers):
            return None
        lines = [self._alone(event, found) for event in events]
        known = [line for line in lines if line is not None]
        if not known or len({id(self.tree.parent(line)) for line in known}) > 1:
            return None
        return max(known, key=self.tree.order) if len(known) == len(lines) else None

    def _alone(self, step: Event, found: Found) -> cst.SimpleStatementLine | None:
        """The line of a step that runs once for each round in which there is a backward."""
        line = self.tree.statement(step.node)
        if not isinstance(line, cst.SimpleStatementLine) or len(line.body) > 1 or step.varies:
            return None
        program = self.steps.program
        loop = program.loop(step.node)
        backwards = (event.node for event in found.cycle if event.kind is Kind.BACKWARD)
        same = any(
            loop in [None, *program.loops(node)]
            and self.rounds.home(node) is self.rounds.home(step.node)
            for node in backwards
        )
        return line if same and self.tree.is_own(step.node) else None

    def last_step_after(self, update: Event) -> cst.CSTNode | None:
        """The last of the steps that come after an update and belong before it.

        None where one of them is a second step of an optimizer: only the update lets it take it.
        """
        late = self._late(update, Kind.STEP)
        if self._stepped_before(update).intersection(event.optimizer for event in late):
            return None
        return max((event.node for event in late), key=self.tree.order, default=None)

    def _stepped_before(self, update: Event) -> set[str | None]:
        """The optimizers that are stepped with the gradients of an update, before it."""
        found: set[str | None] = set()
        for cycle in (cycle for root in self.steps.roots for cycle in root.cycles):
            stepped: set[str | None] = set()
            for event in cycle:
                if event.node is update.node:
                    found |= stepped
                elif event.kind in (Kind.BACKWARD, Kind.UPDATE):
                    stepped = set()
                elif event.kind is Kind.STEP:
                    stepped.add(event.optimizer)
        return found

    def next_update(self, update: Event) -> cst.CSTNode | None:
        """The next update for the same gradients, if there is one."""
        late = (event.node for event in self._late(update, Kind.UPDATE))
        return min(late, key=self.tree.order, default=None)

    def _late(self, update: Event, kind: Kind) -> list[Event]:
        early = [pair for root in self.steps.roots for pair in root.early]
        return [event for u, event in early if u.node is update.node and event.kind is kind]

    def gives_up_nonfinite(self, found: Found) -> bool:
        """Whether a step is left out because something is inf or NaN."""
        return self.steps.relevance.asks_if_gradients_are_finite(found.event.node)
