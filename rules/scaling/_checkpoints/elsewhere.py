"""Checkpoints that other files make."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from amp_lint.model import Model
from amp_lint.syntax.assignments import held_in

from .data import Checkpoint, OwnScaler
from .loads import Loads
from .naming import SAVES
from .places import Places
from .saves import Saves
from .scalers import Scalers
from .states import States
from .steps import ScaledSteps


class Elsewhere:
    """Optimizers that are saved by files from which this one is not seen."""

    def __init__(self, model: Model) -> None:
        self.places = model.part(Places)
        self.states = model.part(States)
        self.scalers = model.part(Scalers)
        self.loads = model.part(Loads)
        self.steps = model.part(ScaledSteps)
        self.saves = model.part(Saves)
        self.own = model.tree
        self.tree = model.linked
        self.names = model.names
        self.program = model.program
        self.origins = model.origins

    def handed_on(self) -> Iterator[Checkpoint]:
        """The calls that have an optimizer saved by a file from which this one is not seen."""
        loaded, sure = [*self.loads.own_loads], bool(self.loads.calls)
        for call in self.own.nodes(cst.Call):
            scaler = self._trained_by(call)
            known = [*(self._held(call) if scaler is not None else ()), *loaded]
            owners = [*self._saved_far(call)] if known else []
            for optimizer in known if owners else ():
                saved = any(self.origins.same(optimizer, owner) for owner in owners)
                step = self.steps.of(optimizer) if saved else None
                if scaler is not None and (step or (saved and self._is_left_out_of(call))):
                    yield Checkpoint(call, optimizer, scaler.call, None, None, is_sure=sure)
                elif step is not None:
                    yield Checkpoint(call, optimizer, step.call, None, None, is_sure=sure)

    def _is_left_out_of(self, call: cst.Call) -> bool:
        """Whether what is called would save a scaler, and is given none."""
        target = self.program.target(call)
        return target is not None and self.scalers.leaves_out(target)

    def _held(self, call: cst.Call) -> Iterator[cst.BaseExpression]:
        """The arguments of a call, and those of the records among them."""
        for value in (arg.value for arg in call.args):
            yield value
            if isinstance(value, cst.Call) and self.saves.is_record(value):
                yield from (arg.value for arg in value.args)

    def _trained_by(self, call: cst.Call) -> OwnScaler | None:
        """The scaler of the code that makes a call of another file."""
        target = self.program.target(call)
        if target is None or self.own.is_own(target):
            return None
        unit = self.places.unit(call)
        return next((scaler for scaler in self.scalers.made if scaler.unit is unit), None)

    def _saved_far(self, call: cst.Call) -> Iterator[cst.BaseExpression]:
        """The optimizers that a call has saved in files that this one does not import itself."""
        target = self.program.target(call)
        if target is None or self.own.is_own(target):
            return
        for function in self.places.reached(call):
            if self.names.is_near(function) and not self.scalers.leaves_out(function):
                continue
            for state in self.states.among(self.tree.below(function, cst.Call)):
                holder = self.saves.holder(self.saves.entry(state))
                saved = holder is not None and self.saves.is_saved(holder)
                grows = holder is None or any(map(self.saves.may_grow, self.saves.uses(holder)))
                if saved and not grows and self.names.is_passed_on(function):
                    continue  # it is found there
                optimizer = self.states.optimizer_of(state)
                if optimizer is not None and (saved or SAVES.search(function.name.value)):
                    yield optimizer

    def registered(self) -> Iterator[Checkpoint]:
        """The optimizers that are put into what a class of another file saves and loads."""
        known = [(target, value) for target, value in self.states.puts if self.own.is_own(target)]
        far = [*self._far_states] if known else []
        units: set[int] = set()
        for target, optimizer in known:
            saved = any(self.origins.same(optimizer, owner) for owner in far)
            step = self.steps.of(optimizer) if saved else None
            unit = id(self.tree.ancestor(target, cst.FunctionDef))
            if step is not None and unit not in units and self.loads.is_loaded(optimizer):
                units.add(unit)  # one scaler for all that is put there
                yield Checkpoint(target, optimizer, step.call, None, None)

    @property
    def _far_states(self) -> Iterator[cst.BaseExpression]:
        """The optimizers of containers whose states other files put into what they save."""
        for call in self.tree.nodes(cst.Call):
            owner = self.states.optimizer_of(call) if not self.own.is_own(call) else None
            held = self.names.bindings(owner) if isinstance(owner, cst.Name) else ()
            if owner is not None and any(map(held_in, held)) and self.saves.is_kept(call):
                yield owner
