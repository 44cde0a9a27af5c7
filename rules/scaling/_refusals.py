"""Tests of a gradient norm by hand that end the run where it is inf or NaN."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import libcst as cst

from amp_lint.amp.events import Event, Kind
from amp_lint.flow.branches import contradict
from amp_lint.flow.conditions import text
from amp_lint.flow.values import literal
from amp_lint.model import Model
from amp_lint.syntax.assignments import targets_of
from amp_lint.syntax.memo import per_node
from amp_lint.syntax.names import dotted
from amp_lint.syntax.tree import Tree, descendants, last_statement
from amp_lint.walk.mistake_rows import STRICT_CLIP
from amp_lint.walk.relevance import FINITE
from amp_lint.walk.steps import Steps

ENDS = (
    "this ends the run at the first overflow, by which a scaler finds its scale: `step` would skip"
)
GO_ON = "go on with `step` and `update`; to end the run, ask how small the scale has become"
_EXITS = frozenset({"builtins.exit", "builtins.quit", "os._exit", "os.abort", "sys.exit"})
_FINITE = "finite"

Says = Callable[[cst.BaseExpression], bool | None]
"""Whether a test holds for inf and NaN alone; False where it holds for finite numbers alone."""


def is_caught(tree: Tree, node: cst.CSTNode) -> bool:
    """Whether something in its function waits for the error that a place raises."""
    child = node
    for holder in tree.ancestors(node):
        if isinstance(holder, (cst.FunctionDef, cst.Lambda)):
            return False
        if isinstance(holder, (cst.Try, cst.TryStar)) and child is holder.body:
            return bool(holder.handlers)
        child = holder
    return False


def judged(steps: Steps) -> Iterator[tuple[Event, Event]]:
    """The clips before a step that a scaler would skip at inf, each with the backward.

    Not those before a direct step, which nothing else keeps from it.
    """
    for cycle in (cycle for root in steps.roots for cycle in root.cycles):
        for index, (event, state) in enumerate(steps.states(cycle)):
            backward = STRICT_CLIP.judge(event, state)
            step = next((each for each in cycle[index:] if each.kind is Kind.STEP), None)
            if backward is not None and (step is None or step.scaler is not None):
                yield event, backward


class Refusals:
    """Looks for what ends the run between a scaled backward and the step of its scaler."""

    def __init__(self, model: Model) -> None:
        self.tree = model.linked
        self.names = model.names
        self.program = model.program
        self.steps = model.steps

    def all(self) -> list[tuple[cst.CSTNode, Event]]:
        """Each statement that does, with the backward, in source order."""
        found: dict[int, tuple[cst.CSTNode, Event]] = {}
        for event, backward in judged(self.steps):
            found |= {id(end): (end, backward) for end in self._ends(event.node, backward)}
        for backward in self.steps.backwards if self.steps.recognizer.scaler_steps else ():
            if backward.scaler is not None and backward.enabled is not False:
                found |= {id(end): (end, backward) for end in self._unless_finite(backward)}
        return sorted(found.values(), key=lambda pair: self.tree.order(pair[0]))

    def _ends(self, norm: cst.CSTNode, backward: Event) -> Iterator[cst.CSTNode]:
        assert isinstance(norm, cst.Call)
        named = {dotted(target) for target in targets_of(self.tree, norm)} - {None}

        def is_finite(test: cst.BaseExpression) -> bool | None:
            parts = (test, *descendants(test))
            about = any(part is norm or _is_named(part, named) for part in parts)
            return _tells(test) if about else None

        home = self.program.function_of(norm)
        for arm in self._arms(self._asking(home or self.tree.module), is_finite):
            yield from self._ending(arm)
            yield from self._told(home, arm, backward)

    def _unless_finite(self, backward: Event) -> Iterator[cst.CSTNode]:
        """What ends the run for a gradient of a backward, before its function steps."""
        home = self.program.function_of(backward.place) or self.tree.module
        calls = self.tree.below(home, cst.Call)
        start, order = self.tree.end(backward.place), self.tree.order
        steps = (order(c) for c in calls if self.steps.recognizer.kind(c) is Kind.STEP)
        until = min((step for step in steps if step > start), default=self.tree.end(home))
        for arm in self._arms(self._asking(home), _tells_of_gradients):
            if start < order(arm) < until and not contradict(self.tree, arm, backward.place):
                yield from self._ending(arm)

    def _told(
        self, function: cst.FunctionDef | None, arm: cst.CSTNode, backward: Event
    ) -> Iterator[cst.CSTNode]:
        """What ends the run where callers ask for what a function returns of such a norm."""
        last = last_statement(arm) if isinstance(arm, cst.BaseSuite) else None
        value = literal(last.value) if isinstance(last, cst.Return) and last.value else ...
        if function is None or not isinstance(value, bool):
            return
        for call in self.program.calls_of(function):

            def says(test: cst.BaseExpression, call: cst.Call = call) -> bool | None:
                return value if test is call else None

            home = self.program.function_of(call) or self.tree.module
            for other in self._arms(self._tests(home), says):
                if not contradict(self.tree, other, backward.node):
                    yield from self._ending(other)

    def _tests(self, home: cst.CSTNode) -> list[cst.If | cst.Assert]:
        """The statements of a function that test something."""
        return [*self.tree.below(home, cst.If), *self.tree.below(home, cst.Assert)]

    @per_node
    def _asking(self, home: cst.CSTNode) -> list[cst.If | cst.Assert]:
        """Those that ask whether something is finite."""
        return [each for each in self._tests(home) if FINITE.search(text(each.test))]

    def _arms(self, tests: Sequence[cst.If | cst.Assert], says: Says) -> Iterator[cst.CSTNode]:
        """The arms of tests, and the assertions, that are for inf and NaN alone."""
        for each in tests:
            holds = _says(each.test, says)
            if isinstance(each, cst.Assert):
                yield from (each,) if holds is False else ()
            elif holds:
                yield each.body
            elif holds is False and isinstance(each.orelse, cst.Else):
                yield each.orelse.body

    def _ending(self, arm: cst.CSTNode) -> Iterator[cst.CSTNode]:
        """The statement of an arm, under no other test, that ends the run."""
        last = last_statement(arm) if isinstance(arm, cst.BaseSuite) else arm
        call = last.value if isinstance(last, cst.Expr) else None
        exits = isinstance(call, cst.Call) and self.names.is_any(call.func, _EXITS)
        ends = exits or isinstance(last, (cst.Raise, cst.Assert))
        if ends and last is not None and self.tree.is_own(last) and not is_caught(self.tree, last):
            yield last


def _tells(test: cst.BaseExpression) -> bool | None:
    words = FINITE.findall(text(test))
    return None if not words else any(word.lower() != _FINITE for word in words)


def _tells_of_gradients(test: cst.BaseExpression) -> bool | None:
    """Whether a test of a tensor's gradient holds for inf and NaN alone."""
    parts = (test, *descendants(test))
    about = any(isinstance(part, cst.Attribute) and part.attr.value == "grad" for part in parts)
    return _tells(test) if about else None


def _is_named(node: cst.CSTNode, names: set[str | None]) -> bool:
    return isinstance(node, (cst.Name, cst.Attribute)) and dotted(node) in names


def _says(test: cst.BaseExpression, says: Says) -> bool | None:
    match test:
        case cst.UnaryOperation(operator=cst.Not(), expression=inner):
            of_inner = _says(inner, says)
            return None if of_inner is None else not of_inner
        case cst.BooleanOperation(left=left, operator=sign, right=right):
            sides = {_says(left, says), _says(right, says)}
            if isinstance(sign, cst.And) and True in sides:
                return True
            return sides.pop() if len(sides) == 1 else None
    return says(test)
