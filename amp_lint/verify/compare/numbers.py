"""Whether a new expression takes a tensor where the old one took a number of Python's as well.

``a / b`` is computed of numbers and of tensors, ``a.div(b)`` and ``torch.div(a, b)`` of tensors
alone. What a value is, the old text tells by what it does with it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from collections.abc import Set as AbstractSet

from amp_lint.verify.compare.difference import Difference
from amp_lint.verify.compare.side import timeless
from amp_lint.verify.terms import Const, Form, Global, Input, Op, Seq, Term, children, show, walk

_OF_NUMBERS = frozenset(
    {
        "as_integer_ratio", "bit_count", "bit_length", "conjugate", "from_bytes", "fromhex", "hex",
        "is_integer", "to_bytes",
    }
)  # fmt: skip
"""Methods of Python's numbers."""
_CASTS = frozenset({"bfloat16", "double", "float", "half", "to", "type", "type_as"})
"""Methods by which new code asks for another precision of what the old one computed with."""
_TAKE_NUMBERS = frozenset(
    {
        "arange", "as_tensor", "asarray", "empty", "eye", "finfo", "full", "iinfo", "is_storage",
        "is_tensor", "linspace", "logspace", "ones", "pow", "rand", "randint", "randn", "randperm",
        "range", "result_type", "scalar_tensor", "tensor", "zeros",
    }
)  # fmt: skip
"""Functions of torch that take a number as their first argument."""
_GIVE_NUMBERS = frozenset({"dim", "item", "nelement", "numel", "size", "stride"})
"""Methods of tensors that give numbers of Python's."""
_OF_TENSORS = frozenset({"T", "data", "grad", "mT", "real"})
"""Attributes that are tensors."""
_TORCH = "torch."
_LOSSES = ("_loss", "cross_entropy", "kl_div", "with_logits")
"""How functions are called that take a target as their second argument."""


def of_numbers(
    found: Difference, tensors: AbstractSet[Term], numbers: AbstractSet[Term] = frozenset()
) -> str:
    """How a new expression is one of tensors alone; "" if it is none, or the old one was too.

    Args:
        found: the expressions, and those around them.
        tensors: what the old text uses as tensors.
        numbers: the inputs that it says are numbers.
    """
    before, after = map(timeless, found.pair)
    around = (old for old, _ in found.contexts)
    known = {*tensors, *as_tensors([before, *around])} - numbers
    casts = {*_taken(after)} - {*_taken(after, _OF_NUMBERS | _CASTS)}
    for taken in (*_taken(after), *casts):
        is_told = taken in numbers or taken not in casts
        if is_told and _may_be_number(taken, known):
            return f"takes a tensor, and `{show(taken)}` may be a number"
    return ""


def as_tensors(terms: Iterable[Term]) -> set[Term]:
    """What is used as a tensor in terms, and what that is computed of."""
    found: set[Term] = set()
    for term in terms:
        for taken in _taken(timeless(term)):
            found |= {taken, *_operands(taken)}
    return found


def _taken(term: Term, besides: AbstractSet[str] = _OF_NUMBERS) -> Iterator[Term]:
    """What is used as no number can be: methods are called of it, functions of torch take it."""
    for part in walk(term):
        match part:
            case Op(Form.METHOD, name, (owner, *_)) if name not in besides:
                yield owner
            case Op(Form.FUNCTION, name, (first, *rest)) if name.startswith(_TORCH):
                if part.last not in _TAKE_NUMBERS and not isinstance(first, Seq):
                    yield first
                if name.endswith(_LOSSES):
                    yield from rest[:1]
            case Op(Form.APPLY, _, (Op(Form.MODULE), first, *_)):
                yield first
            case Op(Form.OPERATOR, "matmul", args):
                yield from args
            case Op(Form.OPERATOR, "getitem", (owner, Seq())):
                yield owner
            case Op(Form.ATTRIBUTE, _, (owner,)):
                yield owner


def _operands(term: Term) -> Iterator[Term]:
    """What an operator is applied to, down to what is no operator."""
    if isinstance(term, Op) and term.form is Form.OPERATOR and term.name != "getitem":
        for child in children(term):
            yield child
            yield from _operands(child)


def _may_be_number(term: Term, tensors: AbstractSet[Term]) -> bool:
    if term in tensors:
        return False
    match term:
        case Const() | Input():
            return True
        case Op(Form.OPERATOR, "matmul", _) | Global() | Seq():
            return False
        case Op(Form.OPERATOR, "getitem", (owner, index)):
            return not isinstance(index, (Seq, Op)) and _may_be_number(owner, tensors)
        case Op(Form.OPERATOR, _, args):
            return all(_may_be_number(arg, tensors) for arg in args)
        case Op(Form.METHOD, name, _):
            return name in _GIVE_NUMBERS
        case Op(Form.FUNCTION, name, _):
            return not name.startswith(_TORCH)
        case Op(Form.ATTRIBUTE, name, (owner,)):
            return name not in _OF_TENSORS and not _is_computed(owner)
        case Op(Form.OTHER, "item", (owner, *_)):
            return not _is_computed(owner)
        case Op(Form.APPLY, _, (Op(Form.MODULE), *_)):
            return False
    return True


def _is_computed(term: Term) -> bool:
    """Whether something is the result of an operation of torch, of which the items are tensors."""
    return isinstance(term, Op) and term.form in (Form.METHOD, Form.FUNCTION)
