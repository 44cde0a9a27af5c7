"""AMP203: a model is trained with float16 parameters."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from amp_lint._lazy import cst
from amp_lint.edit import edits
from amp_lint.mistake import Account, Mistake
from amp_lint.rule import Rule
from amp_lint.text.diagnostic import Applicability, Diagnostic, Edit, Fix, Severity
from amp_lint.vocabulary import written
from amp_lint.vocabulary.amp import AUTOCAST
from amp_lint.vocabulary.meaning import Kind, Part
from amp_lint.vocabulary.table import words
from amp_lint.vocabulary.training import OPTIMIZER_WORDS

if TYPE_CHECKING:
    from amp_lint.amp.modules import HalfTraining
    from amp_lint.model import Model

    from ._adapters import Adopted


_DTYPE = AUTOCAST.keyword(Part.DTYPE)
_HELP = "keep the parameters float32 and use autocast"
_ADAPTER = (
    "what is added can be float16, as its model is: small updates are lost, GradScaler refuses it",
    "the model gets its dtype here",
    "cast the parameters that are trained to float32 after this",
)
_PIPELINE = (
    "casts a model to float16 that is still trained: small updates are lost, GradScaler refuses it",
    "the pipeline gets the model here",
    "move it to its device only, and use autocast",
)
"""The message, what the related place is, and what to do."""
_ROUNDED = (
    "rounds the parameters to float16 after each step: updates under 2**-11 of a weight are lost"
)


class HalfModelTraining(Rule):
    """Parameters in float16 lose small updates, break Adam, and GradScaler refuses them."""

    code = "AMP203"
    name = "half-model-training"
    severity = Severity.ERROR
    fixes = (Applicability.UNSAFE, Applicability.SUGGEST)
    requires = (
        frozenset({"HalfTensor", "convert_weights", "float16", "half"}),
        frozenset({"parameters", "named_parameters"}),
        OPTIMIZER_WORDS | words(Kind.CLIP),
    )
    called_for = written.HALVED
    observed = (
        Account(
            Mistake.HALF_PARAMETERS,
            "{half:g} of {all:g} trained parameters are float16: updates under 2**-11 of "
            "a weight are lost",
            _HELP,
        ),
    )

    def check(self, model: Model) -> Iterator[Diagnostic]:
        """Report every cast to float16 of a module that is trained."""
        from ._adapters import Adapters, rounded

        known = model.modules.half_trainings
        for training in (*known, *model.modules.half_by_functions):
            yield self.report(
                model,
                training.dtype if training.made and training.dtype is not None else training.cast,
                "trained parameters are float16: updates under 2**-11 of a weight are lost, Adam's "
                "are inf or NaN",
                [(training.trained, "its parameters are trained here")],
                _fix(model, training) if training in known else None,
                help=_HELP,
            )
        for adopted in model.part(Adapters).adopted:
            message, label, help = _PIPELINE if adopted.shared else _ADAPTER
            related = [(adopted.cause, label), (adopted.trained, "its parameters are trained here")]
            fix = _device_only(model, adopted) if adopted.shared else None
            yield self.report(model, adopted.node, message, related, fix, help=help)
        for cast, step in rounded(model):
            related = [(step, "the optimizer steps in float32 here")]
            yield self.report(model, cast, _ROUNDED, related, help=_HELP)


def _device_only(model: Model, adopted: Adopted) -> Fix | None:
    """Leave out the dtype of ``pipeline.to(device, dtype=...)``."""
    named = [arg for arg in adopted.node.args if arg.keyword and arg.keyword.value == _DTYPE]
    if len(adopted.node.args) < 2 or len(named) != 1:
        return None
    edit = edits.remove_argument(model.tree, adopted.node, named[0])
    title = "Move the pipeline to its device only"
    return Fix(title, (edit,), Applicability.SUGGEST) if edit is not None else None


def _fix(model: Model, training: HalfTraining) -> Fix | None:
    """Take the cast away, where nothing else is float16 that would no longer match.

    It is only shown where the training is not in sight, for that may cast what modules get.
    """
    if model.halves.left_over:
        return None
    if training.made:
        edit, title = _made_float32(model, training), "Make float32 parameters"
    else:
        edit, title = _without_cast(model, training), "Remove the cast to float16"
    trust = Applicability.UNSAFE if model.halves.trains_here else Applicability.SUGGEST
    return Fix(title, (edit,), trust) if edit is not None else None


def _made_float32(model: Model, training: HalfTraining) -> Edit | None:
    assert training.dtype is not None
    value = training.dtype.value
    if isinstance(value, cst.Attribute):
        return edits.replace_node(model.tree, value.attr, "float32")
    if isinstance(value, cst.SimpleString):
        text = model.tree.source(value)
        return edits.replace_node(model.tree, value, text.replace("float16", "float32"))
    return None


def _without_cast(model: Model, training: HalfTraining) -> Edit | None:
    """``m.half()`` and ``m = m.half()`` go; within a longer expression, only the call does."""
    call, dtype, tree = training.cast, training.dtype, model.tree
    assert isinstance(call.func, cst.Attribute)
    if dtype is not None and len(call.args) > 1:
        return edits.remove_argument(tree, call, dtype)
    statement, module = tree.parent(call), tree.source(call.func.value)
    if isinstance(statement, cst.Expr) and not isinstance(call.func.value, cst.Call):
        return edits.remove_statement(tree, statement)
    if isinstance(statement, cst.Assign) and [
        tree.source(target.target) for target in statement.targets
    ] == [module]:
        return edits.remove_statement(tree, statement)
    if isinstance(statement, cst.IfExp):
        return None
    return edits.delete_call_suffix(tree, call)
