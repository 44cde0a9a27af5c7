"""The scalers that a file makes, keeps and lets find their scale."""

from __future__ import annotations

import functools

import libcst as cst

from amp_lint.flow.values import arguments
from amp_lint.model import Model
from amp_lint.syntax.names import dotted
from amp_lint.vocabulary.amp import STEPPER_CALL
from amp_lint.vocabulary.meaning import Part

from .data import OwnScaler, ScaledStep, Unit
from .naming import OF_SCALER, STATE_METHODS, TRAINS, last
from .places import Places


class Scalers:
    """The scalers of this file, and what may be one."""

    def __init__(self, model: Model) -> None:
        self.places = model.part(Places)
        self.own = model.tree
        self.tree = model.linked
        self.names = model.names
        self.roles = model.roles
        self.program = model.program
        self.origins = model.origins
        self.recognizer = model.steps.recognizer

    @functools.cached_property
    def made(self) -> list[OwnScaler]:
        """The scalers that this file makes, keeps under a name, and lets find their scale."""
        found = []
        for call in (*self.roles.scaler_calls, *filter(self.own.is_own, self.roles.steppers)):
            target = self.places.target(call)
            if target is None or self.roles.is_never_on(call):
                continue
            scaler = OwnScaler(call, target, self.places.unit(call))
            if dotted(target) and (self._updates_in(scaler.unit) or self._is_trained_with(scaler)):
                found.append(scaler)
        return found

    def _updates_in(self, unit: Unit) -> bool:
        """Whether some scaler is updated in a function, class or module."""
        updates = (*self.recognizer.updates, *(step.call for step in self.whole_steps))
        return any(self.tree.contains(unit, update) for update in updates)

    def _is_trained_with(self, scaler: OwnScaler) -> bool:
        """Whether the code that makes a scaler hands it to a function that updates it."""
        name = dotted(scaler.target)
        calls = self.tree.below(scaler.unit, cst.Call)
        return any(
            self.trains(call) for call in calls if any(dotted(a.value) == name for a in call.args)
        )

    def trains(self, call: cst.Call) -> bool:
        """Whether a function updates a scaler; one that nobody knows, if its name says so."""
        if self.program.target(call) is None:
            return bool(TRAINS.search(last(call.func)))
        return any(map(self._updates_in, self.places.reached(call)))

    def is_scaler(self, node: cst.BaseExpression) -> bool:
        """Whether an expression is a scaler, or may be one by its name."""
        named = OF_SCALER.search(last(node)) and not self.roles.scales_data(node)
        if named or self._is_apex(node) or self.roles.is_scaler(node):
            return True
        if not isinstance(node, (cst.Name, cst.Attribute)):
            return False
        known = self.origins.classes(node)
        return any(id(owner) in self.wrappers for owner in known) or self._is_stepper(node)

    def may_hold_scaler(self, node: cst.BaseExpression) -> bool:
        """Whether something is a scaler, be it one of several things with a state."""
        return any(map(self.roles.is_constructor, self.origins.makers(node)))

    def _is_stepper(self, node: cst.BaseExpression) -> bool:
        """Whether an expression is a library's scaler that takes a whole step when it is called."""
        made = self.origins.makers(node) if self.roles.steppers else ()
        return any(map(self.roles.is_stepper, made))

    def _is_apex(self, node: cst.BaseExpression) -> bool:
        """Whether something is ``amp`` of apex, which keeps its own scaler: not a switch."""
        if not isinstance(node, cst.Name) or node.value != "amp":
            return False
        qualified = self.names.qualified(node)
        known = any(name.partition(".")[0] == "apex" for name in qualified)
        return known or not self.names.bindings(node)

    @functools.cached_property
    def wrappers(self) -> set[int]:
        """Ids of the classes whose own state is that of the scaler in them."""
        calls = filter(self.is_passed_on, self.tree.nodes(cst.Call))
        owners = (self.tree.ancestor(call, cst.ClassDef) for call in calls)
        return {id(owner) for owner in owners if owner is not None}

    def is_passed_on(self, call: cst.Call) -> bool:
        """``return self.scaler.state_dict()`` in a method of that name, or the same for loading."""
        func = call.func
        if not isinstance(func, cst.Attribute) or func.attr.value not in STATE_METHODS:
            return False
        function = self.tree.ancestor(call, cst.FunctionDef)
        alone = isinstance(self.tree.parent(call), (cst.Return, cst.Expr))
        named = function is not None and function.name.value == func.attr.value
        return alone and named and self.roles.is_scaler(func.value)

    @functools.cached_property
    def whole_steps(self) -> list[ScaledStep]:
        """The steps that a library's scaler takes with all that belongs to one: ``s(loss, o)``."""
        found = []
        for call in self.tree.nodes(cst.Call) if self.roles.steppers else ():
            optimizer = arguments(call).get(*STEPPER_CALL.place(Part.OPTIMIZER))
            if optimizer is not None and self._is_stepper(call.func):
                found.append(ScaledStep(call, call.func, optimizer))
        return found

    def is_of_another(self, scaler: cst.BaseExpression | None) -> bool:
        """Whether a scaler is certainly none of this file, which has its own."""
        made = self.roles.scaler_origins(scaler) if scaler is not None else []
        own = any(self.own.is_own(each.call) for each in self.made)
        return own and bool(made) and not any(map(self.own.is_own, made))

    def leaves_out(self, function: cst.FunctionDef) -> bool:
        """Whether a function would save a scaler that no call gives it."""
        params = (*function.params.params, *function.params.kwonly_params)
        return any(
            OF_SCALER.search(each.name.value) and self.program.is_left_out(each) for each in params
        )
