"""From two terms as they were lifted to terms that can be run."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from dataclasses import dataclass

from amp_lint.verify.experiments.names import BUILTINS, CASTS
from amp_lint.verify.experiments.operations import (
    NotLiftedError,
    function,
    is_module,
    module_class,
    not_lifted,
    parameters,
)
from amp_lint.verify.terms import Const, Form, Global, Input, Op, Seq, Term, show, walk

_PARTIAL = "functools.partial"
_EQUALITY = frozenset({"eq", "ne", "is_", "is_not"})
_TESTS = _EQUALITY | {"ge", "gt", "le", "lt", "not_"}


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
    reasons = [not_lifted(before), not_lifted(after), _unseen(before, after)]
    reasons += map(_not_of_tensors, (before, after))
    reasons.append(_other_sort(before, after))
    if any(reasons):
        raise NotLiftedError(next(filter(None, reasons)))
    return Prepared(before, after)


def _not_of_tensors(term: Term) -> str:
    """Why numbers do not show what a term does; "" if they may."""
    for part in walk(term):
        if not isinstance(part, Op) or part.form is not Form.OPERATOR:
            continue
        index = part.args[-1]
        if part.name == "getitem" and _is_text(index):
            return f"{show(part)}: what is indexed by a text is no tensor"
        if part.name in _EQUALITY and any(map(_is_dtype, part.args)):
            return f"{show(part)}: what it says of float64 says nothing of other dtypes"
    return ""


def _other_sort(before: Term, after: Term) -> str:
    """Why numbers do not show what two terms do: only one compares; "" if they may."""
    tests = [isinstance(each, Op) and each.name in _TESTS for each in (before, after)]
    return "only one of them is a comparison by an operator" if any(tests) != all(tests) else ""


def _is_dtype(term: Term) -> bool:
    return isinstance(term, Op) and term.form is Form.ATTRIBUTE and term.name == "dtype"


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
    if term.form is Form.APPLY:
        term = _loss(term)
    keywords = tuple((name, _unfold(value)) for name, value in term.keywords)
    name = term.name.removeprefix("builtins.") if term.form is Form.OTHER else term.name
    is_builtin = term.form is Form.OTHER and name in BUILTINS
    form = Form.FUNCTION if is_builtin else term.form
    args = tuple(map(_unfold, term.args))
    return _first_by_place(Op(form, name, args, keywords))


def _first_by_place(op: Op) -> Op:
    """A call of a function of torch with its first argument where it is looked for."""
    first, *_ = (*parameters(op.form, op.name), "") if op.form is Form.FUNCTION else ("",)
    given = dict(op.keywords)
    if op.args or first not in given:
        return op
    value = given.pop(first)
    return Op(op.form, op.name, (value,), tuple(given.items()))


_LOSSES = {
    "torch.nn.BCELoss": "torch.nn.functional.binary_cross_entropy",
    "torch.nn.BCEWithLogitsLoss": "torch.nn.functional.binary_cross_entropy_with_logits",
    "torch.nn.CrossEntropyLoss": "torch.nn.functional.cross_entropy",
    "torch.nn.NLLLoss": "torch.nn.functional.nll_loss",
}
"""Modules whose arguments are those of a function, by the same names."""


def _loss(op: Op) -> Op:
    """The call of a loss module as the call of its function: its weights may be tensors."""
    callee = op.args[0]
    if not isinstance(callee, Op) or callee.name not in _LOSSES or len(op.args) != 3:
        return op
    names = parameters(callee.form, callee.name)
    given = (*zip(names, callee.args, strict=False), *callee.keywords, *op.keywords)
    by_name = tuple(sorted(given, key=lambda item: item[0]))
    return Op(Form.FUNCTION, _LOSSES[callee.name], op.args[1:], by_name)


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
    shared = set(walk(other))

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


def _is_text(index: Term) -> bool:
    return isinstance(index, Const) and isinstance(index.value, str)


def _own_reason(op: Op) -> str:
    """Why the operation itself, whatever its arguments are, is not run."""
    arguments = op.args[:1] if op.form is Form.APPLY else tuple(Const(0) for _ in op.args)
    keywords = op.keywords if op.form is Form.APPLY else ()
    return not_lifted(Op(op.form, op.name, arguments, () if keywords else op.keywords))


_PLAIN = frozenset({"device", "dtype", "inplace", "momentum", "track_running_stats"})
"""Arguments of modules that make no difference to any experiment."""


def _unseen(before: Term, after: Term) -> str:
    """What differs without any experiment showing it: a device, or how parameters are made."""
    for told, what in _UNSEEN:
        if set(told(before)) != set(told(after)):
            return f"{what} is another one"
    return ""


def _settings(term: Term) -> Iterator[tuple[str, Term]]:
    for part in walk(term):
        if isinstance(part, Op) and part.form is Form.MODULE:
            named = (
                *zip(parameters(part.form, part.name), part.args, strict=False),
                *part.keywords,
            )
            yield from (
                (key, value) for key, value in named if key in _PLAIN and not _is_off(value)
            )


def _is_off(term: Term) -> bool:
    return term in (Const(None), Const(False))


def _moves(term: Term) -> Iterator[str]:
    """The devices that are named; not that of another tensor."""
    for part in walk(term):
        if isinstance(part, Op) and part.form is not Form.MODULE:
            yield from (show(value) for key, value in part.keywords if _is_place(key, value))
            if part.form is Form.METHOD and part.name in ("cpu", "cuda"):
                yield part.name
            if part.form is Form.METHOD and part.name == "to":
                yield from (show(a) for a in part.args[1:] if isinstance(a, Const) and a.value)


def _casts_of_indices(term: Term) -> Iterator[str]:
    """The casts of indices, which only experiments with huge tables would tell apart."""
    for part in walk(term):
        if isinstance(part, Op) and part.form is Form.OPERATOR and part.name == "getitem":
            below = (each for each in walk(part.args[1]) if isinstance(each, Op))
            yield from (each.name for each in below if each.name in CASTS - {"cpu", "cuda"})


_UNSEEN = (
    (_settings, "an argument of a module"),
    (_moves, "a device"),
    (_casts_of_indices, "the cast of an index"),
)


def _is_place(key: str, value: Term) -> bool:
    of_tensor = isinstance(value, Op) and value.form is Form.ATTRIBUTE
    return key == "device" and not of_tensor and not _is_off(value)


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
