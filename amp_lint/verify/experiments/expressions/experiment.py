"""One expression and its replacement, tried in every dtype and mode."""

from __future__ import annotations

import contextlib
import itertools
import math
from collections.abc import Callable, Hashable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from functools import partial
from typing import Literal

import torch

from amp_lint.verify.experiments import guards, inputs
from amp_lint.verify.experiments.doubts import doubt
from amp_lint.verify.experiments.expressions.findings import (
    DTYPE,
    PRECISION,
    RANK,
    SIZE,
    Finding,
    Problem,
    Record,
)
from amp_lint.verify.experiments.failures import describe
from amp_lint.verify.experiments.inputs import InputCase, InputKind, Scenario
from amp_lint.verify.experiments.modes import (
    EXACT,
    Compiled,
    ModeOutcome,
    Precision,
    not_compiled,
    precisions,
)
from amp_lint.verify.experiments.operations import NotLiftedError
from amp_lint.verify.experiments.prepare import Prepared
from amp_lint.verify.experiments.search import (
    any_cases,
    any_numbers,
    first_small,
    small_cases,
    smallest,
)
from amp_lint.verify.experiments.tolerance import Miss
from amp_lint.verify.experiments.trial import Pair, Trial, pair
from amp_lint.verify.experiments.variants import is_other, of_axes
from amp_lint.verify.proof import Changed, Failure, ProofSettings

_MOST_SCENARIOS = 10
_MOST_BOUNDS = 2
_LEAST_BOUND = 3
"""The least length at which something is cut off that the first inputs may not reach."""
ORDINARY = InputCase(std=1.0)
_ANOTHER_SEED = 12345
_MOST_CHANGE = 1e-3
"""How much of an ordinary row an eps may change."""
_NO_WORSE = 16.0
"""Errors up to this are not held against new code if the old code had them as well."""
_COMPILED_CASES = 24
_SPARSE = 4
"""Of the fixed inputs, one in so many is tried where shapes and plain inputs are varied."""


class Experiment:
    """One expression and its replacement, tried."""

    def __init__(self, prepared: Prepared, settings: ProofSettings) -> None:
        self.pair: Pair = pair(prepared.before, prepared.after)
        self.settings = settings
        self.record = Record()
        self.kinds = inputs.kinds(prepared.before, prepared.after)
        self.constant = inputs.targets(prepared.before, prepared.after)
        self.precisions = precisions(settings.dtypes)
        self._before: dict[Hashable, list[Problem]] = {}
        self._after: dict[Hashable, list[Problem]] = {}
        self._forms: dict[Hashable, ModeOutcome] = {}
        self.untried: set[int] = set()
        """Where only one of both cuts something off, and no input is as long."""
        self.cut: list[Trial] = []
        """The trials in which one is."""
        self.trials = self._trials()
        self.small = self._small()

    def _trial(self, scenario: Scenario) -> Trial:
        scenario = replace(scenario, constant=self.constant)
        coarse = PRECISION in self.settings.disabled
        return Trial(self.pair, scenario, self.settings.device, is_coarse=coarse)

    def _trials(self) -> list[Trial]:
        """Scenarios of different shapes in which BEFORE has a meaning, and their variations."""
        literal = inputs.literal_shapes(self.pair.before, self.pair.after)
        found: list[Trial] = []
        shapes, reason = set(), "no tensor"
        for scenario in inputs.scenarios(self.kinds, literal, self.settings.device):
            rank = next(
                (len(s) for k, s in scenario.shapes.items() if _is_floating(scenario, k)), 0
            )
            if rank in shapes:
                continue
            outcome = self._trial(scenario).exactly("oracle", ORDINARY, self.precisions[0])
            if outcome.error:
                reason = outcome.error
                continue
            shapes.add(rank)
            found.append(self._trial(scenario))
        if not found:
            raise NotLiftedError(f"no input was found that the old code takes: {reason}")
        found.sort(key=self._is_constant)
        varied = map(self._trial, inputs.variations(found[0].scenario, self.kinds))
        runs = [*self._cut(found[0].scenario)]
        runs += (trial for trial in varied if self._runs(trial, "oracle"))
        others = found[1:] if self.is_on(RANK) else []
        for trial in others:
            trial.is_other = True
        return [*self._with_distinct(found[0]), *runs, *others][:_MOST_SCENARIOS]

    def _cut(self, scenario: Scenario) -> Iterator[Trial]:
        """Trials in which an axis is longer than what is cut off, first than what only one cuts."""
        old, new = (inputs.bounds(term) for term in (self.pair.before, self.pair.after))
        by_size = sorted(old | new, key=lambda bound: (bound not in old ^ new, -bound))
        self.untried = {bound for bound in old ^ new if bound >= _LEAST_BOUND}
        for bound in by_size[:_MOST_BOUNDS]:
            longer = map(self._trial, inputs.longer(scenario, bound))
            runs = [trial for trial in longer if self._runs(trial, "oracle")]
            self.untried -= {bound} if runs else set()
            self.cut += runs if bound in old ^ new else ()
            yield from runs

    def _is_constant(self, trial: Trial) -> bool:
        """Whether a result says nothing of the inputs: the softmax of one number is 1."""
        cases = ORDINARY, replace(ORDINARY, seed=_ANOTHER_SEED)
        old, new = (trial.exactly("oracle", case, EXACT).values for case in cases)
        pairs = zip(old, new, strict=False)
        return all(one.shape == other.shape and one.equal(other) for one, other in pairs)

    def _runs(self, trial: Trial, *forms: str) -> bool:
        """Whether forms run in a trial; one that is too large does not."""
        try:
            return not any(trial.exactly(f, ORDINARY, self.precisions[0]).error for f in forms)
        except NotLiftedError:
            return False

    def _with_distinct(self, trial: Trial) -> list[Trial]:
        """A trial, and one in which axes have as many sizes as the code takes."""
        scenario = inputs.distinct(
            trial.scenario,
            lambda other: self._runs(self._trial(other), "oracle"),
            lambda other: self._runs(self._trial(other), "oracle", "own"),
        )
        return [trial] if scenario == trial.scenario else [trial, self._trial(scenario)]

    def _small(self) -> list[Trial]:
        found = []
        for scenario in inputs.tiny(self.kinds, self.settings.device):
            trial = self._trial(scenario)
            if not trial.exactly("oracle", ORDINARY, self.precisions[0]).error:
                found.append(trial)
            if len(found) == 3:
                break
        return found

    def is_on(self, check: str) -> bool:
        """Whether a check counts."""
        return check not in self.settings.disabled

    # what fails

    def _sift(
        self, which: str, trial: Trial, cases: Sequence[InputCase], precision: Precision
    ) -> None:
        """Note at which of many inputs BEFORE or AFTER does not fail, where that is plain."""
        known = self._before if which == "before" else self._after
        fresh = [each for each in cases if (trial, precision.name, each.key) not in known]
        right = [*trial.screen.right(which, fresh, precision)]
        if which == "after" and right:  # all have the form of one
            alone = trial.outcome(which, right[0][0], precision)
            right = [] if any(self._form(trial, right[0][0], precision, alone)) else right
        for case, errors in right:
            known[trial, precision.name, case.key] = []
            if which == "after":
                self.record.add("eager", precision, *errors)

    def before_fails(self, trial: Trial, case: InputCase, precision: Precision) -> list[Problem]:
        """What BEFORE misses."""
        key = trial, precision.name, case.key
        if key not in self._before:
            self._before[key] = self._before_fails(trial, case, precision)
        return self._before[key]

    def _before_fails(self, trial: Trial, case: InputCase, precision: Precision) -> list[Problem]:
        outcome = trial.outcome("before", case, precision)
        if outcome.error:
            never_runs = bool(trial.outcome("before", ORDINARY, precision).error)
            return [Problem("raises", f"raises {outcome.error}")] if never_runs else []
        held = trial.hold(case, precision, outcome)
        if held is None:
            return []
        misses = [miss for miss in held.misses if miss.ratio > _NO_WORSE]
        if self.pair.changes_eps:
            misses = [miss for miss in misses if miss.check == "finite"]
        kept = self._kept(trial, case, precision) if misses else frozenset()
        return [_problem(miss, case) for miss in misses if _sort(miss) not in kept]

    def _kept(
        self, trial: Trial, case: InputCase, precision: Precision
    ) -> frozenset[tuple[str, bool]]:
        """What AFTER misses at an input as well: it is no reason for it that BEFORE does."""
        new = trial.outcome("after", case, precision)
        held = trial.hold(case, precision, new) if not new.error else None
        return (
            frozenset(_sort(m) for m in held.misses if m.ratio > _NO_WORSE) if held else frozenset()
        )

    def after_fails(self, trial: Trial, case: InputCase, precision: Precision) -> list[Problem]:
        """What AFTER misses in eager mode."""
        key = trial, precision.name, case.key
        if key not in self._after:
            self._after[key] = self._after_fails(trial, case, precision)
        return self._after[key]

    def is_finite_after(self, finding: Finding) -> bool:
        """Whether AFTER is finite at the input of a finding."""
        new = finding.trial.outcome("after", finding.case, finding.precision)
        made = (*new.values, *new.gradients)
        return not new.error and all(bool(each.isfinite().all()) for each in made)

    def _after_fails(self, trial: Trial, case: InputCase, precision: Precision) -> list[Problem]:
        new = trial.outcome("after", case, precision)
        if new.error:
            runs = not trial.outcome("before", case, precision).error
            raises = [Problem("raises", f"raises {new.error}")]
            return raises if runs and self.is_on("raises") else []
        lost = self._lost_guard(trial, case, precision) if self.pair.has_guard else []
        return lost or self.misses(trial, case, precision, new, "eager")

    def _lost_guard(self, trial: Trial, case: InputCase, precision: Precision) -> list[Problem]:
        """What is not finite any more, not even in float64, where a guard has kept it so."""
        old, new = (trial.exactly(which, case, precision) for which in ("guarded", "own"))
        if old.error or new.error or not self.is_on("finite"):
            return []
        for is_gradient, pairs in (
            (False, zip(old.values, new.values, strict=False)),
            (True, zip(old.gradients, new.gradients, strict=False)),
        ):
            for was, now in pairs:
                if bool(was.isfinite().all()) and not bool(now.isfinite().all()):
                    what = "a gradient" if is_gradient else "a result"
                    text = f"{what} is not finite where a guard of the old code has kept it so"
                    return [Problem("finite", text, is_gradient)]
        return []

    def misses(
        self, trial: Trial, case: InputCase, precision: Precision, new: ModeOutcome, mode: str
    ) -> list[Problem]:
        """What a result of AFTER misses."""
        found = list(self._form(trial, case, precision, new))
        plain = trial.screen.plainly(case, precision, new)
        if plain is not None:
            self.record.add(mode, precision, *plain)
            return found
        held = trial.hold(case, precision, new)
        if held is None:
            return found
        misses = [miss for miss in held.misses if self.is_on(miss.check)]
        hard = bool(misses) and (trial.is_hard(case, precision) or trial.is_faint(case, precision))
        left = [m for m in misses if not self._is_excused(m, trial, case, precision, hard)]
        if left and trial.is_at_pole(case, precision):
            return found
        if len(left) == len(misses):
            self.record.add(mode, precision, held.value_error, held.gradient_error)
        return found + [_problem(miss, case) for miss in left]

    def _is_excused(
        self, miss: Miss, trial: Trial, case: InputCase, precision: Precision, hard: bool
    ) -> bool:
        """Whether BEFORE was no better, where that is enough.

        It is for a rounding error that is not much larger than what is tolerated, and at most
        twice that of BEFORE, and for inputs so large that sums of them overflow, or so small that
        they have no digits and gradients by them overflow, or BEFORE has no number at all. What is
        not finite then needs no excuse: BEFORE may be finite because a guard of it cut the number
        off.
        Where only the size of a guard is another one, it is for any error that was as large before.
        """
        if miss.check == "finite" and trial.is_beyond_sums(case, precision):
            return True
        slight = miss.ratio <= _NO_WORSE
        resized = not self.is_on(SIZE) and self.guards_changed is not None
        if not (slight or hard or resized):
            return False
        overflows = miss.check == "finite" and miss.is_gradient
        if hard and (slight or overflows) and trial.is_tiny(case, precision):
            return True
        old = trial.outcome("before", case, precision)
        if hard and old.is_same(trial.outcome("after", case, precision)):
            return True
        faint = hard and trial.is_faint(case, precision)
        if faint and not (old.error or _is_finite(old)):  # be it in another dtype
            return True
        held = trial.hold(case, precision, old) if not old.error else None
        if held is None:
            return bool(old.error)
        if not held.is_finite(miss.is_gradient):
            return faint or (hard and miss.check == "finite")
        before = held.gradient_error if miss.is_gradient else held.value_error
        worst = before if resized and not slight else 2 * before
        return miss.ratio <= worst or (hard and before > 1)

    def _form(
        self, trial: Trial, case: InputCase, precision: Precision, new: ModeOutcome
    ) -> Iterator[Problem]:
        """Whether dtypes and shapes are those of BEFORE; its shapes in float64 if it raises.

        Those of an ordinary input, or of this one, where they depend on the numbers.
        """
        old = trial.outcome("before", ORDINARY, precision)
        key = trial, precision.name
        if key not in self._forms:
            exact = trial.exactly("oracle", ORDINARY, precision) if old.error else old
            self._forms[key] = exact
        want = self._forms[key]
        dtypes = [", ".join(short(v.dtype) for v in one.values) for one in (new, want)]
        if dtypes[0] != dtypes[1] and not old.error and self.is_on(DTYPE):
            yield Problem(DTYPE, f"the result is {dtypes[0]} instead of {dtypes[1]}")
        shapes = [", ".join(str(tuple(v.shape)) for v in one.values) for one in (new, want)]
        if shapes[0] != shapes[1] and self.is_on("shape"):
            here = trial.outcome("before", case, precision)
            if [v.shape for v in here.values] == [v.shape for v in new.values]:
                return
            yield Problem("shape", f"the shape is {shapes[0]} instead of {shapes[1]}")

    # the search

    def failure_before(self, precisions: Sequence[Precision] = ()) -> Finding | None:
        """How BEFORE fails, with the smallest input that shows it.

        In some precisions only small inputs are tried; without any, all inputs in all of them.
        """
        trials = *self.small, self.trials[0]
        for precision, trial in itertools.product(precisions or self.precisions, trials):
            if self._fails_small(trial, precision):
                wanted = (_is_infinite_value, _is_value)
                plainer = (
                    self._smallest_before(other, precision, kind)
                    for kind, other in itertools.product(wanted, trials)
                )
                found = next(filter(None, plainer), None)
                return found or self._smallest_before(trial, precision, _is_any)
        return None if precisions else self._structured_before()

    def _fails_small(self, trial: Trial, precision: Precision) -> bool:
        def fails(case: InputCase) -> bool:
            return bool(self.before_fails(trial, case, precision))

        self._sift("before", trial, small_cases(self.settings.seed, trial.scenario), precision)
        return first_small(fails, self.settings.seed, trial.scenario) is not None

    def _smallest_before(
        self, trial: Trial, precision: Precision, wanted: Callable[[Problem], bool]
    ) -> Finding | None:
        def problems(case: InputCase) -> list[Problem]:
            if wanted is _is_infinite_value and _is_finite(
                trial.outcome("before", case, precision)
            ):
                return []  # which is known without holding it against anything
            return [p for p in self.before_fails(trial, case, precision) if wanted(p)]

        case = smallest(lambda case: bool(problems(case)), self.settings.seed, trial.scenario)
        return None if case is None else Finding(trial, case, precision, problems(case)[0])

    def _structured_before(self) -> Finding | None:
        for precision, trial in itertools.product(self.precisions, self.trials):
            cases = self._fixed(trial, precision)
            self._sift("before", trial, cases, precision)
            for case in cases:
                for problem in self.before_fails(trial, case, precision):
                    return Finding(trial, case, precision, problem)
        return None

    def failure_after(self) -> Finding | None:
        """How AFTER fails in eager mode at fixed inputs, if it does.

        Most wrong code fails at any input, of some shape or number: one of each comes first.
        """
        for at in (slice(1), slice(1, None)):
            for trial, precision in itertools.product(self.trials, self.precisions):
                cases = self._fixed(trial, precision)[at]
                if len(cases) > 1:
                    self._sift("after", trial, cases, precision)
                for case in cases:
                    found = self.after_fails(trial, case, precision)
                    if found:
                        return Finding(trial, case, precision, found[0])
        return None

    def _fixed(self, trial: Trial, precision: Precision) -> Sequence[InputCase]:
        """The fixed inputs; fewer where a shape is only varied."""
        cases = inputs.structured(precision.dtype, self.settings.seed, trial.scenario)
        return cases if trial is self.trials[0] else cases[::_SPARSE]

    def smaller(self, finding: Finding) -> Finding:
        """The finding with the smallest input that shows it, if there is one."""
        precision, like = finding.precision, finding.problem

        def problems(trial: Trial, case: InputCase) -> list[Problem]:
            found = self.after_fails(trial, case, precision)
            return [p for p in found if (p.check, p.is_gradient) == (like.check, like.is_gradient)]

        for trial in (*self.small, finding.trial):
            self._sift("after", trial, small_cases(self.settings.seed, trial.scenario), precision)
            fails = partial(_any_of, problems, trial)
            case = smallest(fails, self.settings.seed, trial.scenario)
            if case is not None:
                return Finding(trial, case, precision, problems(trial, case)[0])
        return finding

    def attack(self) -> Finding | None:
        """How AFTER fails at inputs that Hypothesis makes up, if it does.

        They are the same for all precisions that hold as many bits.
        """
        trial = self.trials[0]
        widths: tuple[Literal[16, 32], ...] = (16, 32)
        for width in widths:
            group = [p for p in self.precisions if _bits(p) == width]

            def findings(case: InputCase, group: Sequence[Precision] = group) -> Iterator[Finding]:
                for precision in group:
                    for problem in self.after_fails(trial, case, precision):
                        yield Finding(trial, case, precision, problem)

            for precision in group:
                self._sift(
                    "after", trial, any_cases(self.settings, width, trial.scenario), precision
                )
            fails = partial(_yields, findings)
            case = any_numbers(fails, self.settings, width, trial.scenario) if group else None
            if case is not None:
                return next(findings(case))
        return None

    def doubt(self, *, absent: AbstractSet[str], is_apart: bool) -> str:
        """What no experiment shows, and may be wrong all the same."""
        if self.untried:
            return f"what is longer than {min(self.untried)} is not tried"
        if any(map(is_other, self.cut)):  # by little, perhaps, if it is a mean of much
            return "what is cut off is something else"
        found = doubt(self.pair, self.trials, self.constant, is_apart=is_apart)
        return found or of_axes(self.trials[0], absent)

    # guards and compiled modes

    def changed_too_much(self) -> Failure | None:
        """The failure of an eps that changes ordinary rows; notes what an allowed one changes."""
        if not self.pair.changes_eps:
            return None
        changes = [(std, self._change(std)) for std in (1.0, 0.1, 0.01)]
        words = ", ".join(f"from {old} to {new}" for old, new in self._eps)
        listed = ", ".join(f"{std:g} by {largest:.2g}" for std, (_, largest) in changes)
        text = f"changing eps {words} changes rows of standard deviation {listed}"
        if changes[0][1][0] > _MOST_CHANGE and self.is_on("guard"):
            return Failure("guard", text)
        self.record.notes.append(text)
        return None

    @property
    def _eps(self) -> list[tuple[str, str]]:
        """The eps of the norms of both."""
        both = (map(guards.text, guards.norm_eps(t)) for t in (self.pair.meant, self.pair.own))
        return [*zip(*both, strict=False)]

    @property
    def eps_changed(self) -> Changed | None:
        """Those that are others."""
        others = [pair for pair in self._eps if len({*pair}) > 1]
        if not self.pair.changes_eps or not others:
            return None
        return Changed(*(f"an eps of {', '.join(each)}" for each in zip(*others, strict=True)))

    @property
    def guards_changed(self) -> Changed | None:
        """The sizes of guards, where both have some and the new ones are others."""
        old, new = guards.sizes(self.pair.before), guards.sizes(self.pair.after)
        if not old or not new - old:
            return None
        return Changed(*(f"a guard of {', '.join(sorted(each))}" for each in (old, new)))

    def other_guards(self) -> Failure | None:
        """The failure of guards that are of another size."""
        changed = self.guards_changed
        if changed is None or not self.is_on(SIZE):
            return None
        return Failure(SIZE, f"{changed.before} became {changed.after}")

    def _change(self, std: float) -> tuple[float, float]:
        """The mean and the largest change of an output, for rows of a standard deviation."""
        trial = self.trials[0]
        many = Trial(self.pair, _many_rows(trial.scenario), self.settings.device)
        case = InputCase(std=std, seed=self.settings.seed, standardized=True)
        old, new = (many.exactly(which, case, EXACT) for which in ("meant", "oracle"))
        changes = [(a - b).abs() for a, b in zip(old.values, new.values, strict=True)]
        mean = max((float(change.mean()) for change in changes), default=0.0)
        return mean, max((float(change.max()) for change in changes), default=0.0)

    def failure_compiled(self) -> Finding | None:
        """How AFTER fails when it is compiled, if it does."""
        for mode in self.settings.modes:
            if mode == "eager":
                continue
            try:
                found = self._compiled(mode)
            except NotLiftedError:
                raise
            except Exception as error:
                self.record.not_run.append(mode)
                self.record.notes.append(not_compiled(mode, error))
                continue
            finally:
                with contextlib.suppress(Exception):  # it cannot even be imported, perhaps
                    torch._dynamo.reset()
            if found is not None:
                return found
        return None

    def _compiled(self, mode: str) -> Finding | None:
        trial = self.trials[0]
        runs = [p for p in self.precisions if not self._error(trial, p)]
        if not runs:
            return None
        cases = inputs.structured(torch.float16, self.settings.seed, trial.scenario)
        emulate = mode == "emulated"
        graph = Compiled(
            self.pair.after, trial.scenario, runs, self.settings.device, emulate_casts=emulate
        )
        for case in cases[:: max(1, len(cases) // _COMPILED_CASES)]:
            if any(trial.outcome("after", case, precision).error for precision in runs):
                continue  # judged in eager mode: a matrix without an inverse, which fails anywhere
            for precision, new in graph.run(case):
                for problem in self.misses(trial, case, precision, new, mode):
                    return Finding(trial, case, precision, problem, mode)
        return None

    def _error(self, trial: Trial, precision: Precision) -> str:
        return trial.outcome("after", ORDINARY, precision).error


def _problem(miss: Miss, case: InputCase) -> Problem:
    return Problem(miss.check, describe(miss, case), miss.is_gradient)


def _sort(miss: Miss) -> tuple[str, bool]:
    return miss.check, miss.is_gradient


def _is_infinite_value(problem: Problem) -> bool:
    return problem.check == "finite" and not problem.is_gradient


def _is_finite(outcome: ModeOutcome) -> bool:
    return all(bool(value.isfinite().all()) for value in outcome.values)


def _is_value(problem: Problem) -> bool:
    return problem.check in {"finite", "value"} and not problem.is_gradient


def _is_any(problem: Problem) -> bool:
    return True


def _any_of(
    problems: Callable[[Trial, InputCase], list[Problem]], trial: Trial, case: InputCase
) -> bool:
    return bool(problems(trial, case))


def _yields(findings: Callable[[InputCase], Iterator[Finding]], case: InputCase) -> bool:
    return next(findings(case), None) is not None


def _bits(precision: Precision) -> int:
    """How wide the numbers are that are made up for it: bfloat16 has the range of float32."""
    return 16 if precision.dtype is torch.float16 else 32


def _is_floating(scenario: Scenario, key: str) -> bool:
    return scenario.kinds[key] is InputKind.TENSOR


def _many_rows(scenario: Scenario) -> Scenario:
    """The scenario with many more rows, where its first axis is free."""
    widest = max((len(s) for s in scenario.shapes.values()), default=0)
    shapes = {
        key: (2**18 // math.prod(shape[1:]), *shape[1:]) if len(shape) == widest > 1 else shape
        for key, shape in scenario.shapes.items()
    }
    return replace(scenario, shapes=shapes)


def short(dtype: torch.dtype) -> str:
    """``float16`` of ``torch.float16``."""
    return str(dtype).removeprefix("torch.")
