"""Where another file of the project may run a model of this one under autocast."""

from __future__ import annotations

import re

import libcst as cst

from amp_lint.amp.other_trainings import Trainer
from amp_lint.model import Model
from amp_lint.syntax.names import dotted
from amp_lint.text.diagnostic import LONGEST_CODE
from amp_lint.vocabulary.operations import PLAIN_DECORATORS

_NAMED = (cst.FunctionDef, cst.ClassDef)
_LOSS = re.compile(r"loss|criteri", re.IGNORECASE)


def runs_elsewhere(model: Model, node: cst.CSTNode) -> str:
    """Path and line of where that may be, for a place in a model that knows of no region."""
    trainer = model.trainer if _is_of_a_model(model, node) else None
    if trainer is None or (trainer.models_only and _is_of_a_loss(model, node)):
        return ""
    return shown_place(trainer)


def _is_of_a_loss(model: Model, node: cst.CSTNode) -> bool:
    """Whether a place is in what is called a loss, a class or a function."""
    holders = (each for each in model.tree.ancestors(node) if isinstance(each, _NAMED))
    return any(_LOSS.search(each.name.value) for each in holders)


def is_decorated(model: Model, node: cst.CSTNode) -> bool:
    """Whether the function of a place has a decorator that may change the state of autocast."""
    function = model.tree.ancestor(node, cst.FunctionDef)
    decorators = function.decorators if isinstance(function, cst.FunctionDef) else ()
    names = ((dotted(each.decorator) or "").rpartition(".")[2] for each in decorators)
    return any(name not in PLAIN_DECORATORS for name in names)


def shown_place(trainer: Trainer) -> str:
    """Path and line; of a long path the end, which says more than the beginning."""
    name = trainer.name
    if len(name) > LONGEST_CODE:
        name = f"…{name[1 - LONGEST_CODE :]}"
    return f"{name}:{trainer.line}"


def _is_of_a_model(model: Model, node: cst.CSTNode) -> bool:
    """Whether a place is in what runs with modules and knows of no region; here nothing trains."""
    home, chains = model.tree.ancestor(node, cst.FunctionDef), model.reach.chains(node)
    if home is None or model.trainings.trains or any(chain.entered for chain in chains):
        return False
    callers = (model.program.function_of(call) for chain in chains for call in chain.calls)
    every = {home, *(each for each in callers if each is not None)}
    return any(map(model.dtypes.runs_with_modules, every))
