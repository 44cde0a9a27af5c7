"""AMP103: gradients are unscaled a second time before the update."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from amp_lint._lazy import cst
from amp_lint.edit import edits
from amp_lint.mistake import Account, At, Mistake
from amp_lint.rule import Rule
from amp_lint.text.diagnostic import Applicability, Diagnostic, Fix, Severity
from amp_lint.vocabulary import written
from amp_lint.vocabulary.meaning import Kind, Role
from amp_lint.vocabulary.table import called, words

if TYPE_CHECKING:
    from amp_lint.model import Model
    from amp_lint.walk.found import Found

_AGAIN = (
    "`unscale_` raises RuntimeError in the next round: this path comes back without `update`",
    "unscale only in the round that steps",
)
_TWICE = (
    "`unscale_` raises RuntimeError: this optimizer was unscaled already since the last `update`",
    "unscale once before each `update`",
)
_STEPPED = (
    "`unscale_` raises RuntimeError: this optimizer was stepped already since the last `update`",
    "unscale before the step",
)
_ACCELERATE = (
    "the second clip before a step raises RuntimeError in fp16: each one unscales every optimizer",
    "clip all parameters in one call",
)
_HOOKED = (
    "`unscale_` raises RuntimeError in the hook of the second tensor: each unscales the optimizer",
    "unscale once, after backward",
)
_HOOKED_BY_ACCELERATE = (
    "this raises RuntimeError in fp16 in the hook of the second tensor: each unscales every "
    "optimizer",
    "clip once, after backward, or allow such hooks in bf16 alone",
)
"""What happens, and what to do."""


class RepeatedUnscale(Rule):
    """A second ``unscale_`` for one optimizer before ``update``."""

    code = "AMP103"
    name = "repeated-unscale"
    severity = Severity.ERROR
    fixes = (Applicability.UNSAFE,)
    given = written.SCALED
    requires = (words(Kind.UNSCALE), words(Role.SCALED_LOSS) | called(Kind.UNSCALE))
    observed = (
        Account(Mistake.REPEATED_UNSCALE, *_TWICE, {At.CAUSE: "unscaled or stepped here"}),
        Account(
            Mistake.ADDED_SCALED,
            "gradients that are unscaled get scaled ones added: they are {scale:g} times too large",
            "unscale only in the round that steps",
            {At.CAUSE: "scaled gradients are added here", At.STEP: "and stepped on here"},
        ),
    )

    def check(self, model: Model) -> Iterator[Diagnostic]:
        """Report the second call, or the one call that the next round repeats."""
        for found in model.mistakes.repeated_unscales:
            related = [] if found.repeats else [(found.cause.node, _label(found))]
            (message, help), fix = _message(found), _fix(model, found)
            yield self.report(model, found.event.node, message, related, fix, help=help)
        from ._hooks import Hooks

        for call in model.part(Hooks).unscaling:
            owned = model.steps.recognizer.framework(call) is not None
            message, help = _HOOKED_BY_ACCELERATE if owned else _HOOKED
            yield self.report(model, call, message, help=help)


def _message(found: Found) -> tuple[str, str]:
    if found.by_accelerate:
        return _ACCELERATE
    if found.repeats:
        return _AGAIN
    return _STEPPED if found.after_step else _TWICE


def _label(found: Found) -> str:
    return "stepped here" if found.after_step else "unscaled here"


def _fix(model: Model, found: Found) -> Fix | None:
    """Remove the second of two calls that follow one another in one block."""
    small = model.tree.parent(found.event.node)
    if found.repeats or found.after_step or found.by_accelerate or not isinstance(small, cst.Expr):
        return None
    if not model.step_places.follows(found.cause.node, found.event.node):
        return None
    edit = edits.remove_statement(model.tree, small)
    return Fix("Remove the second `unscale_`", (edit,), Applicability.UNSAFE) if edit else None
