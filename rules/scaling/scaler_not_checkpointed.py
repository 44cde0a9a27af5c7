"""AMP111: a checkpoint holds the optimizer's state, but not the scaler's."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from amp_lint._lazy import cst
from amp_lint.edit import dict_edits, edits
from amp_lint.mistake import Account, At, Mistake
from amp_lint.rule import Rule
from amp_lint.text.diagnostic import Applicability, Diagnostic, Fix, Severity, quoted
from amp_lint.vocabulary import written
from amp_lint.vocabulary.amp import LOAD_STATE_DICT, SCALE, STATE_DICT
from amp_lint.vocabulary.frameworks import APEX
from amp_lint.vocabulary.meaning import Kind, Role
from amp_lint.vocabulary.table import words
from amp_lint.vocabulary.training import CHECKPOINTER_CALLS, LOADS_GIVEN

if TYPE_CHECKING:
    from amp_lint.model import Model
    from amp_lint.text.diagnostic import Edit

    from ._checkpoints.data import Checkpoint, Load
    from ._unloaded import Unloaded

MESSAGE = "the checkpoint lacks the scaler of {}: a resumed run skips steps to find its scale again"
HELP = "save {} and load it"
_ITS_STATE = "the state of the scaler, too,"
OF_FRAMEWORK = "save and load {}, which is None unless the precision is fp16; or use {}"
GIVEN = "give it the scaler, too: it saves and loads what it is given"
UNLOADED = "the scaler is saved and not loaded: a resumed run skips steps to find its scale again"
LOAD = "load its state with that of the optimizer"
SAVED = "its state is saved here"
REPLACED = "the method this one replaces loads the scaler too: a resumed run finds its scale anew"
LEFT_OUT = "its state is loaded here"
_OPTIMIZER = re.compile(r"optimi[sz]er|optim(?=_|\b)|\bopt(?=_|\b)")
_HALF_DONE = "Save the scaler's state, which has to be loaded as well"
CREATED, STEPPED = "the scaler is created here", "it is stepped by a scaler here"


class ScalerNotCheckpointed(Rule):
    """A checkpoint from which training goes on with another scale."""

    code = "AMP111"
    name = "scaler-not-checkpointed"
    severity = Severity.WARNING
    fixes = (Applicability.UNSAFE, Applicability.SUGGEST)
    called_for = written.KEPT | written.SCALED
    requires = (
        words(Role.SCALER, Role.STEPPER, Role.ACCELERATOR) | SCALE.words | APEX,
        STATE_DICT.words | CHECKPOINTER_CALLS | {LOADS_GIVEN},
        LOAD_STATE_DICT.words | CHECKPOINTER_CALLS | {LOADS_GIVEN} | words(Kind.STEP),
    )
    observed = (
        Account(
            Mistake.UNSAVED_SCALER,
            MESSAGE.format("this optimizer"),
            HELP.format(_ITS_STATE),
            {At.STEP: STEPPED},
        ),
    )

    def check(self, model: Model) -> Iterator[Diagnostic]:
        """Report every such checkpoint, and where one that has it is loaded without it."""
        from ._checkpoints.incomplete import Checkpoints
        from ._checkpoints.steps import ScaledSteps
        from ._unloaded import UnloadedScalers

        for checkpoint in model.part(Checkpoints).incomplete:
            optimizer = quoted(model.tree.source(_shown(model, checkpoint.optimizer)))
            found = self.report(
                model,
                checkpoint.node,
                MESSAGE.format(optimizer),
                related=[_related(model, checkpoint)],
                fix=_fix(model, checkpoint),
                help=_help(model, checkpoint),
            )
            by = model.part(ScaledSteps).framework_of(checkpoint.steps)
            unsure = by is not None and (by.role is Role.APEX or not by.named)
            yield replace(found, preview=unsure or not checkpoint.is_sure)
        unloads = UnloadedScalers(model)
        for unloaded in unloads.found():
            yield self.report(
                model,
                unloaded.load,
                UNLOADED,
                related=[(unloaded.saved, SAVED)],
                fix=_load_too(model, unloaded),
                help=LOAD,
            )
        for load, left_out in unloads.replaced():
            yield self.report(model, load, REPLACED, related=[(left_out, LEFT_OUT)], help=LOAD)


def _shown(model: Model, optimizer: cst.BaseExpression) -> cst.BaseExpression:
    """An optimizer as the reader knows it: of ``o for o in optimizers`` what holds them all."""
    from amp_lint.syntax.assignments import held_in

    names = model.names.bindings(optimizer) if isinstance(optimizer, cst.Name) else []
    return next(iter(held_in(names[0])), optimizer) if len(names) == 1 else optimizer


def _help(model: Model, checkpoint: Checkpoint) -> str:
    from ._checkpoints.steps import ScaledSteps

    if checkpoint.is_given:
        return GIVEN
    framework = model.part(ScaledSteps).framework_of(checkpoint.steps)
    if framework is not None:
        owner = model.linked.source(framework.scaler)
        if framework.role is Role.APEX:
            return HELP.format(quoted(f"{owner}.{STATE_DICT.word}()"))
        state, whole = f"{owner}.scaler.state_dict()", f"{owner}.save_state"
        return OF_FRAMEWORK.format(quoted(state), quoted(whole))
    if checkpoint.scaler is None and not model.tree.is_own(checkpoint.steps):
        return HELP.format(_ITS_STATE)  # which has another name there
    scaler = checkpoint.scaler or _name(model, checkpoint)
    return HELP.format(quoted(f"{scaler}.state_dict()"))


def _name(model: Model, checkpoint: Checkpoint) -> str:
    """What the scaler is called where it is made, or steps."""
    from ._checkpoints.places import Places

    call = checkpoint.steps
    if model.roles.is_constructor(call):
        made = model.part(Places).target(call)
        return model.linked.source(made) if made is not None else "scaler"
    return (
        model.linked.source(call.func.value) if isinstance(call.func, cst.Attribute) else "scaler"
    )


def _related(model: Model, checkpoint: Checkpoint) -> tuple[cst.CSTNode, str]:
    made = model.roles.is_constructor(checkpoint.steps)
    return checkpoint.steps, CREATED if made else STEPPED


def _load_too(model: Model, unloaded: Unloaded) -> Fix | None:
    """Load the state in the line before that of the optimizer, if the checkpoint has one."""
    from ._unloaded import key_of

    key = key_of(model, unloaded.saved)
    if unloaded.place is None or key is None:
        return None
    assert isinstance(unloaded.saved.func, cst.Attribute)
    edit = _loading(model, unloaded.place, model.linked.source(unloaded.saved.func.value), key)
    return Fix("Load the scaler's state", (edit,), Applicability.UNSAFE)


def _loading(model: Model, place: Load, scaler: str, key: str) -> Edit:
    loaded = model.tree.source(place.loaded)
    line = f"{scaler}.load_state_dict({loaded}[{key}])"
    return edits.insert_before(model.tree, place.statement, line, f"{loaded}.get({key})")


def _fix(model: Model, checkpoint: Checkpoint) -> Fix | None:
    """Save the state, and load it where the optimizer's is loaded in the same file."""
    if not isinstance(checkpoint.node, cst.Dict) or checkpoint.key == "":
        return None
    key = checkpoint.key or _key(model, checkpoint.node)
    if checkpoint.optional is not None:
        scaler, _, test = checkpoint.optional.replace('"', key[0]).partition(" ")
        entry = f"{key}: {scaler}.state_dict() {test} else None"
        edit = dict_edits.add_entry(model.tree, checkpoint.node, entry)
        return Fix(_HALF_DONE, (edit,), Applicability.SUGGEST)
    if checkpoint.scaler is None:
        return None
    entry = f"{key}: {checkpoint.scaler}.state_dict()"
    if checkpoint.key is not None:
        edit = dict_edits.add_entry(model.tree, checkpoint.node, entry)
        return Fix("Save the scaler's state, which is loaded", (edit,), Applicability.UNSAFE)
    changes: list[Edit] = [dict_edits.add_entry(model.tree, checkpoint.node, entry)]
    if checkpoint.load is not None:
        changes.append(_loading(model, checkpoint.load, checkpoint.scaler, key))
        return Fix("Save and load the scaler's state", tuple(changes), Applicability.UNSAFE)
    return Fix(_HALF_DONE, tuple(changes), Applicability.SUGGEST)


def _key(model: Model, literal: cst.Dict) -> str:
    """A key for the scaler, made like that of the optimizer, in the quotes that the keys have."""
    keys = [each.key for each in literal.elements if isinstance(each, cst.DictElement)]
    texts = [model.tree.source(key) for key in keys if isinstance(key, cst.SimpleString)]
    quote = "'" if texts and texts[0].startswith("'") else '"'
    named = [text.strip("'\"") for text in texts if _OPTIMIZER.search(text)]
    made = _OPTIMIZER.sub("scaler", named[0]) if len(named) == 1 else "scaler"
    return f"{quote}{made if made.isidentifier() else 'scaler'}{quote}"
