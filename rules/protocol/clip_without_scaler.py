"""AMP117: gradients are clipped only where no scaler steps."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from amp_lint.rule import Rule
from amp_lint.text.diagnostic import Diagnostic, Severity
from amp_lint.vocabulary import written
from amp_lint.vocabulary.meaning import Kind, Role
from amp_lint.vocabulary.table import words

if TYPE_CHECKING:
    from amp_lint.amp.events import Event
    from amp_lint.model import Model

_LIMITING = frozenset({Kind.CLIP, Kind.GRADIENT_READ, Kind.GRADIENT_WRITE, Kind.OPAQUE})
"""What may limit gradients, or is there for that."""
_MESSAGE = "these gradients are not clipped: the clip is in the branch without the scaler"
_HELP = "`unscale_` and clip before this step, too"


class ClipWithoutScaler(Rule):
    """A clip in the branch without mixed precision alone: with it, the setting does nothing."""

    code = "AMP117"
    name = "clip-without-scaler"
    severity = Severity.WARNING
    preview = True
    given = written.SCALED
    requires = (words(Role.SCALED_LOSS), words(Kind.STEP), words(Kind.CLIP))

    def check(self, model: Model) -> Iterator[Diagnostic]:
        """Report every step of a scaler whose counterpart without one has a clip before it."""
        scaled, plain, limited = _steps(model)
        for step in scaled.values():
            apart = (
                clip
                for other, clip in plain
                if other.optimizer == step.optimizer
                and model.flow.exclusive(step.place, other.place)
            )
            clip = next(apart, None)
            if clip is not None and id(step.node) not in limited:
                related = [(clip.place, "clipped here, without the scaler")]
                yield self.report(model, step.place, _MESSAGE, related, help=_HELP)


def _steps(model: Model) -> tuple[dict[int, Event], list[tuple[Event, Event]], set[int]]:
    """The steps of scalers, those without one and a clip before each, and what is limited.

    Of the last the ids of the nodes of steps.
    """
    scaled: dict[int, Event] = {}
    plain: list[tuple[Event, Event]] = []
    limited: set[int] = set()
    roots = model.steps.roots
    for cycle, truncated in ((each, root.truncated) for root in roots for each in root.cycles):
        before: list[Event] = []
        for event in cycle:
            if event.kind is Kind.STEP:
                clips = [each for each in before if each.kind is Kind.CLIP]
                if event.scaler is None:
                    plain += [(event, clip) for clip in clips]
                else:
                    scaled.setdefault(id(event.node), event)
                    limited |= {id(event.node)} if before or truncated else set()
            before += [event] if event.kind in _LIMITING else []
    return scaled, plain, limited
