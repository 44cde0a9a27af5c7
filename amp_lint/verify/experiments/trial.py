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
from amp_lint.verify.experiments.operations import Program
from amp_lint.verify.experiments.tolerance import (
    Held,
    Reference,
    Target,
    Watched,
    finite_only,
    hold,
    target,
)
from amp_lint.verify.terms import Const, Term

_MODERATE = 100.0
"""The largest input for which a guard has to hold."""
_HARD = 512.0
"""From here on, code that never was finite need not become so."""
_DRAWS = 3


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
        near = _near(given, eps) if nearby else []
        return self._targets(oracle, given, near, case, eps, got)

    def _targets(
        self,
        exact: Outcome,
        given: Tensors,
        near: list[Tensors],
        case: Case,
        eps: float,
        got: Outcome,
    ) -> Reference:
        moved = [self._run("oracle", inputs, case, EXACT) for inputs in near]
        moved = [one for one in moved if not one.error and _same_shapes(one, exact)]
        scale = _largest(given)
        values = tuple(
            target(value, [one.values[at] for one in moved], eps, scale, result.dtype)
            for at, (value, result) in enumerate(zip(exact.values, got.values, strict=False))
        )
        gradients = tuple(
            self._gradient(value, [one.gradients[at] for one in moved], eps, result, case)
            for at, (value, result) in enumerate(zip(exact.gradients, got.gradients, strict=False))
        )
        return Reference(values, gradients)

    def _gradient(
        self,
        exact: torch.Tensor,
        moved: list[torch.Tensor],
        eps: float,
        result: torch.Tensor,
        case: Case,
    ) -> Target:
        finite = exact[exact.isfinite()]
        scale = float(finite.abs().max()) if finite.numel() else 0.0
        incoming = LARGEST if case.cotangent == "large" else 1.0
        coarse = max(eps, torch.finfo(result.dtype).eps)
        return target(exact, moved, coarse, max(scale, incoming), result.dtype)

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
        watched.results.clear()
        key = which, precision.name
        if key not in self._programs:
            try:
                self._programs[key] = self._build(which, precision)
            except (RuntimeError, ValueError, TypeError) as error:
                return Outcome(error=first_line(error))
        return run(self._programs[key], given, self.scenario.differentiable, case, precision)

    def _build(self, which: str, precision: Precision) -> Program:
        scenario = _exact(self.scenario) if precision == EXACT else self.scenario
        term = getattr(self.pair, which)
        return program(term, scenario, precision, self.device, self._watched(which))

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


def _near(given: Tensors, eps: float) -> list[Tensors]:
    """Inputs that differ in the last place: all up, and at random."""
    generator = torch.Generator().manual_seed(0)
    found = []
    for _ in range(_DRAWS):
        near = {}
        for key, tensor in given.items():
            signs = torch.randint(0, 2, tensor.shape, generator=generator).to(tensor.device)
            near[key] = (
                tensor * (1 + eps * (2 * signs - 1)) if tensor.is_floating_point() else tensor
            )
        found.append(near)
    return found


def _largest(given: Mapping[str, torch.Tensor]) -> float:
    floats = (tensor for tensor in given.values() if tensor.is_floating_point() and tensor.numel())
    return max((float(tensor.abs().max()) for tensor in floats), default=0.0)
