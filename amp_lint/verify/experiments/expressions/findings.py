"""What is found out of an expression while inputs are tried."""

from __future__ import annotations

from dataclasses import dataclass, field

from amp_lint.verify.experiments.failures import setting, shown_input
from amp_lint.verify.experiments.inputs import InputCase
from amp_lint.verify.experiments.modes import (
    Precision,
)
from amp_lint.verify.experiments.trial import Trial
from amp_lint.verify.proof import Failure, Measured

DTYPE = "dtype"
PRECISION = "precision"
"""Left out, a region may round whatever is computed in it to its dtype."""
SIZE = "size"
RANK = "rank"
"""Left out, only inputs of as many axes are tried as are first found to have a meaning."""


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
