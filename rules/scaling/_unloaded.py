"""Scalers whose state is saved, and not loaded where the optimizer's is."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import libcst as cst

from amp_lint.model import Model
from amp_lint.syntax.assignments import targets_of
from amp_lint.syntax.names import dotted
from amp_lint.vocabulary.amp import LOAD_STATE_DICT, STATE_DICT
from amp_lint.vocabulary.written import STEPS

from ._checkpoints.data import Load
from ._checkpoints.kept import Kept
from ._checkpoints.loads import Loads
from ._checkpoints.naming import TRAINS, last, names_scaler
from ._checkpoints.saves import Saves
from ._checkpoints.scalers import Scalers
from ._checkpoints.spelling import Spelling
from ._checkpoints.steps import ScaledSteps

_HARMLESS = STEPS | STATE_DICT.words | {"print"}


@dataclass(frozen=True, slots=True)
class Unloaded:
    """Where a run goes on with the state of the optimizer alone."""

    load: cst.Call
    """``optimizer.load_state_dict(...)``."""
    saved: cst.Call
    """``scaler.state_dict()``."""
    place: Load | None
    """Where the scaler's could be loaded, too, if it is certain that it can be written there."""


class UnloadedScalers:
    """Finds them in files that save and load the state of an optimizer."""

    def __init__(self, model: Model) -> None:
        self.scalers = model.part(Scalers)
        self.steps = model.part(ScaledSteps)
        self.loads = model.part(Loads)
        self.saves = model.part(Saves)
        self.kept = model.part(Kept)
        self.spelling = model.part(Spelling)
        self.own = model.tree
        self.tree = model.linked
        self.names = model.names
        self.values = model.values
        self.roles = model.roles
        self.program = model.program

    def found(self) -> Iterator[Unloaded]:
        """The first load of each function, if no scaler is loaded anywhere."""
        saved = [*self._saved()]
        if len(saved) != 1 or self._may_load():
            return
        homes: set[int] = set()
        for load in self.loads.calls:
            home = id(self.program.function_of(load))
            if self.own.is_own(load) and home not in homes and self._is_scaled(load):
                homes.add(home)
                yield Unloaded(load, saved[0], self.spelling.load_of(saved[0]))

    def replaced(self) -> Iterator[tuple[cst.Call, cst.Call]]:
        """The load of a method in whose place a base class loads a scaler too, and that load."""
        homes: set[int] = set()
        for load in self.loads.calls:
            function = self.program.function_of(load)
            if function is None or id(function) in homes or not self.own.is_own(load):
                continue
            homes.add(id(function))
            left_out = self._left_out(function) if self._is_scaled(load) else None
            if left_out is not None:
                yield load, left_out

    def _left_out(self, function: cst.FunctionDef) -> cst.Call | None:
        """The load of a scaler in the method of a base class that this one is run instead of."""
        owner = self.tree.parent(self.tree.parent(function) or function)
        calls = self.tree.below(function, cst.Call)
        if not isinstance(owner, cst.ClassDef) or any(map(self._may_restore, calls)):
            return None
        name = function.name.value
        above = (self.values.method(base, name) for base in self.values.lineage(owner)[1:])
        method = next((each for each in above if each is not None), None)
        loads = self.tree.below(method, cst.Call) if method is not None else ()
        return next(filter(self._restores, loads), None)

    def _may_restore(self, call: cst.Call) -> bool:
        """Whether a call may load a scaler, itself or in a function that it calls."""
        return self._loads_scaler(call) or self.program.target(call) is not None

    def _restores(self, call: cst.Call) -> bool:
        match call.func:
            case cst.Attribute(value=owner, attr=cst.Name(value=method)):
                return method in LOAD_STATE_DICT.words and self.scalers.is_scaler(owner)
        return False

    def _saved(self) -> Iterator[cst.Call]:
        """Where the state of a scaler is put into a checkpoint."""
        for call in self.own.nodes(cst.Call):
            func = call.func
            if not isinstance(func, cst.Attribute) or func.attr.value not in STATE_DICT.words:
                continue
            kept = self.roles.is_scaler(func.value) and self.saves.is_kept(call)
            if kept and self.kept.is_reached(call):
                yield call

    def _is_scaled(self, load: cst.Call) -> bool:
        """Whether a scaler steps the optimizer that is loaded, and nothing else does."""
        assert isinstance(load.func, cst.Attribute)
        return self.steps.is_scaled(load.func.value)

    def _may_load(self) -> bool:
        """Whether the program may load a scaler anywhere: by name, in a loop, or by a helper."""
        texts = self.tree.nodes(cst.SimpleString)
        named = (text for text in texts if names_scaler(str(text.evaluated_value)))
        if not all(self._is_key(text) or self.kept.is_aside(text) for text in named):
            return True
        return any(map(self._loads_scaler, self.tree.nodes(cst.Call)))

    def _is_key(self, text: cst.SimpleString) -> bool:
        """Whether a string says where something is kept, in a dict that is made."""
        parent = self.tree.parent(text)
        if isinstance(parent, cst.DictElement):
            return parent.key is text
        whole = self.tree.ancestor(text, cst.Subscript)
        return isinstance(parent, cst.Index) and isinstance(
            self.tree.parent(whole) if whole is not None else None, cst.AssignTarget
        )

    def _loads_scaler(self, call: cst.Call) -> bool:
        func = call.func
        if isinstance(func, cst.Attribute) and func.attr.value in LOAD_STATE_DICT.words:
            return not self._is_another(func.value)
        if self.program.target(call) is not None or self.roles.is_constructor(call):
            return False
        given = any(self.scalers.is_scaler(arg.value) for arg in call.args)
        return given and last(func) not in _HARMLESS and not TRAINS.search(last(func))

    def _is_another(self, owner: cst.BaseExpression) -> bool:
        """Whether what loads a state is no scaler: an optimizer, or named, and not by a loop."""
        if self.roles.is_optimizer(owner):
            return True
        if dotted(owner) is None or self.scalers.is_scaler(owner):
            return False
        bindings = self.names.bindings(owner) if isinstance(owner, cst.Name) else []
        return not any(isinstance(b.node, (cst.For, cst.CompFor)) for b in bindings)


def key_of(model: Model, saved: cst.Call) -> str | None:
    """The key under which a state is saved, as it is written."""
    element = model.linked.parent(saved)
    if isinstance(element, cst.DictElement) and isinstance(element.key, cst.SimpleString):
        return element.key.value
    for target in targets_of(model.linked, saved):
        if isinstance(target, cst.Subscript) and len(target.slice) == 1:
            index = target.slice[0].slice
            if isinstance(index, cst.Index) and isinstance(index.value, cst.SimpleString):
                return index.value.value
    return None
