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
    from amp_lint.model import Model

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
        from ._reads import LimitedSteps, Unmet

        steps, unmet = LimitedSteps(model), Unmet(model)
        for step in steps.scaled.values():
            apart = (
                clip
                for other, clip in steps.plain
                if other.optimizer == step.optimizer
                and model.flow.exclusive(step.place, other.place)
            )
            clip = next(apart, None)
            if clip is None or id(step.node) in steps.limited:
                continue
            if id(step.node) not in steps.cut or unmet.has_none(step):
                related = [(clip.place, "clipped here, without the scaler")]
                yield self.report(model, step.place, _MESSAGE, related, help=_HELP)
