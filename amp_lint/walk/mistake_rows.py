"""The GradScaler protocol as a table: which event, in which state of the gradients, is a mistake.

A row says what can be told from the events alone. What else has to hold, such as that two calls are
certain to come in one round, `amp_lint.walk.mistakes` asks of the program.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from amp_lint.mistake import Mistake
from amp_lint.vocabulary.frameworks import OWNERS, SKIPPING
from amp_lint.vocabulary.meaning import Kind
from amp_lint.walk.gradients import E, Gradients

Cause = Callable[[Gradients[Any], Any], Any]
"""The event that explains a mistake; None where an event is right in a state."""


@dataclass(frozen=True, slots=True)
class Row:
    """An event that is a mistake in some states."""

    mistake: Mistake
    kinds: frozenset[Kind]
    state: str
    """These states, in words."""
    cause: Cause
    through_scaler: bool | None = None
    """STEP: whether it is the scaler's, or the optimizer's own."""

    def judge(self, event: E, gradients: Gradients[E]) -> E | None:
        """The cause, if an event in this state is the mistake as far as events can tell."""
        if event.kind not in self.kinds:
            return None
        if self.through_scaler not in (None, event.scaler is not None):
            return None
        cause: E | None = self.cause(gradients, event)
        return cause


def _pending(gradients: Gradients[E], event: E) -> E | None:
    return gradients.pending if gradients.is_scaled else None


def _repeated(gradients: Gradients[E], event: E) -> E | None:
    key = event.optimizer or ""
    cause = gradients.unscaled.get(key) or gradients.stepped.get(key)
    return cause if cause and gradients.belongs(cause, event) else None


def _used(gradients: Gradients[E], event: E) -> E | None:
    key = event.optimizer or ""
    return gradients.stepped[key] if key in gradients.used else None


def _bypassed(gradients: Gradients[E], event: E) -> E | None:
    key = event.optimizer or ""
    done = key in gradients.stepped or key in gradients.unscaled
    done = done or event.framework is not None  # its step is by a scaler too
    return None if done or gradients.plain else gradients.scaled


def _unchecked(gradients: Gradients[E], event: E) -> E | None:
    key = event.optimizer or ""
    done = key in gradients.stepped or event.framework is not None
    return None if done or gradients.touched else gradients.unscaled.get(key)


def _stepped_again(gradients: Gradients[E], event: E) -> E | None:
    cause = gradients.stepped.get(event.optimizer or "")
    return cause if cause and gradients.belongs(cause, event) else None


def _stepped_directly(gradients: Gradients[E], event: E) -> E | None:
    return gradients.direct.get(event.optimizer or "") if gradients.scaled else None


def _other_scaler(gradients: Gradients[E], event: E) -> E | None:
    if event.scaler in gradients.scalers or gradients.plain:
        return None  # it may be the loss that was not scaled that it steps for
    return gradients.scaled


def _bare(gradients: Gradients[E], event: E) -> E | None:
    return gradients.bare if event.framework in OWNERS and gradients.owned is None else None


def _scaled_by_hand(gradients: Gradients[E], event: E) -> E | None:
    known = event.framework in OWNERS and gradients.owned is None
    return gradients.scaled if known else None


def _unprepared(gradients: Gradients[E], event: E) -> E | None:
    return gradients.loose if event.framework is None else None


def _empty(gradients: Gradients[E], event: E) -> E | None:
    done = gradients.unscaled or gradients.stepped or gradients.direct or gradients.touched
    sets_scale = event.optimizer is not None
    return None if done or sets_scale else gradients.scaled


def _scheduled(gradients: Gradients[E], event: E) -> E | None:
    by_framework = (each for each in gradients.direct.values() if each.framework in SKIPPING)
    skipping = next((each for each in by_framework if each.framework is not event.framework), None)
    if skipping is not None or (gradients.plain and not gradients.scaled):
        return skipping  # of which there is none where the scaler is not in use
    return next(iter(gradients.stepped.values()), None)


_CLIP = frozenset({Kind.CLIP})
_STEP = frozenset({Kind.STEP})
SCALED_CLIP = Row(Mistake.SCALED_CLIP, _CLIP, "scaled", _pending)
_READS = frozenset({Kind.GRADIENT_READ, Kind.GRADIENT_REPAIR})
SCALED_READ = Row(Mistake.SCALED_READ, _CLIP | _READS, "scaled", _pending)
SCALED_ADDITION = Row(Mistake.SCALED_READ, frozenset({Kind.GRADIENT_WRITE}), "scaled", _pending)
"""Where what is written is not scaled itself."""
STRICT_CLIP = Row(
    Mistake.STRICT_CLIP,
    _CLIP,
    "scaled or unscaled",
    lambda gradients, event: None if gradients.touched else gradients.pending,
)
LOOSE_CLIP = Row(
    Mistake.LOOSE_CLIP, _CLIP, "scaled by a framework", lambda gradients, event: gradients.loose
)
LOOSE_READ = Row(
    Mistake.SCALED_READ,
    _READS,
    "scaled by a framework",
    lambda gradients, event: gradients.loose,
)
UNCHECKED_STEP = Row(Mistake.UNCHECKED_STEP, _STEP, "unscaled", _unchecked, through_scaler=False)
"""A run sees by itself whether there was an inf."""
_CALLS = (
    Row(Mistake.REPEATED_UNSCALE, frozenset({Kind.UNSCALE}), "unscaled or stepped", _repeated),
    Row(
        Mistake.DOUBLE_STEP,
        _STEP,
        "stepped by the scaler",
        _used,
        through_scaler=False,
    ),
    Row(Mistake.BYPASS, _STEP, "scaled", _bypassed, through_scaler=False),
    Row(
        Mistake.DOUBLE_STEP,
        _STEP,
        "scaled, and stepped directly",
        _stepped_directly,
        through_scaler=True,
    ),
    Row(Mistake.NO_UPDATE, _STEP, "stepped by the scaler", _stepped_again, through_scaler=True),
    Row(
        Mistake.UNSCALED,
        _STEP,
        "plain, and not scaled",
        lambda gradients, event: None if gradients.scaled else gradients.plain,
        through_scaler=True,
    ),
    Row(
        Mistake.UNSCALED,
        _STEP,
        "scaled, and plain as well",
        lambda gradients, event: gradients.added if gradients.pending else None,
        through_scaler=True,
    ),
    Row(
        Mistake.MISMATCH,
        _STEP | {Kind.UNSCALE},
        "scaled by another scaler",
        _other_scaler,
        through_scaler=True,
    ),
    Row(
        Mistake.LEFT_EARLY,
        frozenset({Kind.LEAVE}),
        "scaled, and not stepped",
        lambda gradients, event: None if gradients.stepped else gradients.scaled,
    ),
    Row(
        Mistake.BARE_BACKWARD,
        _STEP,
        "plain, and the optimizer is a framework's",
        _bare,
        through_scaler=False,
    ),
    Row(
        Mistake.OWN_SCALER,
        _STEP,
        "scaled, and the optimizer is a framework's",
        _scaled_by_hand,
        through_scaler=True,
    ),
    Row(
        Mistake.UNPREPARED,
        _STEP,
        "scaled by a framework, and the optimizer is not its own",
        _unprepared,
        through_scaler=False,
    ),
    Row(
        Mistake.EMPTY_UPDATE,
        frozenset({Kind.UPDATE}),
        "scaled, and neither unscaled nor stepped",
        _empty,
    ),
    Row(Mistake.SCHEDULED, frozenset({Kind.SCHEDULE}), "stepped, or not", _scheduled),
)
CALLS = {kind: tuple(row for row in _CALLS if kind in row.kinds) for kind in Kind}
"""The rows of a protocol's calls, by the kind of event that they judge."""
ROWS = (SCALED_CLIP, SCALED_READ, STRICT_CLIP, LOOSE_CLIP, LOOSE_READ, UNCHECKED_STEP, *_CALLS)
"""Each mistake that one event is; an early update is a matter of two steps: `Path.updated`."""
