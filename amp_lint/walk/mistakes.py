"""Calls of the GradScaler protocol that come in the wrong state, on some feasible path."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import libcst as cst

from amp_lint.amp.events import EVERY, Event, Kind, decides_by_scale, named, stepped
from amp_lint.amp.roles import Roles
from amp_lint.flow.branches import contradict, deciding, guards
from amp_lint.flow.conditions import is_mode_test, text
from amp_lint.flow.counters import Counters
from amp_lint.flow.values import arguments
from amp_lint.mistake import Mistake
from amp_lint.syntax.assignments import assigned, targets_of
from amp_lint.syntax.memo import per_node
from amp_lint.syntax.names import dotted
from amp_lint.syntax.tree import Tree, descendants
from amp_lint.vocabulary.amp import SCALE
from amp_lint.vocabulary.meaning import Part, Role
from amp_lint.vocabulary.purity import NOTING, PURE_METHODS, QUERIES, is_pure_function
from amp_lint.vocabulary.table import rows, words
from amp_lint.walk.gradients import Gradients
from amp_lint.walk.mistake_rows import CALLS, UNCHECKED_STEP
from amp_lint.walk.paths import Cycle, LeftStep, last_name
from amp_lint.walk.steps import Root, Steps

_BACKWARD = words(Kind.BACKWARD)
_ROWS = {**CALLS, Kind.STEP: (UNCHECKED_STEP, *CALLS[Kind.STEP])}
_STEPPING = frozenset({Kind.UNSCALE, Kind.CLIP, Kind.STEP, Kind.UPDATE})
"""What is done with gradients that a backward left, and no more."""
_STRICT = {row.keyword(Part.STRICT) for row in rows(Kind.CLIP)} - {None}
"""What tells a clip to raise where gradients are not finite."""
_FACTORS = (cst.MultiplyAssign, cst.DivideAssign)
_AFTER_BACKWARD = frozenset({Kind.STEP, Kind.UPDATE, Kind.OPAQUE})
_MOST_CALLS = 3
"""Calls on the way to a step of a scheduler, itself among them."""


@dataclass(frozen=True, slots=True, eq=False)
class Found:
    """One mistake: the event to blame, and the one that explains it."""

    mistake: Mistake
    event: Event
    cause: Event
    root: Root
    cycle: Cycle
    """Empty where the event comes after the update."""

    @property
    def repeats(self) -> bool:
        """Whether one and the same call comes twice."""
        return self.event.node is self.cause.node

    @property
    def beside_scaled(self) -> bool:
        """Whether another loss of the same cycle was scaled."""
        return any(event.kind is Kind.BACKWARD and event.scaler for event in self.cycle)

    @property
    def after_step(self) -> bool:
        """Whether the cause is a step."""
        return self.cause.kind is Kind.STEP

    @property
    def by_accelerate(self) -> bool:
        """Whether accelerate unscales, for every optimizer."""
        return self.event.optimizer == EVERY

    @property
    def unscaled(self) -> bool:
        """Whether gradients were unscaled in the cycle before the event."""
        before = self.cycle[: self.cycle.index(self.event)]
        return any(event.kind is Kind.UNSCALE for event in before)


@dataclass(frozen=True, slots=True, eq=False)
class TestedUpdate:
    """An ``update`` that is all there is under an ``if``."""

    call: cst.Call
    holder: cst.If


class Mistakes:
    """Looks for mistakes in the cycles of a file."""

    def __init__(self, tree: Tree, roles: Roles, steps: Steps) -> None:
        self.tree = tree
        self.roles = roles
        self.steps = steps

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
        return [each for each in found if not self._are_arms(each.cause.node, each.event.node)]

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

    @functools.cached_property
    def bare_hooks(self) -> list[tuple[Event, Role]]:
        """Backward calls in a method that a framework runs and then steps, with its role."""
        found: list[tuple[Event, Role]] = []
        for event in self.steps.backwards:
            home = self._home(event.node)
            bare = event.scaler is None and event.framework is None
            if bare and isinstance(home, cst.FunctionDef):
                role = self.roles.frameworks.overridden(home)
                if role is not None and self._is_bare_hook(event, role):
                    found.append((event, role))
        return found

    def _is_bare_hook(self, event: Event, role: Role) -> bool:
        scales = self.roles.frameworks.may_scale(role)
        return scales and not self._has_other_way(event.node) and self.tree.is_own(event.node)

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
            yield from self._in_turn(cycle, root)
        for left in root.left:
            if self._is_sure_of(left, root):
                yield Found(Mistake.BYPASS, left.step, left.backward, root, ())
        for update, event in root.early:
            if event.kind is Kind.SCHEDULE:
                if self._is_scheduled(update, event):
                    yield Found(Mistake.SCHEDULED, event, update, root, ())
            elif self._home(update.node) is self._home(event.node):
                yield Found(Mistake.EARLY_UPDATE, update, event, root, ())

    def _is_sure_of(self, left: LeftStep, root: Root) -> bool:
        """Whether a step after an update takes what that left: nothing else may have come to it.

        All is in the function of the step, or backward and update are in one that this calls once.
        """
        step, update, backward = left.step.node, left.update.node, left.backward.node
        home, inner, made = (
            self._home(node) or self.tree.module for node in (step, update, backward)
        )
        if made is not inner or self._makes_gradients(step) or self._wraps_optimizer(step):
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

    def _in_turn(self, cycle: Cycle, root: Root) -> Iterator[Found]:
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
        if optimizer is None or not self._varies(loop, optimizer) or self._has_one(loop.iter):
            return False
        assert isinstance(call, cst.Call)  # it gave the optimizer
        tests = (test for each in (step, update) for test in self._tests_within(loop, each.node))
        return not any(self._varies(loop, each) for each in (call.func, *tests))

    def _has_one(self, iterable: cst.BaseExpression) -> bool:
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

    # --- for fixes ----------------------------------------------------------------------------

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
        if scaled.kind is Kind.UNSCALE and self._home(node) is function:
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
        updates = self._updates_beside(step.node)
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
            loop in [None, *program.loops(node)] and self._home(node) is self._home(step.node)
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

    def _updates_beside(self, node: cst.CSTNode) -> list[cst.Call]:
        """The updates in the function of a node."""
        home = self._home(node)
        return [call for call in self.steps.recognizer.updates if self._home(call) is home]

    def _home(self, node: cst.CSTNode) -> cst.CSTNode | None:
        return self.tree.ancestor(node, cst.FunctionDef)

    # --- mistakes -----------------------------------------------------------------------------

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
        recognizer = self.steps.recognizer
        match mistake:
            case Mistake.REPEATED_UNSCALE | Mistake.NO_UPDATE:
                return self._is_certain(cause, event) and not self._is_updated_elsewhere(event)
            case Mistake.BYPASS if recognizer.are_cleared(gradients.cleared, {event.optimizer}):
                return False
            case Mistake.BYPASS | Mistake.DOUBLE_STEP:
                return not self._makes_gradients((cause if event.scaler else event).node)
            case Mistake.UNCHECKED_STEP:
                return self._is_unchecked(cause, event)
            case Mistake.EMPTY_UPDATE:
                return event.scaler == cause.scaler and self._is_before_steps(cause, event)
            case Mistake.UNSCALED if gradients.scaled is not None:
                return self._is_added(cause)
            case Mistake.UNSCALED:
                return self._must_scale(cause, event)
            case Mistake.MISMATCH:
                return self._are_two(cause, event) and id(event.node) not in self._own
            case Mistake.LEFT_EARLY:
                return self._gives_up(event.node)
            case Mistake.SCHEDULED if cause.framework is not None:
                return self._counts_skipped(event, cause) and not self._is_skipped_too(event)
            case Mistake.SCHEDULED:
                return cause.enabled is not False and not self._is_skipped_too(event)
            case Mistake.BARE_BACKWARD:
                return self._is_prepared_for(cause, event) and not self._has_other_way(cause.node)
            case Mistake.OWN_SCALER:
                return self._is_prepared_for(cause, event, named=True)
            case Mistake.UNPREPARED:
                return self._is_left_out(cause, event)
        return True

    def _makes_gradients(self, step: cst.CSTNode) -> bool:
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

    def _is_unchecked(self, unscale: Event, step: Event) -> bool:
        """Whether nobody asks if gradients are finite between an ``unscale_`` and a step."""
        home, call = self._home(step.node), step.node
        if self._home(unscale.node) is not home or not isinstance(call, cst.Call):
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

    def _is_prepared_for(self, backward: Event, step: Event, *, named: bool = False) -> bool:
        """Whether a framework prepared the optimizer wherever this backward runs, and may scale.

        Or steps in its own backward.

        ``named``: a precision that scales has to be among those that the file names.
        """
        assert isinstance(step.node, cst.Call) and isinstance(step.node.func, cst.Attribute)
        optimizer = step.node.func.value if step.scaler is None else stepped(step.node)
        frameworks = self.roles.frameworks
        tests = set(_normal(self.tree, backward.node))
        return optimizer is not None and any(
            tests.issuperset(_normal(self.tree, each.call))
            and isinstance(each.call.func, cst.Attribute)
            and (
                frameworks.may_scale(each.owner, each.call.func.value, named=named)
                or frameworks.steps_itself(each.owner, each.call.func.value)
            )
            for each in frameworks.preparations(optimizer)
        )

    def _is_left_out(self, backward: Event, step: Event) -> bool:
        """Whether a framework that may scale was not given an optimizer of this file."""
        call, made = step.node, backward.node
        assert isinstance(call, cst.Call) and isinstance(call.func, cst.Attribute)
        assert isinstance(made, cst.Call) and isinstance(made.func, cst.Attribute)
        frameworks, role = self.roles.frameworks, backward.framework
        return (
            role is not None
            and frameworks.leaves_out(call.func.value)
            and frameworks.may_scale(role, made.func.value)
        )

    def _has_other_way(self, backward: cst.CSTNode) -> bool:
        """Whether its function goes backward in another way, where the tests around this fail."""
        home, recognizer = self._home(backward), self.steps.recognizer
        return any(
            self._home(call) is home and contradict(self.tree, call, backward)
            for call in self.tree.nodes(cst.Call)
            if isinstance(call.func, cst.Attribute) and call.func.attr.value in _BACKWARD
            if recognizer.framework(call) or recognizer.meaning(call) is None or _scales(call)
        )

    def _is_scheduled(self, update: Event, schedule: Event) -> bool:
        """Whether a scheduler steps after each update, whatever that has found.

        Itself or in what is called there; not under a test of anything but settings, and of how
        far the run has come.
        """
        if update.enabled is False or update.absent or self._is_skipped_too(schedule):
            return False
        assert isinstance(schedule.node, cst.Call)
        return any(self._is_as_often(update, way) for way in self._ways_to(schedule.node))

    def _ways_to(self, call: cst.Call) -> Iterator[tuple[cst.Call, ...]]:
        """A call, and those that lead to it, each way from the inside out."""
        ways: list[tuple[cst.Call, ...]] = [(call,)]
        for way in ways:
            yield way
            function = self.steps.program.function_of(way[-1])
            if function is not None and len(way) < _MOST_CALLS:
                ways += ((*way, outer) for outer in self.steps.program.calls_of(function))

    def _is_as_often(self, update: Event, way: Sequence[cst.Call]) -> bool:
        """Whether the last call that leads to a scheduler is run in each round of an update."""
        call, relevance = way[-1], self.steps.relevance
        around = self._round(call) or self.tree.ancestor(call, cst.FunctionDef)
        body = self.tree.module if around is None else around.body
        of_round = relevance.has_backward(body) and not relevance.holds_training_loop(body)
        ways = (update.node, *self._leading(update.node, self.steps.program.function_of(call)))
        if any(self._are_arms(one, other) for one in ways for other in way):
            return False
        known = {text(test) for way in ways for test, _ in deciding(self.tree, way)}
        tests = (test for each in way for test, _ in deciding(self.tree, each))
        return (of_round or self._are_beside(update.node, call)) and all(
            is_mode_test(test) or self._counters.is_past(test)
            for test in tests
            if text(test) not in known
        )

    def _are_arms(self, one: cst.CSTNode, other: cst.CSTNode) -> bool:
        """Whether two places of one function are in arms of a test that exclude each other."""
        home = self.steps.program.function_of
        return home(one) is home(other) and contradict(self.tree, one, other)

    @functools.cached_property
    def _counters(self) -> Counters:
        return Counters(self.steps.program)

    def _leading(self, node: cst.CSTNode, home: cst.FunctionDef | None) -> list[cst.Call]:
        """The calls in a function that run the one around a node."""
        program = self.steps.program
        function = program.function_of(node)
        calls = program.calls_of(function) if function is not None else ()
        return [call for call in calls if program.function_of(call) is home]

    def _are_beside(self, one: cst.CSTNode, other: cst.CSTNode) -> bool:
        """Whether two nodes are run as often: by a helper, in no loop of its own or the same."""
        program = self.steps.program
        same = program.function_of(one) is program.function_of(other)
        return same and self._round(one) is self._round(other)

    def _round(self, node: cst.CSTNode) -> cst.For | cst.While | None:
        """The loop around a call of a method, but for that over those whose method is called."""
        loop, owner = self.steps.program.loop(node), _stepped_itself(node)
        while isinstance(loop, cst.For) and owner is not None and loop.target.deep_equals(owner):
            loop = self.steps.program.loop(loop)
        return loop

    def _counts_skipped(self, schedule: Event, step: Event) -> bool:
        """Whether a framework may leave out a step, and was not given what counts each."""
        frameworks = self.roles.frameworks
        counts, optimizer = (_stepped_itself(each.node) for each in (schedule, step))
        if counts is None or optimizer is None:
            return False
        may_skip = any(map(frameworks.may_skip, frameworks.preparations(optimizer)))
        may_skip = may_skip and self._are_beside(step.node, schedule.node)
        by_itself = frameworks.leaves_out(counts) or frameworks.counts_each(counts)
        return may_skip and (step.framework is Role.APEX or by_itself)

    def _is_skipped_too(self, schedule: Event) -> bool:
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
        home, kind = self._home(node) or self.tree.module, self.steps.recognizer.kind
        calls = (c for c in self.tree.below(home, cst.Call) if kind(c) is Kind.OPAQUE)
        lines = (self.tree.statement(call) for call in calls)
        simple = (line for line in lines if isinstance(line, cst.SimpleStatementLine))
        parts = (part for line in simple for part in line.body)
        return frozenset(dotted(target) for part in parts for target, _ in assigned(part))

    def _gives_up(self, leaving: cst.CSTNode) -> bool:
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

    def gives_up_nonfinite(self, found: Found) -> bool:
        """Whether a step is left out because something is inf or NaN."""
        return self.steps.relevance.asks_if_gradients_are_finite(found.event.node)

    def _is_certain(self, cause: Event, event: Event) -> bool:
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
        if loop is not None and self._has_one_round(loop):
            return False
        mine, updates = self.picks(event.node), self._updates_beside(event.node)
        if any(map(self._is_of_one_round, updates)):
            return False
        return not any(mine - other and other - mine for other in map(self.picks, updates))

    def _is_of_one_round(self, update: cst.Call) -> bool:
        """Whether a walk over optimizers updates in some of its rounds only, such as the last."""
        loop = self.steps.program.loop(update)
        if not isinstance(loop, cst.For) or self.steps.relevance.has_backward(loop.body):
            return False
        return any(self._varies(loop, test) for test in self._tests_within(loop, update))

    def _tests_within(self, loop: cst.For, node: cst.CSTNode) -> Iterator[cst.BaseExpression]:
        """The tests of a loop's body that decide whether a round of it reaches a place."""
        tests = (test for test, _ in deciding(self.tree, node))
        return (test for test in tests if self.tree.contains(loop.body, test))

    def _is_before_steps(self, backward: Event, update: Event) -> bool:
        """Whether the steps of a function all stand below an update, and none is passed over.

        Those in another arm than it count as below. A test that has a step under it, above the
        update, may hold wherever that one's does.
        """
        home, order = self._home(update.node), self.tree.order
        if home is None or self._home(backward.node) is not home:
            return False
        recognizer = self.steps.recognizer
        calls = self.tree.below(home, cst.Call)
        steps = [call for call in calls if recognizer.kind(call) in (Kind.STEP, Kind.UNSCALE)]
        return bool(steps) and all(
            order(step) > order(update.node) or contradict(self.tree, step, update.node)
            for step in steps
        )

    def _is_updated_elsewhere(self, event: Event) -> bool:
        """Whether what comes from elsewhere, and holds the scaler, may update it there.

        Nothing in sight makes such a scaler, and nothing updates one.
        """
        method = event.node.func if isinstance(event.node, cst.Call) else None
        scaler = method.value if isinstance(method, cst.Attribute) else None
        if not isinstance(scaler, cst.Attribute) or dotted(scaler.value) in ("self", "cls"):
            return False
        return not self.roles.scaler_origins(scaler) and not self.steps.recognizer.updates

    def _has_one_round(self, loop: cst.For) -> bool:
        if not isinstance(loop.iter, cst.Call) or len(loop.iter.args) != 1:
            return False
        count = self.steps.recognizer.values.constants(loop.iter.args[0].value)
        return set(count) == {1} and self.tree.source(loop.iter.func) == "range"

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

    def _must_scale(self, backward: Event, step: Event) -> bool:
        """Whether nothing but a scaled loss would be right: each scaler is made here, and enabled.

        Or by who calls, as far as that is seen. And the loss is not one that something called
        scale has made.
        """
        assert isinstance(step.node, cst.Call) and isinstance(backward.node, cst.Call)
        if not isinstance(step.node.func, cst.Attribute):
            return False
        return self.roles.is_always_on(step.node.func.value) and not _scales(backward.node)

    def _is_added(self, backward: Event) -> bool:
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
        return not is_plain and not _scales(backward.node)

    @functools.cached_property
    def _own(self) -> set[int]:
        """Ids of the events that some path reaches with a loss which their own scaler scaled.

        A path on which another one did leaves something out, by a test that may never say so.
        """
        cycles = (cycle for root in self.steps.roots for cycle in root.cycles)
        events = (pair for cycle in cycles for pair in self.steps.states(cycle))
        return {id(event.node) for event, state in events if event.scaler in state.scalers}

    def _are_two(self, one: Event, other: Event) -> bool:
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


def _steps(cycles: Iterable[Cycle]) -> list[Event]:
    return [event for cycle in cycles for event in cycle if event.kind is Kind.STEP]


def _goes_on(rest: Cycle) -> bool:
    """Whether what a round was left without comes nevertheless, before the next round begins."""
    kinds = (event.kind for event in rest)
    first = next((kind for kind in kinds if kind in _AFTER_BACKWARD or kind is Kind.BACKWARD), None)
    return first in _AFTER_BACKWARD


def _normal(tree: Tree, node: cst.CSTNode) -> Iterator[tuple[str, bool]]:
    """The tests that a place is under, by their text."""
    for guard in guards(tree, node):
        test, holds = guard.normal()
        yield text(test), holds


def _scales(backward: cst.Call) -> bool:
    """Whether something that is called scale made a loss."""
    return SCALE.word in text(backward.func)


def _calls(test: cst.BaseExpression) -> bool:
    """Whether a test calls something, which may say another thing each time."""
    calls = (part for part in descendants(test) if isinstance(part, cst.Call))
    return not all(map(is_mode_test, calls))


def _stepped_itself(node: cst.CSTNode) -> cst.BaseExpression | None:
    """``x`` of ``x.step()``."""
    func = node.func if isinstance(node, cst.Call) else None
    return func.value if isinstance(func, cst.Attribute) else None
