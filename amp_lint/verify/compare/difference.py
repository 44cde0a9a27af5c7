"""The smallest differences between two terms."""

from __future__ import annotations

from dataclasses import dataclass, replace

from amp_lint.verify.terms import Const, Form, Global, Input, Op, Seq, Term, called, children

_COMPUTED = frozenset({Form.FUNCTION, Form.METHOD, Form.OPERATOR, Form.APPLY, Form.MODULE})
Pair = tuple[Term, Term]
_MAX_CONTEXTS = 3


@dataclass(frozen=True, slots=True)
class Difference:
    """Two expressions that differ, as small as can be, and the expressions around them."""

    pair: Pair
    contexts: tuple[Pair, ...] = ()
    """From the inside out; each computes something from the one before."""
    open: bool = True
    """Whether what comes next around it is a context too."""


class NotComparableError(Exception):
    """Two terms differ in what only running the user's code could tell."""


def differences(before: Term, after: Term) -> list[Difference]:
    """The smallest pairs of expressions that differ; [] for equal terms.

    Raises:
        NotComparableError: something differs that is no expression of torch operations.
    """
    if before == after:
        return []
    inner = _inside(before, after)
    if inner:
        return [_within(found, (before, after)) for found in inner]
    if not _is_expression((before, after)) or not _unknown(after) <= _unknown(before):
        raise NotComparableError
    return [Difference((before, after))]


def _inside(before: Term, after: Term) -> list[Difference]:
    """The differences of the parts; [] where the terms differ as wholes."""
    if _head(before) != _head(after):
        return []
    try:
        pairs = zip(children(before), children(after), strict=True)
        return [found for one, other in pairs for found in differences(one, other)]
    except NotComparableError:
        if isinstance(before, Op) and before.form in (Form.OTHER, Form.APPLY):
            raise
        return []


def _within(found: Difference, around: Pair) -> Difference:
    asks = all(isinstance(term, Op) and term.form is Form.ATTRIBUTE for term in around)
    goes_on = asks or _is_expression(around)
    if not found.open or len(found.contexts) >= _MAX_CONTEXTS or not goes_on:
        return replace(found, open=False)
    return replace(found, contexts=(*found.contexts, around))


def _head(term: Term) -> tuple[object, ...]:
    match term:
        case Op(Form.APPLY, _, (Op(Form.MODULE, module), *args)):
            return Form.APPLY, module, len(args)
        case Op(form, name, args, keywords):
            return form, name, len(args), tuple(key for key, _ in keywords)
        case Seq(kind, items):
            return kind, len(items)
    return (term,)


def _is_expression(pair: Pair) -> bool:
    """Whether both are expressions that torch may compute, and at least one is an operation."""
    one, other = (_may_compute(term) for term in pair)
    return one and other and any(isinstance(term, Op) for term in pair)


def _unknown(term: Term) -> frozenset[Term]:
    """What an expression is made from that only running the user's code could tell.

    The old and the new code would be given values that have nothing to do with each other, if the
    new one had something of its own.
    """
    if isinstance(term, (Const, Global)):
        return frozenset()
    asked = isinstance(term, Op) and term.form is Form.ATTRIBUTE and not term.keywords
    if isinstance(term, Input) or not (asked or isinstance(term, Seq) or _may_compute(term)):
        return frozenset({term})
    return frozenset().union(*map(_unknown, children(term)))


def _may_compute(term: Term) -> bool:
    match called(term):
        case Op(Form.APPLY, _, (Op(Form.MODULE), *_)):
            return True
        case Op(Form.APPLY, _, _):
            return False
        case Op(form, _, _):
            return form in _COMPUTED
        case Input():
            return True
        case Const() | Global() | Seq():
            return False
    raise AssertionError(term)
