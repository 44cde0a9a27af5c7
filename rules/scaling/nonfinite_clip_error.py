"""AMP113: a clip raises at the overflow that the scaler is there to handle."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from amp_lint.edit import edits
from amp_lint.mistake import Account, At, Mistake
from amp_lint.rule import Rule
from amp_lint.text.diagnostic import Applicability, Diagnostic, Fix, Severity
from amp_lint.vocabulary import written
from amp_lint.vocabulary.meaning import Kind, Part, Role
from amp_lint.vocabulary.table import words

if TYPE_CHECKING:
    from amp_lint.model import Model

    from ._strict_clips import StrictClip

MESSAGE = (
    "`error_if_nonfinite=True` ends the run at the first overflow, by which a scaler finds its "
    "scale"
)
_ASKED = written.ANOMALY | written.NOT_FINITE
_HELP, _SCALED = "leave it out, or pass False", "the scaled loss may overflow here"


class NonfiniteClipError(Rule):
    """A clip of scaled or unscaled gradients that must not be inf."""

    code = "AMP113"
    name = "nonfinite-clip-error"
    severity = Severity.ERROR
    fixes = (Applicability.UNSAFE,)
    given = written.SCALED
    requires = (words(Kind.CLIP, part=Part.STRICT) | _ASKED, words(Role.SCALED_LOSS))
    requires_unless_preview = (words(Kind.CLIP, part=Part.STRICT),)
    pattern = written.REFUSING
    observed = (Account(Mistake.STRICT_CLIP, MESSAGE, _HELP, {At.CAUSE: _SCALED}),)

    def check(self, model: Model) -> Iterator[Diagnostic]:
        """Report the argument of every such clip, and anomaly mode, which raises at NaN."""
        from . import _anomaly, _refusals
        from ._strict_clips import StrictClips

        ended = model.part(_refusals.Refusals).all()
        raising = [(*pair, _anomaly.RAISES, _anomaly.LOOK) for pair in _anomaly.anomalies(model)]
        raising += [(*pair, _refusals.ENDS, _refusals.GO_ON) for pair in ended]
        for node, backward, message, help in raising:
            found = self.report(model, node, message, [(backward.node, _SCALED)], help=help)
            yield replace(found, severity=Severity.WARNING, preview=True)
        for clip in model.part(StrictClips).all:
            related = [(clip.backward.node, _SCALED)]
            fix = _fix(model, clip)
            yield self.report(model, clip.argument, MESSAGE, related, fix, help=_HELP)


def _fix(model: Model, clip: StrictClip) -> Fix | None:
    """Remove the keyword; a positional argument becomes False, for others may follow it."""
    if clip.argument.keyword is None:
        edit = edits.replace_node(model.tree, clip.argument.value, "False")
    else:
        removed = edits.remove_argument(model.tree, clip.call, clip.argument)
        if removed is None:
            return None
        edit = removed
    return Fix("Let the scaler skip the step", (edit,), Applicability.UNSAFE)
