"""Checkpoints that hold the state of an optimizer, but not that of the scaler it is used with."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator

import libcst as cst

from amp_lint.model import Model
from amp_lint.syntax.assignments import held_in
from amp_lint.syntax.names import dotted

from .data import Checkpoint, OwnScaler, ScaledStep
from .elsewhere import Elsewhere
from .kept import Kept, owner
from .libraries import Libraries
from .loads import Loads
from .places import Places
from .saves import Saves
from .scalers import Scalers
from .spelling import Spelling
from .states import States
from .steps import ScaledSteps

_EPOCH = re.compile(r"(^|_)epoch$")


class Checkpoints:
    """Finds such checkpoints in files that own a scaler and say nothing of its state."""

    def __init__(self, model: Model) -> None:
        self.places = model.part(Places)
        self.states = model.part(States)
        self.scalers = model.part(Scalers)
        self.loads = model.part(Loads)
        self.steps = model.part(ScaledSteps)
        self.spelling = model.part(Spelling)
        self.saves = model.part(Saves)
        self.kept = model.part(Kept)
        self.libraries = model.part(Libraries)
        self.elsewhere = model.part(Elsewhere)
        self.own = model.tree
        self.tree = model.linked
        self.names = model.names
        self.values = model.values
        self.roles = model.roles
        self.program = model.program
        self.origins = model.origins
        self.recognizer = model.steps.recognizer
        self.halves = model.halves
        self.regions = model.regions

    @functools.cached_property
    def incomplete(self) -> list[Checkpoint]:
        """Every such checkpoint, in source order."""
        if not (self.scalers.made or self.steps.scaled):
            return []
        if self.kept.is_any_kept:
            return [*filter(self._may_lose_scale, self._forgotten())]
        if self._is_never_half:
            return []  # nothing overflows, so that no step is skipped
        found = [c for state in self._optimizer_states() if (c := self._checkpoint(state))]
        found += (
            *self.elsewhere.handed_on(),
            *self.elsewhere.registered(),
            *self.libraries.to_checkpointers,
            *self.libraries.in_dicts,
        )
        found = [*filter(self._may_lose_scale, found)]
        found.sort(key=lambda checkpoint: not checkpoint.is_stepped)
        unique = {
            self.saves.identity(checkpoint.node): checkpoint for checkpoint in reversed(found)
        }
        whole = {self.saves.place(c.node) for c in unique.values() if isinstance(c.node, cst.Dict)}
        others = (c for key, c in unique.items() if not key[1] or key not in whole)
        return sorted(others, key=lambda checkpoint: self.tree.order(checkpoint.node))

    @property
    def _is_never_half(self) -> bool:
        """Whether the regions of what goes backward are in sight, and none can be float16."""
        homes = (self.program.function_of(each.node) for each in self.regions.all)
        training = self.recognizer.training
        return self.halves.never_half and any(id(home) in training for home in homes if home)

    def _may_lose_scale(self, checkpoint: Checkpoint) -> bool:
        """Whether a scaler that is not saved may have to find its scale."""
        step = next((each for each in self.steps.scaled if each.call is checkpoint.steps), None)
        made = self.roles.scaler_origins(step.scaler) if step is not None else []
        return self.steps.may_find_scale(made or self.roles.constructors(checkpoint.steps))

    def _forgotten(self) -> Iterator[Checkpoint]:
        """One of several scalers that is not saved, though each of the others is: of those first.

        All that is saved is told by where it was made, and nothing that may save gets this one.
        """
        states = [call for call in self.own.nodes(cst.Call) if self.kept.is_state_of_scaler(call)]
        made = [self.roles.scaler_origins(owner(state)) for state in states]
        saved = {id(call) for calls in made for call in calls}
        if not states or any(len(calls) != 1 for calls in made):
            return
        for scaler in self.scalers.made:
            step = next((s for s in self.steps.scaled if self.steps.is_taken_by(s, scaler)), None)
            lost = id(scaler.call) not in saved and not self.kept.is_handed_to_save(scaler)
            if step is not None and lost and len(self.scalers.made) == len(saved) + 1:
                yield Checkpoint(states[0], step.optimizer, scaler.call, None, None, is_sure=False)

    def _optimizer_states(self) -> Iterator[cst.BaseExpression]:
        """The states of optimizers that this file asks for, but for those that others register.

        And optimizers that are saved whole, and whose states are loaded.
        """
        for element in self.own.nodes(cst.DictElement):
            if self._is_saved_whole(element) and self.loads.is_loaded(element.value):
                yield element.value
        for state in self.states.among(self.own.nodes(cst.Call)):
            owner = self.states.optimizer_of(state)
            if owner is not None and not self._is_put_elsewhere(owner):
                yield state

    def _is_saved_whole(self, element: cst.DictElement) -> bool:
        """Whether an optimizer is an item of a dict that is saved."""
        holder = self.tree.parent(element)
        if not isinstance(holder, cst.Dict) or not self.roles.is_optimizer(element.value):
            return False
        return any(self.saves.is_in_save(each) for each in (holder, *self.saves.uses(holder)))

    def _is_put_elsewhere(self, optimizer: cst.BaseExpression) -> bool:
        """Whether an optimizer comes out of a container that other files put it into."""
        held = self.names.bindings(optimizer) if isinstance(optimizer, cst.Name) else ()
        return any(map(held_in, held)) and any(
            self.origins.same(optimizer, value)
            for target, value in self.states.puts
            if not self.own.is_own(target)
        )

    def _checkpoint(self, state: cst.BaseExpression) -> Checkpoint | None:
        holder = self.saves.holder(self.saves.entry(state))
        if holder is None or not self.saves.is_saved(holder):
            return None
        function = self.tree.ancestor(holder, cst.FunctionDef)
        if function is not None and self.scalers.leaves_out(function):
            return None  # which is the mistake of those who call it
        optimizer = self.states.optimizer_of(state) or state
        step = self.steps.of(optimizer)
        scaler = self._scaler_for(holder, step)
        if self._is_of_an_epoch(scaler, step, holder):
            return None
        together = scaler is not None and self._are_given_to_train(scaler, optimizer)
        if step is None and not together and self.steps.is_stepped_directly(optimizer):
            return None
        if scaler is not None:
            known = isinstance(holder, cst.Dict) and len({*self.loads.keys}) <= 1
            code = self.spelling.of(scaler, holder) if known else None
            optional = self.spelling.optional(scaler, holder) if code is None and known else None
            key = next(iter(self.loads.keys), None)
            load = self.spelling.load_for(scaler) if key is None else None
            loaded = bool(self.loads.calls)
            return Checkpoint(
                holder,
                optimizer,
                scaler.call,
                code,
                load,
                optional,
                key,
                is_sure=loaded,
                is_stepped=step is not None,
            )
        if step is None:
            return None
        loaded = any(map(self.own.is_own, self.loads.calls)) or self.loads.is_loaded(optimizer)
        return Checkpoint(holder, optimizer, step.call, None, None, is_sure=loaded)

    def _are_given_to_train(self, scaler: OwnScaler, optimizer: cst.BaseExpression) -> bool:
        """Whether a call that trains gets both a scaler and an optimizer."""
        both = {dotted(scaler.target), dotted(optimizer)}
        calls = self.tree.below(scaler.unit, cst.Call)
        given = (
            {dotted(arg.value) for arg in call.args} for call in calls if self.scalers.trains(call)
        )
        return any(map(both.issubset, given))

    def _is_of_an_epoch(
        self, scaler: OwnScaler | None, step: ScaledStep | None, saved: cst.BaseExpression
    ) -> bool:
        """Whether a scaler is made in each epoch, and a checkpoint in none: nothing is lost."""
        made = [scaler.call] if scaler is not None else []
        made += self.roles.scaler_origins(step.scaler) if step is not None else []
        return bool(made) and all(
            self._is_ended(call, saved) or self._is_of_the_round(call, saved) for call in made
        )

    def _is_of_the_round(self, made: cst.Call, saved: cst.BaseExpression) -> bool:
        """Whether a scaler is made at the start of a round, and a checkpoint at the end of it."""
        loop = self._round(made)
        return loop is not None and loop is self._round(saved)

    def _round(self, node: cst.CSTNode) -> cst.CSTNode | None:
        """The loop that a place is in, in its function."""
        holder = self.tree.ancestor(node, cst.For, cst.While, cst.FunctionDef)
        return None if isinstance(holder, cst.FunctionDef) else holder

    def _is_ended(self, made: cst.Call, saved: cst.BaseExpression) -> bool:
        """Whether a scaler is a variable of the function of an epoch that does not run another."""
        saving = self.tree.ancestor(saved, cst.FunctionDef)
        home, target = self.tree.ancestor(made, cst.FunctionDef), self.places.target(made)
        if home is None or not isinstance(target, cst.Name) or not _EPOCH.search(home.name.value):
            return False
        run = [
            function for c in self.tree.below(home, cst.Call) for function in self.places.reached(c)
        ]
        return all(function is not saving for function in (home, *run))

    def _scaler_for(self, holder: cst.BaseExpression, step: ScaledStep | None) -> OwnScaler | None:
        """The scaler of the code that makes a checkpoint; of several that which takes the step."""
        serving = [scaler for scaler in self.scalers.made if self._serves(scaler, holder)]
        made = self.roles.scaler_origins(step.scaler) if step is not None else ()
        taking = (scaler for scaler in serving if any(scaler.call is call for call in made))
        return next(iter((*taking, *serving)), None)

    def _serves(self, scaler: OwnScaler, holder: cst.BaseExpression) -> bool:
        """Whether a scaler belongs to the code that makes a checkpoint, or that calls it."""
        unit = self.places.unit(holder)
        if unit is scaler.unit:
            return True
        if isinstance(unit, cst.ClassDef) and isinstance(scaler.unit, cst.ClassDef):
            return any(unit is each for each in self.values.lineage(scaler.unit))
        return isinstance(unit, cst.FunctionDef) and any(
            self.tree.contains(scaler.unit, call) for call in self.program.calls_of(unit)
        )
