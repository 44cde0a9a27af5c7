"""What the verifier says: verdicts, failures, and the figures behind them. Plain data, no torch."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field

from amp_lint.verify.obligations import Covered


class Verdict(enum.Enum):
    """The outcome of holding a change against its oracle."""

    PROVEN = "proven"
    REFUTED = "refuted"
    CHANGES = "changes behaviour"
    """What somebody may want: bf16 for fp16, another limit. It is no error, and never proven."""
    NOT_COMPARABLE = "not comparable"

    @property
    def exit_code(self) -> int:
        """0 for proven, 1 for refuted, 2 for not comparable, 3 for changes behaviour."""
        codes = {Verdict.PROVEN: 0, Verdict.REFUTED: 1, Verdict.NOT_COMPARABLE: 2}
        return codes.get(self, 3)


@dataclass(frozen=True, slots=True)
class Failure:
    """One way in which code misbehaves, with the smallest input that shows it."""

    check: str
    """The check of the verdict that failed: ``finite``, ``value``, ``raises``."""
    text: str
    """What happens, with numbers: ``-inf instead of -18 at logits [0, -18] (float16)``."""
    input: str = ""
    """The smallest input found, as a reader could type it; "" if there is none to give."""


@dataclass(frozen=True, slots=True)
class Measured:
    """How new code did in one mode and dtype."""

    mode: str
    """``eager``, ``compiled`` or ``emulated`` (compiled with the casts of eager mode)."""
    dtype: str
    """``float16``, ``bfloat16``, ``float32``; ``autocast float16`` inside a region; "" if none."""
    value_error: float | None = None
    """Largest error of a value, in units of what is tolerated (1 is the limit)."""
    gradient_error: float | None = None
    """The same of a gradient."""
    inputs: int = 0
    """How many inputs were tried."""


@dataclass(frozen=True, slots=True)
class Point:
    """One point of a picture: the error of old and new code at one input magnitude."""

    magnitude: float
    before: float
    """Relative error against the oracle; ``inf`` where the result is not finite."""
    after: float


@dataclass(frozen=True, slots=True)
class Changed:
    """What a change makes of a setting, on purpose as far as can be seen."""

    before: str
    """``the region casts to float16``"""
    after: str


@dataclass(frozen=True, slots=True)
class Judgement:
    """The verdict on one obligation, and what it rests on."""

    verdict: Verdict
    statement: str
    """What was shown, for a person: ``within 4 eps of float64 in values and gradients``."""
    before: Failure | None = None
    """How the old code fails; None if it does not (``no numeric effect``)."""
    after: Failure | None = None
    """The counterexample, if refuted."""
    measured: tuple[Measured, ...] = ()
    notes: tuple[str, ...] = ()
    """What a reader should know: an output that changes on purpose, a guard that is lost."""
    points: tuple[Point, ...] = ()
    axis: str = ""
    """What the magnitude of `points` is: ``gap between logits``, ``true gradient norm``."""
    not_run: tuple[str, ...] = ()
    """Modes that were asked for and could not be run; a note says why."""
    seconds: float = 0.0
    changes: Changed | None = None
    """What was changed, where that explains all that differs. A fix must not; others may."""


@dataclass(frozen=True, slots=True)
class Environment:
    """Where it was measured."""

    torch: str
    python: str
    device: str
    """``cpu``, or the name of the GPU."""
    cuda: bool
    """Whether it ran on CUDA; else CUDA's autocast policy was emulated on the CPU."""
    seed: int
    amp_lint: str = ""


@dataclass(frozen=True, slots=True)
class ProofSettings:
    """How to experiment."""

    device: str = "cpu"
    dtypes: tuple[str, ...] = ("float16", "bfloat16", "float32")
    modes: tuple[str, ...] = ("eager", "compiled", "emulated")
    seed: int = 0
    examples: int = 100
    """Inputs that Hypothesis tries for each dtype, besides the fixed ones."""
    disabled: frozenset[str] = field(default_factory=frozenset)
    """Checks left out of the verdict: only to show that each of them is needed."""


@dataclass(frozen=True, slots=True)
class Shown:
    """A judgement, and what it is about."""

    subject: str
    """``expression``, ``object``, ``step``, ``policy``, ``name``."""
    function: str
    line_before: int
    line_after: int
    before: str
    """The old code, as it was lifted."""
    after: str
    judgement: Judgement


@dataclass(frozen=True, slots=True)
class Hunk:
    """Lines that differ, and what is said of them, if the rest of the change is taken."""

    line_before: int
    """The first of them in the old text."""
    lines_before: int
    """How many they are there."""
    line_after: int
    lines_after: int
    verdict: Verdict
    code: str
    """A word that stays the same: ``shown``, ``same``, ``layout``; ``refuted``, ``changes``; or one
    of `Proof.codes`."""
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Proof:
    """The outcome of comparing two texts."""

    verdict: Verdict
    shown: tuple[Shown, ...]
    reasons: tuple[str, ...]
    """Why it is not comparable, one line each."""
    environment: Environment | None
    """None where nothing had to be run."""
    sha256_before: str
    sha256_after: str
    codes: tuple[str, ...] = ()
    """For each reason a word that stays the same: ``unowned``, ``region``, ``not-judged``."""
    coverage: tuple[Covered, ...] = ()
    """Every place at which the texts differ without AMP, and what answers for it."""
    hunks: tuple[Hunk, ...] = ()
    """The verdict on each run of lines that differ."""

    @property
    def not_run(self) -> tuple[str, ...]:
        """The modes that could not be run somewhere, so that nothing is proven of them."""
        return tuple(dict.fromkeys(m for shown in self.shown for m in shown.judgement.not_run))

    @property
    def exit_code(self) -> int:
        """That of the verdict; 2 also where a mode could not be run of what else is proven."""
        incomplete = self.verdict is Verdict.PROVEN and self.not_run
        return Verdict.NOT_COMPARABLE.exit_code if incomplete else self.verdict.exit_code

    @property
    def changes(self) -> tuple[Changed, ...]:
        """What is changed on purpose, if the change does that and is not refuted."""
        found = (s.judgement for s in self.shown if s.judgement.verdict is Verdict.CHANGES)
        return tuple(dict.fromkeys(one.changes for one in found if one.changes is not None))

    @property
    def fails_before(self) -> Failure | None:
        """How the old code fails; None if it was not seen to fail."""
        failures = (shown.judgement.before for shown in self.shown)
        return next((failure for failure in failures if failure is not None), None)

    @property
    def counterexample(self) -> Failure | None:
        """How the new code fails, if it is refuted."""
        failures = (shown.judgement.after for shown in self.shown)
        return next((failure for failure in failures if failure is not None), None)
