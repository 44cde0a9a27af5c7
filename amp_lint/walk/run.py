"""Runs the statements of a function symbolically, on every path there is."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Iterable, Sequence

import libcst as cst

from amp_lint.amp.events import Event, Kind, recorded
from amp_lint.amp.gradient_values import is_gradient
from amp_lint.flow.branches import leaves
from amp_lint.flow.conditions import (
    Facts,
    Formula,
    Truthy,
    atoms,
    both,
    captured,
    matches,
    opposite,
    text,
)
from amp_lint.flow.values import literal
from amp_lint.syntax.assignments import paired
from amp_lint.syntax.tree import is_a
from amp_lint.walk.evaluate import MAX_DEPTH, Evaluator, Parts
from amp_lint.walk.paths import (
    Answer,
    Environment,
    Exit,
    Frame,
    Path,
    Ref,
    Scaled,
    Value,
    events,
    ways,
)

MAX_PATHS = 64
"""Paths followed at one point of a function."""
FEW_PATHS = 4
"""The same, once half of the statements that may be run are spent."""
MAX_STATEMENTS = 20_000
"""Statements run for one function, all paths and followed calls together."""

_RAISES = frozenset({"raises", "assertRaises", "assertRaisesRegex"})
_LEAVING = (cst.Continue, cst.Return)
_REPEATED = (cst.For, cst.While, cst.FunctionDef)
_EXIT_OF = {
    cst.Break: Exit.BREAK,
    cst.Continue: Exit.CONTINUE,
    cst.Return: Exit.RETURN,
    cst.Raise: Exit.RAISE,
}


class Run(Evaluator):
    """One function, run from its start; the cycles it met are in ``cycles``."""

    def __init__(
        self,
        parts: Parts,
        start: cst.FunctionDef | cst.Module,
        *,
        least: int = 0,
        most: int = MAX_STATEMENTS,
    ) -> None:
        """Run ``start``, for ``most`` statements or `MAX_STATEMENTS`, but for ``least`` anyway."""
        super().__init__(parts)
        self.truncated = False
        """Whether paths were dropped."""
        self._is_within = False
        """Whether a loop is run that runs twice."""
        self.given = self.budget = max(min(MAX_STATEMENTS, most), least)
        frame = self.frame(start)
        path = Path.start(self.decorated(start, frame))
        for end in self.block(start.body, [path], frame):
            self.close(end)

    @property
    def statements(self) -> int:
        """Statements run so far, each once for every path it was met on."""
        return self.given - max(self.budget, 0)

    # --- statements ---------------------------------------------------------------------------

    def block(self, body: object, paths: Iterable[Path], frame: Frame) -> list[Path]:
        """Run the statements of a body on every path; paths that left it come out as they are."""
        statements = _statements(body)
        live, done = list(paths), []
        for statement in statements:
            after = [end for path in live for end in self.statement(statement, path, frame)]
            if statement is statements[0] or not _are_same(live, after):
                after = self._bounded(after)
            done += [path for path in after if path.exit is not Exit.NONE]
            live = [path for path in after if path.exit is Exit.NONE]
            if not live:
                break
        return self._bounded(live + done)

    def _bounded(self, paths: list[Path]) -> list[Path]:
        if len(paths) < 2:
            return paths
        paths = _merged(paths, Path.exact_signature if self.exact else Path.signature)
        most = MAX_PATHS if 2 * self.budget > self.given else FEW_PATHS
        if len(paths) > most:
            self.merged = True
            paths = _merged(paths, Path.outline)
        if len(paths) > most:
            self.truncated = True  # tests that all hold come first, those of which none does last
            del paths[most // 2 : -(most // 2)]
        return paths

    def statement(self, node: cst.CSTNode, path: Path, frame: Frame) -> list[Path]:
        """The paths that running one statement leads to."""
        self.budget -= 1
        if self.budget < 0:  # what the path would go on to do is unknown: nothing is said of it
            self.truncated = True
            return []
        if is_a(node, cst.SimpleStatementLine):
            if self.relevance.is_idle(node):
                return [path]
            return self._simple_line(node.body, path, frame)
        run = self._compound.get(type(node))
        if run is None:
            return [path]
        if not self.relevance.is_run(node):
            return [self._forget(path, self.program.assigned(node), frame)]
        return run(node, path, frame)

    @functools.cached_property
    def _compound(self) -> dict[type[cst.CSTNode], Callable[..., list[Path]]]:
        """What runs a compound statement; a definition does nothing where it stands."""
        return {
            cst.If: self._if,
            cst.For: self._loop,
            cst.While: self._loop,
            cst.With: self._with,
            cst.Try: self._try,
            cst.TryStar: self._try,
            cst.Match: self._match,
        }

    def _simple_line(
        self, body: Sequence[cst.BaseSmallStatement], path: Path, frame: Frame
    ) -> list[Path]:
        paths = [path]
        for small in body:
            paths = [
                after
                for before in paths
                for after in (
                    self._small(small, before, frame) if before.exit is Exit.NONE else [before]
                )
            ]
        return paths

    def _small(self, node: cst.BaseSmallStatement, path: Path, frame: Frame) -> list[Path]:
        if type(node) is cst.Assign:  # which most of them are
            return self._assign_all(node, path, frame)
        if type(node) is cst.Expr:
            return [after for after, _ in self.evaluate(node.value, path, frame)]
        match node:
            case cst.AnnAssign(value=cst.BaseExpression() as value):
                return self._assign([node.target], value, path, frame)
            case cst.AugAssign():
                return self._augment(node, path, frame)
            case cst.Return(value=cst.BaseExpression() as value):
                return [
                    self._leave(self._left(node, after), Exit.RETURN, result, frame)
                    for after, result in self.evaluate(value, path, frame)
                ]
            case cst.Return() | cst.Raise() | cst.Break() | cst.Continue():
                return [self._leave(self._left(node, path), _EXIT_OF[type(node)], None, frame)]
            case cst.Assert():
                ways = path.facts.assume(self.formula(node.test, path, frame))
                return [path._replace(facts=facts) for facts in ways]
        return [path]

    def _left(self, node: cst.CSTNode, path: Path) -> Path:
        """Note that a round is left between a scaled backward and its step."""
        if not self._ends_round(node):
            return path
        state = path.gradients
        backward = state.scaled_last
        if backward is None or not state.since.isdisjoint({Kind.STEP, Kind.LEAVE}):
            return path
        gives_up = self.relevance.asks_if_gradients_are_finite(node)
        if not self._is_behind(node, backward.node):
            return path
        if not gives_up and Kind.UNSCALE not in state.since:
            return path
        return self.emit(path, Event(Kind.LEAVE, node, backward.scaler))

    def _is_behind(self, node: cst.CSTNode, backward: cst.CSTNode) -> bool:
        """Whether a statement comes after a backward in a round, and not before it in the next."""
        one, other = (self.tree.ancestor(n, cst.FunctionDef) for n in (node, backward))
        return one is not other or self.tree.order(node) > self.tree.order(backward)

    def _ends_round(self, node: cst.CSTNode) -> bool:
        """Whether a statement skips the step below it, or goes on with the next training step.

        Or whether a test that has a step in one arm only decides about such a round.
        """
        if isinstance(node, cst.Return):
            return self.relevance.skips_step(node)
        if isinstance(node, (cst.Break, cst.Raise)):
            return False
        within = (cst.For, cst.While) if isinstance(node, cst.Continue) else _REPEATED
        loop = self.tree.ancestor(node, *within)
        if isinstance(loop, (cst.For, cst.While)):
            return self.relevance.has_backward(loop.body)
        return loop is not None

    def _leave(self, path: Path, how: Exit, value: Value, frame: Frame) -> Path:
        """Out of a block; whoever leaves the first function needs to know nothing any more."""
        if how in (Exit.BREAK, Exit.RAISE):
            path = _without_tests(path)
        ends = how in (Exit.RETURN, Exit.RAISE) and len(frame.stack) == 1
        facts = Facts() if ends else path.facts
        return path._replace(exit=how, value=value, facts=facts)

    def _assign_all(self, node: cst.Assign, path: Path, frame: Frame) -> list[Path]:
        paths = [path]
        for targets, value in self.relevance.parts(node):
            paths = [end for p in paths for end in self._assign(targets, value, p, frame)]
        return paths

    def _assign(
        self,
        targets: Sequence[cst.BaseExpression],
        value: cst.BaseExpression,
        path: Path,
        frame: Frame,
    ) -> list[Path]:
        if type(value) is cst.IfExp and not self.is_hot(value):
            return self._assign_choice(targets, value, path, frame)
        paths: list[Path] = []
        for after, result in self.evaluate(value, path, frame):
            ends = [after]
            for target in filter(self.is_hot, targets):
                ends = [end for each in ends for end, _ in self.evaluate(target, each, frame)]
            for end in ends:
                for target in targets:
                    end = self._store(target, value, result, end, frame)
                paths += self._with_truth(targets, value, end, frame)
        return paths

    def _with_truth(
        self,
        targets: Sequence[cst.BaseExpression],
        value: cst.BaseExpression,
        path: Path,
        frame: Frame,
    ) -> list[Path]:
        """``flag = a and not b``: what flag is goes with the test."""
        if len(targets) != 1 or not isinstance(targets[0], (cst.Name, cst.Attribute)):
            return [path]
        key = self.own_key(targets[0], path, frame)
        return self.learn_truth(key, value, path, frame) if key is not None else [path]

    def _assign_choice(
        self,
        targets: Sequence[cst.BaseExpression],
        value: cst.IfExp,
        path: Path,
        frame: Frame,
    ) -> list[Path]:
        """``x = a if test else None``: what x is goes with the test, if another asks for it."""
        unknown = [arm for arm in (value.body, value.orelse) if literal(arm) is ...]
        asked = self.relevance.matters(map(text, targets))
        if len(unknown) == 1 and not asked:
            return self._assign(targets, unknown[0], path, frame)
        if len(unknown) == 2 or not asked:
            return [self._forget(path, targets, frame)]
        paths: list[Path] = []
        for truth, arm in ((True, value.body), (False, value.orelse)):
            for facts in path.facts.assume(self.formula(value.test, path, frame), truth):
                paths += self._assign(targets, arm, path._replace(facts=facts), frame)
        return paths

    def _store(
        self,
        target: cst.BaseExpression,
        node: cst.BaseExpression,
        value: Value,
        path: Path,
        frame: Frame,
    ) -> Path:
        if is_a(target, (cst.Tuple, cst.List)):
            return self._forget(path, (target,), frame)
        if is_gradient(target):
            clears = literal(node) is None
            if clears:
                return self.emit(path, Event(Kind.ZERO_GRAD, target))
            return self.emit(path, self.written(target, path, frame))
        if (record := recorded(target)) is not None:
            return self.emit(path, Event(Kind.RESET, target, self.key(record.value, path, frame)))
        key = self.own_key(target, path, frame)
        path = self._forget(path, (target,), frame)
        if key is None:
            return path
        if value is not None and value != Ref(key):
            path = path._replace(env=Environment({**path.env, key: value}))
        return self.learn(key, node, path)

    def _augment(self, node: cst.AugAssign, path: Path, frame: Frame) -> list[Path]:
        if is_gradient(node.target):
            return [self.emit(path, self.written(node, path, frame))]
        paths: list[Path] = []
        for after, result in self.evaluate(node.value, path, frame):
            old = self.value(node.target, after, frame)
            kept = next((v for v in (old, result) if isinstance(v, Scaled)), None)
            key = self.own_key(node.target, after, frame)
            after = self._forget(after, (node.target,), frame)
            if kept is not None and key is not None:
                after = after._replace(env=Environment({**after.env, key: kept}))
            paths.append(after)
        return paths

    def _forget(self, path: Path, targets: Sequence[cst.BaseExpression], frame: Frame) -> Path:
        if not path.env and not path.facts.by_key:
            return path
        keys = {
            key
            for target in targets
            for name, _ in paired(target, None)
            if (key := self.own_key(name, path, frame)) is not None
        }
        answers = path.env.about(keys)
        facts = self._kept(answers, path.facts).forget(keys)
        keys |= {key for key, _ in answers}
        if facts is path.facts and keys.isdisjoint(path.env):
            return path
        env = Environment(item for item in path.env.items() if item[0] not in keys)
        return path._replace(env=env, facts=facts)

    def _kept(self, answers: Iterable[tuple[str, Answer]], facts: Facts) -> Facts:
        """What is known of answers, for the names that have them: what they were about changes."""
        known = facts
        for key, answer in answers:
            may = [truth for truth in (True, False) if facts.assume(answer.condition, truth)]
            ways = known.assume(Truthy(key), may[0]) if len(may) == 1 else []
            known = ways[0] if ways else known
        return known

    # --- branches -----------------------------------------------------------------------------

    def _if(self, node: cst.If, path: Path, frame: Frame) -> list[Path]:
        paths: list[Path] = []
        if self.is_hot(node) and self.relevance.asks_what_is_unscaled(node):
            path = self.emit(path, Event(Kind.OPAQUE, node.test))
        for before, _ in self.evaluate(node.test, path, frame):
            condition = self.formula(node.test, before, frame)
            besides = self.besides(condition)
            ways = [
                (truth, facts)
                for truth in (True, False)
                for known in before.facts.assume(condition, truth)
                for facts in known.assume(besides)
            ]
            lasting = self.relevance.matters(atoms(both(condition, besides)), node)
            lasting = lasting or self.relevance.asks_for_end(node)
            for truth, facts in self._likely(node, before, ways):
                arm = node.body if truth else node.orelse
                chosen = before._replace(facts=facts) if lasting else before
                if self._is_without_step(node, arm):
                    chosen = self._left(node.test, chosen)
                paths += self._arm(arm, chosen, frame)
        return paths

    def _is_without_step(self, node: cst.If, arm: cst.CSTNode | None) -> bool:
        """Whether one arm of a test steps, and not this one, which goes on to what is below."""
        if self.relevance.steps(arm) or not self.relevance.steps(node):
            return False
        body = arm.body if isinstance(arm, cst.Else) else arm
        return not (isinstance(body, cst.BaseSuite) and leaves(body))

    def _arm(self, arm: cst.CSTNode | None, path: Path, frame: Frame) -> list[Path]:
        match arm:
            case None:
                return [path]
            case cst.If():
                return self.statement(arm, path, frame)
            case cst.Else():
                return self.block(arm.body, [path], frame)
        return self.block(arm, [path], frame)

    def _likely(
        self, node: cst.If, path: Path, ways: list[tuple[bool, Facts]]
    ) -> list[tuple[bool, Facts]]:
        """Leave out the arm that contradicts how the loss was scaled.

        Real code guards the scaler by many names for one mode: ``if args.amp:``, then
        ``if scaler is not None:``, then ``if self.fp16:``. A setting that guards calls of the
        scaler on one side only is taken to be on when the loss was scaled, off when it was not.
        """
        scaled = path.scaled_backward
        if scaled is None or {truth for truth, _ in ways} != {True, False}:
            return ways
        side = self.relevance.scaler_side(node)
        if side is None:
            return ways
        return [(truth, facts) for truth, facts in ways if truth is (side is scaled)]

    def _match(self, node: cst.Match, path: Path, frame: Frame) -> list[Path]:
        rest = [end for end, _ in self.evaluate(node.subject, path, frame)]
        ends: list[Path] = []
        for case in node.cases:
            taken: list[Path] = []
            passed: list[Path] = []
            for before in rest:
                condition = self._case(node.subject, case, before, frame)
                lasting = self.relevance.matters(atoms(condition), node)
                ways = (before._replace(facts=facts) for facts in before.facts.assume(condition))
                taken += (way if lasting else before for way in ways)
                others = before.facts.assume(condition, truth=False)
                passed += (before._replace(facts=facts) for facts in others)
            bound = [self._forget(each, captured(case.pattern), frame) for each in taken]
            ends += self.block(case.body, bound, frame)
            rest = self._bounded(passed)
        return ends + rest

    def _case(
        self, subject: cst.BaseExpression, case: cst.MatchCase, path: Path, frame: Frame
    ) -> Formula:
        """When a case is taken, if none above it is."""
        pattern = matches(
            subject, case.pattern, lambda node: self.key(node, path, frame), self.values.constant
        )
        return both(pattern, True if case.guard is None else self.formula(case.guard, path, frame))

    def _try(self, node: cst.Try | cst.TryStar, path: Path, frame: Frame) -> list[Path]:
        ends = self.block(node.body, [path], frame)
        if node.orelse is not None:
            normal = [end for end in ends if end.exit is Exit.NONE]
            ends = [end for end in ends if end.exit is not Exit.NONE]
            ends += self.block(node.orelse.body, normal, frame)
        if node.handlers:
            ends = [end for end in ends if end.exit is not Exit.RAISE] or ends
        for handler in node.handlers:
            ends += self.block(handler.body, [path], frame)
        if node.finalbody is None:
            return ends
        return [
            last if last.exit is not Exit.NONE else last._replace(exit=end.exit, value=end.value)
            for end in ends
            for last in self.block(
                node.finalbody.body, [end._replace(exit=Exit.NONE, value=None)], frame
            )
        ]

    def _with(self, node: cst.With, path: Path, frame: Frame) -> list[Path]:
        if any(map(_expects_failure, node.items)):
            return [path]
        paths = [path]
        for item in node.items:
            paths = [end for p in paths for end, _ in self.evaluate(item.item, p, frame)]
            region = self.regions.of(item.item)
            if region is not None:
                paths = [self.enter(region, p, frame) for p in paths]
        ends = self.block(node.body, paths, frame)
        return [end._replace(regions=path.regions) for end in ends]

    # --- calls --------------------------------------------------------------------------------

    def _inline(
        self,
        target: cst.FunctionDef,
        node: cst.Call,
        path: Path,
        values: list[Value],
        frame: Frame,
    ) -> list[tuple[Path, Value]]:
        """As for every evaluator; where that goes too far, anything may happen in the call."""
        spent = 4 * self.budget < self.given
        if spent or (len(frame.stack) > MAX_DEPTH and id(target) not in frame.stack):
            return [(self.emit(path, Event(Kind.OPAQUE, node)), None)]
        return super()._inline(target, node, path, values, frame)

    # --- loops --------------------------------------------------------------------------------

    def _loop(self, node: cst.For | cst.While, path: Path, frame: Frame) -> list[Path]:
        """No, one and two rounds.

        A loop that holds no backward walks over optimizers or parameters: it is entered, and one
        round stands for all. A loop around a training loop, over epochs, has one round: a second
        would begin as the second of the loop inside does. So has one within a training loop that
        only gathers gradients.
        """
        trains = self.relevance.has_backward(node.body)
        skips = trains or not self.is_hot(node.body)
        if isinstance(node, cst.For):
            starts = [end for end, _ in self.evaluate(node.iter, path, frame)]
        else:
            starts = [path]
            skips = skips and literal(node.test) is not True
        ends: list[Path] = list(starts) if skips else []
        left: list[Path] = []
        twice = trains and not self.relevance.holds_training_loop(node.body)
        twice = twice and not (self._is_within and self.relevance.only_gathers(node.body))
        for _ in range(2 if twice else 1):
            within, self._is_within = self._is_within, self._is_within or twice
            rounds = self._round(node, starts, frame)
            self._is_within = within
            if not skips:
                rounds = _that_acted(rounds, starts)
            left += [p._replace(exit=Exit.NONE) for p in rounds if p.exit is Exit.BREAK]
            left += [p for p in rounds if p.exit in (Exit.RETURN, Exit.RAISE)]
            starts = self._bounded(
                [p._replace(exit=Exit.NONE) for p in rounds if p.exit in (Exit.NONE, Exit.CONTINUE)]
            )
            ends += self._exhausted(node, starts, frame) if trains else starts
        if node.orelse is not None:
            ends = self.block(node.orelse.body, self._bounded(ends), frame)
        return self._bounded(ends + left)

    def _exhausted(self, node: cst.For | cst.While, rounds: list[Path], frame: Frame) -> list[Path]:
        """The paths whose last round may have been the last of all, by the tests that find it."""
        tests = self.relevance.end_tests(node) if isinstance(node, cst.For) else []
        if not tests:
            return rounds
        ends = []
        for path in rounds:
            found = ((self.formula(test, path, frame), holds) for test, holds in tests)
            last = both(*(part if holds else opposite(part) for part, holds in found))
            ends += [path] if path.facts.assume(last) else []
        return ends

    def _round(self, node: cst.For | cst.While, starts: list[Path], frame: Frame) -> list[Path]:
        changed = self.program.assigned(node.body)
        trains = self.relevance.has_backward(node.body)
        paths: list[Path] = []
        for path in starts:
            path = self._forget(path, changed, frame)
            if trains:
                path = path._replace(updated=None, varying=frozenset())
            if isinstance(node, cst.For):
                path = self._bind_target(node, self._forget(path, (node.target,), frame), frame)
                paths.append(self._varied(node, path, frame) if trains else path)
            else:
                ways = path.facts.assume(self.formula(node.test, path, frame))
                paths += [path._replace(facts=facts) for facts in ways]
        return self.block(node.body, paths, frame)

    def _bind_target(self, node: cst.For, path: Path, frame: Frame) -> Path:
        """Name the loop variable after what is looped over: one object for all its rounds."""
        iterable = self.own_key(node.iter, path, frame)
        if iterable is None or not isinstance(node.target, cst.Name):
            return path
        key = self.own_key(node.target, path, frame)
        return path._replace(env=Environment({**path.env, key or "": Ref(f"{iterable}[*]")}))

    def _varied(self, node: cst.For, path: Path, frame: Frame) -> Path:
        """Note what a loop that runs backward takes another object for in each round."""
        targets = [name for name, _ in paired(node.target, None)]
        keys = {f(name, path, frame) for name in targets for f in (self.own_key, self.key)}
        keys |= {name.value for name in targets if isinstance(name, cst.Name)}  # as an index
        return path._replace(varying=frozenset(key for key in keys if key is not None))


def _expects_failure(item: cst.WithItem) -> bool:
    """``with pytest.raises(...):`` and unittest's forms: what is inside does not get done."""
    return isinstance(item.item, cst.Call) and text(item.item.func).rpartition(".")[2] in _RAISES


def _that_acted(ends: list[Path], starts: list[Path]) -> list[Path]:
    """The paths of a walk over optimizers that met the one in use, if any did.

    ``if i != active: continue`` in one such loop goes the same way in the next.
    """
    idle = {path.histories for path in starts}
    return [end for end in ends if end.histories not in idle] or ends


def _without_tests(path: Path) -> Path:
    """A path that goes on to no other round, so that it does not matter which test had no step."""
    if Kind.LEAVE not in path.gradients.kinds:
        return path
    paths = (
        path.with_events(
            *(e for e in events(way) if e.kind is not Kind.LEAVE or isinstance(e.node, _LEAVING))
        )
        for way in ways(path.histories, MAX_PATHS)
    )
    return functools.reduce(Path.joined, paths)


def _merged(paths: Iterable[Path], signature: Callable[[Path], object]) -> list[Path]:
    """One path for each signature, in the order in which the last of each came."""
    by_signature: dict[object, Path] = {}
    for path in paths:
        key = signature(path)
        known = by_signature.pop(key, None)
        by_signature[key] = path if known is None else known.joined(path)
    return list(by_signature.values())


def _are_same(before: list[Path], after: list[Path]) -> bool:
    """Whether a statement changed nothing on any path."""
    return len(before) == len(after) and all(map(operator.is_, before, after))


def _statements(body: object) -> Sequence[cst.CSTNode]:
    if isinstance(body, cst.IndentedBlock):
        return body.body
    if isinstance(body, cst.SimpleStatementSuite):
        return [cst.SimpleStatementLine(body=body.body)]
    assert isinstance(body, (list, tuple))
    return body
