"""Numerical guards of a term, and the term without them: what its author meant to compute.

A guard is a small constant that keeps a logarithm, a root or a quotient away from 0: an addition
below one of these, a clamp there, the eps of a norm.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from amp_lint.verify.experiments.names import words
from amp_lint.verify.experiments.operations import parameters
from amp_lint.verify.terms import Const, Form, Global, Input, Op, Seq, Term, show

SMALL = 1e-3
"""The largest constant that is taken for a guard."""

_EPS_NAME = re.compile(r"(^|[._])(eps|epsilon|tiny)$", re.IGNORECASE)
_GUARDED = words("log log2 log10 sqrt rsqrt reciprocal binary_cross_entropy")
"""Functions of which the first argument is kept away from 0."""
_TRANSPARENT = words(
    """gather index_select select take_along_dim narrow getitem squeeze unsqueeze view reshape
    transpose permute flatten contiguous diagonal diag t expand clamp clip clamp_min clamp_max
    maximum max sum mean to float half double bfloat16 type detach neg T mT"""
)
"""Operations through which a guard is still one of the function above."""
_CLAMPS = words("clamp clip clamp_min clamp_max maximum")
_RAISED = {Form.METHOD: words("float half bfloat16")}
_NORMS = words(
    """LayerNorm GroupNorm RMSNorm InstanceNorm1d InstanceNorm2d InstanceNorm3d layer_norm
    group_norm rms_norm instance_norm"""
)
_LOW = frozenset(
    f"torch.{name}"
    for name in ["float16", "half", "bfloat16", "float32", "float", "float64", "double"]
)


def exact(term: Term) -> Term:
    """The term with every cast to a floating dtype raised to float64."""
    match term:
        case Global(name) if name in _LOW:
            return Global("torch.float64")
        case Seq(kind, items):
            return Seq(kind, tuple(map(exact, items)))
        case Op(form, name, args, keywords):
            raised = "double" if name in _RAISED.get(form, ()) else name
            named = tuple((key, exact(value)) for key, value in keywords)
            return Op(form, raised, tuple(map(exact, args)), named)
        case _:
            return term


def erase(term: Term, guarded: bool = False) -> Term:
    """The term without its guards, except the eps of norms.

    The limit of -100 that ``binary_cross_entropy`` sets to its logarithms is one.
    """
    if isinstance(term, Seq):
        return Seq(term.kind, tuple(erase(item) for item in term.items))
    if not isinstance(term, Op):
        return term
    if guarded:
        inner = _inside_guard(term)
        if inner is not None:
            return erase(inner, guarded)
    logits = _logits(term)
    if logits is not None:
        name = f"{term.name}_with_logits"
        return erase(Op(term.form, name, (logits, *term.args[1:]), term.keywords))
    args = tuple(
        erase(arg, _is_guarded(term, index, guarded)) for index, arg in enumerate(term.args)
    )
    return Op(term.form, term.name, args, tuple((k, erase(v)) for k, v in term.keywords))


def _logits(op: Op) -> Term | None:
    """What the sigmoid is of whose cross entropy is taken."""
    if op.name != "torch.nn.functional.binary_cross_entropy" or not op.args:
        return None
    inner = op.args[0]
    if not isinstance(inner, Op):
        return None
    if inner.form is Form.APPLY and isinstance(inner.args[0], Op):
        return inner.args[1] if inner.args[0].name == "torch.nn.Sigmoid" else None
    return inner.args[0] if inner.name.rpartition(".")[2] == "sigmoid" else None


def _is_guarded(op: Op, index: int, guarded: bool) -> bool:
    """Whether an argument of an operation is kept away from 0."""
    short = op.name.rpartition(".")[2]
    if short in {"truediv", "div", "divide", "true_divide"}:
        return index == 1
    if index:
        return False
    return short in _GUARDED or (guarded and short in _TRANSPARENT)


def _inside_guard(op: Op) -> Term | None:
    """What a guard is put around: ``p`` of ``p + 1e-8``, of ``p.clamp(min=1e-7)``."""
    short = op.name.rpartition(".")[2]
    if short in {"add", "sub"} and len(op.args) == 2:
        for kept, other in (op.args, op.args[::-1]):
            if is_small(other):
                return kept
    if short in _CLAMPS:
        bounds = [*op.args[1:], *(value for _, value in op.keywords)]
        if all(is_small(bound) or _is_near_one(bound) for bound in bounds):
            return op.args[0]
    return None


def is_small(term: Term) -> bool:
    """Whether something can be the constant of a guard."""
    match term:
        case Const(bool()):
            return False
        case Const(int() | float() as value):
            return abs(value) <= SMALL
        case Input(key):
            return _EPS_NAME.search(key) is not None
        case Op(Form.ATTRIBUTE, "eps" | "tiny" | "smallest_normal"):
            return True
        case Op(Form.FUNCTION | Form.METHOD, _, (first, *_)):
            return is_small(first) and not isinstance(first, Input)
        case _:
            return False


def _is_near_one(term: Term) -> bool:
    match term:
        case Const(None):
            return True
        case Const(int() | float() as value):
            return abs(value - 1) <= SMALL
        case Op(Form.OPERATOR, "sub", (Const(1 | 1.0), taken)):
            return is_small(taken)
        case _:
            return False


def norm_eps(term: Term) -> tuple[Term, ...]:
    """The eps of each norm, in the order in which they are written."""
    return tuple(_norm_eps(term))


def _norm_eps(term: Term) -> Iterator[Term]:
    if isinstance(term, Seq):
        for item in term.items:
            yield from _norm_eps(item)
    if not isinstance(term, Op):
        return
    if _is_norm(term):
        yield _eps_of(term)
    for child in (*term.args, *(value for _, value in term.keywords)):
        yield from _norm_eps(child)


def with_norm_eps(term: Term, eps: tuple[Term, ...]) -> Term:
    """The term with the eps of each norm replaced, in the same order."""
    return _replace(term, iter(eps))


def _replace(term: Term, eps: Iterator[Term]) -> Term:
    if isinstance(term, Seq):
        return Seq(term.kind, tuple(_replace(item, eps) for item in term.items))
    if not isinstance(term, Op):
        return term
    own = next(eps) if _is_norm(term) else None
    args = tuple(_replace(arg, eps) for arg in term.args)
    named = tuple((name, _replace(value, eps)) for name, value in term.keywords)
    made = Op(term.form, term.name, args, named)
    return made if own is None else _set_eps(made, own)


def _is_norm(op: Op) -> bool:
    return (
        op.form in (Form.MODULE, Form.FUNCTION)
        and op.name.startswith("torch.")
        and op.name.rpartition(".")[2] in _NORMS
    )


def _position(op: Op) -> int:
    names = parameters(op.form, op.name)
    return names.index("eps") if "eps" in names else len(op.args)


def _eps_of(op: Op) -> Term:
    for name, value in op.keywords:
        if name == "eps":
            return value
    position = _position(op)
    default = Const(None) if "rms" in op.name.lower() else Const(1e-5)
    return op.args[position] if position < len(op.args) else default


def _set_eps(op: Op, eps: Term) -> Op:
    position = _position(op)
    if position < len(op.args):
        return Op(
            op.form, op.name, (*op.args[:position], eps, *op.args[position + 1 :]), op.keywords
        )
    kept = tuple((name, value) for name, value in op.keywords if name != "eps")
    return Op(op.form, op.name, op.args, tuple(sorted((*kept, ("eps", eps)), key=lambda k: k[0])))


def text(term: Term) -> str:
    """An eps in a sentence."""
    match term:
        case Const(int() | float() as value):
            return f"{value:g}"
        case Const(None):
            return "the default"
        case _:
            return show(term)
