"""Which parts of a file can matter to the events, so that the rest is passed over."""

from __future__ import annotations

import functools
import re
from collections import Counter
from collections.abc import Iterable, Iterator

import libcst as cst

from amp_lint.amp.events import Kind, Recognizer
from amp_lint.amp.regions import Regions
from amp_lint.amp.roles import Roles
from amp_lint.flow.branches import arms, leaves
from amp_lint.flow.conditions import atoms, formula, is_mode_test, matches, text
from amp_lint.flow.counters import Counters
from amp_lint.flow.program import Program
from amp_lint.syntax.assignments import assigned, assignments
from amp_lint.syntax.memo import per_node
from amp_lint.syntax.references import is_read
from amp_lint.syntax.tree import children, descendants, is_a
from amp_lint.vocabulary.amp import SCALE, STAGES
from amp_lint.vocabulary.meaning import Role
from amp_lint.vocabulary.table import ROWS, methods

_PROTOCOL = methods(Role.SCALER)
_GATHERING = (Kind.BACKWARD, Kind.GRADIENT_READ, Kind.ZERO_GRAD)
"""Events that do not end what gathers gradients."""
_CERTAIN = methods(Role.SCALER, (row for row in ROWS if row.unique))
_DEFINITIONS = (cst.FunctionDef, cst.ClassDef, cst.Lambda)
_EXITS = (cst.Return, cst.Raise, cst.Break, cst.Continue)
_CLIP = re.compile(r"clip|norm", re.IGNORECASE)
FINITE = re.compile(r"is_?(finite|inf|nan)", re.IGNORECASE)
_LOSS = re.compile(r"loss", re.IGNORECASE)
_OF_GRADIENTS = re.compile(rf"grad|norm|param|{SCALE.word}", re.IGNORECASE)
_ALIAS_ROUNDS = 2  # names for one setting that are followed from a test to where it is set


class Relevance:
    """Facts about nodes that hold on every path, each computed once for the file."""

    def __init__(
        self, program: Program, roles: Roles, regions: Regions, recognizer: Recognizer
    ) -> None:
        self.program = program
        self.tree = program.tree
        self.roles = roles
        self.regions = regions
        self.recognizer = recognizer
        self._expressions: dict[int, tuple[cst.BaseExpression, ...]] = {}

    @functools.cached_property
    def hot(self) -> frozenset[int]:
        """Ids of the nodes that hold an event, not counting functions defined inside them."""
        entering = (c for c in self.tree.nodes(cst.Call) if self._enters(c))
        return self._holders([*self.recognizer.event_nodes(), *self._eventful_calls, *entering])

    def _enters(self, call: cst.Call) -> bool:
        """Whether a call enters or ends a region."""
        return bool(self.regions.entered_by(call) or self.regions.left_by(call))

    @per_node
    def is_run(self, node: cst.CSTNode) -> bool:
        """Whether something may depend on the paths through a compound statement."""
        return (
            id(node) in self.hot
            or id(node) in self.leaving
            or (isinstance(node, cst.If) and self.sets_flag(node))
        )

    @functools.cached_property
    def leaving(self) -> frozenset[int]:
        """Ids of the compound statements that hold a return, raise, break or continue."""
        found: set[int] = set()
        for kind in _EXITS:
            for node in self.tree.nodes(kind):
                for holder in self.tree.ancestors(node):
                    if isinstance(holder, (cst.FunctionDef, cst.ClassDef)):
                        break
                    found.add(id(holder))
        return frozenset(found)

    @per_node
    def parts(
        self, node: cst.Assign
    ) -> tuple[tuple[tuple[cst.BaseExpression, ...], cst.BaseExpression], ...]:
        """The assignments that one stands for, with their targets and values.

        ``a = x`` and ``b = y`` for ``a, b = x, y``, unless one is made from the other.
        """
        whole = (tuple(target.target for target in node.targets), node.value)
        pairs = list(assigned(node))
        values = {id(value): value for _, value in pairs if value is not None}
        if len(values) < 2 or any(value is None for _, value in pairs):
            return (whole,)
        names = {text(target) for target, _ in pairs}
        read = (part for part in descendants(node.value) if isinstance(part, cst.BaseExpression))
        if any(text(part) in names for part in read):
            return (whole,)
        return tuple(
            (tuple(target for target, given in pairs if given is value), value)
            for value in values.values()
        )

    @per_node
    def is_idle(self, line: cst.SimpleStatementLine) -> bool:
        """Whether a line has no events, assigns nothing and goes on to the next one."""
        return all(
            id(small) not in self.hot
            and is_a(small, (cst.Expr, cst.Pass, cst.Import, cst.ImportFrom))
            for small in line.body
        )

    @per_node
    def asks_if_finite(self, node: cst.CSTNode) -> bool:
        """Whether a statement stands in an ``if`` that tests for inf or NaN."""
        holder = self.tree.ancestor(node, cst.If)
        return holder is not None and self.is_about_finiteness(holder.test)

    @per_node
    def asks_what_is_unscaled(self, node: cst.If) -> bool:
        """Whether a test looks at what a scaler notes of each optimizer's gradients."""
        return any(STAGES in text(test) for test in self.spelled_out(node.test))

    def is_about_finiteness(self, test: cst.BaseExpression) -> bool:
        """Whether a test, or what a variable in it is assigned, looks for inf or NaN."""
        return any(FINITE.search(text(part)) for part in self.spelled_out(test))

    @per_node
    def asks_if_gradients_are_finite(self, node: cst.CSTNode) -> bool:
        """Whether it tests more than a loss, which the forward pass spoils and no scale repairs."""
        test = self._test_around(node)
        only_loss = _LOSS.search(test) and not _OF_GRADIENTS.search(test)
        return self.asks_if_finite(node) and not only_loss

    def _test_around(self, node: cst.CSTNode) -> str:
        holder = self.tree.ancestor(node, cst.If)
        return " ".join(map(text, self.spelled_out(holder.test))) if holder is not None else ""

    @per_node
    def spelled_out(self, test: cst.BaseExpression) -> tuple[cst.BaseExpression, ...]:
        """A test, and what the variables in it are assigned."""
        parts = (part for part in descendants(test) if isinstance(part, cst.Name))
        names = [name for name in parts if is_read(self.tree, name)]
        values = (v for name in names for v in self.recognizer.values.alternatives(name))
        return (test, *{id(value): value for value in values if value not in names}.values())

    def steps(self, node: cst.CSTNode | None) -> bool:
        """Whether an optimizer is stepped below a node, here or in what it calls."""
        return id(node) in self._holding_steps

    @functools.cached_property
    def _holding_steps(self) -> frozenset[int]:
        calls = self._eventful_calls
        stepping = (c for c in calls if id(self.program.target(c)) in self.recognizer.stepping)
        return self._holders([*self._steps, *stepping])

    def skips_step(self, leaving: cst.Return) -> bool:
        """Whether a ``return`` stands under a test, and above a step of the same function."""
        holder = self.tree.ancestor(leaving, cst.If, cst.FunctionDef)
        if not isinstance(holder, cst.If):
            return False
        home = self.tree.ancestor(leaving, cst.FunctionDef)
        return any(
            self.tree.ancestor(step, cst.FunctionDef) is home
            and self.tree.order(step) > self.tree.order(leaving)
            for step in self._steps
        )

    @functools.cached_property
    def _steps(self) -> list[cst.Call]:
        calls = self.tree.nodes(cst.Call)
        return [call for call in calls if self.recognizer.kind(call) is Kind.STEP]

    def expressions(self, node: cst.CSTNode) -> tuple[cst.BaseExpression, ...]:
        """The expressions right below a node, through arguments, elements and the like."""
        if id(node) not in self._expressions:
            self._expressions[id(node)] = tuple(_expressions(node))
        return self._expressions[id(node)]

    def uses_scaler(self, node: cst.CSTNode) -> bool:
        """Whether a call of the scaler protocol stands below a node."""
        return id(node) in self._holding_protocol

    @functools.cached_property
    def _holding_protocol(self) -> frozenset[int]:
        return self._holders(
            call
            for call in self.tree.nodes(cst.Call)
            if isinstance(call.func, cst.Attribute)
            and call.func.attr.value in _PROTOCOL
            and (call.func.attr.value in _CERTAIN or self.roles.is_scaler(call.func.value))
        )

    @per_node
    def scaler_side(self, node: cst.If) -> bool | None:
        """How a test of a setting turns out where the scaler is in use, if one side only uses it.

        What stands below a branch that leaves its block is the other side.
        """
        if self.chooses_clip(node) or not self.is_setting(node) or not self._has_plain_mode:
            return None
        body, other = self._sides(node)
        used = any(map(self.uses_scaler, body))
        if used is any(map(self.uses_scaler, other)) or self._is_asked_for_clips(node):
            return None
        constant = self.recognizer.values.constant(node.test)
        if isinstance(constant, bool) and constant is not used and self._is_on:
            return constant  # the file has both: a scaler that is on, and the side that uses none
        return None if any(map(self.serves_both_modes, body if used else other)) else used

    def _is_asked_for_clips(self, node: cst.If) -> bool:
        """Whether an ``if`` tests what another one of its function asks, to say whether to clip."""
        home = self.tree.ancestor(node, cst.FunctionDef)
        return (id(home), text(node.test)) in self._tests_of_clips

    @functools.cached_property
    def _tests_of_clips(self) -> frozenset[tuple[int, str]]:
        """Each test behind which a function clips alone, with the function's id."""
        tests = (each for each in self.tree.nodes(cst.If) if each.orelse is None)
        clipping = (each for each in tests if self._guards_clip(each.body))
        return frozenset(
            (id(self.tree.ancestor(each, cst.FunctionDef)), text(each.test)) for each in clipping
        )

    @functools.cached_property
    def _is_on(self) -> bool:
        """Whether each scaler is told to be on, by what is a constant of this file."""
        switches = [self.roles.switch(call) for call in self.roles.scaler_calls]
        given = [switch for switch in switches if switch is not None]
        constant = self.recognizer.values.constant
        return bool(given) and all(constant(switch) is True for switch in given)

    @functools.cached_property
    def _has_plain_mode(self) -> bool:
        """Whether the program may train without a scaler, so that a test may ask for that.

        A scaler may be missing or off, or a loss is not scaled, or a step not through a scaler.
        """
        calls = [c for c in self.tree.nodes(cst.Call) if isinstance(c.func, cst.Attribute)]
        return any(map(self._is_plain, calls))

    def _is_plain(self, call: cst.Call) -> bool:
        """Whether a call is an event that has no scaler, or one that may be missing or off."""
        assert isinstance(call.func, cst.Attribute)
        owner, kind = call.func.value, self.recognizer.kind(call)
        if kind is Kind.BACKWARD:
            values = self.recognizer.values.alternatives(owner)
            return not all(isinstance(v, cst.Call) and self.recognizer.is_scale(v) for v in values)
        if kind not in (Kind.STEP, Kind.UNSCALE, Kind.UPDATE):
            return kind is Kind.OPAQUE
        return not self.roles.is_always_on(owner)

    def _sides(self, node: cst.If) -> tuple[list[cst.CSTNode], list[cst.CSTNode]]:
        """What runs where a test holds, and what where it does not."""
        body: list[cst.CSTNode] = [node.body]
        other: list[cst.CSTNode] = [node.orelse] if node.orelse is not None else []
        if leaves(node.body):
            return body, other + self._below(node)
        if isinstance(node.orelse, cst.Else) and leaves(node.orelse.body):
            return body + self._below(node), other
        return body, other

    def _below(self, node: cst.If) -> list[cst.CSTNode]:
        """The statements of the block after a test, or after the one that it is an ``elif`` of."""
        whole: cst.CSTNode = node
        holder = self.tree.parent(whole)
        while isinstance(holder, cst.If):
            whole, holder = holder, self.tree.parent(holder)
        if not isinstance(holder, (cst.IndentedBlock, cst.Module)):
            return []
        end = self.tree.end(whole)
        return [each for each in holder.body if self.tree.order(each) >= end]

    @per_node
    def is_setting(self, node: cst.If) -> bool:
        """Whether an ``if`` tests what stays as it is from one training step to the next."""
        if not is_mode_test(node.test):
            return False
        loop = self.tree.ancestor(node, cst.For, cst.While, cst.FunctionDef)
        if not isinstance(loop, (cst.For, cst.While)):
            return True
        changed = {text(target) for target in self.program.assigned(loop)}
        parts = (part for part in descendants(node.test) if isinstance(part, cst.BaseExpression))
        return not any(text(part) in changed for part in parts)

    def chooses_clip(self, node: cst.If) -> bool:
        """Whether an ``if`` says whether to clip, in any mode; else gradients may be measured."""
        if node.orelse is None:
            return self._guards_clip(node.body)
        arms = (node.body, node.orelse)
        other = next((each for each in arms if not self._guards_clip(each)), None)
        clips = any(map(self._guards_clip, arms))
        measures = clips and other is not None and not self.uses_scaler(other)
        return measures and bool(_CLIP.search(text(node.test)))

    @per_node
    def _guards_clip(self, node: cst.CSTNode) -> bool:
        """Whether what stands below a node is a clip with its ``unscale_``."""
        calls = self.tree.below(node, cst.Call)
        kinds = {self.recognizer.kind(call) for call in calls}
        scaled = any(self.recognizer.is_scale(call) for call in calls)
        return Kind.CLIP in kinds and not kinds & {Kind.STEP, Kind.UPDATE} and not scaled

    @per_node
    def serves_both_modes(self, node: cst.CSTNode) -> bool:
        """Whether an ``if`` below a node chooses between a scaler and none."""
        return any(
            inner.orelse is not None
            and self.uses_scaler(inner.body) is not self.uses_scaler(inner.orelse)
            and id(inner.body) in self.hot
            and id(inner.orelse) in self.hot
            for inner in self.tree.below(node, cst.If)
        )

    def has_backward(self, node: cst.CSTNode) -> bool:
        """Whether a backward call, or a call of something with events, stands below a node."""
        return id(node) in self._holding_backward

    @functools.cached_property
    def _holding_backward(self) -> frozenset[int]:
        calls = self.tree.nodes(cst.Call)
        backwards = [c for c in calls if self.recognizer.kind(c) is Kind.BACKWARD]
        return self._holders([*backwards, *self._eventful_calls])

    def holds_training_loop(self, node: cst.CSTNode) -> bool:
        """Whether a loop that runs backward and steps is below a node, here or in what it calls.

        One that only gathers gradients is a part of the round of a training step.
        """
        return id(node) in self._holding_loops

    def only_gathers(self, node: cst.CSTNode) -> bool:
        """Whether no event below a node, here or in what it calls, is one of a training step."""
        return id(node) not in self._holding_more

    @functools.cached_property
    def _holding_more(self) -> frozenset[int]:
        def is_more(call: cst.Call) -> bool:
            return self.recognizer.kind(call) not in (None, *_GATHERING)

        found = frozenset[int]()
        holders = self._holders([call for call in self.tree.nodes(cst.Call) if is_more(call)])
        while not holders <= found:
            found |= holders
            bodies = (f for f in self.tree.nodes(cst.FunctionDef) if id(f.body) in holders)
            holders = self._holders(c for f in bodies for c in self._calls_of.get(id(f), ()))
        return found

    @functools.cached_property
    def _holding_loops(self) -> frozenset[int]:
        loops: list[cst.CSTNode] = [*self.tree.nodes(cst.For), *self.tree.nodes(cst.While)]
        trains = (loop for loop in loops if self.has_backward(loop) and self.steps(loop))
        inner: list[cst.CSTNode] = [*trains]
        bodies = {id(f.body): id(f) for f in self.tree.nodes(cst.FunctionDef)}
        found: set[int] = set()
        while inner:
            fresh = self._holders(inner) - found
            found |= fresh
            looping = [bodies[key] for key in fresh if key in bodies]
            inner = [call for function in looping for call in self._calls_of.get(function, ())]
        return frozenset(found)

    @functools.cached_property
    def _calls_of(self) -> dict[int, list[cst.CSTNode]]:
        """Id of a function -> the calls of it in which something happens."""
        found: dict[int, list[cst.CSTNode]] = {}
        for call in self._eventful_calls:
            found.setdefault(id(self.program.target(call)), []).append(call)
        return found

    @functools.cached_property
    def _eventful_calls(self) -> list[cst.Call]:
        """The calls of functions of this file in which something happens."""
        return [
            call
            for call in self.tree.nodes(cst.Call)
            if (target := self.program.target(call)) is not None
            and id(target) in self.recognizer.eventful
        ]

    def _holders(self, nodes: Iterable[cst.CSTNode]) -> frozenset[int]:
        """Ids of the nodes and of all that holds them in their function."""
        found: set[int] = set()
        for node in nodes:
            found.add(id(node))
            for holder in self.tree.ancestors(node):
                if id(holder) in found or isinstance(holder, _DEFINITIONS):
                    break
                found.add(id(holder))
        return frozenset(found)

    def matters(self, keys: Iterable[str], test: cst.CSTNode | None = None) -> bool:
        """Whether some test besides ``test`` decides about events by one of these values.

        What a path knows beyond that need not be kept: it would tell paths apart that behave
        alike.
        """
        own = 1 if test is not None and self._decides(test) else 0
        return any(self._deciding[_last_word(key)] > own for key in keys)

    def branches(self, keys: Iterable[str]) -> bool:
        """Whether a test around events looks at one of these values, under this name."""
        return any(_last_word(key) in self._branching for key in keys)

    @per_node
    def end_tests(self, loop: cst.For) -> list[tuple[cst.Comparison, bool]]:
        """The tests of its last round by which a loop decides about events, with their results."""
        found = self._counters.end_tests(loop)
        hot = [each for each in self.tree.below(loop.body, cst.If) if id(each) in self.hot]
        return [
            (test, holds) for test, holds in found if any(self._asks(each, test) for each in hot)
        ]

    def _asks(self, branch: cst.If, test: cst.Comparison) -> bool:
        """Whether a comparison is part of the test of a branch, itself or by a variable."""
        return any(self.tree.contains(part, test) for part in self.spelled_out(branch.test))

    @per_node
    def asks_for_end(self, node: cst.If) -> bool:
        """Whether a test is, among others, whether the round of a loop around is the last."""
        loops = [loop for loop in self.program.loops(node) if isinstance(loop, cst.For)]
        return any(self._asks(node, test) for loop in loops[:1] for test, _ in self.end_tests(loop))

    @functools.cached_property
    def _counters(self) -> Counters:
        return Counters(self.program)

    @per_node
    def sets_flag(self, node: cst.If) -> bool:
        """Whether a statement only gives names constants, or a scaler, that later tests ask for."""
        targets = [text(target) for target in self.program.assigned(node)]
        return bool(targets) and id(node) not in self.hot and self.matters(targets)

    @per_node
    def _decides(self, test: cst.CSTNode) -> bool:
        """Whether a test decides about events: in it, or below it since it leaves."""
        if id(test) in self.hot:
            return True
        home = self.tree.ancestor(test, cst.FunctionDef)
        return id(test) in self.leaving and id(home) in self.recognizer.eventful

    @functools.cached_property
    def _deciding(self) -> Counter[str]:
        """How many tests and switches around events look at a name, under this name or another."""
        deciders = [*self._deciding_tests]
        deciders += [region.enabled for region in self.regions.all if region.enabled is not None]
        choices = [context for region in self.regions.all for context in region.choices]
        deciders += [test for context in choices for test, _ in arms(self.tree, context)]
        for call in self.roles.scaler_calls:
            deciders += [arg.value for arg in call.args]
        deciders += [part for test in deciders for part in self._answered(test)]
        found = Counter(word for test in deciders for word in set(_words(test)))
        for node in self.tree.nodes(cst.Match):
            found.update(_matched(node) if self._decides(node) else ())
        fresh = found
        for _ in range(_ALIAS_ROUNDS):
            fresh = self._under_other_names(fresh)
            found = found + fresh
        return found

    def _answered(self, test: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
        """The tests that calls in a test give the answers of, and what the calls are given."""
        for call in (part for part in (test, *descendants(test)) if isinstance(part, cst.Call)):
            answer = self.program.answered(call)
            if answer is not None:
                yield from (answer, *(arg.value for arg in call.args))

    @functools.cached_property
    def _deciding_tests(self) -> list[cst.BaseExpression]:
        branches: tuple[cst.If | cst.IfExp | cst.While, ...] = (
            *self.tree.nodes(cst.If),
            *self.tree.nodes(cst.IfExp),
            *self.tree.nodes(cst.While),
        )
        return [node.test for node in branches if self._decides(node)]

    @functools.cached_property
    def _branching(self) -> frozenset[str]:
        """What those tests look at."""
        return frozenset(word for test in self._deciding_tests for word in _words(test))

    def _under_other_names(self, found: Counter[str]) -> Counter[str]:
        """The counts of names, for what they are copies of."""
        counts: Counter[str] = Counter()
        for target, value in self._copies:
            own = set(_words(target))
            extra = max((found[word] for word in own), default=0)
            counts.update({word: extra for word in set(_words(value)) - own if extra})
        return counts

    @functools.cached_property
    def _copies(self) -> list[tuple[cst.BaseExpression, cst.BaseExpression]]:
        """Pairs of a name and what it is a copy of: parameters and their arguments, aliases."""
        found: list[tuple[cst.BaseExpression, cst.BaseExpression]] = []
        for call in self._eventful_calls:
            function = self.program.target(call)
            assert function is not None
            names = [param.name for param in function.params.params]
            found += [(name, arg.value) for name in names for arg in call.args]
        copied = (cst.Name, cst.Attribute, cst.BooleanOperation)
        for target, value in assignments(self.tree):
            if isinstance(value, copied):
                found.append((target, value))
            elif isinstance(value, cst.Call):
                found += [(target, each) for each in self._answered(value)]
        found += self.program.choices.tests
        return found


_NAME = re.compile(r"[\w.@:\[\]*'\"]+")
_WORD = re.compile(r"\w+")


@functools.lru_cache(maxsize=4096)
def _last_word(key: str) -> str:
    """What `_words` calls the value under a key: its last name, or the text of a whole test."""
    return _WORD.findall(key)[-1] if _NAME.fullmatch(key) else key


def _words(node: cst.BaseExpression) -> Iterator[str]:
    """The names and items of the values that an expression looks at, and the texts of its parts."""
    for part in descendants(node):
        match part:
            case cst.Name(value=word):
                yield word
            case cst.SimpleString():
                yield str(part.evaluated_value)
            case cst.Comparison():
                yield from (text(part), *atoms(formula(part, lambda _: None)))
            case cst.Call() | cst.BinaryOperation():
                yield text(part)


def _matched(node: cst.Match) -> set[str]:
    """What the cases of a ``match`` look at, as `_words` of a test."""
    found = set(_words(node.subject))
    for case in node.cases:
        found |= atoms(matches(node.subject, case.pattern, lambda _: None))
        found.update(() if case.guard is None else _words(case.guard))
    return found


def _expressions(node: cst.CSTNode) -> Iterator[cst.BaseExpression]:
    """The expressions right below a node, through arguments, elements and the like."""
    for child in children(node):
        if isinstance(child, cst.BaseExpression):
            yield child
        elif not isinstance(child, (cst.BaseStatement, cst.Parameters)):
            yield from _expressions(child)
