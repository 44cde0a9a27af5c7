"""Where an ``unscale_`` would go, so that what looks at gradients sees the true ones."""

from __future__ import annotations

import functools
import re
from collections import defaultdict
from dataclasses import dataclass

import libcst as cst

from amp_lint.amp.events import EVERY, Event, Kind, stepped
from amp_lint.flow.conditions import is_mode_test, one_line
from amp_lint.syntax.memo import per_node
from amp_lint.syntax.tree import Tree, descendants
from amp_lint.text.diagnostic import quoted
from amp_lint.walk.paths import Cycle
from amp_lint.walk.steps import Root, Steps

_CLIPS = (Kind.CLIP,)
_SEEN = (Kind.CLIP, Kind.GRADIENT_READ, Kind.GRADIENT_REPAIR)
"""What has to see true gradients."""
_WORD = re.compile(r"\w+")


@dataclass(frozen=True, slots=True)
class UnscalePlace:
    """Where ``unscale_`` can be called so that a clip or a read sees true gradients."""

    statement: cst.BaseStatement
    """The statement to insert before."""
    lines: tuple[str, ...]
    """One for each optimizer."""
    guard: str | None
    """The test under which the scaler is in use, where the same place serves other modes too."""
    certain: bool

    @property
    def what(self) -> str:
        """What is inserted, for a title."""
        return quoted(self.lines[0]) if len(self.lines) == 1 else "`unscale_` of each optimizer"


class UnscalePlaces:
    """Looks for places in the cycles of a file."""

    def __init__(self, tree: Tree, steps: Steps) -> None:
        self.tree = tree
        self.steps = steps

    def before(self, seen: Event, root: Root) -> UnscalePlace | None:
        """Before a clip or read, if gradients are stepped after it, and not computed in between.

        Those of just one optimizer, or of several side by side.

        All that look at gradients before the same step share one place, before the first of them;
        else all clips do. None where an inserted call could run twice before ``update``, which
        raises.
        """
        place = self._before(seen, root, _SEEN)
        if place is None and seen.kind is Kind.CLIP:
            place = self._before(seen, root, _CLIPS)
        return place

    def _before(self, seen: Event, root: Root, kinds: tuple[Kind, ...]) -> UnscalePlace | None:
        cycles, nodes = self._together(seen, kinds)
        if any(map(self._is_kept, nodes)):
            return None
        steps = {key: step for cycle in cycles for key, step in self._steps(cycle).items()}
        ready = self._ready(seen, cycles)
        if ready:
            nodes = [seen.place]
        steps = {key: step for key, step in steps.items() if step.optimizer not in (ready or ())}
        if not steps or ready is None:
            return None
        for step in steps.values():
            if any(self._runs_again(seen, step, cycle) for cycle in cycles):
                return None
            if any(self._comes_before(step, seen, cycle) for cycle in cycles):
                return None
        every = sorted(steps.values(), key=lambda step: self.tree.order(step.node))
        if len(every) > 1 and not all(self._are_together(seen, every, c) for c in cycles):
            return None
        place = self._place(nodes, every, certain=not root.truncated)
        early = place is not None and any(self._reads_early(place, step) for step in every)
        return None if early else place

    @per_node
    def _steps(self, cycle: Cycle) -> dict[int, Event]:
        """The steps through a scaler in a cycle, by the id of the call."""
        return {id(e.node): e for e in cycle if e.kind is Kind.STEP and e.scaler}

    def _ready(self, seen: Event, cycles: list[Cycle]) -> frozenset[str | None] | None:
        """The optimizers that are unscaled before a clip or read, the same on every path.

        None where others are unscaled later, or something else looks at gradients before the step.
        """
        found: set[frozenset[str | None] | None] = set()
        for cycle in cycles:
            at, _ = self._spans(cycle).get(id(seen.place), (len(cycle), 0))
            early = frozenset(e.optimizer for e in cycle[:at] if e.kind is Kind.UNSCALE)
            kinds = {event.kind for event in cycle[at + 1 :]}
            unclear = bool(kinds & {*_SEEN, Kind.BACKWARD}) and bool(early)
            known = Kind.UNSCALE not in kinds and EVERY not in early and not unclear
            found.add(early if known else None)
            if len(found) > 1:
                return None
        return found.pop() if found else None

    def _place(
        self, nodes: list[cst.CSTNode], steps: list[Event], *, certain: bool
    ) -> UnscalePlace | None:
        """The place for the optimizers of some steps, which are in one block."""
        lines = [self._code(step) for step in steps if self.tree.is_own(step.node)]
        known = tuple(line for line in lines if line is not None)
        blocks = [self._block(step.node) for step in steps]
        if len(known) < len(steps) or any(block is not blocks[0] for block in blocks):
            return None
        statement = self._statement(nodes, steps[-1], blocks[0])
        if statement is not None:
            return UnscalePlace(statement, known, None, certain=certain)
        return self._guarded(nodes, steps[-1], known)

    def _reads_early(self, place: UnscalePlace, step: Event) -> bool:
        """Whether a name in the inserted line gets its value only below it."""
        names = [part.value for part in descendants(step.node) if isinstance(part, cst.Name)]
        names += _WORD.findall(place.guard or "")
        return any(self.steps.program.names.is_early(name, place.statement) for name in names)

    def _is_kept(self, node: cst.CSTNode) -> bool:
        return isinstance(node, cst.Call) and self.steps.recognizer.gradients.is_kept(node)

    def _code(self, step: Event) -> str | None:
        """The ``unscale_`` that belongs to a step."""
        assert isinstance(step.node, cst.Call) and isinstance(step.node.func, cst.Attribute)
        optimizer = stepped(step.node)
        if optimizer is None:
            return None
        scaler = self.tree.source(step.node.func.value)
        return f"{scaler}.unscale_({self.tree.source(optimizer)})"

    def _together(
        self, seen: Event, kinds: tuple[Kind, ...]
    ) -> tuple[list[Cycle], list[cst.CSTNode]]:
        """The cycles in which an event is, and all events of these kinds in them, it first."""
        nodes = {id(seen.place): seen.place}
        cycles: dict[int, Cycle] = {}
        for node in (todo := [seen.place]):  # grows while it is read
            for rank, cycle in self._cycles.get(id(node), ()):
                if rank not in cycles:
                    cycles[rank] = cycle
                    fresh = self._places(cycle)[kinds]
                    todo += [place for key, place in fresh.items() if key not in nodes]
                    nodes |= fresh
        return [cycle for _, cycle in sorted(cycles.items())], list(nodes.values())

    @per_node
    def _places(self, cycle: Cycle) -> dict[tuple[Kind, ...], dict[int, cst.CSTNode]]:
        """Where a cycle clips, and where it looks at gradients at all, by the id of the place."""
        return {
            kinds: {id(e.place): e.place for e in cycle if e.kind in kinds}
            for kinds in (_CLIPS, _SEEN)
        }

    @functools.cached_property
    def _cycles(self) -> dict[int, list[tuple[int, Cycle]]]:
        """Id of a place -> the cycles in which something happens there, with their ranks."""
        found: dict[int, list[tuple[int, Cycle]]] = defaultdict(list)
        cycles = (cycle for root in self.steps.roots for cycle in root.cycles)
        for rank, cycle in enumerate(cycles):
            for place in self._spans(cycle):
                found[place].append((rank, cycle))
        return found

    @per_node
    def _spans(self, cycle: Cycle) -> dict[int, tuple[int, int]]:
        """Id of a place -> where in a cycle it comes first, and last."""
        spans: dict[int, tuple[int, int]] = {}
        for index, event in enumerate(cycle):
            first, _ = spans.get(id(event.place), (index, index))
            spans[id(event.place)] = first, index
        return spans

    def _runs_again(self, seen: Event, step: Event, cycle: Cycle) -> bool:
        """Whether an event comes twice before an update, or may: it is left without any."""
        first, last = self._spans(cycle).get(id(seen.place), (len(cycle), len(cycle)))
        if first < last:
            return True
        ended = {event.kind for event in cycle[first:]}
        return not ended & {Kind.STEP, Kind.UPDATE} and self._leaves_between(seen.place, step)

    def _guarded(
        self, nodes: list[cst.CSTNode], step: Event, lines: tuple[str, ...]
    ) -> UnscalePlace | None:
        """What looks is common to two modes, the step belongs to one: unscale in that one only."""
        guard = self.tree.ancestor(step.node, cst.If)
        block = self._block(step.node)
        if guard is None or block is not guard.body or not is_mode_test(guard.test):
            return None
        statement = self._statement(nodes, step, self._block(guard))
        if statement is None:
            return None
        return UnscalePlace(statement, lines, one_line(guard.test), certain=False)

    def _statement(
        self, nodes: list[cst.CSTNode], step: Event, block: cst.CSTNode | None
    ) -> cst.BaseStatement | None:
        """The statement before which a line runs once for each run of ``block``, before all nodes.

        As near to them as can be. None if there is no such place after the backward.
        """
        for inner in self._blocks_up_to(block, nodes[0]):
            if all(self.tree.contains(inner, node) for node in nodes):
                break
        else:
            return None
        assert isinstance(inner, (cst.IndentedBlock, cst.Module))
        first = min(nodes, key=self.tree.order)
        holders = (first, *self.tree.ancestors(first))
        statement = next(holder for holder in holders if self.tree.parent(holder) is inner)
        if isinstance(statement, cst.SimpleStatementLine):
            return statement if len(statement.body) == 1 else None
        if self._trains(statement) or self._leaves_between(statement, step):
            return None
        return statement if isinstance(statement, cst.BaseStatement) else None

    def _trains(self, statement: cst.CSTNode) -> bool:
        """Whether backward runs below a statement, here or in what it calls."""
        recognizer = self.steps.recognizer
        calls = (part for part in descendants(statement) if isinstance(part, cst.Call))
        return any(
            recognizer.kind(call) is Kind.BACKWARD
            or id(recognizer.program.target(call)) in recognizer.training
            for call in calls
        )

    def _blocks_up_to(self, block: cst.CSTNode | None, node: cst.CSTNode) -> list[cst.CSTNode]:
        """The blocks around ``node`` up to ``block``, innermost first, that no loop repeats.

        [] if ``node`` is not in ``block`` or in another function.
        """
        found: list[cst.CSTNode] = []
        for holder in self.tree.ancestors(node):
            if isinstance(holder, (cst.FunctionDef, cst.Lambda)):
                return []
            if isinstance(holder, (cst.For, cst.While)):
                found.clear()
            if isinstance(holder, (cst.IndentedBlock, cst.Module)):
                found.append(holder)
            if holder is block:
                return found
        return []

    def _leaves_between(self, statement: cst.CSTNode, step: Event) -> bool:
        """Whether something may leave between a statement and the step: then no update follows."""
        first, last = self.tree.order(statement) + 1, self.tree.order(step.node)
        leaving = (cst.Continue, cst.Break, cst.Return)
        return any(self.tree.between(kind, first, last) for kind in leaving)

    def _block(self, node: cst.CSTNode) -> cst.CSTNode | None:
        return self.tree.ancestor(node, cst.IndentedBlock, cst.Module)

    def _are_together(self, seen: Event, steps: list[Event], cycle: Cycle) -> bool:
        """Whether steps, each of another optimizer, all follow an event without a backward."""
        if len({step.optimizer for step in steps}) < len(steps) or any(s.varies for s in steps):
            return False
        spans = self._spans(cycle)
        if id(seen.place) not in spans:
            return True
        first, _ = spans[id(seen.place)]
        nodes = [event.node for event in cycle]
        if any(step.node not in nodes for step in steps):
            return False
        last = max(nodes.index(step.node) for step in steps)
        return not any(e.kind in (Kind.BACKWARD, Kind.UPDATE) for e in cycle[first:last])

    def _comes_before(self, one: Event, other: Event, cycle: Cycle) -> bool:
        """Whether both are in a cycle, in this order."""
        spans = self._spans(cycle)
        both = id(one.place) in spans and id(other.place) in spans
        return both and spans[id(one.place)][0] < spans[id(other.place)][0]
