"""Which tests ask for what switches AMP on, and so choose only between AMP and none."""

from __future__ import annotations

import functools
import itertools

import libcst as cst

from amp_lint.flow.conditions import text
from amp_lint.flow.values import arguments
from amp_lint.model import Model
from amp_lint.syntax.names import Binding


class Switches:
    """What autocast and the scalers of a file are switched on by."""

    def __init__(self, model: Model) -> None:
        self._model = model

    def is_asked(self, test: cst.BaseExpression, choice: cst.If) -> bool:
        """Whether a test asks for a switch, which has the value there that it is asked for.

        A ``choice`` is one for AMP only where what its arms do is switched by what it asks.
        """
        asked = text(test)
        known = self._given.get(asked, [])
        return bool(known) and self._is_same(test, known) and self._is_of(choice, asked)

    @functools.cached_property
    def _given(self) -> dict[str, list[cst.BaseExpression]]:
        """Each switch as it is written -> where it is."""
        found: dict[str, list[cst.BaseExpression]] = {}
        for value in (*self._of_regions, *self._of_scalers):
            found.setdefault(text(value), []).append(value)
        return found

    @functools.cached_property
    def _of_regions(self) -> list[cst.BaseExpression]:
        regions = self._model.regions.all
        return [region.enabled for region in regions if region.enabled is not None]

    @functools.cached_property
    def _of_scalers(self) -> list[cst.BaseExpression]:
        given = (arguments(call).get(None, "enabled") for call in self._model.roles.scaler_calls)
        return [value for value in given if value is not None]

    def _is_same(self, test: cst.BaseExpression, known: list[cst.BaseExpression]) -> bool:
        """Whether a name that is asked was bound where one of those was that switch AMP."""
        if not isinstance(test, cst.Name):
            return True
        tree, flow = self._model.tree, self._model.flow
        within = tree.ancestor(test, cst.FunctionDef)
        beside = [
            each
            for each in known
            if isinstance(each, cst.Name) and tree.ancestor(each, cst.FunctionDef) is within
        ]
        bound = _nodes(flow.reaching(test))
        return not beside or any(_nodes(flow.reaching(each)) == bound for each in beside)

    def _is_of(self, choice: cst.If, asked: str) -> bool:
        """Whether each scaler in a choice is switched by what it asks, or else a region is."""
        if any(text(value) == asked for value in self._of_regions):
            return True
        roles = self._model.roles
        calls = self._model.tree.below(choice, cst.Call)
        owners = [each.func.value for each in calls if isinstance(each.func, cst.Attribute)]
        made = itertools.chain.from_iterable(map(roles.scaler_origins, owners))
        switches = [roles.switch(each) for each in made]
        return all(each is not None and text(each) == asked for each in switches)


def _nodes(bindings: list[Binding]) -> set[int]:
    return {id(binding.node) for binding in bindings}
