"""AMP504: a Trainer trains float16 parameters, or in a precision that is refused."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from amp_lint._lazy import cst
from amp_lint.rule import Rule
from amp_lint.text.diagnostic import Diagnostic, Severity, quoted
from amp_lint.vocabulary.meaning import Part, Role
from amp_lint.vocabulary.table import BY_NAME, names, words

if TYPE_CHECKING:
    from amp_lint.model import Model

_HALF = (
    "the Trainer trains float16 parameters: with `fp16` its first step raises ValueError",
    "load them in float32: `fp16` casts where that is safe",
)
_BOTH = ("`fp16` and `bf16` are both on: this raises ValueError", "choose one of them")
"""What happens, and what to do."""


class TrainerPrecision(Rule):
    """Float16 parameters in a Trainer of transformers, or a precision that is refused."""

    code = "AMP504"
    name = "trainer-precision"
    severity = Severity.ERROR
    preview = True
    requires = (words(Role.TRAINER, Role.TRAINER_OPTIONS, Role.ACCELERATOR),)

    def check(self, model: Model) -> Iterator[Diagnostic]:
        """Report what makes modules float16 that a Trainer trains, and options that exclude."""
        for training in model.modules.half_in_trainers:
            place = training.dtype if training.made and training.dtype else training.cast
            related = [(training.trained, "trained here")]
            message, help = _HALF
            yield self.report(model, place, message, related, help=help)
        for call in model.tree.nodes(cst.Call):
            if _has_both(model, call):
                message, help = _BOTH
                yield self.report(model, call, message, help=help)
        yield from self._refused(model)

    def _refused(self, model: Model) -> Iterator[Diagnostic]:
        from ._refused import refused

        for each in refused(model):
            known = ", ".join(repr(word) for word in each.accepted)
            message = f"{quoted(each.maker)} raises ValueError for the precision {each.word!r}"
            related = [(each.given, "is handed on here")]
            yield self.report(model, each.node, message, related, help=f"give one of {known}")


def _has_both(model: Model, call: cst.Call) -> bool:
    for name in model.names.qualified(call.func) & names(Role.TRAINER_OPTIONS):
        both = Part.PRECISION, Part.OTHER_PRECISION
        places = (BY_NAME[name].place(part) for part in both)
        given = [model.values.argument(call, *place) for place in places]
        return all(each is not None and _is_true(model, each) for each in given)
    return False


def _is_true(model: Model, node: cst.BaseExpression) -> bool:
    return set(model.values.constants(node)) == {True}
