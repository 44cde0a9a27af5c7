"""One pair of expressions, ready to be tried: what each computes, and what it has to compute."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache, partial
from typing import Any

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

from amp_lint.verify.experiments import guards
from amp_lint.verify.experiments.inputs import InputCase, Scenario, bindings
from amp_lint.verify.experiments.modes import (
    EXACT,
    ModeOutcome,
    Precision,
    Tensors,
    first_line,
    flat,
    largest,
    program,
    rounded,
    run,
    run_together,
)
from amp_lint.verify.experiments.names import COMPOSED, FUSED, HAZARDS, MOVES, PRODUCTS
from amp_lint.verify.experiments.operations import NotLiftedError, Program, Watch
from amp_lint.verify.experiments.poles import is_at_pole
from amp_lint.verify.experiments.screen import Screen
from amp_lint.verify.experiments.tolerance import (
    Held,
    Noise,
    Reference,
    Target,
    Watched,
    finite_only,
    hold,
    rounded_at_random,
    target,
)
from amp_lint.verify.kept import Kept
from amp_lint.verify.terms import Const, Input, Op, Term, walk

_LARGEST_EXPONENT = 1e12
"""What float64 knows an exponent of to 1e-4: beyond it, it is no reference."""
_MODERATE = 100.0
"""The largest input for which a guard has to hold."""
_HARD = 512.0
"""From here on, code that never was finite need not become so."""
_FAINT = float(torch.finfo(torch.float32).smallest_normal) ** 0.5
_MOVED = 1e-3
"""How much of a result a guard may change, so that it does not decide."""
_ALIKE = 1e-6
"""How far apart two programs may be in float64 that compute the same."""
_DRAWS = 4
_DRAWN = tuple(100 * draw for draw in range(_DRAWS))
"""The seeds of as many."""
_WIDE = "wide "
"""Before the name of a form: evaluated with wide exponents."""


@dataclass(frozen=True, slots=True)
class _Scale:
    """What errors are measured by."""

    eps: float
    inputs: float
    """The largest input."""
    passed: float
    """The largest gradient that passed through any operation."""
    factors: float
    """What gradients may have been multiplied by on the way, where that cannot be followed."""


@dataclass(frozen=True)
class Pair:
    """Both expressions in all the forms that are run."""

    before: Term
    after: Term
    oracle: Term
    """BEFORE without its guards, in float64, with the eps of AFTER's norms."""
    own: Term
    """AFTER in float64, to be asked where the oracle has no answer."""
    own_in_half: Term
    """The same with its guards as float16 holds them: 1e-6 with one digit, as 1.01e-6."""
    own_bare: Term
    """AFTER without its guards, in float64."""
    bare: Term | None
    """The oracle with norms of eps 0: not finite where the eps decides. None without norms."""
    meant: Term
    """BEFORE without its guards, in float64, with its own norms."""
    guarded: Term
    """BEFORE in float64."""

    @cached_property
    def changes_eps(self) -> bool:
        """Whether a norm has another eps than before."""
        return self.oracle != self.meant

    @cached_property
    def has_guard(self) -> bool:
        """Whether BEFORE had a guard, other than the eps of a norm."""
        return guards.erase(self.before) != self.before

    @cached_property
    def loses_guard(self) -> bool:
        """Whether BEFORE had a guard, other than the eps of a norm, that AFTER has not."""
        return self.has_guard and guards.erase(self.after) == self.after


def pair(before: Term, after: Term) -> Pair:
    """All the forms of two expressions."""
    meant = guards.exact(guards.erase(before))
    own = guards.exact(after)
    old, new = guards.norm_eps(meant), guards.norm_eps(own)
    oracle = guards.with_norm_eps(meant, new) if len(old) == len(new) else meant
    bare = guards.with_norm_eps(oracle, (Const(0.0),) * len(old)) if old else None
    in_half = guards.exact(guards.with_sizes(after, _in_half))
    own_bare = guards.exact(guards.erase(after))
    guarded = guards.exact(before)
    return Pair(before, after, oracle, own, in_half, own_bare, bare, meant, guarded)


def _in_half(value: float) -> float:
    return float(torch.tensor(value, dtype=torch.float16))


@dataclass(frozen=True, slots=True)
class _Run:
    """What a form computed in float64, and what was seen on the way."""

    outcome: ModeOutcome
    seen: Watched


_Bits = tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True)
class _Known:
    """What is known of one input: all that does not depend on the code that is tried with it."""

    given: Tensors
    """In float64."""
    bits: _Bits
    oracle: _Run
    own: _Run
    is_degenerate: bool
    """Whether the eps of a norm decides, because nothing varies."""

    @property
    def runs(self) -> tuple[_Run, _Run]:
        """Of both forms."""
        return self.oracle, self.own


_MOST_KEPT = 2**20
"""Numbers of inputs of which results are kept."""
_MOST_SHARED = 256
"""Numbers of an input up to which its results are kept for later trials of the same expressions."""
_shared: Kept[Any] = Kept(8192)
"""Of the fixes of one text each is held against the same old code, at the same inputs."""


@lru_cache(maxsize=4096)
def _number(text: str) -> object:
    """What stands for a long text, and is quickly compared."""
    return object()


@dataclass(slots=True, eq=False)
class Trial:
    """A pair in one scenario. What each input gives is computed once."""

    pair: Pair
    scenario: Scenario
    device: str
    _programs: dict[tuple[str, str, bool], Program] = field(default_factory=dict)
    _eps: dict[str, float] = field(default_factory=dict)
    _seen: dict[str, Watched] = field(default_factory=dict)
    _given: Kept[Tensors] = field(init=False)
    _known: Kept[_Known] = field(init=False)
    _nearby: Kept[list[list[ModeOutcome]]] = field(init=False)
    _references: Kept[Reference | None] = field(init=False)
    _results: Kept[Any] = field(init=False)
    _differentiable: tuple[str, ...] = field(init=False)
    screen: Screen = field(init=False)
    """For many inputs at once."""
    _is_fused: bool = field(init=False)
    """Whether AFTER has an operation of which the roundings inside cannot be followed."""
    _is_product: bool = field(init=False)
    """Whether both have a product of two tensors: its gradients are products as well."""
    _numbers: dict[str, object] = field(default_factory=dict)
    is_coarse: bool = False
    """Whether in a region all may be rounded to its dtype, whatever the programs show of it."""
    is_other: bool = False
    """Whether its inputs have another number of axes than those that are tried first."""
    holds_itself: bool = False
    """Whether AFTER was held against itself in float64 somewhere, for want of another answer."""

    def __post_init__(self) -> None:
        size = sum(map(math.prod, self.scenario.shapes.values()))
        most = _MOST_KEPT // max(1, size)
        self._given, self._known, self._nearby = Kept(most), Kept(most), Kept(most // 16)
        self._references = Kept(most // 16)
        self._results = _shared if size <= _MOST_SHARED else Kept(most)
        self._differentiable = self.scenario.differentiable  # both are asked for at each input
        self._is_fused = _has_any(self.pair.own, FUSED)
        self._is_product = all(map(_has_product, (self.pair.oracle, self.pair.own)))
        self.screen = Screen(self)

    def outcome(self, which: str, case: InputCase, precision: Precision) -> ModeOutcome:
        """What ``before`` or ``after`` computes in eager mode."""

        def compute() -> ModeOutcome:
            given = self.bindings(case, precision)
            return self._run(which, given, case, precision, watched=False).outcome

        found: ModeOutcome = self._results.get(
            (self._number(which), precision.name, case.key), compute
        )
        return found

    def _number(self, which: str) -> object:
        if which not in self._numbers:
            form = self._form(which)
            self._numbers[which] = _number(repr((form, self.scenario, self.device)))
        return self._numbers[which]

    def _form(self, which: str) -> tuple[Term, bool]:
        """A form of the pair, and whether its exponents are wide."""
        name = which.removeprefix(_WIDE)
        return getattr(self.pair, name), name != which

    def bindings(self, case: InputCase, precision: Precision) -> Tensors:
        """The tensors of a case, in the dtype of a precision."""
        dtype = precision.dtype
        make = partial(bindings, self.scenario, case, dtype, self.device)
        return self._given.get((dtype, case.key), make)

    def exact_bindings(self, case: InputCase) -> Tensors:
        """The tensors of a case in float64."""
        return rounded(self.bindings(case, EXACT))

    def exact_values(self, which: str, given: Tensors) -> tuple[torch.Tensor, ...]:
        """What a form computes in float64 of any tensors, step by step; () if it raises."""
        with sdpa_kernel(SDPBackend.MATH):  # others lose a NaN
            found = self._run(which, given, InputCase(std=1.0), EXACT, watched=False)
        return found.outcome.values

    def exactly(self, which: str, case: InputCase, precision: Precision) -> ModeOutcome:
        """What a form computes in float64, of inputs that were rounded to a precision."""
        given = rounded(self.bindings(case, precision))
        return self._exactly(which, given, _bits(given), case).outcome

    def widely(self, which: str, case: InputCase, precision: Precision) -> ModeOutcome:
        """The same, with a wider exponent where float64 has no answer."""
        given = rounded(self.bindings(case, precision))
        run = self._exactly(which, given, _bits(given), case)
        return self._widened(which, run, given, _bits(given), case)

    def _widened(
        self, which: str, run: _Run, given: Tensors, bits: _Bits, case: InputCase
    ) -> ModeOutcome:
        """What a form computed; where that is no answer, what it does with wide exponents.

        A gradient of what is not finite may be, and wrong all the same.
        """
        unusable = run.seen.is_subnormal()
        if run.outcome.error or not (unusable or _is_open(run.outcome)):
            return run.outcome
        wide = self._exactly(_WIDE + which, given, bits, case).outcome
        if wide.error or not _same_shapes(wide, run.outcome):
            return _nowhere(run.outcome) if unusable else run.outcome
        return wide if unusable else _merge(wide, run.outcome)

    def _exactly(self, which: str, given: Tensors, bits: _Bits, case: InputCase) -> _Run:
        """A run in float64; inputs that have the same bits are one, whatever they were made for."""
        key = self._number(which), bits, case.cotangent
        found: _Run = self._results.get(key, partial(self._run, which, given, case, EXACT))
        return found

    def hold(self, case: InputCase, precision: Precision, got: ModeOutcome) -> Held | None:
        """``got`` against the oracle. None where not even exact arithmetic has an answer in range.

        What nearby inputs would give, and how far guards move a result, is only asked if the plain
        tolerance is exceeded.
        """
        want = self._reference(case, precision, got, nearby=False)
        if want is None:
            return None
        held = hold(got.values, self._usable(case, precision, got), want)
        if any(miss.check == "value" for miss in held.misses):
            want = self._reference(case, precision, got, nearby=True)
            assert want is not None
            held = hold(got.values, self._usable(case, precision, got), want)
        return held

    def _usable(
        self, case: InputCase, precision: Precision, got: ModeOutcome
    ) -> tuple[torch.Tensor, ...]:
        """The gradients of a result; none of one that is not finite, as it need not be."""
        finite = all(bool(value.isfinite().all()) for value in got.values)
        is_asked = finite or not _is_out_of_range(self._of(case, precision), precision)
        return got.gradients if is_asked else ()

    def _reference(
        self, case: InputCase, precision: Precision, got: ModeOutcome, nearby: bool
    ) -> Reference | None:
        """The reference, of which only the dtypes of ``got`` are known: often both programs'."""
        dtypes = tuple(part.dtype for part in _parts(got))
        make = partial(self._reference_for, case, precision, got, nearby)
        return self._references.get((precision.name, case.key, dtypes, nearby), make)

    def _of(self, case: InputCase, precision: Precision) -> _Known:
        return self._known.get((precision.dtype, case.key), partial(self._learn, case, precision))

    def _learn(self, case: InputCase, precision: Precision) -> _Known:
        given = rounded(self.bindings(case, precision))
        bits = _bits(given)
        oracle, own = (self._exactly(which, given, bits, case) for which in ("oracle", "own"))
        return _Known(given, bits, oracle, own, self._is_degenerate(given, bits, case))

    def _reference_for(
        self, case: InputCase, precision: Precision, got: ModeOutcome, nearby: bool
    ) -> Reference | None:
        known = self._of(case, precision)
        oracle, own = known.oracle.outcome, known.own.outcome
        if oracle.error:
            return None
        if "exp" in known.oracle.seen.names and largest(known.given) > _LARGEST_EXPONENT:
            return None
        if known.is_degenerate:
            return _finite(oracle, known.given)
        oracle = self._widened("oracle", known.oracle, known.given, known.bits, case)
        answer, fills = oracle, False
        if not own.error and _same_shapes(own, oracle):
            fills = _fills(own, oracle)
            self.holds_itself |= fills
            answer = _merge(oracle, own)
        eps = self.eps(precision)
        moved = self._moved(case, precision, eps, answer) if nearby else []
        passed = min(run.seen.largest_gradient() for run in known.runs)
        passed *= max(1.0, known.own.seen.largest_logarithm())
        of_input = largest(known.given)
        factors = case.incoming * of_input if self._is_fused or of_input > _HARD else 0.0
        if nearby and self._is_product:  # of what comes back and the other factor
            factors = max(factors, passed * of_input)
        scale = _Scale(eps, of_input, passed, factors)
        reference = _targets(answer, moved, scale, case, got)
        if nearby and fills and precision.dtype is torch.float16:
            in_half = self._exactly("own_in_half", known.given, known.bits, case).outcome
            reference = reference.as_rounded(own, in_half, oracle)
        if nearby:
            near = self._noisy("oracle", known, case, _FINEST)
            reference = reference.as_known(known.oracle.outcome, near)
        if _is_out_of_range(known, precision):
            return self._out_of_range(reference, case, precision)
        return self._with_guards(reference, oracle, case, precision, nearby)

    def _out_of_range(
        self, reference: Reference, case: InputCase, precision: Precision
    ) -> Reference | None:
        """What is left to ask where both programs come upon a number that the dtype does not hold.

        AFTER need not be finite. But where BEFORE is not, or is right, no other number may take
        its place: one that is cut off, or put for NaN, hides what failed.
        """
        old = self.outcome("before", case, precision)
        if old.error or [v.shape for v in old.values] != [a.exact.shape for a in reference.values]:
            return None
        values, gradients = (
            tuple(aim.instead_of(was) for aim, was in zip(aims, made, strict=True))
            for aims, made in (
                (reference.values, old.values),
                (reference.gradients, old.gradients),
            )
        )
        return Reference(values, gradients)

    def _with_guards(
        self,
        reference: Reference,
        oracle: ModeOutcome,
        case: InputCase,
        precision: Precision,
        nearby: bool,
    ) -> Reference:
        """The reference with what guards allow, and what they ask for.

        Where AFTER without its guards is what is meant, its guards may move it. Where only a guard
        of BEFORE has an answer, that is it; where BEFORE has none, AFTER need not have one.
        """
        has_guards = self.pair.has_guard or self.pair.own_bare != self.pair.own
        if not has_guards and not _is_open(oracle):
            return reference
        old = self.outcome("before", case, precision)
        was = _parts(old) if _same_form(old, oracle) else [None] * len(_parts(oracle))
        meant, aims = _parts(oracle), [*reference.values, *reference.gradients]
        if has_guards and nearby:
            aims = self._moved_by_guards(aims, oracle, case, precision)
        guarded = self.exactly("guarded", case, precision)
        decides = False
        if self.pair.has_guard and _same_form(guarded, oracle):
            for at, value in enumerate(guarded.values):
                decides |= bool(((value - meant[at]).abs() > _MOVED * value.abs()).any())
                aims[at] = aims[at].guarded_by(value, meant[at], was[at])
        for at, aim in enumerate(aims):
            unknown = ~meant[at].isfinite() | decides
            aims[at] = aim.as_finite_as(was[at], unknown)
        count = len(reference.values)
        return Reference(tuple(aims[:count]), tuple(aims[count:]))

    def _moved_by_guards(
        self, aims: list[Target], oracle: ModeOutcome, case: InputCase, precision: Precision
    ) -> list[Target]:
        """What AFTER may be where its guards alone keep it from what is meant."""
        bare = self.widely("own_bare", case, precision)
        own = self.exactly("own", case, precision)
        if not _same_form(bare, oracle) or not _same_form(own, oracle):
            return aims
        parts = zip(aims, _parts(own), _parts(bare), _parts(oracle), strict=True)
        moved = [aim.moved_to(mine, plain, meant) for aim, mine, plain, meant in parts]
        if self.pair.has_guard:
            return moved
        near = [_parts(one) for one in self._around(case, precision)]
        return [
            aim.reached_by([one[at] for one in near]) if near else aims[at]
            for at, aim in enumerate(moved)
        ]

    def _around(self, case: InputCase, precision: Precision) -> list[ModeOutcome]:
        """What is meant for inputs that are as far off as the guards that AFTER adds are large."""
        known = self._of(case, precision)
        size = guards.largest(self.pair.after)
        key = "around", size, self._number("oracle"), known.bits, case.cotangent
        compute = partial(self._shifted_by, size, known, case)
        found: list[ModeOutcome] = self._results.get(key, compute)
        return found

    def _shifted_by(self, size: float, known: _Known, case: InputCase) -> list[ModeOutcome]:
        found = []
        for draw, by in itertools.product(range(_DRAWS // 2), (size, -size) if size else ()):
            near = {key: _shifted(tensor, by, draw) for key, tensor in known.given.items()}
            found.append(self._run("oracle", near, case, EXACT).outcome)
        return [one for one in found if _same_form(one, known.oracle.outcome)]

    def _moved(
        self, case: InputCase, precision: Precision, eps: float, exact: ModeOutcome
    ) -> list[tuple[ModeOutcome, list[ModeOutcome]]]:
        """What each form computes, and what it does if each operation rounds to eps."""

        def compute() -> list[list[ModeOutcome]]:
            known = self._of(case, precision)
            return [self._noisy(which, known, case, eps) for which in forms]

        forms = ("oracle",) if self._is_fused else ("oracle", "own")
        groups = self._nearby.get((precision.dtype, eps, case.key), compute)
        own = self._of(case, precision).own.outcome
        return [
            (center, [one for one in group if _same_shapes(one, exact)])
            for center, group in zip((exact, own), groups, strict=False)
            if _same_shapes(center, exact)
        ]

    def _noisy(self, which: str, known: _Known, case: InputCase, eps: float) -> list[ModeOutcome]:
        key = self._number(which), known.bits, case.cotangent, eps
        compute = partial(self._with_noise, which, known.given, case, eps)
        found: list[ModeOutcome] = self._results.get(key, compute)
        return found

    def _with_noise(
        self, which: str, given: Tensors, case: InputCase, eps: float
    ) -> list[ModeOutcome]:
        noise = Noise(eps)
        try:
            noisy = self._build(which, EXACT, noise)
        except (RuntimeError, ValueError, TypeError):
            return []
        try:
            return self._all_draws(noisy, noise, given, case)
        except NotLiftedError:
            raise
        except Exception:  # torch raises what it likes
            found = []
        for draw in _DRAWN:
            noise.draw = draw
            near = {k: _near(tensor, eps, draw) for k, tensor in given.items()}
            found.append(run(noisy, near, self._differentiable, case, EXACT))
        return [one for one in found if not one.error]

    def _all_draws(
        self, noisy: Program, noise: Noise, given: Tensors, case: InputCase
    ) -> list[ModeOutcome]:
        """A form with each of the draws of noise, in one run."""
        draws = torch.tensor(_DRAWN, device=self.device)
        floats = {key: tensor for key, tensor in given.items() if tensor.is_floating_point()}
        near = {
            key: torch.stack([_near(tensor, noise.eps, draw) for draw in _DRAWN])
            for key, tensor in floats.items()
        }
        fixed = {key: tensor for key, tensor in given.items() if key not in floats}

        def one(batch: Tensors) -> tuple[torch.Tensor, ...]:
            noise.draw = batch.pop("")
            return flat(noisy(batch))

        made = run_together(one, {**near, "": draws}, fixed, self._differentiable, [case] * _DRAWS)
        return [
            ModeOutcome(
                tuple(part[at] for part in made.values), tuple(part[at] for part in made.gradients)
            )
            for at in range(_DRAWS)
        ]

    def eps(self, precision: Precision) -> float:
        """The rounding of the finer of both programs, measured on an ordinary input."""
        if precision.name not in self._eps:
            self._eps[precision.name] = self._measure_eps(precision)
        return self._eps[precision.name]

    def _measure_eps(self, precision: Precision) -> float:
        case, found, dtypes = InputCase(std=1.0), [], []
        finest = float(torch.finfo(precision.dtype).eps)
        if self.is_coarse and precision.autocast:
            return finest
        for which in ("after", "before"):
            done = self._run(which, self.bindings(case, precision), case, precision)
            if not done.outcome.error:
                found.append(done.seen.eps(MOVES) or finest)
                dtypes.append([value.dtype for value in done.outcome.values])
        if len(dtypes) == 2 and dtypes[0] != dtypes[1]:
            found = found[:1]
        if len(dtypes) == 1 and not precision.autocast and _has_any(self.pair.after, COMPOSED):
            return finest
        return min(found, default=finest)

    def _run(
        self,
        which: str,
        given: Tensors,
        case: InputCase,
        precision: Precision,
        watched: bool = True,
    ) -> _Run:
        watch = self._seen.setdefault(which, Watched([]))
        watch.clear()
        try:
            run_form = self._program(which, precision, watched)
        except (RuntimeError, ValueError, TypeError) as error:
            return _Run(ModeOutcome(error=first_line(error)), Watched([]))
        done = run(run_form, given, self._differentiable, case, precision)
        return _Run(done, watch.copy())

    def _program(self, which: str, precision: Precision, watched: bool) -> Program:
        key = which, precision.name, watched
        if key not in self._programs:
            watch = self._seen.setdefault(which, Watched([])) if watched else None
            self._programs[key] = self._build(which, precision, watch)
        return self._programs[key]

    def program(self, which: str, precision: Precision, watch: Watch | None) -> Program:
        """A form to run by itself, with a watch of its own. Raises what torch does."""
        if watch is None:
            return self._program(which, precision, watched=False)
        return self._build(which, precision, watch)

    def _build(self, which: str, precision: Precision, watch: Watch | None) -> Program:
        scenario = _exact(self.scenario) if precision == EXACT else self.scenario
        term, is_wide = self._form(which)
        return program(term, scenario, precision, self.device, watch, is_wide=is_wide)

    def is_hard(self, case: InputCase, precision: Precision) -> bool:
        """Whether an input is so large that a sum of what comes of it may leave the dtype."""
        known = self._of(case, precision)
        limit = torch.finfo(precision.dtype).max
        seen = max(run.seen.largest_sum() for run in known.runs)
        return largest(known.given) > _HARD or seen > limit

    def is_tiny(self, case: InputCase, precision: Precision) -> bool:
        """Whether a number is so small that the dtype holds fewer digits of it; 0 is not."""
        least = float(torch.finfo(precision.dtype).smallest_normal)
        return self._has_below(least, case, precision)

    def _has_below(self, least: float, case: InputCase, precision: Precision) -> bool:
        given = self._of(case, precision).given.values()
        floats = (tensor.abs() for tensor in given if tensor.is_floating_point())
        return any(bool(((t > 0) & (t < least)).any()) for t in floats)

    def is_faint(self, case: InputCase, precision: Precision) -> bool:
        """Whether a number is tiny, or so small that its square underflows in float32."""
        return self._has_below(_FAINT, case, precision) or self.is_tiny(case, precision)

    def is_beyond_sums(self, case: InputCase, precision: Precision) -> bool:
        """Whether the numbers of an input add up to more than the dtype holds.

        A mean of them may overflow on the way to a result that the dtype does hold.
        """
        given = self._of(case, precision).given.values()
        sums = (float(t.double().abs().sum()) for t in given if t.is_floating_point())
        return max(sums, default=0.0) > torch.finfo(precision.dtype).max

    def is_at_pole(self, case: InputCase, precision: Precision) -> bool:
        """Whether both programs divide by what roundings take past 0: neither knows a number.

        What they compute without roundings has to be the same there.
        """
        known = self._of(case, precision)
        if not _agree(known.oracle.outcome, known.own.outcome):
            return False
        scenario, eps = _exact(self.scenario), self.eps(precision)
        forms = self.pair.guarded, self.pair.own
        return all(is_at_pole(form, scenario, known.given, eps) for form in forms)

    def _is_degenerate(self, given: Tensors, bits: _Bits, case: InputCase) -> bool:
        """Whether the eps of a norm decides, because nothing varies."""
        if self.pair.bare is None:
            return False
        bare = self._exactly("bare", given, bits, case).outcome
        return not all(bool(t.isfinite().all()) for t in (*bare.values, *bare.gradients))


def _has_any(term: Term, names: frozenset[str]) -> bool:
    """Whether a term has one of some operations."""
    return any(isinstance(part, Op) and part.last in names for part in walk(term))


def _has_product(term: Term) -> bool:
    """Whether a term has a matrix product of two parts that both depend on inputs."""
    products = (part for part in walk(term) if isinstance(part, Op) and part.last in PRODUCTS)
    return any(all(map(_is_open_term, part.args[:2])) for part in products if len(part.args) > 1)


def _is_open_term(term: Term) -> bool:
    return any(isinstance(part, Input) for part in walk(term))


_FINEST = torch.finfo(torch.float64).eps


def _targets(
    exact: ModeOutcome,
    moved: list[tuple[ModeOutcome, list[ModeOutcome]]],
    scale: _Scale,
    case: InputCase,
    got: ModeOutcome,
) -> Reference:
    values = []
    for at, (value, result) in enumerate(zip(exact.values, got.values, strict=False)):
        near = [(c.values[at], [one.values[at] for one in group]) for c, group in moved]
        values.append(target(value, near, scale.eps, scale.inputs, result.dtype))
    gradients = []
    for at, (value, result) in enumerate(zip(exact.gradients, got.gradients, strict=False)):
        near = [(c.gradients[at], [one.gradients[at] for one in group]) for c, group in moved]
        coarse = max(scale.eps, torch.finfo(result.dtype).eps)
        most = max(scale.passed, _largest_finite(value), case.incoming, scale.factors)
        gradients.append(target(value, near, coarse, most, result.dtype))
    return Reference(tuple(values), tuple(gradients))


def _is_out_of_range(known: _Known, precision: Precision) -> bool:
    """Whether both programs come upon a number that the dtype does not hold.

    Not where an exponential or a square made it: that is what is to be found.
    """
    limit = torch.finfo(precision.dtype).max
    first = (run.seen.overflow(limit) for run in known.runs)
    return all(name and name not in HAZARDS for name in first)


def _finite(exact: ModeOutcome, given: Tensors) -> Reference | None:
    if largest(given) > _MODERATE:
        return None
    return Reference(
        tuple(map(finite_only, exact.values)), tuple(map(finite_only, exact.gradients))
    )


def _exact(scenario: Scenario) -> Scenario:
    """The scenario with its dtypes raised."""
    static = {
        key: torch.float64 if isinstance(value, torch.dtype) and value.is_floating_point else value
        for key, value in scenario.static.items()
    }
    return replace(scenario, static=static)


def _same_shapes(one: ModeOutcome, other: ModeOutcome) -> bool:
    return [value.shape for value in one.values] == [value.shape for value in other.values]


def _parts(outcome: ModeOutcome) -> list[torch.Tensor]:
    return [*outcome.values, *outcome.gradients]


def _agree(one: ModeOutcome, other: ModeOutcome) -> bool:
    """Whether two programs compute the same in float64, and it is finite."""
    if one.error or other.error or not _same_shapes(one, other):
        return False
    pairs = zip(_parts(one), _parts(other), strict=True)
    return all(torch.allclose(a, b, rtol=_ALIKE, atol=_ALIKE) for a, b in pairs)


def _same_form(one: ModeOutcome, other: ModeOutcome) -> bool:
    return not one.error and _same_shapes(one, other)


def _is_open(outcome: ModeOutcome) -> bool:
    """Whether something that was computed is not finite."""
    return not all(bool(t.isfinite().all()) for t in (*outcome.values, *outcome.gradients))


def _merge(first: ModeOutcome, second: ModeOutcome) -> ModeOutcome:
    """An outcome, and another one where it is not finite."""

    def choose(one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
        return torch.where(one.isfinite(), one, other)

    values = tuple(map(choose, first.values, second.values))
    return ModeOutcome(values, tuple(map(choose, first.gradients, second.gradients)))


def _nowhere(outcome: ModeOutcome) -> ModeOutcome:
    """An outcome that is nowhere an answer."""
    values, gradients = (
        tuple(torch.full_like(each, math.nan) for each in those)
        for those in (outcome.values, outcome.gradients)
    )
    return ModeOutcome(values, gradients)


def _fills(second: ModeOutcome, first: ModeOutcome) -> bool:
    """Whether an outcome is finite somewhere where the first is not."""
    pairs = zip((*second.values, *second.gradients), (*first.values, *first.gradients), strict=True)
    return any(bool((one.isfinite() & ~other.isfinite()).any()) for one, other in pairs)


def _bits(given: Tensors) -> _Bits:
    """All the numbers, with 0 and -0 apart."""
    flat = (tensor.flatten() for tensor in given.values())
    return tuple(
        tuple((t.view(torch.int64) if t.dtype is torch.float64 else t).tolist()) for t in flat
    )


def _near(tensor: torch.Tensor, eps: float, seed: int) -> torch.Tensor:
    return rounded_at_random(tensor, eps, seed) if tensor.is_floating_point() else tensor


def _shifted(tensor: torch.Tensor, size: float, seed: int) -> torch.Tensor:
    """Each number of a float64 tensor, larger or smaller by ``size`` at random."""
    if not tensor.is_floating_point():
        return tensor
    generator = torch.Generator().manual_seed(seed)
    signs = torch.randint(0, 2, tensor.shape, generator=generator).mul(2).sub(1)
    return tensor + size * signs.to(tensor.device)


def _largest_finite(tensor: torch.Tensor) -> float:
    sizes = tensor.abs().nan_to_num(0.0, posinf=0.0)
    return float(sizes.max()) if sizes.numel() else 0.0
