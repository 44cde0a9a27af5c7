"""What expressions make of inputs of another sort than those that are tried first.

Those are numbers of a floating dtype, flags, and small indices, all of shapes that fit. Here are
asked integers and flags in the place of numbers, numbers about the constants that an expression
compares with, and tensors of which one has an axis more. The answer is never a refutation.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace

import torch

from amp_lint.verify.experiments import guards, inputs
from amp_lint.verify.experiments.inputs import InputCase, InputKind
from amp_lint.verify.experiments.literals import number
from amp_lint.verify.experiments.modes import EXACT, Tensors, flat
from amp_lint.verify.experiments.names import ARITHMETIC, BOUNDING, CASTS, COMPARING, MOVES, SHAPING
from amp_lint.verify.experiments.trial import Pair, Trial
from amp_lint.verify.terms import SMALL, Const, Form, Global, Input, Op, Seq, Term, children, walk

_ORDINARY = InputCase(std=1.0)


def of_trial(trial: Trial) -> Iterator[str]:
    """What is another result, for each sort of inputs; "" if none is."""
    given = trial.exact_bindings(_ORDINARY)
    yield _of_integers(trial, given)
    yield _about_constants(trial, given)
    yield _of_shapes(trial, given)
    yield _of_vectors(trial, given)


def is_other(trial: Trial) -> bool:
    """Whether the new code gives another result of ordinary inputs, in float64."""
    return bool(_is_other(trial, trial.exact_bindings(_ORDINARY), "oracle", "own_bare"))


def of_axes(trial: Trial, absent: AbstractSet[str]) -> str:
    """Whether two axes, or none where nobody gives one, have another result than one axis has."""
    scenario, given = trial.scenario, trial.exact_bindings(_ORDINARY)
    known = inputs.kinds(trial.pair.before, trial.pair.after)
    for key in (key for key in scenario.static if known.get(key) is InputKind.DIM):
        for axes, text in ((_TWO_AXES, "two axes"), (None, "None"))[: 1 + (key in absent)]:
            other = replace(scenario, static={**scenario.static, key: axes})
            if _is_other(Trial(trial.pair, other, trial.device), given, "oracle", "own_bare"):
                return f"if `{key}` is {text} it is another one"
    return ""


_TWO_AXES = (0, 1)


def of_terms(pair: Pair, kinds: Mapping[str, InputKind], constant: AbstractSet[str]) -> str:
    """What two terms tell of inputs that no gradient is taken of; "" if nothing."""
    indices = {key for key, kind in kinds.items() if kind is InputKind.INDEX}
    masks = {key for key, kind in kinds.items() if kind is InputKind.MASK}
    uncast = _uncast(pair.after) - _uncast(pair.before)
    unbound = _unbound(pair.after) - _unbound(pair.before)
    for key in sorted(uncast & (constant | indices | masks)):
        return f"`{key}` is not cast any more, and its dtype is not known"
    for key in sorted(unbound & indices):
        return f"`{key}` is not kept in its bounds any more"
    apart = {*_subtracted(pair.before)} & _uncast(pair.before) - _uncast(pair.after)
    for key in sorted(apart if not _is_exact(pair.after) else ()):
        return f"`{key}` is cast before something is subtracted, and may have too many digits"
    return ""


# --- what is done to an input first -------------------------------------------------------------


def _unbound(term: Term) -> frozenset[str]:
    """The inputs that stand somewhere without bounds."""
    if isinstance(term, Input):
        return frozenset({term.key})
    is_bound = isinstance(term, Op) and term.last in BOUNDING
    return frozenset().union(*map(_unbound, () if is_bound else children(term)))


def _uncast(term: Term, is_cast: bool = False) -> frozenset[str]:
    """The inputs that stand somewhere in their own dtype."""
    if isinstance(term, Input):
        return frozenset() if is_cast else frozenset({term.key})
    if not isinstance(term, Op):
        return frozenset().union(*(_uncast(child) for child in children(term)))
    casts = _is_cast(term) or term.last in COMPARING
    kept = is_cast and term.last in MOVES
    first, *rest = (*children(term), Const(None))
    both = casts and term.last in COMPARING
    return _uncast(first, casts or kept).union(*(_uncast(each, both) for each in rest))


def _subtracted(term: Term, is_lowered: bool = False) -> Iterator[str]:
    """The inputs of differences that the code itself rounds to few digits.

    Their own dtype has more, or nobody would: perhaps more than float32 has.
    """
    is_difference = isinstance(term, Op) and term.last in _DIFFERENCES
    if is_lowered and is_difference:
        yield from (part.key for part in walk(term) if isinstance(part, Input))
    lowers = isinstance(term, Op) and _is_cast(term) and _is_low(term)
    for child in children(term):
        yield from _subtracted(child, is_lowered or lowers)


_DIFFERENCES = frozenset({"sub", "subtract"})
_LOW = frozenset({"half", "float16", "bfloat16"})


def _is_low(op: Op) -> bool:
    named = (each.name.rpartition(".")[2] for each in children(op) if isinstance(each, Global))
    return not _LOW.isdisjoint({op.last, *named})


def _is_exact(term: Term) -> bool:
    """Whether a term computes in float64."""
    names = (part.name for part in walk(term) if isinstance(part, (Op, Global)))
    return any(name.rpartition(".")[2] in ("double", "float64") for name in names)


def _casts(term: Term) -> Iterator[str]:
    for part in walk(term):
        if isinstance(part, Op) and _is_cast(part):
            yield part.last


def _is_cast(op: Op) -> bool:
    """Whether a method gives another dtype, and not only another device."""
    if op.form is not Form.METHOD or op.last not in CASTS - {"cpu", "cuda"}:
        return False
    given = (*op.args[1:], *(value for name, value in op.keywords if name == "dtype"))
    return op.last != "to" or any(not isinstance(each, Const) for each in given)


# --- integers -----------------------------------------------------------------------------------


def _of_integers(trial: Trial, given: Tensors) -> str:
    """Whether integers, or flags, give another result where they may be given."""
    before, after = trial.pair.before, trial.pair.after
    asked = _countable(before) & _uncast(before) & _uncast(after)
    kinds = trial.scenario.kinds
    keys = [key for key in given if kinds[key] is InputKind.TENSOR and key in asked]
    is_typed = {*_casts(before)} == {*_casts(after)}
    for count, dtype in itertools.product(dict.fromkeys((1, len(keys))), _INTEGERS):
        for chosen in itertools.combinations(keys, count):
            made = dict(given)
            for at, key in enumerate(chosen):
                made[key] = _integers(given[key], dtype, at)
            if chosen and _is_other(trial, made, is_typed=is_typed):
                return f"of integers, as of {str(dtype).removeprefix('torch.')}, it is another one"
    return ""


_INTEGERS = (torch.bool, torch.uint8, torch.int64)


def _integers(tensor: torch.Tensor, dtype: torch.dtype, at: int) -> torch.Tensor:
    """As many numbers of a dtype: large ones of which the sum of two does not fit in a byte.

    Others for a tensor that is given at another place.
    """
    count = torch.arange(tensor.numel(), device=tensor.device).view(tensor.shape) + 3 * at
    if dtype is torch.bool:
        return count % 2 == 0
    return (count * 37 % 200 + 55).to(dtype) if dtype is torch.uint8 else count * 5 % 31 - 7


def _countable(term: Term) -> frozenset[str]:
    """The inputs of which nothing says that they are no integers: only arithmetic is done."""
    counted: set[str] = set()
    others: set[str] = set()

    def visit(part: Term, is_counted: bool) -> None:
        if isinstance(part, Input):
            (counted if is_counted else others).add(part.key)
        keeps = isinstance(part, Seq) or (isinstance(part, Op) and part.last in ARITHMETIC)
        for child in children(part):
            visit(child, is_counted and keeps)

    visit(term, True)
    return frozenset(counted - others)


# --- numbers about constants --------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Test:
    """That something is compared with a constant, or kept below it."""

    constant: float
    of: Term
    by: str
    """The operation."""

    @property
    def keys(self) -> frozenset[str]:
        """The inputs that decide about it."""
        return frozenset(part.key for part in walk(self.of) if isinstance(part, Input))

    @property
    def key(self) -> tuple[object, ...]:
        """What is the same where it is asked of another precision of the same inputs."""
        return self.constant, self.by, self.keys

    @property
    def is_abrupt(self) -> bool:
        """Whether what it does may not be seen far from the constant, or only beyond it."""
        return self.by in COMPARING | {_IGNORED} or abs(self.constant) > _FAR_OFF

    @property
    def is_direct(self) -> bool:
        """Whether it is an input itself that is compared, and not what is computed of it."""
        of = self.of
        while isinstance(of, Op) and of.last in MOVES | CASTS:
            of = of.args[0]
        return isinstance(of, Input)


_IGNORED = "ignore_index"
"""The keyword for a class that losses leave out."""
_FAR_OFF = 100
"""From here on, what is computed of the first inputs may not reach a bound."""


def _about_constants(trial: Trial, given: Tensors) -> str:
    """Whether numbers about those that something is compared with give another result."""
    terms = guards.erase(trial.pair.before), guards.erase(trial.pair.after)
    old, new = ({*_tests(term)} for term in terms)
    others = {test.key for test in old} ^ {test.key for test in new}
    for test in sorted(old | new, key=lambda test: test.constant):
        known = [
            _is_other(trial, about, "oracle", "own_bare")
            for key in sorted(test.keys & given.keys())
            for about in _about(given, key, test.constant)
        ]
        if any(known):
            return f"of numbers about {test.constant:g} it is another one"
        is_seen = test.is_direct and None not in known
        if test.is_abrupt and not is_seen and test.key in others:
            return f"what it is of numbers about {test.constant:g} is not known"
    return ""


def _tests(term: Term) -> Iterator[_Test]:
    for part in walk(term):
        if not isinstance(part, Op):
            continue
        if part.last in COMPARING | BOUNDING:
            of = [each for each in children(part) if number(each) is None and each != Const(None)]
            for constant in filter(None, map(number, children(part))):
                if of and abs(constant) > SMALL and math.isfinite(constant):
                    yield _Test(constant, of[0], part.last)
        ignored = dict(part.keywords).get(_IGNORED)
        left_out = number(ignored) if ignored is not None else None
        if left_out is not None and len(part.args) > 1:
            yield _Test(left_out, part.args[1], _IGNORED)


def _about(given: Tensors, key: str, constant: float) -> Iterator[Tensors]:
    """The inputs, of which one holds the constant and numbers near it; none for a flag."""
    tensor = given[key]
    count = torch.arange(tensor.numel(), device=tensor.device).view(tensor.shape)
    if tensor.is_floating_point():
        near = [constant + step for step in (-1, 0, 1, 2)]
        near += [math.nextafter(constant, sign * math.inf) for sign in (1, -1)]
        yield {**given, key: torch.tensor(near).to(tensor)[count % len(near)]}
    elif tensor.dtype is not torch.bool:
        for step in (-1, 0, 1):  # by itself each: an index that is too large raises
            yield {**given, key: tensor.masked_fill(count % 2 == 0, int(constant) + step)}


# --- shapes -------------------------------------------------------------------------------------


def _of_shapes(trial: Trial, given: Tensors) -> str:
    """Whether tensors of which one has an axis more give another result, where axes are made."""
    before, after = (Counter(_shaped(term)) for term in (trial.pair.before, trial.pair.after))
    if before == after or len(given) > _MOST_SHAPED:
        return ""
    for shapes in itertools.product(_SHAPES, repeat=len(given)):
        made = {
            key: _reshaped(tensor, shape)
            for (key, tensor), shape in zip(given.items(), shapes, strict=True)
        }
        if len({*shapes}) > 1 and _is_other(trial, made):
            return "of tensors of which one has an axis more it is another one"
    return ""


_SHAPES = ((4,), (4, 1), (4, 3))
_MOST_SHAPED = 3


def _reshaped(tensor: torch.Tensor, shape: tuple[int, ...]) -> torch.Tensor:
    """The numbers of a tensor in another shape; indices of the first two only."""
    count = torch.arange(math.prod(shape), device=tensor.device) % max(1, tensor.numel())
    found = tensor.flatten()[count].view(shape)
    return found if tensor.is_floating_point() or tensor.dtype is torch.bool else found % 2


def _shaped(term: Term) -> Iterator[str]:
    for part in walk(term):
        if isinstance(part, Op) and part.last in SHAPING:
            yield part.last


def _of_vectors(trial: Trial, given: Tensors) -> str:
    """Whether a factor that has a number for each class gives another result than one number.

    It does where it is moved behind a sum over them.
    """
    scenario = trial.scenario
    sizes = [shape[-1] for shape in scenario.shapes.values() if shape]
    known = inputs.kinds(trial.pair.before, trial.pair.after)
    for key in (key for key, kind in known.items() if sizes and kind is InputKind.SCALAR):
        many = 1 + torch.arange(sizes[0], dtype=torch.float64, device=trial.device) / sizes[0]
        made = (replace(scenario, static={**scenario.static, key: each}) for each in (2.0, many))
        one, several = (_is_other(Trial(trial.pair, each, trial.device), given) for each in made)
        if several and not one:
            return f"if `{key}` is a number for each class it is another one"
    return ""


# --- results ------------------------------------------------------------------------------------


def _is_other(
    trial: Trial, given: Tensors, old: str = "guarded", new: str = "own", *, is_typed: bool = False
) -> bool | None:
    """Whether the new code gives another result, or none; None where the old one gives none."""
    was, now = (_values(trial, which, given) for which in (old, new))
    if was is None:
        return None
    if now is None or [each.shape for each in was] != [each.shape for each in now]:
        return True
    pairs = [*zip(was, now, strict=True)]
    if is_typed and any(_sort(one) != _sort(other) for one, other in pairs):
        return True
    return any(_differ(one.double(), other.double()) for one, other in pairs)


def _values(trial: Trial, which: str, given: Tensors) -> tuple[torch.Tensor, ...] | None:
    """What a form computes in float64; None if it raises."""
    try:
        return flat(trial.program(which, EXACT, None)(given))
    except Exception:  # torch raises what it likes
        return None


def _sort(tensor: torch.Tensor) -> str:
    """What numbers a dtype holds."""
    if tensor.dtype is torch.bool:
        return "flags"
    return "numbers" if tensor.is_floating_point() else "integers"


def _differ(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether a number is another one by far, or none any more."""
    known = one.isfinite()
    size = 1 + one.abs().masked_fill(~known, 0.0)
    return bool((known & ~((one - other).abs() <= _FAR * size)).any())


_FAR = 1e-4
