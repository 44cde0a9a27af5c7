"""What keeps an expression from being proven that passed every experiment.

Inputs of experiments are finite, on one device, and no gradients are taken of targets. Here is
asked what that leaves open. The answer is never a refutation: what is in doubt is not comparable.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator

import torch

from amp_lint.verify.experiments import guards, inputs, variants
from amp_lint.verify.experiments.inputs import InputCase, InputKind
from amp_lint.verify.experiments.modes import Tensors
from amp_lint.verify.experiments.names import words
from amp_lint.verify.experiments.trial import Pair, Trial
from amp_lint.verify.terms import Const, Form, Input, Op, Term, children, show, walk

_FLOATS = (InputKind.TENSOR, InputKind.VECTOR, InputKind.PROBABILITY)
_ORDINARY = InputCase(std=1.0)
_MADE = words("arange empty eye full linspace ones rand randn tensor zeros")
"""Functions that make a tensor on the processor, if no device is given."""


def doubt(pair: Pair, trials: Iterable[Trial], constant: frozenset[str], *, is_apart: bool) -> str:
    """Why new code is not proven though nothing was found against it; "" if nothing is open.

    Args:
        pair: the expressions.
        trials: scenarios in which they run.
        constant: the inputs that no gradient is taken of.
        is_apart: whether an input stands for what is computed, and so may have overflowed.
    """
    known = [*trials]
    judged = (_not_finite(trial, is_apart=is_apart) for trial in known)
    thin = (_thin(trial) for trial in known)
    others = (reason for trial in known[:1] for reason in variants.of_trial(trial))
    kinds = known[0].scenario.kinds if known else {}
    told = (variants.of_terms(pair, kinds, constant),)
    of_terms = _of_terms(pair.before, pair.after, constant)
    reasons = itertools.chain(of_terms, told, judged, thin, others)
    return next(filter(None, reasons), "")


# --- what terms tell ----------------------------------------------------------------------------


def _of_terms(before: Term, after: Term, constant: frozenset[str]) -> Iterator[str]:
    made = Counter(_made_here(after)) - Counter(_made_here(before))
    yield f"`{min(made)}` makes a tensor on another device" if made else ""
    moved = {*_moved(before)} ^ {*_moved(after)}
    yield "what is moved to the device of a tensor is something else" if moved else ""
    weighing = inputs.weights(after) - inputs.weights(before)
    yield f"no gradient is taken of `{min(weighing)}` any more" if weighing else ""
    other = constant & (inputs.reached(before) ^ inputs.reached(after))
    yield f"whether `{min(other)}` gets gradients is another matter" if other else ""
    added = [Counter(_added(guards.erase(term))) for term in (before, after)]
    odd = (added[0] - added[1]) + (added[1] - added[0])
    yield f"`{min(odd)}` is no guard everywhere, and may be large" if odd else ""
    old, new = (Counter(_last_names(term)) for term in (before, after))
    yield from (text for when, text in _OF_NAMES if when(old, new))
    if {(other, one) for one, other in _joined(before)} & {*_joined(after)}:
        yield "lists are not the same in another order, if it is lists that are added"
    if _unawaited(after) > _unawaited(before):
        yield "what is copied to the processor is not waited for"
    if {*_inverted(before)} - {*_inverted(after)}:
        yield "of a number that is none a test is not the opposite of the other one"


def _last_names(term: Term) -> Iterator[str]:
    """What is called in a term, and the keywords."""
    for part in walk(term):
        if isinstance(part, Op) and part.form in (Form.FUNCTION, Form.METHOD):
            yield part.last
            yield from (f"{name}=" for name, _ in part.keywords)


_OF_NAMES: tuple[tuple[Callable[[Counter[str], Counter[str]], bool], str], ...] = (
    (lambda old, new: new["view"] + new["view_as"] > old["view"] + old["view_as"],
     "`view` takes no tensor whose memory is in another order"),
    (lambda old, new: new["dim="] > old["dim="] and old["axis="] > new["axis="],
     "an array of NumPy has an `axis` and no `dim`"),
    (lambda old, new: old["stable="] > new["stable="],
     "numbers that are equal do not keep their order any more"),
    (lambda old, new: old["abs"] > new["abs"],
     "of a complex number the absolute value is another one"),
)  # fmt: skip
"""What experiments on real, plain tensors of one shape do not show."""


def _joined(term: Term, is_part: bool = False) -> Iterator[tuple[str, str]]:
    """Of what is added to each other and may be lists, every two in their order."""
    is_sum = _is_sum(term)
    parts = [*_added_up(term)] if is_sum and not is_part else []
    if parts and all(map(_may_be_list, parts)):
        names = [*map(show, parts)]
        yield from ((one, other) for one, other in itertools.combinations(names, 2) if one != other)
    for child in children(term):
        yield from _joined(child, is_sum)


def _is_sum(term: Term) -> bool:
    return isinstance(term, Op) and term.form is Form.OPERATOR and term.name == "add"


def _added_up(term: Term) -> Iterator[Term]:
    """What a sum is of, in order: ``a``, ``b`` and ``c`` of ``a + b + c``."""
    if not _is_sum(term):
        yield term
    for child in children(term) if _is_sum(term) else ():
        yield from _added_up(child)


def _may_be_list(term: Term) -> bool:
    taken = isinstance(term, Op) and term.form is Form.OPERATOR and term.name == "getitem"
    return isinstance(term, Input) or (taken and _may_be_list(children(term)[0]))


def _unawaited(term: Term) -> int:
    """How often something is copied to the processor while the program goes on."""
    moves = (part for part in walk(term) if isinstance(part, Op) and part.last == "to")
    given = ((*part.args, *dict(part.keywords).values()) for part in moves)
    return sum(Const("cpu") in each and Const(True) in each for each in given)


def _inverted(term: Term) -> Iterator[Term]:
    """The comparisons of which the opposite is taken."""
    for part in walk(term):
        if (
            isinstance(part, Op)
            and part.name in ("invert", "not_")
            and isinstance(part.args[0], Op)
        ):
            yield from (part.args[0],) if part.args[0].name in _ORDERS else ()


_ORDERS = frozenset({"lt", "le", "gt", "ge"})


def _added(term: Term) -> Iterator[str]:
    """The inputs that are named as those of guards are, and added to something."""
    for part in walk(term):
        if isinstance(part, Op) and part.form is Form.OPERATOR and part.name in ("add", "sub"):
            given = (arg for arg in part.args if isinstance(arg, Input))
            yield from (arg.key for arg in given if guards.is_small(arg))


def _made_here(term: Term) -> Iterator[str]:
    """The functions that make a tensor where nobody says where."""
    for part in walk(term):
        if isinstance(part, Op) and part.form is Form.FUNCTION:
            given = {name for name, _ in part.keywords}
            if part.name.startswith("torch.") and part.last in _MADE:
                yield from () if "device" in given else (part.name,)


def _moved(term: Term) -> Iterator[frozenset[str]]:
    """The inputs of what is moved to the device of another tensor."""
    for part in walk(term):
        if isinstance(part, Op) and part.form is Form.METHOD and part.name == "to":
            given = (*part.args[1:], *(value for _, value in part.keywords))
            if any(isinstance(g, Op) and g.name == "device" for g in given):
                yield frozenset(p.key for p in walk(part.args[0]) if isinstance(p, Input))


# --- axes of one element ------------------------------------------------------------------------


def _thin(trial: Trial) -> str:
    """Whether results have another shape where an axis has one element, and only there."""
    given = trial.exact_bindings(_ORDINARY)
    if not _finite(trial, given):
        return ""
    for axis in range(max((tensor.ndim for tensor in given.values()), default=0)):
        cut = {
            key: tensor.narrow(axis, 0, 1) if axis < tensor.ndim else tensor
            for key, tensor in given.items()
        }
        old, new = (trial.exact_values(which, cut) for which in ("guarded", "own"))
        if old and [each.shape for each in old] != [each.shape for each in new]:
            return "of an axis of one element the result is another one"
    return ""


# --- inputs that are not finite -----------------------------------------------------------------


def _not_finite(trial: Trial, *, is_apart: bool) -> str:
    """What new code makes of inputs that are no numbers, where that is not what the old one did."""
    given = trial.exact_bindings(_ORDINARY)
    kinds = trial.scenario.kinds
    masks = [tensor for key, tensor in given.items() if kinds[key] is InputKind.MASK]
    for key in (key for key, kind in kinds.items() if kind in _FLOATS):
        if kinds[key] is InputKind.PROBABILITY and _fails_at_bounds(trial, given, key):
            return f"where `{key}` is 0 or 1, the result is no number any more"
        if is_apart and any(_hides(trial, given, key, sign * math.inf) for sign in (1, -1)):
            return f"an infinite number in `{key}` is not seen in the result any more"
        if _hides(trial, given, key, math.nan):
            return f"a NaN in `{key}` is not seen in the result any more"
        if _fills_rows(trial, given, key):
            return f"where a whole row of `{key}` is -inf, the result is a number now"
        if any(_reads_masked(trial, given, key, mask) for mask in masks):
            return f"a NaN in `{key}` is seen where it was masked before"
        if any(_spreads(trial, given, key, v) for v in (math.nan, math.inf, -math.inf)):
            return f"of what is no finite number in `{key}` the result is none any more"
    return ""


def _hides(trial: Trial, given: Tensors, key: str, value: float) -> bool:
    return any(
        _any(~was & now)
        for spot in _spots(given[key])
        for was, now in _finite(trial, _filled(given, key, spot, value))
    )


def _spreads(trial: Trial, given: Tensors, key: str, value: float) -> bool:
    """Whether results are not finite where they were, guards aside.

    What overflowed is looked at where it was of no account at all: else the old code fails too.
    """
    filled = (_filled(given, key, spot, value) for spot in _spots(given[key]))
    pairs = (pair for each in filled for pair in _finite(trial, each, "oracle", "own_bare"))
    asked = (pair for pair in pairs if value != math.inf or bool(pair[0].all()))
    return any(_any(was & ~now) for was, now in asked)


def _fails_at_bounds(trial: Trial, given: Tensors, key: str) -> bool:
    """Whether results are not finite where a probability is 0 or 1, and they were."""
    filled = (_filled(given, key, spot, v) for spot in _spots(given[key]) for v in (0.0, 1.0))
    pairs = (pair for each in filled for pair in _finite(trial, each))
    return any(_any(was & ~now) for was, now in pairs)


def _fills_rows(trial: Trial, given: Tensors, key: str) -> bool:
    """Whether a row of -inf gives a number, where one such element alone is nothing special."""
    one, *rows = _spots(given[key])
    alone = [*_finite(trial, _filled(given, key, one, -math.inf))]
    if not all(bool(was.all()) for was, _ in alone):
        return False
    return any(
        _any(~was & now)
        for spot in rows
        for was, now in _finite(trial, _filled(given, key, spot, -math.inf))
    )


def _reads_masked(trial: Trial, given: Tensors, key: str, mask: torch.Tensor) -> bool:
    if mask.shape != given[key].shape:
        return False
    return any(
        _any(was & ~now)
        for spot in (mask, ~mask)
        for was, now in _finite(trial, _filled(given, key, spot, math.nan))
    )


def _spots(tensor: torch.Tensor) -> Iterator[torch.Tensor]:
    """Which elements are replaced: one, its row, all."""
    for index in dict.fromkeys(((0,) * tensor.ndim, (0,) * (tensor.ndim - 1), ())):
        spot = torch.zeros_like(tensor, dtype=torch.bool)
        spot[index] = True
        yield spot


def _filled(given: Tensors, key: str, spot: torch.Tensor, value: float) -> Tensors:
    return {**given, key: given[key].masked_fill(spot, value)}


def _finite(
    trial: Trial, given: Tensors, before: str = "guarded", after: str = "own"
) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Where the old and the new results are finite, in float64; [] if they cannot be told."""
    old, new = (trial.exact_values(which, given) for which in (before, after))
    if [each.shape for each in old] != [each.shape for each in new]:
        return []
    return [(was.isfinite(), now.isfinite()) for was, now in zip(old, new, strict=True)]


def _any(tensor: torch.Tensor) -> bool:
    return bool(tensor.any())
