"""AMP111: a checkpoint holds the optimizer's state, but not the scaler's."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from amp_lint._lazy import cst
from amp_lint.edit import dict_edits, edits
from amp_lint.rule import Rule
from amp_lint.text.diagnostic import Applicability, Diagnostic, Fix, Severity, quoted
from amp_lint.vocabulary.amp import STATE_DICT
from amp_lint.vocabulary.meaning import Role
from amp_lint.vocabulary.table import words

if TYPE_CHECKING:
    from amp_lint.model import Model
    from amp_lint.text.diagnostic import Edit

    from ._checkpoints import Checkpoint

MESSAGE = "the checkpoint lacks the scaler of {}: a resumed run skips steps to find its scale again"
HELP = "save {} and load it"


class ScalerNotCheckpointed(Rule):
    """A checkpoint from which training goes on with another scale."""

    code = "AMP111"
    name = "scaler-not-checkpointed"
    severity = Severity.WARNING
    fixes = (Applicability.UNSAFE, Applicability.SUGGEST)
    requires = (words(Role.SCALER), STATE_DICT.words)

    def check(self, model: Model) -> Iterator[Diagnostic]:
        """Report every such checkpoint."""
        from ._checkpoints import Checkpoints

        for checkpoint in model.part(Checkpoints).incomplete:
            optimizer = quoted(model.tree.source(checkpoint.optimizer))
            state = quoted(f"{checkpoint.scaler or 'scaler'}.state_dict()")
            yield self.report(
                model,
                checkpoint.node,
                MESSAGE.format(optimizer),
                related=[(checkpoint.made, "the scaler is created here")],
                fix=_fix(model, checkpoint),
                help=HELP.format(state),
            )


def _fix(model: Model, checkpoint: Checkpoint) -> Fix | None:
    """Save the state, and load it where the optimizer's is loaded in the same file."""
    if checkpoint.scaler is None or not isinstance(checkpoint.node, cst.Dict):
        return None
    quote = _quote(model, checkpoint.node)
    entry = f"{quote}scaler{quote}: {checkpoint.scaler}.state_dict()"
    changes: list[Edit] = [dict_edits.add_entry(model.tree, checkpoint.node, entry)]
    if checkpoint.load is not None:
        loaded = model.tree.source(checkpoint.load.loaded)
        line = f"{checkpoint.scaler}.load_state_dict({loaded}[{quote}scaler{quote}])"
        guard = f"{loaded}.get({quote}scaler{quote})"
        changes.append(edits.insert_before(model.tree, checkpoint.load.statement, line, guard))
        return Fix("Save and load the scaler's state", tuple(changes), Applicability.UNSAFE)
    title = "Save the scaler's state, which has to be loaded as well"
    return Fix(title, tuple(changes), Applicability.SUGGEST)


def _quote(model: Model, literal: cst.Dict) -> str:
    """The quotes that the keys have."""
    key = literal.elements[0]
    text = model.tree.source(key.key) if isinstance(key, cst.DictElement) else ""
    return "'" if text.startswith("'") else '"'
