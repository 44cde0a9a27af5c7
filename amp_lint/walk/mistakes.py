"""Calls of the GradScaler protocol that come in the wrong state, on some feasible path."""

from __future__ import annotations

import functools
from collections.abc import Iterator

from amp_lint.amp.events import Event, Kind
from amp_lint.amp.roles import Roles
from amp_lint.mistake import Mistake
from amp_lint.syntax.tree import Tree
from amp_lint.walk.certainty import Certainty
from amp_lint.walk.found import Found
from amp_lint.walk.gradients import Gradients
from amp_lint.walk.handovers import Handovers
from amp_lint.walk.leftovers import Leftovers
from amp_lint.walk.mistake_rows import CALLS, UNCHECKED_STEP
from amp_lint.walk.paths import Cycle
from amp_lint.walk.rounds import Rounds
from amp_lint.walk.schedules import Schedules
from amp_lint.walk.steps import Root, Steps
from amp_lint.walk.turns import Turns

_ROWS = {**CALLS, Kind.STEP: (UNCHECKED_STEP, *CALLS[Kind.STEP])}
_AFTER_BACKWARD = frozenset({Kind.STEP, Kind.UPDATE, Kind.OPAQUE})


class Mistakes:
    """Looks for mistakes in the cycles of a file."""

    def __init__(self, tree: Tree, roles: Roles, steps: Steps) -> None:
        self.tree = tree
        self.roles = roles
        self.steps = steps
        self.rounds = Rounds(tree, steps)
        self.turns = Turns(tree, steps, self.rounds)
        self.leftovers = Leftovers(tree, roles, steps, self.rounds)
        self.schedules = Schedules(tree, roles, steps, self.rounds)
        self.handovers = Handovers(tree, roles, steps, self.rounds)
        self.certainty = Certainty(tree, roles, steps, self.rounds, self.turns)

    def of(self, mistake: Mistake) -> list[Found]:
        """Every place with one kind of mistake, once, in source order."""
        return self._by_kind.get(mistake, [])

    @property
    def repeated_unscales(self) -> list[Found]:
        """``unscale_`` for what is unscaled or stepped; the cause is what came first."""
        return self.of(Mistake.REPEATED_UNSCALE)

    @property
    def bypasses(self) -> list[Found]:
        """Direct steps on scaled gradients; the cause is the backward."""
        return self.of(Mistake.BYPASS)

    @property
    def unchecked_steps(self) -> list[Found]:
        """Direct steps on what was unscaled, the cause, whether that is finite or not."""
        return self.of(Mistake.UNCHECKED_STEP)

    @property
    def double_steps(self) -> list[Found]:
        """Steps of what was stepped the other way; the cause is the first of both.

        Not those in two arms of a test, which are of two rounds, and so of two objects.
        """
        found = self.of(Mistake.DOUBLE_STEP)
        return [
            each for each in found if not self.rounds.are_arms(each.cause.node, each.event.node)
        ]

    @property
    def steps_without_update(self) -> list[Found]:
        """Steps through a scaler that was not updated since the last one, the cause."""
        return self.of(Mistake.NO_UPDATE)

    @property
    def left_early(self) -> list[Found]:
        """Statements that leave before step and update; the cause is the backward."""
        return self.of(Mistake.LEFT_EARLY)

    @property
    def early_updates(self) -> list[Found]:
        """Updates; the cause is the step that comes after and belongs before."""
        return [found for found in self.of(Mistake.EARLY_UPDATE) if found.after_step]

    @property
    def second_updates(self) -> list[Found]:
        """Updates, each the first of two for the same gradients; the cause is the second."""
        return [found for found in self.of(Mistake.EARLY_UPDATE) if not found.after_step]

    @property
    def empty_updates(self) -> list[Found]:
        """Updates after a backward, the cause, whose gradients nothing unscales or steps."""
        return self.of(Mistake.EMPTY_UPDATE)

    @property
    def unscaled_backwards(self) -> list[Found]:
        """Steps through a scaler; the cause is the backward of a loss that was not scaled."""
        return self.of(Mistake.UNSCALED)

    @property
    def mismatches(self) -> list[Found]:
        """Steps by another scaler than the one that scaled, in the cause.

        And what such a scaler unscales, where another one steps.
        """
        found = self.of(Mistake.MISMATCH)
        stepped = {(f.event.scaler, f.event.optimizer) for f in found if f.event.kind is Kind.STEP}
        return [
            f
            for f in found
            if f.event.kind is Kind.STEP or (f.event.scaler, f.event.optimizer) not in stepped
        ]

    @property
    def bare_backwards(self) -> list[Found]:
        """Steps of a framework's optimizer; the cause is the backward that it did not run."""
        return self.of(Mistake.BARE_BACKWARD)

    @property
    def own_scalers(self) -> list[Found]:
        """Steps of a framework's optimizer by another scaler; the cause is where that scaled."""
        return self.of(Mistake.OWN_SCALER)

    @property
    def unprepared_steps(self) -> list[Found]:
        """Steps of what a framework did not prepare; the cause is its backward."""
        return self.of(Mistake.UNPREPARED)

    @property
    def scheduled(self) -> list[Found]:
        """Scheduler steps between a step through a scaler, the cause, and its update.

        Or after each update, then the cause.
        """
        return self.of(Mistake.SCHEDULED)

    @functools.cached_property
    def _by_kind(self) -> dict[Mistake, list[Found]]:
        unique: dict[tuple[Mistake, int], Found] = {}
        for root in self.steps.roots:
            for found in self._in_root(root):
                unique.setdefault((found.mistake, id(found.event.node)), found)
        by_kind: dict[Mistake, list[Found]] = {}
        for found in sorted(unique.values(), key=lambda f: self.tree.order(f.event.node)):
            by_kind.setdefault(found.mistake, []).append(found)
        return by_kind

    def _in_root(self, root: Root) -> Iterator[Found]:
        for cycle in root.cycles:
            gradients = self.steps.cleared
            for index, event in enumerate(cycle):
                comes_later = event.kind is Kind.LEAVE and _goes_on(cycle[index + 1 :])
                judged = [] if comes_later else list(self._judge(event, gradients))
                for mistake, cause in judged:
                    yield Found(mistake, event, cause, root, cycle)
                gradients = self.steps.after(gradients, event)
                if event.kind is Kind.LEAVE and judged:
                    gradients = gradients.given_up()
            yield from self.turns.updates_in_turn(cycle, root)
        for left in root.left:
            if self.leftovers.is_sure_of(left, root):
                yield Found(Mistake.BYPASS, left.step, left.backward, root, ())
        for update, event in root.early:
            if event.kind is Kind.SCHEDULE:
                if self.schedules.is_scheduled(update, event):
                    yield Found(Mistake.SCHEDULED, event, update, root, ())
            elif self.rounds.home(update.node) is self.rounds.home(event.node):
                yield Found(Mistake.EARLY_UPDATE, update, event, root, ())

    def _judge(self, event: Event, gradients: Gradients[Event]) -> Iterator[tuple[Mistake, Event]]:
        """What is wrong with an event in this state, each with its cause."""
        if gradients.unknown:
            return
        for row in _ROWS.get(event.kind, ()):
            cause = row.judge(event, gradients)
            if cause is not None and self._is_sure(row.mistake, event, cause, gradients):
                yield row.mistake, cause

    def _is_sure(
        self, mistake: Mistake, event: Event, cause: Event, gradients: Gradients[Event]
    ) -> bool:
        """Whether the program leaves no doubt about a mistake that the events show."""
        recognizer, sure = self.steps.recognizer, self.certainty
        handed, schedules = self.handovers, self.schedules
        match mistake:
            case Mistake.REPEATED_UNSCALE | Mistake.NO_UPDATE:
                return sure.is_certain(cause, event) and not sure.is_updated_elsewhere(event)
            case Mistake.BYPASS if recognizer.are_cleared(gradients.cleared, {event.optimizer}):
                return False
            case Mistake.BYPASS | Mistake.DOUBLE_STEP:
                return not self.leftovers.makes_gradients((cause if event.scaler else event).node)
            case Mistake.UNCHECKED_STEP:
                return sure.is_unchecked(cause, event)
            case Mistake.EMPTY_UPDATE:
                return event.scaler == cause.scaler and sure.is_before_steps(cause, event)
            case Mistake.UNSCALED if gradients.scaled is not None:
                return sure.is_added(cause)
            case Mistake.UNSCALED:
                return sure.must_scale(cause, event)
            case Mistake.MISMATCH:
                return sure.are_two(cause, event) and id(event.node) not in sure.own_events
            case Mistake.LEFT_EARLY:
                return sure.gives_up(event.node)
            case Mistake.SCHEDULED if cause.framework is not None:
                return schedules.counts_skipped(event, cause) and not schedules.is_skipped_too(
                    event
                )
            case Mistake.SCHEDULED:
                return cause.enabled is not False and not schedules.is_skipped_too(event)
            case Mistake.BARE_BACKWARD:
                return handed.is_prepared_for(cause, event) and not handed.has_other_way(cause.node)
            case Mistake.OWN_SCALER:
                return handed.is_prepared_for(cause, event, named=True)
            case Mistake.UNPREPARED:
                return handed.is_left_out(cause, event)
        return True


def _goes_on(rest: Cycle) -> bool:
    """Whether what a round was left without comes nevertheless, before the next round begins."""
    kinds = (event.kind for event in rest)
    first = next((kind for kind in kinds if kind in _AFTER_BACKWARD or kind is Kind.BACKWARD), None)
    return first in _AFTER_BACKWARD
