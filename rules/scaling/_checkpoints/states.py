"""The optimizers whose states a program asks for."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator

import libcst as cst

from amp_lint.flow.origins import unwrapped
from amp_lint.model import Model
from amp_lint.syntax.assignments import assignments
from amp_lint.syntax.names import dotted
from amp_lint.syntax.returns import returned
from amp_lint.vocabulary.amp import STATE_DICT
from amp_lint.vocabulary.training import (
    makes_optimizer,
)


class States:
    """What asks for the state of an optimizer."""

    def __init__(self, model: Model) -> None:
        self.tree = model.linked
        self.names = model.names
        self.values = model.values
        self.roles = model.roles
        self.program = model.program
        self.origins = model.origins

    def optimizer_of(self, node: cst.BaseExpression) -> cst.BaseExpression | None:
        """The optimizer whose state an expression asks for, itself or by a helper."""
        if not isinstance(node, cst.Call):
            return None
        owner = asked_for_state(node) or self._asked_by(node)
        return owner if owner is not None and self.may_be_optimizer(owner) else None

    def _asked_by(self, call: cst.Call) -> cst.BaseExpression | None:
        """What a helper that gives the state of its argument is given."""
        function = self.program.target(call) if call.args else None
        if function is None:
            return None
        values = (v for each in returned(function) for v in self.values.alternatives(each))
        names = (dotted(owner) for owner in map(asked_for_state, values) if owner is not None)
        bound = self.program.bind(function, call)
        return next((bound[name] for name in names if name in bound), None)

    def may_be_optimizer(self, node: cst.BaseExpression) -> bool:
        """Whether something is an optimizer, be it one of several things with a state."""
        if self.roles.is_optimizer(node):
            return True
        given = self.origins.given(node) if isinstance(node, cst.Name) else []
        given += self.origins.in_rows(node) if isinstance(node, cst.Name) else []
        made = (call.func for call in self.origins.makers(node))
        return any(map(self.roles.is_optimizer, given)) or any(
            makes_optimizer(name) for func in made for name in self.names.qualified(func)
        )

    def among(self, calls: Iterable[cst.Call]) -> Iterator[cst.Call]:
        """``optimizer.state_dict()``."""
        return (call for call in calls if self.optimizer_of(call) is not None)

    @functools.cached_property
    def puts(self) -> list[tuple[cst.Subscript, cst.BaseExpression]]:
        """The items that an optimizer is assigned to, and that."""
        return [
            (target, value)
            for target, value in assignments(self.tree)
            if isinstance(target, cst.Subscript) and value and self.roles.is_optimizer(value)
        ]


def asked_for_state(node: cst.BaseExpression) -> cst.BaseExpression | None:
    """``x`` of ``x.state_dict()``, be it wrapped by a framework."""
    match node:
        case cst.Call(func=cst.Attribute(value=owner, attr=cst.Name(value=name))):
            return unwrapped(owner) if name in STATE_DICT.words else None
    return None
