"""Does a new expression compute what the old one was meant to, without its failures?

The oracle is the old expression with its guards erased, in float64. The new one is tried in every
dtype and mode, with fixed inputs and with inputs that Hypothesis looks for; the old one must be
seen to fail, in eager mode, with the smallest input that shows it.
"""

from __future__ import annotations

import contextlib
import functools
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import TypeVar

from amp_lint.verify.experiments import guards, inputs
from amp_lint.verify.experiments.expressions.experiment import ORDINARY, Experiment, short
from amp_lint.verify.experiments.expressions.findings import DTYPE, PRECISION, RANK, SIZE, Finding
from amp_lint.verify.experiments.names import CASTS
from amp_lint.verify.experiments.operations import NotLiftedError
from amp_lint.verify.experiments.prepare import prepare
from amp_lint.verify.experiments.sweep import sweep
from amp_lint.verify.obligations import Expression
from amp_lint.verify.proof import Changed, Failure, Judgement, ProofSettings, Verdict
from amp_lint.verify.terms import Input, Op, Term, walk

T = TypeVar("T")
_OF_AXES = ("a function of any number of axes", "the same function of few axes alone")
_WIDE = "float32"
_SAME_DTYPE = "to have the same dtype, but got"
"""What torch says of a product of two dtypes."""
_ITSELF = (
    "for some inputs the old code has no finite value, not even without limits to the exponent: "
    "there the new code is held against itself in float64"
)


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
        if isinstance(at_once, Failure) and self._holds_without(SIZE):
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
        if found.problem.check != DTYPE:
            return None
        outcomes = (found.trial.outcome(w, ORDINARY, precision) for w in ("before", "after"))
        old, new = ([value.dtype for value in one.values] for one in outcomes)
        narrower = any(b.itemsize < a.itemsize for a, b in zip(old, new, strict=False))
        decided = precision.autocast or _casts_by_option(self._experiment.pair.before)
        rounds = [PRECISION] if precision.autocast else []
        if narrower and not decided:
            return None
        texts = (", ".join(map(short, each)) for each in (old, new))
        results = [f"a result in {text} ({precision.name})" for text in texts]
        if self._holds_without(DTYPE, *rounds):
            return Changed(*results)
        if not self._counts_axes or not self._holds_without(DTYPE, *rounds, RANK):
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
        ranks = {RANK} if self._counts_axes else set()
        if not precision.autocast and not (ranks and found.trial.is_other):
            return None
        if not self._holds_without(PRECISION, *ranks):
            return None
        dtypes = _WIDE, short(precision.dtype)
        rounding = [f"a result rounded to {each} ({precision.name})" for each in dtypes]
        if not ranks or self._holds_without(PRECISION):
            return Changed(*rounding)
        alone = self._holds_without(RANK)
        pairs = zip(rounding, _OF_AXES, strict=True)
        return Changed(*(_OF_AXES if alone else map(", ".join, pairs)))

    def _holds_without(self, *checks: str) -> bool:
        """Whether the new code is right but for some checks, or fails as the old one does."""
        settings = replace(self._settings, disabled=self._settings.disabled | {*checks})
        return Examination(self._obligation, settings).is_no_worse

    def _proof(self, experiment: Experiment) -> Judgement:
        changed = experiment.eps_changed
        mends = self._before is not None and experiment.is_finite_after(self._before)
        if changed is not None and not mends and experiment.is_on(SIZE):
            failure = Failure(SIZE, f"{changed.before} became {changed.after}")
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
