"""AMP102: gradients are measured or changed while they are multiplied by the scale."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from amp_lint.edit import edits
from amp_lint.mistake import Account, At, Mistake
from amp_lint.rule import Rule
from amp_lint.text.diagnostic import Applicability, Diagnostic, Fix, Severity
from amp_lint.vocabulary import written
from amp_lint.vocabulary.meaning import Kind, Role
from amp_lint.vocabulary.table import called, words
from amp_lint.vocabulary.training import CLIP_NORM, NORMS

if TYPE_CHECKING:
    from amp_lint.model import Model
    from amp_lint.walk.unscale_places import UnscalePlace

    from ._reads import ScaledRead

_HELP = "divide what is read by `get_scale()`, or read it after `unscale_`"
_BY_FRAMEWORK: dict[Role | None, str] = {
    Role.ACCELERATOR: "call its `unscale_gradients` before, or read what `clip_grad_norm_` returns",
    Role.FABRIC: "read them after `clip_gradients`, which unscales them",
    Role.LIGHTNING: "read them in `on_before_optimizer_step`, which runs after they are unscaled",
}
_SCALED, _DIVIDED = "gradients are scaled here", "and divided by the scale only here"
_LARGE = "these gradients are still scaled: they look {} times too large, and change with the scale"
_UNSCALE: dict[Role | None, str] = {
    Role.ACCELERATOR: "call its `unscale_gradients` before, so that such a step is skipped",
}
_UNSCALE_FIRST = "call `unscale_` before, so that such a step is skipped; or leave it out"
_ADDED = "this is added to gradients that are still scaled: it counts {} times less than it says"
_ADD_LATER = "add it after `unscale_`"
HIDES = "this hides {} from the scaler: it takes the step, and its scale does not fall"


class ScaledGradientRead(Rule):
    """A look at gradients that is reached with scaled ones."""

    code = "AMP102"
    name = "scaled-gradient-read"
    severity = Severity.WARNING
    fixes = (Applicability.UNSAFE,)
    given = written.SCALED
    requires = (
        frozenset({"grad", "watch"}) | NORMS | CLIP_NORM.words,
        words(Role.SCALED_LOSS, Role.SCALER, Role.PREPARED) | called(Kind.BACKWARD),
        words(Kind.BACKWARD, Role.SCALER),  # what is watched may go backward elsewhere
    )
    observed = (
        Account(
            Mistake.SCALED_READ,
            "these gradients are still scaled: they look {scale:g} times too large, and "
            "change with the scale",
            _HELP,
            {At.CAUSE: _SCALED, At.STEP: _DIVIDED},
        ),
    )

    def check(self, model: Model) -> Iterator[Diagnostic]:
        """Report what reads gradients on a path where they are scaled, and `wandb.watch`."""
        from ._reads import Reads

        scale = f"{model.clips.initial_scale:g}"
        for read in model.part(Reads).scaled:
            step = [(read.step.node, _DIVIDED)] if read.step else []
            found = self.report(
                model,
                read.call,
                HIDES.format(read.hides) if read.hides else _LARGE.format(scale),
                related=[(read.backward.node, _SCALED), *step],
                fix=_fix(model, read.place_for_unscale, "the gradients are read"),
                help=_help(read),
            )
            by_framework = read.backward.framework is not None  # as AMP502, which is in preview
            yield replace(found, preview=by_framework)
        for added in model.part(Reads).added:
            yield self.report(
                model,
                added.node,
                _ADDED.format(scale),
                related=[(added.backward.node, _SCALED), (added.step.node, _DIVIDED)],
                fix=_fix(model, added.place_for_unscale, "something is added to gradients"),
                help=_ADD_LATER,
            )
        for watch in model.part(Reads).watched:
            yield self.report(
                model,
                watch.call,
                f"`wandb.watch` logs gradients while they are scaled: they look {scale} times too "
                "large at first",
                related=[(watch.cause, "gradients are scaled by this")],
                help='log them after `unscale_`, and watch with `log="parameters"`',
            )


def _help(read: ScaledRead) -> str:
    if read.hides:
        return _UNSCALE.get(read.backward.framework, _UNSCALE_FIRST)
    return _BY_FRAMEWORK.get(read.backward.framework, _HELP)


def _fix(model: Model, place: UnscalePlace | None, what: str) -> Fix | None:
    if place is None:
        return None
    return Fix(
        f"Insert {place.what} before {what}",
        (edits.insert_before(model.tree, place.statement, "\n".join(place.lines), place.guard),),
        Applicability.UNSAFE,
    )
