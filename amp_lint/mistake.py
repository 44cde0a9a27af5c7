"""What can be wrong in a training step, and what a rule says of a mistake that a run has shown.

The linter finds mistakes on paths through the code, a run in what happens. They are the same.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from string import Formatter
from typing import NamedTuple


class Mistake(enum.Enum):
    """What is wrong."""

    SCALED_CLIP = "gradients are clipped that are still scaled"
    SCALED_READ = "gradients are measured that are still scaled"
    STRICT_CLIP = "a clip raises where the scaler would skip the step"
    REPEATED_UNSCALE = "unscale_ twice before update"
    BYPASS = "the optimizer steps on scaled gradients"
    UNCHECKED_STEP = "the optimizer steps on inf, where the scaler would have skipped the step"
    DOUBLE_STEP = "stepped by the scaler and directly"
    EMPTY_UPDATE = "update before anything was unscaled or stepped"
    NO_UPDATE = "two steps without update"
    LEFT_EARLY = "left before step and update"
    EARLY_UPDATE = "update before the last step"
    UNSCALED = "a loss that was not scaled, then a step that divides by the scale"
    MISMATCH = "scaled by one scaler, stepped by another"
    BARE_BACKWARD = "the loss of a framework's optimizer is not scaled"
    OWN_SCALER = "a framework's optimizer is stepped by a scaler that is not the framework's"
    UNPREPARED = "a framework scaled the loss, and did not prepare the optimizer"
    LOOSE_CLIP = "gradients are clipped that a framework scaled"
    SCHEDULED = "the scheduler steps, whether or not the optimizer did"
    # what a run sees, and the linter in other ways than by the order of events
    ADDED_SCALED = "scaled gradients are added to unscaled ones"
    GIVEN_UP = "unscaled gradients are cleared, and the scaler is not updated"
    NEVER_UPDATED = "the scaler steps, and is never updated"
    NEW_SCALER = "a new scaler for an optimizer that another one from there has stepped"
    LATE_SCALE = "a scaled loss is divided by the scale of the next step"
    BFLOAT16_SCALER = "a scaler is on, and every region is bfloat16"
    NO_SCALER = "a float16 forward whose loss nothing scales"
    UNSAVED_SCALER = "a checkpoint with the optimizer's state and not the scaler's"
    BACKWARD_IN_REGION = "backward under autocast"
    STEP_IN_REGION = "a step in a region that goes on with another forward"
    HALF_PARAMETERS = "an optimizer steps float16 parameters"
    MISPLACED_ARGUMENT = "an argument that lands in another parameter"
    UNENTERED_REGION = "a region that is made and thrown away"
    UNUSED_REGION = "a region that is made and kept, in a run that enters none"
    REGION_LEFT_LATE = "a region that is left after one that was entered before it"
    REGION_LEAKS = "a region of a generator that waits, in which others compute"
    BODY_OUTSIDE = "a region around a call whose body runs later"
    REENTERED_REGION = "a region that is entered while it is active"
    # what sampled steps show of single operations
    LOG_OF_SOFTMAX = "the logarithm of a softmax"
    BOUNDED_LOG_OF_SOFTMAX = "the logarithm of a softmax, where float32 still holds it"
    SUMMED_SQUARES = "squares in float16 that are inf, and summed"
    SMALL_NORM_EPS = "a norm layer in float16 whose eps is too small"
    VANISHING_EPS = "an eps that is 0 in the dtype of what it is added to"
    OVERFLOWING_CONSTANT = "a constant that makes inf"
    ROUNDED_POSITIONS = "positions that low precision does not tell apart"
    LOW_LOGITS = "log-probabilities in low precision"
    STUCK_AVERAGE = "a moving average in low precision that does not move"
    # what only a run sees
    FIRST_NONFINITE = "the first inf or NaN of a step"
    GIVEN_NONFINITE = "inf or NaN in what a step is given"
    UNSEEN_NONFINITE = "a loss that is not finite, in a step that was not looked at"
    CAST_OVERFLOW = "a cast to float16 that makes inf"
    SCALED_OVERFLOW = "a float16 loss that is inf when it is scaled"
    GRADIENT_UNDERFLOW = "gradients that are 0 in float16"
    LOST_UPDATES = "updates that move no parameter"
    SCALE_COLLAPSE = "the scale falls below 1"
    STALE_RESUME = "the optimizer's state is loaded, and the scaler's is not"


SAMPLED = frozenset(
    {
        Mistake.LOG_OF_SOFTMAX, Mistake.BOUNDED_LOG_OF_SOFTMAX, Mistake.SUMMED_SQUARES,
        Mistake.SMALL_NORM_EPS, Mistake.VANISHING_EPS, Mistake.OVERFLOWING_CONSTANT,
        Mistake.ROUNDED_POSITIONS, Mistake.LOW_LOGITS, Mistake.STUCK_AVERAGE,
        Mistake.FIRST_NONFINITE, Mistake.GIVEN_NONFINITE, Mistake.CAST_OVERFLOW,
        Mistake.SCALED_OVERFLOW,
    }
)  # fmt: skip
"""What a run sees only in steps that it looks at closely."""


class At(enum.Enum):
    """The places of a mistake in a run."""

    EVENT = enum.auto()
    """Where it happens."""
    CAUSE = enum.auto()
    """What it is a mistake after."""
    STEP = enum.auto()
    """The step that it spoils."""
    MADE = enum.auto()
    """Where the object was made that it is about."""
    REGION = enum.auto()
    """Where the region begins that it is in."""
    STATE = enum.auto()
    """Where the state was asked for that is saved."""


class Account(NamedTuple):
    """What a rule says of a mistake that a run has shown."""

    mistake: Mistake
    message: str
    """A format for what was measured: `numbers` of the observation."""
    help: str
    related: Mapping[At, str] = {}
    """What the other places show."""
    at: At = At.EVENT
    """The main place."""
    warns: bool = False
    """Whether it is a warning, where its rule reports errors."""

    @property
    def needed(self) -> frozenset[str]:
        """The numbers without which nothing can be said so."""
        return frozenset(name for _, name, _, _ in Formatter().parse(self.message) if name)
