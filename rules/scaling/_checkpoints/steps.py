"""The steps of optimizers by scalers that may be on."""

from __future__ import annotations

import functools
from collections.abc import Iterator

import libcst as cst

from amp_lint.amp.events import stepped
from amp_lint.model import Model
from amp_lint.syntax.returns import returned
from amp_lint.vocabulary.amp import STATE_DICT
from amp_lint.vocabulary.frameworks import ENGINES, KEEPING
from amp_lint.vocabulary.written import STEPS

from .._precision import Precision
from .data import OfFramework, OwnScaler, ScaledStep
from .scalers import Scalers
from .states import States


class ScaledSteps:
    """Which optimizer is stepped by a scaler, and by which."""

    def __init__(self, model: Model) -> None:
        self.states = model.part(States)
        self.scalers = model.part(Scalers)
        self.tree = model.linked
        self.values = model.values
        self.roles = model.roles
        self.origins = model.origins
        self.precision = model.part(Precision)

    @functools.cached_property
    def scaled(self) -> list[ScaledStep]:
        """The steps of this file, and of those linked with it, by a scaler that may be on."""
        found = []
        for call in self.tree.nodes(cst.Call):
            func, optimizer = call.func, stepped(call)
            if not isinstance(func, cst.Attribute) or func.attr.value not in STEPS:
                continue
            if optimizer is None or self._is_stand_in(func.value):
                continue
            if self.roles.is_scaler(func.value) and self.roles.may_be_on(func.value):
                found.append(ScaledStep(call, func.value, optimizer))
        return [*found, *self.scalers.whole_steps, *self._framework_steps]

    def _is_stand_in(self, scaler: cst.BaseExpression) -> bool:
        """Whether something is of classes that are no scalers, have none, and are given none."""
        owners = self.origins.classes(scaler)
        if self.roles.scaler_origins(scaler):
            return False
        return bool(owners) and not any(
            owner.bases or any(map(self.scalers.is_scaler, self.tree.below(owner.body, cst.Name)))
            for owner in owners
        )

    @functools.cached_property
    def _framework_steps(self) -> list[ScaledStep]:
        """The steps of optimizers that a framework prepared, which its own scaler takes.

        Where nothing that is seen saves or loads all that the framework has. The state of such an
        optimizer is that of the one it was made of, without the scaler.
        """
        frameworks = self.roles.frameworks
        found: list[ScaledStep] = []
        if any(map(self.tree.named, ENGINES)):
            return found
        for call in self.tree.nodes(cst.Call):
            func = call.func
            if not isinstance(func, cst.Attribute) or func.attr.value not in STEPS or call.args:
                continue
            for made in frameworks.preparations(func.value):
                owner = made.call.func
                kept = any(map(self.tree.named, KEEPING.get(made.owner, ())))
                if kept or made.owner not in KEEPING or not isinstance(owner, cst.Attribute):
                    continue
                if frameworks.may_skip(made, named=False):
                    found.append(ScaledStep(call, owner.value, func.value))
        return found

    def framework_of(self, step: cst.Call) -> OfFramework | None:
        """The framework whose scaler takes a step."""
        scaler = next((each.scaler for each in self._framework_steps if each.call is step), None)
        optimizer = step.func.value if isinstance(step.func, cst.Attribute) else None
        if scaler is None or optimizer is None:
            return None
        frameworks = self.roles.frameworks
        prepared = frameworks.preparations(optimizer)
        named = any(map(frameworks.may_skip, prepared))
        return OfFramework(prepared[0].owner, scaler, named)

    def is_of(self, step: ScaledStep, optimizer: cst.BaseExpression) -> bool:
        """Whether a step is one of an optimizer that is saved, or of the one that this wraps."""
        inside = [*self._wrapped_in(optimizer)]
        return any(self.origins.same(step.optimizer, each) for each in (optimizer, *inside))

    def _wrapped_in(self, optimizer: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
        """The optimizers whose state that of an object is."""
        for owner in self.origins.classes(optimizer):
            for name in STATE_DICT.words:
                function = self.values.method(owner, name)
                for given in returned(function) if function is not None else ():
                    if (inner := self.states.optimizer_of(given)) is not None:
                        yield inner

    def is_stepped_directly(self, optimizer: cst.BaseExpression) -> bool:
        """Whether a step without a scaler is one of an optimizer that is saved."""
        prepared = {id(step.call) for step in self._framework_steps}
        calls = (call for call in self.tree.nodes(cst.Call) if id(call) not in prepared)
        called = (call.func for call in calls if not call.args)
        return any(
            isinstance(func, cst.Attribute)
            and func.attr.value in STEPS
            and self.origins.same(func.value, optimizer)
            for func in called
        )

    def of(self, optimizer: cst.BaseExpression) -> ScaledStep | None:
        """The first step of an optimizer that is saved, or of the one that this wraps."""
        return next((step for step in self.scaled if self.is_of(step, optimizer)), None)

    @property
    def made_for_steps(self) -> list[cst.Call]:
        """The scalers of all steps that are known, also of other files."""
        return [made for step in self.scaled for made in self.roles.scaler_origins(step.scaler)]

    def is_scaled(self, optimizer: cst.BaseExpression) -> bool:
        """Whether a scaler that has to find its scale steps an optimizer, and nothing else does."""
        steps = (step.scaler for step in self.scaled if self.is_of(step, optimizer))
        made = map(self.roles.scaler_origins, steps)
        stepped = any(map(self.may_find_scale, made))
        return stepped and not self.is_stepped_directly(optimizer)

    def is_taken_by(self, step: ScaledStep, scaler: OwnScaler) -> bool:
        made = self.roles.scaler_origins(step.scaler)
        return len(made) == 1 and made[0] is scaler.call

    def may_find_scale(self, made: list[cst.Call]) -> bool:
        """Whether one of some scalers may serve something float16; one that is not known may."""
        return not made or any(map(self.precision.may_serve_half, made))
