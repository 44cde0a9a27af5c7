"""From two terms as they were lifted to terms that can be run."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from dataclasses import dataclass

from amp_lint.verify.experiments.names import BUILTINS
from amp_lint.verify.experiments.operations import (
    NotLiftedError,
    function,
    is_module,
    module_class,
    not_lifted,
    parameters,
)
from amp_lint.verify.terms import Const, Form, Global, Input, Op, Seq, Term, children, show

_PARTIAL = "functools.partial"


@dataclass(frozen=True, slots=True)
class Prepared:
    """Two terms that can be run."""

    before: Term
    after: Term


def prepare(before: Term, after: Term) -> Prepared:
    """Terms that can be run: what both hold and is not known becomes an input.

    A module is applied to a fresh input. `NotLiftedError` if what is left is not listed.
    """
    before, after = _unfold(before), _unfold(after)
    before, after = _abstract(before, after), _abstract(after, before)
    before, after = _applied(before), _applied(after)
    for term in (before, after):
        reason = not_lifted(term)
        if reason:
            raise NotLiftedError(reason)
    return Prepared(before, after)


def _unfold(term: Term) -> Term:
    """The term with partials, and with classes and functions that stand for a call of them."""
    if isinstance(term, Seq):
        return Seq(term.kind, tuple(map(_unfold, term.items)))
    if isinstance(term, Global):
        return _reference(term.name, (), ()) or term
    if not isinstance(term, Op):
        return term
    if term.name == _PARTIAL and term.args and isinstance(term.args[0], Global):
        made = _reference(term.args[0].name, term.args[1:], term.keywords)
        if made is not None:
            return made
    keywords = tuple((name, _unfold(value)) for name, value in term.keywords)
    name = term.name.removeprefix("builtins.") if term.form is Form.OTHER else term.name
    is_builtin = term.form is Form.OTHER and name in BUILTINS
    form = Form.FUNCTION if is_builtin else term.form
    return Op(form, name, tuple(map(_unfold, term.args)), keywords)


def _reference(
    name: str, args: tuple[Term, ...], keywords: tuple[tuple[str, Term], ...]
) -> Term | None:
    """A call of a class or function, with inputs for what it needs and is not given."""
    form = (
        Form.MODULE
        if name.startswith("torch.nn.") and name.rpartition(".")[2][0].isupper()
        else Form.FUNCTION
    )
    try:
        signature = inspect.signature(module_class(name) if form is Form.MODULE else function(name))
    except (NotLiftedError, ValueError, TypeError):
        return None
    given = {*list(signature.parameters)[: len(args)], *(key for key, _ in keywords)}
    missing = tuple(
        (key, Input(f"<{key}>"))
        for key, parameter in signature.parameters.items()
        if key not in given and parameter.default is parameter.empty and parameter.kind in _NAMED
    )
    return Op(form, name, args, tuple(sorted((*keywords, *missing), key=lambda item: item[0])))


_NAMED = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


def _abstract(term: Term, other: Term) -> Term:
    """The term with an input for all that it shares with another and that cannot be run."""
    shared = set(_parts(other))

    def visit(part: Term) -> Term:
        if isinstance(part, Op) and part in shared and _own_reason(part):
            return Input(show(part))
        if isinstance(part, Seq):
            return Seq(part.kind, tuple(map(visit, part.items)))
        if not isinstance(part, Op):
            return Input(part.name) if isinstance(part, Global) and not_lifted(part) else part
        keywords = tuple((name, visit(value)) for name, value in part.keywords)
        return Op(part.form, part.name, tuple(map(visit, part.args)), keywords)

    return visit(term)


def _own_reason(op: Op) -> str:
    """Why the operation itself, whatever its arguments are, is not run."""
    arguments = op.args[:1] if op.form is Form.APPLY else tuple(Const(0) for _ in op.args)
    keywords = op.keywords if op.form is Form.APPLY else ()
    return not_lifted(Op(op.form, op.name, arguments, () if keywords else op.keywords))


def _parts(term: Term) -> Iterator[Term]:
    yield term
    for child in children(term):
        yield from _parts(child)


def _applied(term: Term) -> Term:
    """A module applied to fresh inputs; anything else as it is."""
    if not is_module(term):
        return term
    owner = term
    while isinstance(owner, Op) and owner.form is Form.METHOD:
        owner = owner.args[0]
    assert isinstance(owner, Op)
    taken = list(inspect.signature(module_class(owner.name).forward).parameters.values())[1:]
    names = [p.name for p in taken if p.default is p.empty and p.kind in _NAMED]
    fresh = tuple(Input("x" if index == 0 else name) for index, name in enumerate(names))
    return Op(Form.APPLY, "", (term, *fresh))


def has_norm(term: Term) -> bool:
    """Whether a term holds a norm layer of which the eps has a place in its parameters."""
    return any(
        isinstance(part, Op) and "eps" in parameters(part.form, part.name) for part in _parts(term)
    )
