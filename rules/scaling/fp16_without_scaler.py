"""AMP110: a training step runs in float16 autocast, and nothing scales its loss."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from amp_lint._lazy import cst
from amp_lint.edit import call_edits, edits
from amp_lint.mistake import Account, At, Mistake
from amp_lint.rule import Rule
from amp_lint.text.diagnostic import Applicability, Diagnostic, Fix, Severity, quoted
from amp_lint.vocabulary.meaning import Kind, Role
from amp_lint.vocabulary.operations import FLOAT16
from amp_lint.vocabulary.table import words

if TYPE_CHECKING:
    from amp_lint.amp.regions import Region
    from amp_lint.model import Model

    from ._unscaled import UnscaledForward

MESSAGE = (
    "this forward runs in float16{} and nothing scales its loss: gradients below 6e-8 become 0"
)
_OF_BACKWARD = (
    "its forward runs in float16{} and nothing scales the loss: gradients below 6e-8 become 0"
)
_SWITCHED = "where {} is false, nothing scales this float16 forward: gradients below 6e-8 become 0"
_DECORATED = (
    "where {} is false, nothing scales this loss, whose forward is float16 by its decorator: "
    "gradients below 6e-8 become 0"
)
_NEVER = "this is false for each of {}: nothing scales in float16, gradients below 6e-8 become 0"
_WRITE = "compare with the word that chooses float16"
_TOO = "give the region {}, too"
HELP = "scale the loss with `torch.amp.GradScaler`, or use `dtype=torch.bfloat16`"
BY_DEFAULT, CHOSEN = " by default", ", if chosen,"
_PLAIN, _STEP = "gradients are not scaled here", "and stepped here"
_REGION = "the region, float16 if chosen"


class Fp16WithoutScaler(Rule):
    """A float16 region whose loss reaches a plain backward and a plain step."""

    code = "AMP110"
    name = "fp16-without-scaler"
    severity = Severity.WARNING
    preview = True
    fixes = (Applicability.SUGGEST,)
    requires = (words(Role.REGION), words(Kind.BACKWARD), words(Kind.STEP))
    observed = (
        Account(Mistake.NO_SCALER, MESSAGE.format(""), HELP, {At.CAUSE: _PLAIN, At.STEP: _STEP}),
    )

    def check(self, model: Model) -> Iterator[Diagnostic]:
        """Report every such region."""
        from ._unscaled import Unscaled

        for forward in model.part(Unscaled).forwards:
            if forward.option is not None:
                yield self._switched(model, forward, forward.option)
                continue
            if forward.never is not None:
                yield self._never_on(model, forward, forward.never)
                continue
            own = forward.place is forward.region.node
            plain = [(forward.backward, _PLAIN)] if own else []
            yield self.report(
                model,
                forward.place,
                (MESSAGE if own else _OF_BACKWARD).format(_why(model, forward.region)),
                related=[*plain, (forward.step, _STEP)],
                fix=_fix(model, forward.region) if own else None,
                help=HELP,
            )

    def _switched(
        self, model: Model, forward: UnscaledForward, option: cst.BaseExpression
    ) -> Diagnostic:
        written = model.tree.source(option)
        own = forward.place is not forward.backward
        plain = [(forward.backward, _PLAIN)] if own else []
        return self.report(
            model,
            forward.place,
            (_SWITCHED if own else _DECORATED).format(quoted(written)),
            related=[*plain, (forward.step, _STEP)],
            help=_TOO.format(quoted(f"enabled={written}")),
        )

    def _never_on(
        self, model: Model, forward: UnscaledForward, test: cst.BaseExpression
    ) -> Diagnostic:
        words = sorted(model.roles.options.words(test))
        return self.report(
            model,
            test,
            _NEVER.format(quoted(", ".join(map(repr, words)))),
            related=[(forward.region.node, _REGION), (forward.step, _STEP)],
            help=_WRITE,
        )


def _why(model: Model, region: Region) -> str:
    if region.dtype is None:
        return CHOSEN if region.of_several else BY_DEFAULT
    values = model.values.alternatives(region.dtype)
    is_certain = all(model.names.is_only(value, FLOAT16) for value in values)
    return "" if is_certain and not region.of_several else CHOSEN


def _fix(model: Model, region: Region) -> Fix | None:
    """``dtype=torch.bfloat16``, which needs no scaler: not where that is one of several already."""
    of_several = region.dtype is not None and len([*model.values.alternatives(region.dtype)]) > 1
    dtype = model.names.spelling_of(region.node, "torch.bfloat16")
    if dtype is None or of_several or not isinstance(region.node, cst.Call):
        return None
    if region.dtype is None:
        changes = call_edits.set_keyword(model.tree, region.node, "dtype", dtype)
    elif model.tree.contains(region.node, region.dtype):
        changes = (edits.replace_node(model.tree, region.dtype, dtype),)
    else:
        return None
    return Fix("Use bfloat16, where the GPU has it", changes, Applicability.SUGGEST)
