"""Does a new expression compute what the old one was meant to, without its failures?

The oracle is the old expression with its guards erased, in float64. The new one is tried in every
dtype and mode, with fixed inputs and with inputs that Hypothesis looks for; the old one must be
seen to fail, in eager mode, with the smallest input that shows it.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import math
import time
import warnings
from collections.abc import Callable, Hashable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Literal, TypeVar

import torch

from amp_lint.verify.experiments import guards, inputs
from amp_lint.verify.experiments.doubts import doubt
from amp_lint.verify.experiments.failures import describe, setting, shown_input
from amp_lint.verify.experiments.inputs import InputCase, InputKind, Scenario
from amp_lint.verify.experiments.modes import (
    EXACT,
    Compiled,
    ModeOutcome,
    Precision,
    not_compiled,
    precisions,
)
from amp_lint.verify.experiments.names import CASTS
from amp_lint.verify.experiments.operations import NotLiftedError
from amp_lint.verify.experiments.prepare import Prepared, prepare
from amp_lint.verify.experiments.search import (
    any_cases,
    any_numbers,
    first_small,
    small_cases,
    smallest,
)
from amp_lint.verify.experiments.sweep import sweep
from amp_lint.verify.experiments.tolerance import Miss
from amp_lint.verify.experiments.trial import Pair, Trial, pair
from amp_lint.verify.experiments.variants import is_other, of_axes
from amp_lint.verify.obligations import Expression
from amp_lint.verify.proof import Changed, Failure, Judgement, Measured, ProofSettings, Verdict
from amp_lint.verify.terms import Input, Op, Term, walk

T = TypeVar("T")

_MOST_SCENARIOS = 10
_MOST_BOUNDS = 2
_LEAST_BOUND = 3
"""The least length at which something is cut off that the first inputs may not reach."""
_DTYPE = "dtype"
_PRECISION = "precision"
"""Left out, a region may round whatever is computed in it to its dtype."""
_SIZE = "size"
_RANK = "rank"
"""Left out, only inputs of as many axes are tried as are first found to have a meaning."""
_OF_AXES = ("a function of any number of axes", "the same function of few axes alone")
_WIDE = "float32"
_ORDINARY = InputCase(std=1.0)
_ANOTHER_SEED = 12345
_MOST_CHANGE = 1e-3
"""How much of an ordinary row an eps may change."""
_SAME_DTYPE = "to have the same dtype, but got"
"""What torch says of a product of two dtypes."""
_NO_WORSE = 16.0
"""Errors up to this are not held against new code if the old code had them as well."""
_COMPILED_CASES = 24
_ITSELF = (
    "for some inputs the old code has no finite value, not even without limits to the exponent: "
    "there the new code is held against itself in float64"
)
_SPARSE = 4
"""Of the fixed inputs, one in so many is tried where shapes and plain inputs are varied."""


def judge(obligation: Expression, settings: ProofSettings) -> Judgement:
    """The verdict on one changed expression. Errors of torch in its code are findings."""
    return Examination(obligation, settings).judgement()


class Examination:
    """One changed expression. What is not asked for is not tried."""

    def __init__(
        self, obligation: Expression, settings: ProofSettings, *, is_apart: bool = False
    ) -> None:
        """Prepare what can be tried.

        Args:
            obligation: what is to be judged.
            settings: how.
            is_apart: whether inputs stand for what is computed, and so may be infinite.
        """
        self._is_apart = is_apart
        self._began = time.perf_counter()
        self._obligation, self._settings = obligation, settings
        self._not_lifted = ""
        with self._noting():
            prepared = prepare(obligation.before, obligation.after)
            self._experiment = Experiment(prepared, settings)

    @contextlib.contextmanager
    def _noting(self) -> Iterator[None]:
        """Notes that something is not run, and why."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                yield
            except NotLiftedError as error:
                self._not_lifted = str(error)

    @property
    def is_comparable(self) -> bool:
        """Whether all that was tried so far can be run."""
        return not self._not_lifted

    @property
    def loses_guard(self) -> bool:
        """Whether the new code leaves a guard out: what it is of must be looked at then."""
        return self.is_comparable and self._experiment.pair.loses_guard

    @property
    def is_repair(self) -> bool:
        """Whether the old code was seen to fail, and the new one was not."""
        if self._is_apart and self._before is None:  # most such levels end here, at a low price
            return False
        if self._refuted_at_once is not None or self._before is None:
            return False
        return self.verdict is Verdict.PROVEN

    @property
    def verdict(self) -> Verdict:
        """The verdict of eager mode."""
        refuted = self._refuted_at_once or self._refuted_by_search
        if not self.is_comparable or (refuted is None and self._doubt) or self._mixed:
            return Verdict.NOT_COMPARABLE
        return Verdict.PROVEN if refuted is None else Verdict.REFUTED

    @property
    def is_no_worse(self) -> bool:
        """Whether eager mode shows nothing against the new code that is not as it was."""
        if self.verdict is not Verdict.REFUTED:
            return self.verdict is Verdict.PROVEN
        found = self._refuted_at_once or self._refuted_by_search
        return isinstance(found, Finding) and found.is_as_before

    @functools.cached_property
    def _mixed(self) -> str:
        """That a cast meets what was not cast, where all else has a low precision by itself.

        In a region autocast casts both; whether the code is run without one is not known.
        """
        found = self._refuted_at_once or self._refuted_by_search
        if not isinstance(found, Finding) or found.precision.autocast:
            return ""
        text, alone = found.problem.text, found.precision.name
        return f"{text}, if all is in {alone} without autocast" if _SAME_DTYPE in text else ""

    @functools.cached_property
    def _doubt(self) -> str:
        """Why the new code is not proven, though nothing was found against it."""
        absent = frozenset(self._obligation.absent)
        asked = partial(Experiment.doubt, absent=absent, is_apart=self._is_apart)
        return self._tried(asked) or ""

    @property
    def is_in_doubt(self) -> bool:
        """Whether all that was tried is right, and something else may be wrong."""
        return self.verdict is Verdict.NOT_COMPARABLE and self.is_comparable

    @functools.cached_property
    def _refuted_at_once(self) -> Failure | Finding | None:
        """Why the new code is wrong, by fixed inputs."""
        changed = self._tried(Experiment.changed_too_much)
        failed = changed or self._tried(Experiment.failure_after)
        return failed or self._tried(Experiment.other_guards)

    @functools.cached_property
    def _refuted_by_search(self) -> Failure | Finding | None:
        """Why it is wrong, by inputs that are looked for."""
        return self._tried(Experiment.attack)

    @functools.cached_property
    def _before(self) -> Finding | None:
        """How the old code fails; apart from what both compute, where the range is small alone."""
        if self._is_apart:
            return self._tried(lambda one: one.failure_before(one.precisions[:1]))
        return self._tried(Experiment.failure_before)

    def _tried(self, what: Callable[[Experiment], T | None]) -> T | None:
        with self._noting():
            return what(self._experiment) if self.is_comparable else None
        return None

    def judgement(self) -> Judgement:
        """The verdict of all modes, with figures."""
        found = None
        if self.verdict is Verdict.REFUTED:
            found = self._tried(self._refutation)
        elif self.verdict is Verdict.PROVEN:
            found = self._tried(self._proof)
        if found is None or not self.is_comparable:
            found = Judgement(
                Verdict.NOT_COMPARABLE, self._not_lifted or self._mixed or self._doubt
            )
        return replace(found, seconds=time.perf_counter() - self._began)

    def _refutation(self, experiment: Experiment) -> Judgement:
        """How the old code fails is looked at shortly: it is not what decides."""
        at_once = self._refuted_at_once
        found = at_once or self._refuted_by_search
        if isinstance(at_once, Finding):
            found = experiment.smaller(at_once)
        failure = found.failure() if isinstance(found, Finding) else found
        before = experiment.failure_before(experiment.precisions[:1])
        if isinstance(found, Finding) and found.is_as_before:
            before = found
        judged = self._described(before, failure)
        changes = self._other_rounding(at_once) if isinstance(at_once, Finding) else None
        if isinstance(at_once, Failure) and self._holds_without(_SIZE):
            changes = experiment.guards_changed
        refilled = self._refilled
        if refilled is None:
            return replace(judged, changes=changes)
        if refilled.is_in_doubt:
            return Judgement(Verdict.NOT_COMPARABLE, refilled._doubt)
        return replace(judged, changes=changes or self._other_fill(refilled.is_no_worse))

    @functools.cached_property
    def _refilled(self) -> Examination | None:
        """The new code with the old fill, where both give away what they mask: None else."""
        pair = self._experiment.pair
        old, new = guards.fill(pair.before), guards.fill(pair.after)
        if old is None or new is None or old == new:
            return None
        alike = Expression(self._obligation.place, pair.before, guards.with_fill(pair.after, old))
        return Examination(alike, self._settings)

    def _other_fill(self, is_right: bool) -> Changed | None:
        """What is given away where it is masked, if nothing else is wrong: as good as none."""
        pair = self._experiment.pair
        old, new = guards.fill(pair.before), guards.fill(pair.after)
        if old is None or new is None or not is_right:
            return None
        return Changed(*(f"what is masked is {guards.text(each)}" for each in (old, new)))

    def _other_rounding(self, found: Finding) -> Changed | None:
        """The dtypes of the result, or of what it is made of, if nothing else is another one.

        A result may become wider; or narrower where autocast or an option decides that, and not
        the code.
        """
        precision = found.precision
        if found.problem.check == "value":
            return self._other_function(found)
        if found.problem.check != _DTYPE:
            return None
        outcomes = (found.trial.outcome(w, _ORDINARY, precision) for w in ("before", "after"))
        old, new = ([value.dtype for value in one.values] for one in outcomes)
        narrower = any(b.itemsize < a.itemsize for a, b in zip(old, new, strict=False))
        decided = precision.autocast or _casts_by_option(self._experiment.pair.before)
        rounds = [_PRECISION] if precision.autocast else []
        if narrower and not decided:
            return None
        texts = (", ".join(map(_short, each)) for each in (old, new))
        results = [f"a result in {text} ({precision.name})" for text in texts]
        if self._holds_without(_DTYPE, *rounds):
            return Changed(*results)
        if not self._counts_axes or not self._holds_without(_DTYPE, *rounds, _RANK):
            return None
        return Changed(*map(", ".join, zip(results, _OF_AXES, strict=True)))

    @property
    def _counts_axes(self) -> bool:
        """Whether one of both expressions is a loss of classes, or an average of a batch."""
        pair = self._experiment.pair
        return any(map(inputs.counts_axes, (pair.before, pair.after)))

    def _other_function(self, found: Finding) -> Changed | None:
        """What a region rounds, and for how many axes it is right, if nothing else is wrong.

        A loss of classes has them on its second axis, which is the last one only of two; an average
        of a batch is one of rows as well only then.
        """
        precision = found.precision
        ranks = {_RANK} if self._counts_axes else set()
        if not precision.autocast and not (ranks and found.trial.is_other):
            return None
        if not self._holds_without(_PRECISION, *ranks):
            return None
        dtypes = _WIDE, _short(precision.dtype)
        rounding = [f"a result rounded to {each} ({precision.name})" for each in dtypes]
        if not ranks or self._holds_without(_PRECISION):
            return Changed(*rounding)
        alone = self._holds_without(_RANK)
        pairs = zip(rounding, _OF_AXES, strict=True)
        return Changed(*(_OF_AXES if alone else map(", ".join, pairs)))

    def _holds_without(self, *checks: str) -> bool:
        """Whether the new code is right but for some checks, or fails as the old one does."""
        settings = replace(self._settings, disabled=self._settings.disabled | {*checks})
        return Examination(self._obligation, settings).is_no_worse

    def _proof(self, experiment: Experiment) -> Judgement:
        changed = experiment.eps_changed
        mends = self._before is not None and experiment.is_finite_after(self._before)
        if changed is not None and not mends and experiment.is_on(_SIZE):
            failure = Failure(_SIZE, f"{changed.before} became {changed.after}")
            return replace(self._described(None, failure), changes=changed)
        compiled = experiment.failure_compiled()
        return self._described(self._before, compiled.failure() if compiled is not None else None)

    def _described(self, before: Finding | None, refuted: Failure | None) -> Judgement:
        experiment = self._experiment
        shown = before.precision if before is not None else experiment.precisions[0]
        incoming = before.case.cotangent if before is not None else "one-hot"
        axis, points = sweep(experiment.trials[0], shown, incoming)
        return Judgement(
            Verdict.PROVEN if refuted is None else Verdict.REFUTED,
            _statement(experiment, before is not None, refuted),
            before.failure() if before is not None else None,
            refuted,
            tuple(experiment.record.errors.values()),
            tuple(_notes(experiment)),
            points,
            axis,
            tuple(experiment.record.not_run),
        )


def _casts_by_option(term: Term) -> bool:
    """Whether there is a cast to a dtype that is no literal."""
    casts = (part for part in walk(term) if isinstance(part, Op) and part.name in CASTS)
    given = (value for cast in casts for name, value in cast.keywords if name == "dtype")
    return any(isinstance(value, Input) for value in given)


@dataclass(slots=True)
class Record:
    """Figures and findings, collected while inputs are tried."""

    errors: dict[tuple[str, str], Measured] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    not_run: list[str] = field(default_factory=list)
    """The modes that could not be run."""

    def add(self, mode: str, precision: Precision, value: float, gradient: float) -> None:
        """Count one input."""
        key = mode, precision.name
        old = self.errors.get(key, Measured(*key, 0.0, 0.0, 0))
        self.errors[key] = Measured(
            *key,
            max(old.value_error or 0.0, value),
            max(old.gradient_error or 0.0, gradient),
            old.inputs + 1,
        )


@dataclass(frozen=True, slots=True)
class Problem:
    """What is wrong at one input."""

    check: str
    text: str
    is_gradient: bool = False


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


@dataclass(frozen=True, slots=True)
class Finding:
    """An input at which code fails."""

    trial: Trial
    case: InputCase
    precision: Precision
    problem: Problem
    mode: str = "eager"

    @property
    def is_as_before(self) -> bool:
        """Whether both programs give the same numbers at the input."""
        old, new = (
            self.trial.outcome(which, self.case, self.precision) for which in ("before", "after")
        )
        return not old.error and not new.error and old.is_same(new)

    def failure(self) -> Failure:
        """For the record."""
        scenario = self.trial.scenario
        where = "" if self.mode == "eager" else f", {self.mode}"
        text = f"{self.problem.text}{setting(scenario)} ({self.precision.name}{where})"
        shown = shown_input(scenario, self.case, self.precision)
        return Failure(self.problem.check, text, shown)


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
        coarse = _PRECISION in self.settings.disabled
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
            outcome = self._trial(scenario).exactly("oracle", _ORDINARY, self.precisions[0])
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
        others = found[1:] if self.is_on(_RANK) else []
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
        cases = _ORDINARY, replace(_ORDINARY, seed=_ANOTHER_SEED)
        old, new = (trial.exactly("oracle", case, EXACT).values for case in cases)
        pairs = zip(old, new, strict=False)
        return all(one.shape == other.shape and one.equal(other) for one, other in pairs)

    def _runs(self, trial: Trial, *forms: str) -> bool:
        """Whether forms run in a trial; one that is too large does not."""
        try:
            return not any(trial.exactly(f, _ORDINARY, self.precisions[0]).error for f in forms)
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
            if not trial.exactly("oracle", _ORDINARY, self.precisions[0]).error:
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
            never_runs = bool(trial.outcome("before", _ORDINARY, precision).error)
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
        resized = not self.is_on(_SIZE) and self.guards_changed is not None
        if not (slight or hard or resized):
            return False
        overflows = miss.check == "finite" and miss.is_gradient
        if hard and (slight or overflows) and trial.is_tiny(case, precision):
            return True
        old = trial.outcome("before", case, precision)
        if hard and old.is_same(trial.outcome("after", case, precision)):
            return True
        without = hard and (miss.check == "finite" or trial.is_faint(case, precision))
        if without and not (old.error or _is_finite(old)):  # be it in another dtype
            return True
        held = trial.hold(case, precision, old) if not old.error else None
        if held is None:
            return bool(old.error)
        if not held.is_finite(miss.is_gradient):
            return without
        before = held.gradient_error if miss.is_gradient else held.value_error
        worst = before if resized and not slight else 2 * before
        return miss.ratio <= worst or (hard and before > 1)

    def _form(
        self, trial: Trial, case: InputCase, precision: Precision, new: ModeOutcome
    ) -> Iterator[Problem]:
        """Whether dtypes and shapes are those of BEFORE; its shapes in float64 if it raises.

        Those of an ordinary input, or of this one, where they depend on the numbers.
        """
        old = trial.outcome("before", _ORDINARY, precision)
        key = trial, precision.name
        if key not in self._forms:
            exact = trial.exactly("oracle", _ORDINARY, precision) if old.error else old
            self._forms[key] = exact
        want = self._forms[key]
        dtypes = [", ".join(_short(v.dtype) for v in one.values) for one in (new, want)]
        if dtypes[0] != dtypes[1] and not old.error and self.is_on(_DTYPE):
            yield Problem(_DTYPE, f"the result is {dtypes[0]} instead of {dtypes[1]}")
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
        if changed is None or not self.is_on(_SIZE):
            return None
        return Failure(_SIZE, f"{changed.before} became {changed.after}")

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
        return trial.outcome("after", _ORDINARY, precision).error


def _statement(experiment: Experiment, fails: bool, refuted: Failure | None) -> str:
    if refuted is not None:
        return "not the function that the old code was meant to compute, or not everywhere"
    right = "finite and within 4 eps of float64, values and gradients"
    return right if fails else f"no numeric effect: the old code does not fail; {right}"


def _notes(experiment: Experiment) -> Iterator[str]:
    yield from experiment.record.notes
    if any(trial.holds_itself for trial in (*experiment.trials, *experiment.small)):
        yield _ITSELF
    if experiment.pair.loses_guard:
        yield "a guard of the old code is gone: results that it cut off are not cut off any more"


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


def _short(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
