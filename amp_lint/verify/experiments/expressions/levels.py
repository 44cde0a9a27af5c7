"""Expressions judged where their difference shows: first alone, then in what is around them.

``softmax(x) + 1e-8`` differs from ``softmax(x)`` by nothing that counts; the logarithm of both
does not. So a difference without effect, or one that would be refuted, is looked at again in the
expression around it: that one decides, as long as it can be run.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace

from amp_lint.verify.experiments import operations
from amp_lint.verify.experiments.expressions.examination import Examination
from amp_lint.verify.experiments.names import BUILTINS, CASTS, words
from amp_lint.verify.obligations import Expression
from amp_lint.verify.proof import Judgement, ProofSettings, Verdict
from amp_lint.verify.terms import (
    Form,
    Global,
    Input,
    Op,
    Seq,
    Term,
    called,
    children,
    mapped,
    show,
    times,
    walk,
)


def judge(obligation: Expression, settings: ProofSettings) -> Judgement:
    """Hold the new expression against the old one, at the level at which it matters."""
    obligation = _unordered(obligation)
    was, now = times(obligation.before), times(obligation.after)
    late = [key for key in was.keys() & now.keys() if was[key] != now[key]]
    if late:
        return Judgement(Verdict.NOT_COMPARABLE, f"`{min(late)}` is read at another time")
    if any(_roundings(one) != _roundings(other) for one, other in _pairs(obligation)):
        return Judgement(Verdict.NOT_COMPARABLE, "what casts round off is what is computed")
    levels = _levels(obligation)
    own = min(map(_of_its_own, levels), key=len)
    if own:
        return Judgement(Verdict.NOT_COMPARABLE, f"what `{min(own)}` gives is not known")
    found = _decisive([one for one in levels if not _of_its_own(one)], settings).judgement()
    if obligation.given_to and found.verdict is Verdict.REFUTED:
        unknown = f"what `{obligation.given_to}` makes of another value is not known"
        return Judgement(Verdict.NOT_COMPARABLE, unknown)
    return found


def _unordered(obligation: Expression) -> Expression:
    """An obligation without the order of arguments, where both texts compute them in the same."""

    def visit(term: Term) -> Term:
        return mapped(called(term), visit)

    pairs = _pairs(obligation)
    if any(_orders(one) != _orders(other) for one, other in pairs):
        return obligation
    (before, after), *contexts = [(visit(one), visit(other)) for one, other in pairs]
    return replace(obligation, before=before, after=after, contexts=(*contexts,))


def _pairs(obligation: Expression) -> tuple[tuple[Term, Term], ...]:
    """Both expressions, and those around them."""
    return (obligation.before, obligation.after), *obligation.contexts


def _roundings(term: Term) -> frozenset[Term]:
    """The differences of two that are one number but for casts: ``x.half().float() - x``."""
    differences = (part for part in walk(term) if isinstance(part, Op) and part.name == "sub")
    return frozenset(
        part
        for part in differences
        if len({*part.args}) == 2 and len({*map(_uncast, part.args)}) == 1
    )


def _uncast(term: Term) -> Term:
    if isinstance(term, Op) and term.form is Form.METHOD and term.name in CASTS:
        return _uncast(term.args[0])
    return mapped(term, _uncast)


def _orders(term: Term) -> list[Term]:
    """In which orders the arguments of calls are computed, where that may matter."""
    ordered = (part for part in walk(term) if isinstance(part, Op) and called(part) is not part)
    return [part.args[1] for part in ordered]


def _of_its_own(level: Expression) -> frozenset[str]:
    """The inputs that only the new code has: what they are is not for the verifier to say."""
    return frozenset(times(level.after)) - frozenset(times(level.before))


def _decisive(levels: Sequence[Expression], settings: ProofSettings) -> Examination:
    """The innermost level that shows a repair, or the outermost that can be run."""
    tried: list[Examination] = []
    for level in levels:
        tried.append(Examination(level, settings))
        if tried[-1].is_repair:
            return tried[-1]
    found = _outermost(tried)
    if found.verdict is Verdict.REFUTED and not found.loses_guard:
        apart = map(_apart, levels)
        examined = (
            Examination(each, settings, is_apart=True) for each in apart if each not in levels
        )
        return next((one for one in examined if one.is_repair), found)
    return found


def _outermost(tried: Sequence[Examination]) -> Examination:
    """The outermost level that can be run."""
    outer_first = (one for one in reversed(tried) if one.is_comparable)
    runs = (one for one in outer_first if one.is_in_doubt or one.verdict is not _NOT_COMPARABLE)
    return next(runs, tried[0])


_NOT_COMPARABLE = Verdict.NOT_COMPARABLE


def _levels(obligation: Expression) -> list[Expression]:
    alone = replace(obligation, contexts=(), given_to="")
    return [
        replace(alone, before=_in_time(closed(one)), after=_in_time(closed(other)))
        for one, other in _pairs(obligation)
    ]


def _apart(level: Expression) -> Expression:
    """A level with inputs for what both sides compute in the same way, whatever that is worth.

    It may fail by itself, which the new code need not mend: what is right for every value of it is
    right.
    """
    return replace(
        level,
        before=_without(level.before, _operations(level.after)),
        after=_without(level.after, _operations(level.before)),
    )


def _operations(term: Term) -> frozenset[Term]:
    """The operations that give numbers, but for casts: the dtype of a result is told by those."""
    return frozenset(
        part
        for part in walk(term)
        if isinstance(part, Op) and part.form in _NUMERIC and part.name not in CASTS
    )


_NUMERIC = (Form.FUNCTION, Form.METHOD, Form.OPERATOR, Form.APPLY)


def _without(term: Term, shared: AbstractSet[Term]) -> Term:
    if term in shared and any(isinstance(part, Input) for part in walk(term)):
        return Input(show(term))
    return mapped(term, lambda part: _without(part, shared))


def _in_time(term: Term) -> Term:
    """A term in which what is read at several times is as many inputs."""
    found = {key: sorted(at) for key, at in times(term).items()}

    def visit(part: Term) -> Term:
        if isinstance(part, Input):
            return Input(part.key + "'" * found[part.key].index(part.at))
        return mapped(part, visit)

    return visit(term)


def closed(term: Term) -> Term:
    """A term in which whatever the verifier does not run is an input."""
    match term:
        case Global(name):
            return term if not operations.not_lifted(term) else Input(name)
        case Seq(kind, items):
            return Seq(kind, tuple(map(closed, items)))
        case Op(form, name, args, keywords):
            if not _is_run(term):
                return term if _is_of_sizes(term) else Input(show(term))
            kept = args[:1] if form is Form.APPLY or operations.is_module(term) else ()
            rest = tuple(map(closed, args[len(kept) :]))
            by_name = tuple((key, closed(value)) for key, value in keywords)
            return Op(form, name, (*kept, *rest), by_name)
    return term


def _is_of_sizes(op: Op) -> bool:
    """Whether a term is a number that is computed of the sizes of tensors: ``sqrt(x.shape[-1])``.

    Which number that is must not be made up: the other side may know it as well.
    """
    if op.form is not Form.OTHER or not op.name.startswith("math.") or op.name not in BUILTINS:
        return False
    return not any(isinstance(part, Input) for arg in op.args for part in _without_sizes(arg))


def _without_sizes(term: Term) -> Iterator[Term]:
    """The parts of a term, but for tensors of which only the size is read."""
    if isinstance(term, Op) and not operations.not_lifted(term):
        reads = term.name == "shape" if term.form is Form.ATTRIBUTE else term.name in _SIZES
        if reads and term.form in (Form.ATTRIBUTE, Form.METHOD) and not term.keywords:
            return
    yield term
    for child in children(term):
        yield from _without_sizes(child)


_SIZES = words("dim numel size")


def _is_run(op: Op) -> bool:
    """Whether an operation itself, its arguments aside, is one that the verifier runs."""
    if op.form is Form.APPLY:
        return operations.is_module(op.args[0]) and not operations.not_lifted(op.args[0])
    if operations.is_module(op):
        return not operations.not_lifted(op)
    bare = Op(op.form, op.name, tuple(Input("") for _ in op.args), ())
    kept = tuple((key, value) for key, value in op.keywords if not isinstance(value, Op))
    return not operations.not_lifted(replace(bare, keywords=kept))
