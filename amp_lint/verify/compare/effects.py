"""What a function does, apart from its training-step events: calls, stores, returns, in order.

Two versions of a function do the same if their effects are equal. Local names are replaced by
what they stand for, so that a new name or a statement split in two makes no difference; AMP is
erased, so that neither do a scaler and the autocast regions. The events of the training step are
left out: they are compared as traces.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import libcst as cst

from amp_lint.model.conditions import text
from amp_lint.model.events import Kind
from amp_lint.model.gradients import is_gradient
from amp_lint.model.names import dotted
from amp_lint.verify.compare.lift import ERASED, Lifter
from amp_lint.verify.compare.purity import is_opaque
from amp_lint.verify.terms import Const, Form, Input, Op, Term

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


@dataclass(slots=True)
class Effects:
    """The effects of one function, and what its parts were found to stand for."""

    done: list[Effect] = field(default_factory=list)
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
        self._loops = 0
        lifter.restart()
        self._block(_statements(unit.body), {}, ())
        lifter.restart()

    # --- statements ---------------------------------------------------------------------------

    def _block(
        self, statements: Iterable[cst.CSTNode], env: dict[str, Term], guards: tuple[Term, ...]
    ) -> None:
        for statement in statements:
            self._lifter.begin(env)
            match statement:
                case cst.SimpleStatementLine(body=body):
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
                    for case in cases:
                        guard = Op(Form.OTHER, f"case {text(case.pattern)}")
                        self._branch(_statements(case.body), env, (*guards, guard))

    def _branch(
        self, body: Sequence[cst.CSTNode], env: dict[str, Term], guards: tuple[Term, ...]
    ) -> dict[str, Term]:
        inner = dict(env)
        self._block(body, inner, guards)
        return inner

    def _if(self, node: cst.If, env: dict[str, Term], guards: tuple[Term, ...]) -> None:
        self._calls(node.test, env, guards)
        test = self._lifter.term(node.test, env)
        one = self._branch(_statements(node.body), env, (*guards, test))
        other = dict(env)
        negated = (*guards, Op(Form.OPERATOR, "not_", (test,)))
        if isinstance(node.orelse, cst.If):
            self._if(node.orelse, other, negated)
        elif node.orelse is not None:
            self._block(_statements(node.orelse.body), other, negated)
        for name in {*one, *other}:
            first, second = one.get(name, Input(name)), other.get(name, Input(name))
            if first is second or first == second:
                env[name] = first
            else:
                env[name] = self._bounded(name, Op(Form.OTHER, "either", (test, first, second)))

    def _bounded(self, name: str, term: Term) -> Term:
        return term if self._lifter.size(term) < 200 else Input(name)

    def _loop(
        self, node: cst.For | cst.While, env: dict[str, Term], guards: tuple[Term, ...]
    ) -> None:
        self._loops += 1
        head = node.iter if isinstance(node, cst.For) else node.test
        self._calls(head, env, guards)
        guard = Op(Form.OTHER, type(node).__name__.lower(), (self._lifter.term(head, env),))
        changed = {n for t in self._model.steps.relevance.assigned(node) for n in _names(t)}
        for name in changed:
            env[name] = Input(name)
        self._lifter.tick()
        inner = self._branch(_statements(node.body), env, (*guards, guard))
        self._lifter.tick()
        for name in changed & set(inner):
            if inner[name] != env[name]:
                env[name] = self._bounded(name, Op(Form.OTHER, "loop", (inner[name],)))
        if node.orelse is not None:
            self._block(_statements(node.orelse.body), env, guards)

    def _with(self, node: cst.With, env: dict[str, Term], guards: tuple[Term, ...]) -> None:
        for item in node.items:
            if self._is_amp(item.item, env):
                continue
            self._calls(item.item, env, guards)
            guards = (*guards, Op(Form.OTHER, "with", (self._lifter.term(item.item, env),)))
            if item.asname is not None:
                for name in _names(item.asname.name):
                    env[name] = Input(name)
        self._block(_statements(node.body), env, guards)

    def _is_amp(self, context: cst.BaseExpression, env: dict[str, Term]) -> bool:
        """Whether a context is an autocast region, or was meant to be one."""
        region = self._model.regions.of(context)
        return region is not None or self._lifter.term(context, env) == ERASED

    def _try(
        self, node: cst.Try | cst.TryStar, env: dict[str, Term], guards: tuple[Term, ...]
    ) -> None:
        self._block(_statements(node.body), env, (*guards, Op(Form.OTHER, "try")))
        for handler in node.handlers:
            caught = text(handler.type) if handler.type is not None else ""
            guard = Op(Form.OTHER, f"except {caught}")
            self._branch(_statements(handler.body), env, (*guards, guard))
        if node.orelse is not None:
            self._block(_statements(node.orelse.body), env, guards)
        if node.finalbody is not None:
            self._block(_statements(node.finalbody.body), env, guards)

    # --- simple statements --------------------------------------------------------------------

    def _small(
        self, node: cst.BaseSmallStatement, env: dict[str, Term], guards: tuple[Term, ...]
    ) -> None:
        match node:
            case cst.Expr(value=value):
                self._calls(value, env, guards, top=True)
                self._mutated(value, env)
            case cst.Assign(value=value, targets=targets):
                self._calls(value, env, guards)
                term = self._lifter.term(value, env)
                for target in targets:
                    self._store(target.target, term, env, guards, node)
            case cst.AnnAssign(target=target, value=cst.BaseExpression() as value):
                self._calls(value, env, guards)
                self._store(target, self._lifter.term(value, env), env, guards, node)
            case cst.AugAssign(target=target, value=value):
                self._calls(value, env, guards)
                self._store(target, self._lifter.augmented(node, env), env, guards, node)
            case cst.Return(value=value) | cst.Raise(exc=value):
                self._leave(type(node).__name__.lower(), value, env, guards, node)
            case cst.Assert(test=test):
                self._leave("assert", test, env, guards, node)
            case cst.Break() | cst.Continue():
                self._note(type(node).__name__.lower(), guards, Const(None), node)
            case cst.Del(target=target):
                self._note(f"del {text(target)}", guards, Const(None), node)

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
        term = self._lifter.term(value, env) if value is not None else Const(None)
        self._note(kind, guards, term, node)

    def _note(self, kind: str, guards: tuple[Term, ...], term: Term, node: cst.CSTNode) -> None:
        self.found.done.append(Effect(kind, guards, term, node))
        if kind != "backward" and term != ERASED:
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
            env[target.value] = self._bounded(target.value, term)
            if not isinstance(self._unit, cst.FunctionDef) and not same:
                self._note(f"store {target.value}", guards, term, node)
        elif not is_gradient(target):
            self._note(f"store {text(target)}", guards, term, node)
            path = dotted(target)
            if path is not None:
                env[path] = self._bounded(path, term)

    def _mutated(self, value: cst.BaseExpression, env: dict[str, Term]) -> None:
        """``x.add_(y)`` makes another x; ``scaler.unscale_(y)`` leaves the scaler as it was."""
        if not isinstance(value, cst.Call) or not isinstance(value.func, cst.Attribute):
            return
        if self._kind(value) is Kind.UNSCALE:
            return
        name = dotted(value.func.value)
        method = value.func.attr.value
        if name and method.endswith("_") and not method.endswith("__"):
            env[name] = self._bounded(name, self._lifter.term(value, env))

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
        if kind is Kind.BACKWARD:
            assert isinstance(node, cst.Call)
            self._backward(node, env, guards)
            return
        if kind not in (None, Kind.OPAQUE, Kind.GRADIENT_READ):
            return
        for part in self._model.steps.relevance.expressions(node):
            self._calls(part, env, guards)
        if not isinstance(node, (cst.Call, cst.BinaryOperation)):
            return
        term = self._lifter.term(node, env)
        if not (isinstance(node, cst.Call) and self._is_scale(node)):
            self.found.terms[id(node)] = term
        if isinstance(node, cst.Call) and (top or is_opaque(term)):
            self._do(node, term, guards)

    def _do(self, node: cst.Call, term: Term, guards: tuple[Term, ...]) -> None:
        erased = self._lifter.is_erased(node) or self._lifter.is_scaler_state(node)
        if isinstance(term, Op) and not self._is_scale(node) and not erased:
            self._note("do", guards, term, node)

    def _is_scale(self, node: cst.Call) -> bool:
        return self._model.steps.recognizer.is_scale(node)

    def _kind(self, node: cst.BaseExpression) -> Kind | None:
        return self._model.steps.recognizer.kind(node) if isinstance(node, cst.Call) else None

    def _backward(self, node: cst.Call, env: dict[str, Term], guards: tuple[Term, ...]) -> None:
        loss = self._loss(node)
        term: Term = Const(None)
        if loss is not None:
            self._calls(loss, env, guards)
            term = self._lifter.loss(loss, env)
        self.found.losses[id(node)] = term
        self._note("backward", _without_loops(guards), term, node)

    def _loss(self, node: cst.Call) -> cst.BaseExpression | None:
        assert isinstance(node.func, cst.Attribute)
        takes = self._model.names.is_any(node.func, {"torch.autograd.backward"})
        owner = (dotted(node.func.value) or "").rpartition(".")[2].strip("_")
        if takes or owner in ("accelerator", "fabric"):
            return node.args[0].value if node.args else None
        return node.func.value


def _handed(node: cst.CSTNode) -> Iterator[str]:
    """The names that a call is of, or gets as they are: it may change what they stand for."""
    if isinstance(node, cst.Call):
        owner = node.func.value if isinstance(node.func, cst.Attribute) else node.func
        for value in (owner, *(arg.value for arg in node.args)):
            if isinstance(value, cst.Name):
                yield value.value


def _without_loops(guards: tuple[Term, ...]) -> tuple[Term, ...]:
    """How often backward runs is a matter of the traces."""
    return tuple(g for g in guards if not (isinstance(g, Op) and g.form is Form.OTHER))


def _statements(body: object) -> Sequence[cst.CSTNode]:
    if isinstance(body, cst.IndentedBlock):
        return body.body
    if isinstance(body, cst.SimpleStatementSuite):
        return [cst.SimpleStatementLine(body=body.body)]
    assert isinstance(body, (list, tuple))
    return body


def _names(target: cst.BaseExpression) -> Iterator[str]:
    if isinstance(target, (cst.Tuple, cst.List)):
        for element in target.elements:
            yield from _names(element.value)
    else:
        path = dotted(target)
        if path is not None:
            yield path
