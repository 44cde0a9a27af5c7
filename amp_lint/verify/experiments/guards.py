"""Numerical guards of a term, and the term without them: what its author meant to compute.

A guard is a small constant that keeps a logarithm, a root or a quotient away from 0: an addition
below one of these, a clamp there, the eps of a norm. So is a very low number that stands for no
number at all in front of a softmax.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

from amp_lint.verify.experiments.names import words
from amp_lint.verify.experiments.operations import parameters
from amp_lint.verify.terms import (
    EPS_NAME,
    SMALL,
    Const,
    Form,
    Global,
    Input,
    Op,
    Seq,
    Term,
    children,
    mapped,
    show,
)

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
_LENGTHS = words("normalize cosine_similarity pairwise_distance CosineSimilarity PairwiseDistance")
"""Functions that divide by lengths, and keep those away from 0 by themselves."""
_SHARES = words("softmax log_softmax Softmax LogSoftmax logsumexp cross_entropy CrossEntropyLoss")
"""Functions for which a very low number is as good as none."""
_VIEWS = _TRANSPARENT - words("clamp clip clamp_min clamp_max maximum max sum mean neg detach")
"""Those that give numbers as they are, some of them, or in another shape or dtype."""
_SHARED = words("softmax Softmax sigmoid Sigmoid cosine_similarity CosineSimilarity")
"""Functions whose results are at most 1."""
_LARGEST = words("amax max")
"""Functions that give a very low number only where there is none besides."""
_MASKS = words("masked_fill where")
_LEAST = -1e4
"""The largest number that is taken for none."""
_EPS = {
    "RMSNorm": None, "rms_norm": None, "normalize": 1e-12, "cosine_similarity": 1e-8,
    "CosineSimilarity": 1e-8, "pairwise_distance": 1e-6, "PairwiseDistance": 1e-6,
}  # fmt: skip
"""What eps is if it is not given, where that is not 1e-5."""
NONE = -1e300
"""Stands for no number, in float64."""
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
    args = tuple(
        erase(arg, _is_guarded(term, index, guarded)) for index, arg in enumerate(term.args)
    )
    bare = Op(term.form, term.name, args, tuple((k, erase(v)) for k, v in term.keywords))
    if _name(bare) in _SHARES:
        bare = _without_fills(bare)
    if _name(bare) in _LENGTHS and bare.form is not Form.APPLY and _is_size(_eps_of(bare)):
        return _set_eps(bare, Const(0.0))
    logits = _logits(bare)
    if logits is None:
        return bare
    return Op(bare.form, f"{bare.name}_with_logits", (logits, *bare.args[1:]), bare.keywords)


def sizes(term: Term) -> frozenset[str]:
    """The small constants of the guards that `erase` takes away, as they are written."""
    return frozenset(map(text, _sizes(term)))


def largest(term: Term) -> float:
    """The largest of them; 0.0 if none is a literal."""
    literal = (size.value for size in _sizes(term) if isinstance(size, Const))
    return max((abs(v) for v in literal if isinstance(v, (int, float))), default=0.0)


def with_sizes(term: Term, change: Callable[[float], float]) -> Term:
    """The term with those that are literals changed."""
    literal = {s for s in _sizes(term) if isinstance(s, Const) and isinstance(s.value, float)}

    def visit(part: Term) -> Term:
        if part in literal and isinstance(part, Const) and isinstance(part.value, float):
            return Const(change(part.value))
        return mapped(part, visit)

    return visit(term)


def _sizes(term: Term) -> set[Term]:
    found: set[Term] = set()

    def visit(part: Term, guarded: bool) -> None:
        if isinstance(part, Op) and guarded and _inside_guard(part) is not None:
            found.update(other for other in children(part) if _is_size(other))
        if isinstance(part, Op) and _name(part) in _LENGTHS and part.form is not Form.APPLY:
            found.add(_eps_of(part))
        for index, child in enumerate(children(part)):
            visit(child, isinstance(part, Op) and _is_guarded(part, index, guarded))

    visit(term, False)
    return found


def _is_size(term: Term) -> bool:
    return is_small(term) and term not in (Const(0.0), Const(0))


def _name(op: Op) -> str:
    """The last word of what is called."""
    called = op.args[0] if op.form is Form.APPLY else op
    return called.last if isinstance(called, Op) else ""


def _without_fills(op: Op) -> Op:
    """A softmax of something that has no number where it was filled with a very low one."""

    def visit(term: Term) -> Term:
        if _is_none(term):
            return Const(NONE)
        return mapped(term, visit) if isinstance(term, Op) else term

    return Op(op.form, op.name, tuple(map(visit, op.args)), op.keywords)


def _is_none(term: Term) -> bool:
    """Whether something is so low that it stands for no number."""
    match term:
        case Const(int() | float() as value):
            return value <= _LEAST
        case Op(Form.ATTRIBUTE, "min", (Op(_, "torch.finfo"),)):
            return True
        case Op(Form.OPERATOR, "neg", (Const(int() | float() as value),)):
            return -value <= _LEAST
    return False


def fill(term: Term) -> Term | None:
    """The finite number that stands for none where something is masked with it, and given away."""
    if not isinstance(term, Op):
        return None
    if term.last not in _MASKS:
        return fill(term.args[0]) if term.last in _LARGEST | _VIEWS and term.args else None
    found = [part for part in children(term) if _is_none(part) and part != Const(-math.inf)]
    return found[0] if len(found) == 1 else None


def with_fill(term: Term, other: Term) -> Term:
    """The same with another such number."""
    if isinstance(term, Op) and term.last not in _MASKS:
        return Op(
            term.form, term.name, (with_fill(term.args[0], other), *term.args[1:]), term.keywords
        )
    return mapped(term, lambda part: other if part == fill(term) else part)


def _logits(op: Op) -> Term | None:
    """What the sigmoid is of whose cross entropy is taken."""
    if op.name != "torch.nn.functional.binary_cross_entropy" or not op.args:
        return None
    return _of_sigmoid(op.args[0])


def _of_sigmoid(term: Term) -> Term | None:
    """What a sigmoid is of, in the shape and the dtype that its result is given."""
    match term:
        case Op(Form.APPLY, _, (Op(_, "torch.nn.Sigmoid"), inner, *_)):
            return inner
        case Op(_, _, (inner, *_)) if term.last == "sigmoid":
            return inner
        case Op(_, _, (viewed, *rest)) if term.last in _VIEWS:
            found = _of_sigmoid(viewed)
            return found and Op(term.form, term.name, (found, *rest), term.keywords)
    return None


def _is_guarded(op: Op, index: int, guarded: bool) -> bool:
    """Whether an argument of an operation is kept away from 0."""
    short = op.last
    if short in {"truediv", "div", "divide", "true_divide"}:
        return index == 1
    if short in {"mul", "multiply"}:
        return guarded
    if index:
        return False
    return short in _GUARDED or (guarded and short in _TRANSPARENT)


def _inside_guard(op: Op) -> Term | None:
    """What a guard is put around: ``p`` of ``p + 1e-8``, of ``p.clamp(min=1e-7)``."""
    short = op.last
    if short in {"add", "sub"} and len(op.args) == 2:
        for kept, other in (op.args, op.args[::-1])[: 2 if short == "add" else 1]:
            if is_small(other):
                return kept
    if short in _CLAMPS and len(op.args) > 1 - len(op.keywords):
        least, most = _bounds(op, short)
        if is_small(least) and most == Const(None):
            return op.args[0]
        if (is_small(least) or least == Const(None)) and _is_near_one(most):
            return op.args[0] if _is_share(op.args[0]) else None
    return None


def _is_share(term: Term) -> bool:
    """Whether something is at most 1 by itself, so that a bound of 1 is a guard."""
    if not isinstance(term, Op):
        return False
    if term.form is Form.APPLY and term.args and isinstance(term.args[0], Op):
        return term.args[0].last in _SHARED
    through = term.last in _TRANSPARENT - {"sum"} or term.last in ("sub", "rsub", "mul")
    return term.last in _SHARED or (through and any(map(_is_share, term.args)))


def _bounds(op: Op, short: str) -> tuple[Term, Term]:
    """What a clamp keeps its first argument between."""
    given = [*op.args[1:], Const(None), Const(None)]
    named = dict(op.keywords)
    least, most = named.get("min", given[0]), named.get("max", given[1])
    if short == "clamp_max":
        return Const(None), named.get("max", given[0])
    if short in ("clamp_min", "maximum"):
        return named.get("other", least), Const(None)
    return (least, most) if "min" in named or op.args[1:] else (Const(None), most)


def is_small(term: Term) -> bool:
    """Whether something can be the constant of a guard."""
    match term:
        case Const(bool()):
            return False
        case Const(int() | float() as value):
            return abs(value) <= SMALL
        case Input(key):
            return EPS_NAME.search(key) is not None
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
        and op.last in _NORMS
    )


def _position(op: Op) -> int:
    names = parameters(op.form, op.name)
    return names.index("eps") if "eps" in names else len(op.args)


def _eps_of(op: Op) -> Term:
    for name, value in op.keywords:
        if name == "eps":
            return value
    position = _position(op)
    default = Const(_EPS.get(_name(op), 1e-5))
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
