"""One pair of expressions, ready to be tried: what each computes, and what it has to compute."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import torch

from amp_lint.verify.experiments import guards
from amp_lint.verify.experiments.inputs import LARGEST, Case, Scenario, bindings
from amp_lint.verify.experiments.modes import (
    EXACT,
    Outcome,
    Precision,
    Tensors,
    first_line,
    program,
    rounded,
    run,
)
from amp_lint.verify.experiments.names import HAZARDS, MOVES
from amp_lint.verify.experiments.operations import Program, Watch
from amp_lint.verify.experiments.tolerance import (
    Held,
    Noise,
    Reference,
    Watched,
    finite_only,
    hold,
    rounded_at_random,
    target,
)
from amp_lint.verify.terms import Const, Term

_MODERATE = 100.0
"""The largest input for which a guard has to hold."""
_HARD = 512.0
"""From here on, code that never was finite need not become so."""
_DRAWS = 4


@dataclass(frozen=True, slots=True)
class _Scale:
    """What errors are measured by."""

    eps: float
    inputs: float
    """The largest input."""
    passed: float
    """The largest gradient that passed through any operation."""


@dataclass(frozen=True, slots=True)
class Pair:
    """Both expressions in all the forms that are run."""

    before: Term
    after: Term
    oracle: Term
    """BEFORE without its guards, in float64, with the eps of AFTER's norms."""
    own: Term
    """AFTER in float64, to be asked where the oracle has no answer."""
    bare: Term | None
    """The oracle with norms of eps 0: not finite where the eps decides. None without norms."""
    meant: Term
    """BEFORE without its guards, in float64, with its own norms."""

    @property
    def changes_eps(self) -> bool:
        """Whether a norm has another eps than before."""
        return self.oracle != self.meant

    @property
    def loses_guard(self) -> bool:
        """Whether BEFORE had a guard, other than the eps of a norm, that AFTER has not."""
        bare = guards.erase(self.before)
        return bare != self.before and guards.erase(self.after) == self.after


def pair(before: Term, after: Term) -> Pair:
    """All the forms of two expressions."""
    meant = guards.exact(guards.erase(before))
    own = guards.exact(after)
    old, new = guards.norm_eps(meant), guards.norm_eps(own)
    oracle = guards.with_norm_eps(meant, new) if len(old) == len(new) else meant
    bare = guards.with_norm_eps(oracle, (Const(0.0),) * len(old)) if old else None
    return Pair(before, after, oracle, own, bare, meant)


@dataclass(slots=True)
class Trial:
    """A pair in one scenario."""

    pair: Pair
    scenario: Scenario
    device: str
    _programs: dict[tuple[str, str], Program] = field(default_factory=dict)
    _eps: dict[str, float] = field(default_factory=dict)
    _seen: dict[str, Watched] = field(default_factory=dict)

    def outcome(self, which: str, case: Case, precision: Precision) -> Outcome:
        """What ``before`` or ``after`` computes in eager mode."""
        given = self.bindings(case, precision)
        return self._run(which, given, case, precision)

    def bindings(self, case: Case, precision: Precision) -> Tensors:
        """The tensors of a case, in the dtype of a precision."""
        return bindings(self.scenario, case, precision.dtype, self.device)

    def exactly(self, which: str, case: Case, precision: Precision) -> Outcome:
        """What a form computes in float64, of inputs that were rounded to a precision."""
        return self._run(which, rounded(self.bindings(case, precision)), case, EXACT)

    def hold(self, case: Case, precision: Precision, got: Outcome) -> Held | None:
        """``got`` against the oracle. None where not even exact arithmetic has an answer in range.

        What nearby inputs would give is only asked if the plain tolerance is exceeded.
        """
        want = self._reference_for(case, precision, got, nearby=False)
        if want is None:
            return None
        held = hold(got.values, got.gradients, want)
        if any(miss.check == "value" for miss in held.misses):
            want = self._reference_for(case, precision, got, nearby=True)
            assert want is not None
            held = hold(got.values, got.gradients, want)
        return held

    def _reference_for(
        self, case: Case, precision: Precision, got: Outcome, nearby: bool
    ) -> Reference | None:
        given = rounded(self.bindings(case, precision))
        oracle = self._run("oracle", given, case, EXACT)
        own = self._run("own", given, case, EXACT)
        if oracle.error or self._is_out_of_range(precision):
            return None
        if self._is_degenerate(given, case):
            return self._finite(oracle, case, given)
        unusable = self._watched("oracle").is_subnormal()
        if not own.error and _same_shapes(own, oracle):
            oracle = _merge(oracle, own, unusable)
        elif unusable:
            return None
        eps = self.eps(precision)
        names = ("oracle", "own") if nearby else ()
        passed = min(self._watched(which).largest_gradient() for which in ("oracle", "own"))
        moved = [self._moved(which, given, case, eps, oracle) for which in names]
        return self._targets(oracle, moved, _Scale(eps, _largest(given), passed), case, got)

    def _targets(
        self,
        exact: Outcome,
        moved: list[list[Outcome]],
        scale: _Scale,
        case: Case,
        got: Outcome,
    ) -> Reference:
        values = []
        for at, (value, result) in enumerate(zip(exact.values, got.values, strict=False)):
            near = [[one.values[at] for one in group] for group in moved]
            values.append(target(value, near, scale.eps, scale.inputs, result.dtype))
        gradients = []
        for at, (value, result) in enumerate(zip(exact.gradients, got.gradients, strict=False)):
            near = [[one.gradients[at] for one in group] for group in moved]
            coarse = max(scale.eps, torch.finfo(result.dtype).eps)
            largest = max(scale.passed, _largest_finite(value), _incoming(case))
            gradients.append(target(value, near, coarse, largest, result.dtype))
        return Reference(tuple(values), tuple(gradients))

    def _moved(
        self, which: str, given: Tensors, case: Case, eps: float, exact: Outcome
    ) -> list[Outcome]:
        """What a form computes if each operation rounds to eps."""
        noise = Noise(eps)
        try:
            noisy = self._build(which, EXACT, noise)
        except (RuntimeError, ValueError, TypeError):
            return []
        found = []
        for draw in range(_DRAWS):
            noise.draw = 100 * draw
            near = {k: _near(tensor, eps, noise.draw) for k, tensor in given.items()}
            found.append(run(noisy, near, self.scenario.differentiable, case, EXACT))
        return [one for one in found if not one.error and _same_shapes(one, exact)]

    def eps(self, precision: Precision) -> float:
        """The rounding of the finer of both programs, measured on an ordinary input."""
        if precision.name not in self._eps:
            self._eps[precision.name] = self._measure_eps(precision)
        return self._eps[precision.name]

    def _measure_eps(self, precision: Precision) -> float:
        case, found, dtypes = Case(std=1.0), [], []
        for which in ("after", "before"):
            outcome = self._run(which, self.bindings(case, precision), case, precision)
            if not outcome.error:
                found.append(self._watched(which).eps(MOVES))
                dtypes.append([value.dtype for value in outcome.values])
        known = [eps for eps in found if eps]
        if len(dtypes) == 2 and dtypes[0] != dtypes[1]:
            known = known[:1]
        return min(known, default=float(torch.finfo(precision.dtype).eps))

    def _run(self, which: str, given: Tensors, case: Case, precision: Precision) -> Outcome:
        watched = self._watched(which)
        watched.clear()
        key = which, precision.name
        if key not in self._programs:
            try:
                self._programs[key] = self._build(which, precision, watched)
            except (RuntimeError, ValueError, TypeError) as error:
                return Outcome(error=first_line(error))
        return run(self._programs[key], given, self.scenario.differentiable, case, precision)

    def _build(self, which: str, precision: Precision, watch: Watch) -> Program:
        scenario = _exact(self.scenario) if precision == EXACT else self.scenario
        term = getattr(self.pair, which)
        return program(term, scenario, precision, self.device, watch)

    def is_hard(self, case: Case, precision: Precision) -> bool:
        """Whether an input is so large that a sum of what comes of it may leave the dtype."""
        given = self.bindings(case, precision)
        limit = torch.finfo(precision.dtype).max
        seen = max(self._watched(which).largest_sum() for which in ("oracle", "own"))
        return _largest(given) > _HARD or seen > limit

    def _watched(self, which: str) -> Watched:
        return self._seen.setdefault(which, Watched([]))

    def _is_out_of_range(self, precision: Precision) -> bool:
        """Whether both programs come upon a number that the dtype does not hold.

        Not where an exponential or a square made it: that is what is to be found.
        """
        limit = torch.finfo(precision.dtype).max
        first = [self._watched(which).overflow(limit) for which in ("oracle", "own")]
        return all(name and name not in HAZARDS for name in first)

    def _is_degenerate(self, given: Tensors, case: Case) -> bool:
        """Whether the eps of a norm decides, because nothing varies."""
        if self.pair.bare is None:
            return False
        bare = self._run("bare", given, case, EXACT)
        return not all(bool(t.isfinite().all()) for t in (*bare.values, *bare.gradients))

    def _finite(self, exact: Outcome, case: Case, given: Tensors) -> Reference | None:
        if _largest(given) > _MODERATE:
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


def _same_shapes(one: Outcome, other: Outcome) -> bool:
    return [value.shape for value in one.values] == [value.shape for value in other.values]


def _merge(oracle: Outcome, own: Outcome, unusable: bool) -> Outcome:
    """The oracle, and AFTER's own result where the oracle has none."""

    def choose(first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
        return second if unusable else torch.where(first.isfinite(), first, second)

    values = tuple(map(choose, oracle.values, own.values))
    return Outcome(values, tuple(map(choose, oracle.gradients, own.gradients)))


def _near(tensor: torch.Tensor, eps: float, seed: int) -> torch.Tensor:
    return rounded_at_random(tensor, eps, seed) if tensor.is_floating_point() else tensor


def _largest_finite(tensor: torch.Tensor) -> float:
    finite = tensor[tensor.isfinite()]
    return float(finite.abs().max()) if finite.numel() else 0.0


def _incoming(case: Case) -> float:
    return LARGEST if case.cotangent == "large" else 1.0


def _largest(given: Mapping[str, torch.Tensor]) -> float:
    floats = (tensor for tensor in given.values() if tensor.is_floating_point() and tensor.numel())
    return max((float(tensor.abs().max()) for tensor in floats), default=0.0)
