"""Whether an expression gives a tensor of its own, or one that somebody else has as well.

Two expressions may be equal number by number, and one of them be a tensor that goes on changing, or
one that is laid out in memory as a kernel does not take it.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from amp_lint.verify.compare.difference import Difference
from amp_lint.verify.compare.effect_free import is_opaque
from amp_lint.verify.terms import Const, Form, Global, Input, Op, Seq, Term, called, walk

_VIEWS = frozenset(
    {
        "T", "as_strided", "bfloat16", "broadcast_to", "chunk", "contiguous", "cpu", "cuda", "data",
        "detach", "diag", "diagonal", "double", "expand", "expand_as", "flatten", "float", "half",
        "mT", "movedim", "narrow", "permute", "real", "reshape", "reshape_as", "select", "split",
        "squeeze", "swapaxes", "swapdims", "t", "to", "transpose", "type", "type_as", "unbind",
        "unflatten", "unfold", "unsqueeze", "view", "view_as",
    }
)  # fmt: skip
"""What may give the tensor itself, or a part of it."""
_ELEMENTWISE = frozenset({"bfloat16", "detach", "double", "float", "half", "to", "type", "type_as"})
"""Those that keep its layout."""
_CALLED = (Form.FUNCTION, Form.METHOD)
_SHARED = "is a tensor of its own no more"


def other_object(found: Difference) -> str:
    """How a new expression is another object where somebody sees it; "" if nobody does.

    An operation around it that computes a new tensor is all that sees it; but the gradients of
    that are computed later, of what was copied.
    """
    if {*_copied(found.pair[0])} - {*_copied(found.pair[1])}:
        return _SHARED
    levels = (found.pair, *found.contexts)
    for (one, other), around in itertools.zip_longest(levels, levels[1:]):
        written = around is not None and _writes(around[0])
        if around is None or written or is_opaque(around[0]):
            return _difference(one, other, is_written=written)
        if _own(around[0]) and _own(around[1]):
            return ""
    return ""


def _difference(one: Term, other: Term, *, is_written: bool) -> str:
    if _own(one) and not _own(other):
        return _SHARED
    if is_written and _own(other) and not _own(one):
        return "is changed, and no longer what it was taken from"
    return "may be laid out in another way" if _is_laid_out(one) > _is_laid_out(other) else ""


def _copied(term: Term) -> Iterator[Term]:
    """What somebody else has as well and may change, and is copied in an expression."""
    for part in walk(term):
        if isinstance(part, Op) and part.form in _CALLED and part.last == "clone":
            yield from (owner for owner in part.args[:1] if not _own(owner))


def _own(term: Term) -> bool:
    """Whether an expression gives a tensor that nobody else has, or none at all."""
    term = called(term)
    match term:
        case Const() | Global():
            return True
        case Input():
            return False
        case Seq(_, items):
            return all(map(_own, items))
        case Op(Form.OPERATOR, "getitem", (owner, index)):
            return _own(owner) or not _is_slice(index)
        case Op(Form.ATTRIBUTE, name, (owner,)):
            return name not in _VIEWS or _own(owner)
        case Op(Form.METHOD | Form.FUNCTION, _, (first, *_)) if term.last in _VIEWS:
            return _own(first)
        case Op(Form.METHOD, _, (first, *_)) if _writes(term):
            return _own(first)
        case Op(Form.FUNCTION | Form.METHOD | Form.OPERATOR):
            return not is_opaque(term)
        case Op(Form.APPLY, _, (Op(Form.MODULE, name), *_)):
            return name.rpartition(".")[2] not in ("Identity", "Flatten", "Sequential")
    return False


def _is_slice(index: Term) -> bool:
    return isinstance(index, (Const, Seq))


def _writes(term: Term) -> bool:
    """Whether a method changes the tensor that it is of."""
    if not isinstance(term, Op) or term.form is not Form.METHOD:
        return False
    return term.last.endswith("_") and not term.last.endswith("__")


def _is_laid_out(term: Term) -> bool:
    """Whether an expression says that its tensor is contiguous."""
    while isinstance(term, Op) and term.args and term.last in _ELEMENTWISE:
        term = term.args[0]
    return isinstance(term, Op) and term.last == "contiguous"
