"""AMP101: gradients are clipped while they are still multiplied by the loss scale."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from amp_lint.edit import edits
from amp_lint.mistake import Account, At, Mistake
from amp_lint.rule import Rule
from amp_lint.text.diagnostic import Applicability, Diagnostic, Fix, Severity
from amp_lint.vocabulary import written
from amp_lint.vocabulary.meaning import Kind, Role
from amp_lint.vocabulary.table import words
from amp_lint.vocabulary.training import HOOKS

if TYPE_CHECKING:
    from amp_lint.model import Model
    from amp_lint.walk.clips import ScaledClip

_COMPENSATING_LIMIT = 1e3  # such a max_norm was chosen to make up for the scale
_HELP = "{} right before the step, after `unscale_` of each optimizer"
_SCALED, _DIVIDED = "gradients are scaled here", "and divided by the scale only here"
_RELATED = {At.CAUSE: _SCALED, At.STEP: _DIVIDED}


class ClipBeforeUnscale(Rule):
    """A clip that is reached with scaled gradients."""

    code = "AMP101"
    name = "clip-before-unscale"
    severity = Severity.ERROR
    fixes = (Applicability.SAFE, Applicability.UNSAFE)
    given = written.SCALED
    requires = (words(Kind.CLIP) | HOOKS, words(Role.SCALED_LOSS))
    observed = (
        Account(
            Mistake.SCALED_CLIP,
            "`{function}` clips gradients that are still scaled: at scale {scale:g} the "
            "limit is {effective:.2g}, not {limit:g}",
            _HELP.format("clip"),
            _RELATED,
        ),
        Account(
            Mistake.SCALED_CLIP,
            "`{function}` measures gradients that are still scaled: the norm is {scale:g} "
            "times too large",
            _HELP.format("measure"),
            _RELATED,
        ),
    )

    def check(self, model: Model) -> Iterator[Diagnostic]:
        """Report every clip that some path reaches with scaled gradients."""
        from ._hooks import Hooks

        for clip in (*model.clips.scaled, *model.part(Hooks).limiting):
            yield self.report(
                model,
                clip.call,
                _message(clip),
                related=[(clip.backward.node, _SCALED)]
                + ([(clip.step.node, _DIVIDED)] if clip.step else []),
                fix=_fix(model, clip),
                help=_HELP.format("clip" if clip.clips else "measure"),
            )


def _message(clip: ScaledClip) -> str:
    scaled, scale = "gradients that are still scaled", f"{clip.scale:g}"
    if not clip.clips:
        return f"`{clip.function}` measures {scaled}: the norm starts {scale} times too large"
    if clip.limit is None:
        effect = f"the limit becomes `{clip.parameter}` / {scale}"
    else:
        effect = f"at scale {scale} the limit is {clip.limit / clip.scale:.2g}, not {clip.limit:g}"
    return f"`{clip.function}` clips {scaled}: {effect}"


def _fix(model: Model, clip: ScaledClip) -> Fix | None:
    place = clip.place_for_unscale
    if place is None:
        return None
    compensated = clip.limit is not None and clip.limit >= _COMPENSATING_LIMIT
    certain = place.certain and not compensated
    return Fix(
        f"Insert {place.what} before the clip",
        (edits.insert_before(model.tree, place.statement, "\n".join(place.lines), place.guard),),
        Applicability.SAFE if certain else Applicability.UNSAFE,
    )
