"""AMP502: gradients are clipped that a framework scaled and has not unscaled."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from amp_lint.rule import Rule
from amp_lint.text.diagnostic import Applicability, Diagnostic, Severity
from amp_lint.vocabulary import written
from amp_lint.vocabulary.meaning import Kind, Role
from amp_lint.vocabulary.table import called, words

if TYPE_CHECKING:
    from amp_lint.model import Model

_MESSAGE = "these gradients are still scaled in fp16: the limit starts {:g} times too low"


class ScaledClip(Rule):
    """A clip of torch's between a framework's backward and its step."""

    code = "AMP502"
    name = "framework-scaled-clip"
    severity = Severity.ERROR
    preview = True
    fixes = (Applicability.UNSAFE, Applicability.SUGGEST)
    given = written.RUN_BACK
    requires = (words(Kind.CLIP), words(Role.PREPARED) | called(Kind.BACKWARD))

    def check(self, model: Model) -> Iterator[Diagnostic]:
        """Report every clip that some path reaches before the framework unscales."""
        from ._owners import clip_of

        for clip, backward, step in model.clips.loose:
            done = "and unscaled only here" if step.framework is not None else "and stepped here"
            related = [(backward.node, "scaled here"), (step.node, done)]
            message = _MESSAGE.format(model.clips.initial_scale)
            help, fix = clip_of(model, clip, backward)
            yield self.report(model, clip.node, message, related, fix, help=help)
