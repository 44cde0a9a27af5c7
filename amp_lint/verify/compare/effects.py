"""What a function does, apart from its training-step events: calls, stores, returns, in order.

Two versions of a function do the same if their effects are equal. Local names are replaced by
what they stand for, so that a new name or a statement split in two makes no difference; AMP is
erased, so that neither do a scaler and the autocast regions. The events of the training step are
left out: they are compared as traces.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import libcst as cst

from amp_lint.amp.events import Kind
from amp_lint.amp.gradient_values import is_gradient
from amp_lint.flow.conditions import text
from amp_lint.syntax.names import dotted
from amp_lint.syntax.tree import descendants
from amp_lint.verify.compare import touches
from amp_lint.verify.compare.effect_free import is_opaque
from amp_lint.verify.compare.lift import ERASED, Lifter
from amp_lint.verify.compare.marks import Mark, about
from amp_lint.verify.terms import Const, Form, Global, Input, Op, Term, walk

_ORDINARY = frozenset({Kind.OPAQUE, Kind.GRADIENT_READ, Kind.GRADIENT_REPAIR, Kind.SCHEDULE})
"""Events that are calls like others; `traces` does not replay them."""
_ELSE, _FINALLY = Op(Form.OTHER, "else"), Op(Form.OTHER, "finally")
_GRADIENTS = frozenset(
    f"torch.{name}" for name in ("no_grad", "enable_grad", "inference_mode", "set_grad_enabled")
)
"""Contexts that decide whether what is computed in them has gradients."""
_SUPPRESS = "contextlib.suppress"
_MAX_KEPT = 200
"""Operations in what a name stands for."""
_SCOPES = (cst.Lambda, cst.FunctionDef, cst.ClassDef)
Unit = cst.FunctionDef | cst.ClassDef | cst.Module


@dataclass(frozen=True, slots=True, eq=False)
class Effect:
    """Something that a function does."""

    kind: str
    """``do`` (a call), ``return``, ``store x.y``, ``backward``, ``raise`` ..."""
    guards: tuple[Term, ...]
    """The tests and loops around it, outermost first."""
    term: Term
    node: cst.CSTNode

    @property
    def key(self) -> tuple[object, ...]:
        """Equal for effects that are the same."""
        return self.kind, self.guards, self.term


@dataclass(frozen=True, slots=True, eq=False)
class Made:
    """A context of AMP that is entered, or a scaler that is made."""

    target: str
    """What a scaler is bound to, as it is written; "" for a context."""
    given: tuple[Term, ...]
    """Its arguments that are no literals."""
    written: frozenset[str]
    """The same as they are written."""
    guards: tuple[Term, ...]
    at: int
    """How many effects come before it."""
    node: cst.CSTNode


@dataclass(slots=True)
class Effects:
    """The effects of one function, and what its parts were found to stand for."""

    done: list[Effect] = field(default_factory=list)
    marks: list[Mark] = field(default_factory=list)
    """The events of the training step that stand in the function itself."""
    contexts: list[cst.BaseExpression] = field(default_factory=list)
    """What autocast is entered by in it, or was meant to be."""
    made: list[Made] = field(default_factory=list)
    """What of AMP is made, or entered, in it."""
    managers: list[Term] = field(default_factory=list)
    """What else is entered and is nothing imported, so that it may well open a region."""
    regions: dict[int, tuple[int, ...]] = field(default_factory=dict)
    """Id of a call or operator -> the contexts around it, by number."""
    terms: dict[int, Term] = field(default_factory=dict)
    """Id of a call or operator -> its term: what may run under autocast."""
    losses: dict[int, Term] = field(default_factory=dict)
    """Id of a backward call -> its loss."""


class Walker:
    """Collects the effects of one function, class body or module script."""

    def __init__(self, lifter: Lifter, unit: Unit) -> None:
        self._lifter = lifter
        self._model = lifter.model
        self._unit = unit
        self.found = Effects()
        self._inside: tuple[int, ...] = ()
        self._statement: cst.CSTNode = unit
        self._shared = frozenset(_used_inside(unit))
        self._rebound = frozenset(touches.rebound(self._model, unit))
        self._roots: dict[str, frozenset[str]] = {}
        """What a name may share its memory with, as far as it was bound here."""
        lifter.restart()
        lifter.unstable = self._unstable()
        if isinstance(unit, cst.FunctionDef):
            self._defaults(unit.params)
        self._block(_statements(unit.body), {}, ())
        lifter.restart()

    def _defaults(self, given: cst.Parameters) -> None:
        nothing: dict[str, Term] = {}
        for param in (*given.posonly_params, *given.params, *given.kwonly_params):
            if param.default is not None:
                self._lifter.begin(nothing)
                term = _as_module(self._lifter.term(param.default, nothing))
                self._lifter.found[id(param.default)] = term
                self._note(f"default {param.name.value}", (), term, param)

    # --- what changes ---------------------------------------------------------------------------

    def _unstable(self) -> frozenset[str]:
        """The names that are bound more than once here, or whose values are changed."""
        tree, unit = self._model.tree, self._unit
        targets = [name for t in tree.below(unit, cst.AssignTarget) for name in _names(t.target)]
        again = {name for name, count in Counter(targets).items() if count > 1}
        again |= {name for t in tree.below(unit, cst.AugAssign) for name in _names(t.target)}
        given = {param.name.value for param in tree.below(unit, cst.Param)}
        again |= given.intersection(targets)
        statements = _statements(unit.body)
        return frozenset(again.union(*(touches.changed(self._model, each) for each in statements)))

    def _touch(self, names: Iterable[str], env: dict[str, Term]) -> None:
        """Names are not what they were, and neither is what shares their memory."""
        given = {*names}
        if not given:
            return
        same = given.union(*(self._roots.get(name, ()) for name in given))
        everything = touches.EVERYTHING in given
        self._lifter.tick(*same, everything=everything)
        for name in env:
            mine = self._roots.get(name, frozenset()) | {name}
            if everything or any(touches.overlap(each, same) for each in mine):
                env[name] = self._lifter.fresh(name)

    def _shares(self, name: str) -> frozenset[str]:
        return self._roots.get(name, frozenset()) | {name}

    def _bind(
        self, name: str, term: Term, env: dict[str, Term], value: cst.BaseExpression | None
    ) -> None:
        shared = touches.shared(value) if value is not None else ()
        held = touches.roots(term, env).union(shared)
        self._roots[name] = frozenset({name}).union(*map(self._shares, held))
        env[name] = self._bounded(name, term)

    def _certain(
        self, before: dict[str, Term], env: dict[str, Term], guard: Term | None = None
    ) -> None:
        """What a block bound may not be bound: it may have been left; or only within something."""
        for name, term in env.items():
            known = before.get(name, Input(name))
            if term != known and isinstance(term, Op):
                parts = (known, term) if guard is None else (guard, term)
                form = "either" if guard is None else "within"
                env[name] = self._bounded(name, Op(Form.OTHER, form, parts))

    # --- statements ---------------------------------------------------------------------------

    def _block(
        self, statements: Iterable[cst.CSTNode], env: dict[str, Term], guards: tuple[Term, ...]
    ) -> None:
        for statement in statements:
            self._statement = statement
            self._lifter.begin(env)
            match statement:
                case cst.SimpleStatementLine(body=body) | cst.SimpleStatementSuite(body=body):
                    for small in body:
                        self._lifter.begin(env)
                        self._small(small, env, guards)
                case cst.If():
                    self._if(statement, env, guards)
                case cst.For() | cst.While():
                    self._loop(statement, env, guards)
                case cst.With():
                    self._with(statement, env, guards)
                case cst.Try() | cst.TryStar():
                    self._try(statement, env, guards)
                case cst.Match(subject=subject, cases=cases):
                    self._calls(subject, env, guards)
                    branches = []
                    for case in cases:
                        asked = "" if case.guard is None else f" if {text(case.guard)}"
                        guard = Op(Form.OTHER, f"case {text(case.pattern)}{asked}")
                        branches.append(self._branch(_statements(case.body), env, (*guards, guard)))
                    self._join(env, branches)
            self._touch(touches.bound(statement), env)

    def _branch(
        self, body: Sequence[cst.CSTNode], env: dict[str, Term], guards: tuple[Term, ...]
    ) -> dict[str, Term]:
        inner = dict(env)
        self._block(body, inner, guards)
        return inner

    def _if(self, node: cst.If, env: dict[str, Term], guards: tuple[Term, ...]) -> None:
        self._calls(node.test, env, guards)
        test = self._lifter.term(node.test, env)
        self._touch(touches.changed(self._model, node.test), env)
        negated_test = Op(Form.OPERATOR, "not_", (test,))
        with self._lifter.instead():
            one = self._branch(_statements(node.body), env, (*guards, test))
        other = dict(env)
        negated = (*guards, negated_test)
        if isinstance(node.orelse, cst.If):
            self._if(node.orelse, other, negated)
        elif node.orelse is not None:
            self._block(_statements(node.orelse.body), other, negated)
        self._lifter.either()
        for name in sorted({*one, *other}):
            first, second = one.get(name, Input(name)), other.get(name, Input(name))
            if first is second or first == second:
                env[name] = first
            else:
                env[name] = self._bounded(name, Op(Form.OTHER, "either", (test, first, second)))

    def _bounded(self, name: str, term: Term) -> Term:
        """What a name stands for; the name itself, noted once, where that is too large."""
        if self._lifter.size(term) < _MAX_KEPT:
            return term
        self._note(f"make {name}", (), term, self._statement)
        return Input(name)

    def _loop(
        self, node: cst.For | cst.While, env: dict[str, Term], guards: tuple[Term, ...]
    ) -> None:
        changed = {n for t in self._model.program.assigned(node) for n in _names(t)}
        touched = {*touches.changed(self._model, node)}
        if isinstance(node, cst.For):
            guard = self._head(node, node.iter, env, guards)
            held = touches.roots(guard.args[0], env).union(touches.shared(node.iter))
            shared = frozenset().union(*map(self._shares, held))
            self._roots |= {name: shared | {name} for name in _names(node.target)}
        for name in sorted(changed):
            given = env.get(name, Input(name))
            if not isinstance(given, Input) or given.key != name:  # else it is only itself
                self._note(f"start {name}", guards, given, node)
        self._lifter.tick(*changed)
        env |= {name: self._lifter.fresh(name) for name in changed}
        self._touch(touched, env)
        if isinstance(node, cst.While):  # its test is asked anew in each round
            guard = self._head(node, node.test, env, guards)
        inner = self._branch(_statements(node.body), env, (*guards, guard))
        self._lifter.tick()
        carried = _read_first(node)
        for name in sorted(changed & set(inner)):
            if inner[name] != env[name]:
                if name in carried or env[name] in walk(inner[name]):
                    self._note(f"next {name}", (*guards, guard), inner[name], node)
                env[name] = self._bounded(name, Op(Form.OTHER, "loop", (inner[name],)))
        self._touch(touched, env)
        if node.orelse is not None:
            before = dict(env)
            self._block(_statements(node.orelse.body), env, (*guards, guard, _ELSE))
            self._certain(before, env)

    def _head(
        self,
        node: cst.For | cst.While,
        head: cst.BaseExpression,
        env: dict[str, Term],
        guards: tuple[Term, ...],
    ) -> Op:
        """The guard of what a loop does: what it runs over, or its test."""
        self._calls(head, env, guards)
        target = (Const(text(node.target)),) if isinstance(node, cst.For) else ()
        parts = (self._lifter.term(head, env), *target)
        return Op(Form.OTHER, type(node).__name__.lower(), parts)

    def _with(self, node: cst.With, env: dict[str, Term], guards: tuple[Term, ...]) -> None:
        outside, before = self._inside, dict(env)
        managers: list[Term] = []
        for item in node.items:
            if self._is_amp(item.item, env):
                self._inside = (*self._inside, len(self.found.contexts))
                self.found.contexts.append(item.item)
                self._make("", item.item, env, guards)
                continue
            self._calls(item.item, env, guards)
            named = () if item.asname is None else (Const(text(item.asname.name)),)
            manager = self._lifter.term(item.item, env)
            if not isinstance(manager, Op) or manager.form not in (Form.FUNCTION, Form.OTHER):
                self.found.managers.append(manager)
            entered = (manager, *named)
            managers.append(manager)
            guards = (*guards, Op(Form.OTHER, "with", entered))
            self._touch(touches.changed(self._model, item.item), env)
            if item.asname is not None:
                self._touch(_names(item.asname.name), env)
                env |= {name: self._lifter.fresh(name) for name in _names(item.asname.name)}
        self._block(_statements(node.body), env, guards)
        self._inside = outside
        for manager in managers:
            if isinstance(manager, Op) and manager.name in _GRADIENTS:
                self._certain(before, env, manager)
            elif isinstance(manager, Op) and manager.name == _SUPPRESS:
                self._certain(before, env)

    def _is_amp(self, context: cst.BaseExpression, env: dict[str, Term]) -> bool:
        """Whether a context is an autocast region, or was meant to be one."""
        region = self._model.regions.of(context)
        return region is not None or self._lifter.term(context, env) == ERASED

    def _try(
        self, node: cst.Try | cst.TryStar, env: dict[str, Term], guards: tuple[Term, ...]
    ) -> None:
        caught = [_caught(handler) for handler in node.handlers]
        tried = Op(Form.OTHER, "try", tuple(map(Const, caught)))
        before = dict(env)
        self._block(_statements(node.body), env, (*guards, tried))
        if not all(map(_leaves, node.handlers)):
            self._certain(before, env)
        branches = [
            self._branch(_statements(handler.body), env, (*guards, Op(Form.OTHER, name)))
            for handler, name in zip((*node.handlers,), caught, strict=True)
        ]
        if node.orelse is not None:
            self._block(_statements(node.orelse.body), env, (*guards, tried, _ELSE))
        self._join(env, branches)
        if node.finalbody is not None:
            self._block(_statements(node.finalbody.body), env, (*guards, _FINALLY))

    def _join(self, env: dict[str, Term], branches: Sequence[dict[str, Term]]) -> None:
        """Go on after branches of which one may have been taken, or none."""
        for name in sorted({name for branch in branches for name in branch}):
            known = env.get(name, Input(name))
            others = [branch[name] for branch in branches if branch.get(name, known) != known]
            if others:
                env[name] = self._bounded(name, Op(Form.OTHER, "either", (known, *others)))

    # --- simple statements --------------------------------------------------------------------

    def _small(
        self, node: cst.BaseSmallStatement, env: dict[str, Term], guards: tuple[Term, ...]
    ) -> None:
        match node:
            case cst.Expr(value=value):
                self._calls(value, env, guards, top=True)
                made = self._lifter.term(value, env) if isinstance(value, cst.Call) else None
                self._touch(touches.changed(self._model, value), env)
                self._mutated(value, made, env)
            case cst.Assign(value=value, targets=targets):
                self._calls(value, env, guards)
                term = self._lifter.term(value, env)
                if isinstance(value, cst.Call) and self._lifter.is_amp_call(value):
                    for target in targets:
                        self._make(text(target.target), value, env, guards)
                self._touch(touches.changed(self._model, node), env)
                for target in targets:
                    self._store(target.target, term, env, guards, node)
            case cst.AnnAssign(target=target, value=cst.BaseExpression() as value):
                self._calls(value, env, guards)
                term = self._lifter.term(value, env)
                self._touch(touches.changed(self._model, node), env)
                self._store(target, term, env, guards, node)
            case cst.AnnAssign(target=target) if isinstance(self._unit, cst.ClassDef):
                self._note(f"declare {text(target)}", guards, Const(None), node)
            case cst.AugAssign(target=target, value=value):
                self._calls(value, env, guards)
                term = self._lifter.augmented(node, env)
                self.found.terms[id(node)] = term
                self.found.regions[id(node)] = self._inside
                self._touch({*touches.changed(self._model, node), *_names(target)}, env)
                self._store(target, term, env, guards, node)
            case cst.Return(value=value) | cst.Raise(exc=value):
                self._leave(type(node).__name__.lower(), value, env, guards, node)
            case cst.Assert(test=test):
                self._leave("assert", test, env, guards, node)
            case cst.Break() | cst.Continue():
                self._note(type(node).__name__.lower(), guards, Const(None), node)
            case cst.Del(target=target):
                self._note(f"del {text(target)}", guards, Const(None), node)
            case cst.Global(names=names) | cst.Nonlocal(names=names):
                known = ", ".join(sorted(item.name.value for item in names))
                self._note(f"{type(node).__name__.lower()} {known}", (), Const(None), node)

    def _leave(
        self,
        kind: str,
        value: cst.BaseExpression | None,
        env: dict[str, Term],
        guards: tuple[Term, ...],
        node: cst.CSTNode,
    ) -> None:
        if value is not None:
            self._calls(value, env, guards)
        if isinstance(value, cst.Call) and self._lifter.is_amp_call(value):
            self._make(kind, value, env, guards)
        term = self._lifter.term(value, env) if value is not None else Const(None)
        self._note(kind, guards, term, node)

    def _note(self, kind: str, guards: tuple[Term, ...], term: Term, node: cst.CSTNode) -> None:
        self.found.done.append(Effect(kind, guards, term, node))
        if kind != Kind.BACKWARD.value and term != ERASED:
            self._lifter.tick(*_handed(node))

    def _store(
        self,
        target: cst.BaseExpression,
        term: Term,
        env: dict[str, Term],
        guards: tuple[Term, ...],
        node: cst.CSTNode,
    ) -> None:
        if isinstance(target, (cst.Tuple, cst.List)):
            for index, element in enumerate(target.elements):
                item = Op(Form.OTHER, "item", (term, Const(index)))
                self._store(element.value, item, env, guards, node)
        elif isinstance(target, cst.Name):
            same = env.get(target.value) == term
            self._bind(target.value, term, env, getattr(node, "value", None))
            local = isinstance(self._unit, cst.FunctionDef) and target.value not in self._shared
            if not local and not same:
                self._note(f"store {target.value}", guards, term, node)
        elif is_gradient(target):
            self._mark(Kind.GRADIENT_WRITE.value, "", guards, node)
        else:
            self._note(f"store {text(target)}", guards, term, node)
            path = dotted(target)
            if path is not None:
                self._changed_elsewhere(target, path, env)
                env[path] = self._bounded(path, term)

    def _changed_elsewhere(
        self, target: cst.BaseExpression, path: str, env: dict[str, Term]
    ) -> None:
        """A store into an attribute changes a module, and what another name of the object has."""
        last = path.rpartition(".")[2]
        for name in env:
            if name != path and name.partition(".")[2] and name.rpartition(".")[2] == last:
                env[name] = self._lifter.fresh(name)
        owner = target.value if isinstance(target, cst.Attribute) else None
        of = dotted(owner) if isinstance(owner, cst.Attribute) else None
        if owner is not None and of is not None:
            known = self._lifter.term(owner, env)
            if isinstance(known, Op) and known.form is Form.MODULE:
                env[of] = self._lifter.fresh(of)

    def _mutated(self, value: cst.BaseExpression, made: Term | None, env: dict[str, Term]) -> None:
        """``x.add_(y)`` makes another x; ``scaler.unscale_(y)`` leaves the scaler as it was."""
        if not isinstance(value, cst.Call) or not isinstance(value.func, cst.Attribute):
            return
        if self._kind(value) is Kind.UNSCALE:
            return
        name = dotted(value.func.value)
        method = value.func.attr.value
        if name and made is not None and method.endswith("_") and not method.endswith("__"):
            env[name] = self._bounded(name, made)

    # --- calls --------------------------------------------------------------------------------

    def _calls(
        self,
        node: cst.BaseExpression,
        env: dict[str, Term],
        guards: tuple[Term, ...],
        *,
        top: bool = False,
    ) -> None:
        """Note the calls in an expression, the inner ones first."""
        if isinstance(node, _SCOPES):
            return
        kind = self._kind(node)
        if kind is not None and kind not in _ORDINARY:
            assert isinstance(node, cst.Call)
            self._event(kind, node, env, guards)
            return
        for part in self._model.steps.relevance.expressions(node):
            self._calls(part, env, guards)
        if isinstance(node, cst.Yield):
            self._yield(node, env, guards)
        if not isinstance(node, (cst.Call, cst.BinaryOperation)):
            return
        term = self._lifter.term(node, env)
        if not (isinstance(node, cst.Call) and self._is_scale(node)):
            self.found.terms[id(node)] = term
            self.found.regions[id(node)] = self._inside
        if isinstance(node, cst.Call) and (top or is_opaque(term)):
            self._do(node, term, guards)
            if is_opaque(term) and term != ERASED:
                self._touch(self._rebound, env)
            if (dotted(node.func) or "").startswith("self."):
                env |= {name: self._lifter.fresh(name) for name in env if name.startswith("self.")}

    def _do(self, node: cst.Call, term: Term, guards: tuple[Term, ...]) -> None:
        erased = self._lifter.is_erased(node) or self._lifter.is_scaler_state(node)
        if isinstance(term, Op) and not self._is_scale(node) and not erased:
            self._note("do", guards, term, node)

    def _is_scale(self, node: cst.Call) -> bool:
        return self._model.steps.recognizer.is_scale(node)

    def _kind(self, node: cst.BaseExpression) -> Kind | None:
        return self._model.steps.recognizer.kind(node) if isinstance(node, cst.Call) else None

    def _yield(self, node: cst.Yield, env: dict[str, Term], guards: tuple[Term, ...]) -> None:
        kind, value = "yield", node.value
        if isinstance(value, cst.From):
            kind, value = "yield from", value.item
        term = Const(None) if value is None else self._lifter.term(value, env)
        self._mark("yield", "", guards, node)
        self._note(kind, guards, term, node)

    # --- events -------------------------------------------------------------------------------

    def _event(
        self, kind: Kind, node: cst.Call, env: dict[str, Term], guards: tuple[Term, ...]
    ) -> None:
        self._mark(kind.value, about(self._model, kind, node), guards, node)
        if kind is Kind.STEP:
            self._lifter.tick(everything=True)  # parameters are others
        elif kind is Kind.ZERO_GRAD:
            self._lifter.tick()
        if kind is Kind.BACKWARD:
            self._backward(node, env, guards)

    def _mark(self, kind: str, subject: str, guards: tuple[Term, ...], node: cst.CSTNode) -> None:
        self.found.marks.append(Mark(kind, subject, guards, self._inside, node))

    def _make(
        self,
        target: str,
        call: cst.BaseExpression,
        env: dict[str, Term],
        guards: tuple[Term, ...],
    ) -> None:
        """Note what makes a context or a scaler, with what it is given there."""
        args = [arg.value for arg in call.args] if isinstance(call, cst.Call) else []
        nothing: dict[str, Term] = {}
        plain = (isinstance(self._lifter.term(arg, nothing), (Const, Global)) for arg in args)
        opened = [arg for arg, is_plain in zip(args, plain, strict=True) if not is_plain]
        given = tuple(self._lifter.term(arg, env) for arg in opened)
        written = frozenset(map(text, opened))
        done = len(self.found.done)
        self.found.made.append(Made(target, given, written, guards, done, call))

    def _backward(self, node: cst.Call, env: dict[str, Term], guards: tuple[Term, ...]) -> None:
        loss = self._model.steps.recognizer.loss(node)
        term: Term = Const(None)
        if loss is not None:
            self._calls(loss, env, guards)
            term = self._lifter.loss(loss, env)
        self.found.losses[id(node)] = term
        self._note(Kind.BACKWARD.value, _without_loops(guards), term, node)


def _handed(node: cst.CSTNode) -> Iterator[str]:
    """The names that a call is of, or gets as they are: it may change what they stand for."""
    if isinstance(node, cst.Call):
        owner = node.func.value if isinstance(node.func, cst.Attribute) else node.func
        for value in (owner, *(arg.value for arg in node.args)):
            if isinstance(value, cst.Name):
                yield value.value


def _as_module(term: Term) -> Term:
    """``partial(nn.LayerNorm, eps=1e-5)`` as the layer that it makes for some width."""
    if not isinstance(term, Op) or term.name != "functools.partial" or not term.args:
        return term
    made, *rest = term.args
    if not isinstance(made, Global) or not made.name.startswith("torch.nn."):
        return term
    return Op(Form.MODULE, made.name, (Input("width"), *rest), term.keywords)


def _read_first(loop: cst.For | cst.While) -> set[str]:
    """The names of which a round of a loop may read what the one before it made of them."""
    bound: set[int] = set()
    first: dict[str, cst.Name] = {}
    for node in descendants(loop.body):
        if isinstance(node, (cst.AssignTarget, cst.For, cst.AnnAssign)):
            bound |= {id(part) for part in descendants(node.target)}
        if isinstance(node, cst.Name):
            first.setdefault(node.value, node)
    return {name for name, node in first.items() if id(node) not in bound}


def _leaves(handler: cst.ExceptHandler | cst.ExceptStarHandler) -> bool:
    """Whether nothing behind a ``try`` runs after a handler."""
    statements = _statements(handler.body)
    last = statements[-1] if statements else None
    small = (
        last.body[-1]
        if isinstance(last, (cst.SimpleStatementLine, cst.SimpleStatementSuite))
        else None
    )
    return isinstance(small, (cst.Raise, cst.Return, cst.Continue, cst.Break))


def _caught(handler: cst.ExceptHandler | cst.ExceptStarHandler) -> str:
    caught = text(handler.type) if handler.type is not None else ""
    named = f" as {text(handler.name.name)}" if handler.name is not None else ""
    return f"except {caught}{named}"


def _without_loops(guards: tuple[Term, ...]) -> tuple[Term, ...]:
    """How often backward runs is a matter of the traces."""
    return tuple(g for g in guards if not (isinstance(g, Op) and g.form is Form.OTHER))


def _statements(body: object) -> Sequence[cst.CSTNode]:
    if isinstance(body, cst.IndentedBlock):
        return body.body
    if isinstance(body, cst.SimpleStatementSuite):
        return [body]  # as it stands in the tree, so that it has a place
    assert isinstance(body, (list, tuple))
    return body


def _used_inside(unit: Unit) -> Iterator[str]:
    """The names that the functions in a function use: they see what it assigns."""
    if isinstance(unit, cst.FunctionDef):
        for inner in descendants(unit.body):
            if isinstance(inner, cst.FunctionDef):
                yield from (n.value for n in descendants(inner) if isinstance(n, cst.Name))


def _names(target: cst.BaseExpression) -> Iterator[str]:
    if isinstance(target, (cst.Tuple, cst.List)):
        for element in target.elements:
            yield from _names(element.value)
    else:
        path = dotted(target)
        if path is not None:
            yield path
