"""Settings that nothing in a file changes once they are set, and those that switch AMP on."""

from __future__ import annotations

import functools
import itertools
from dataclasses import dataclass

import libcst as cst

from amp_lint.flow.conditions import text
from amp_lint.model import Model
from amp_lint.syntax.names import Binding, dotted
from amp_lint.syntax.tree import descendants
from amp_lint.verify.compare.side import Side
from amp_lint.verify.compare.units import Unit
from amp_lint.verify.terms import WHEN, Form, Input, Op, Term, mapped

_BY_TEXT = ("__setattr__", "delattr", "setattr")
"""Functions that store attributes which they name by their text."""
_AS_DICT = ("__dict__", "vars")
"""What gives the attributes of an object as a dict, which stores them if it is changed."""


@dataclass(eq=False)
class Settings:
    """Those of one text."""

    side: Side

    def in_unit(self, unit: Unit, term: Term) -> Term:
        """A term of a function with its settings read at whatever time.

        What code of other files does to an object that it is handed is not known; that it changes
        a setting while a step runs is not assumed.
        """
        match term:
            case Input(key) if self._is_settled(unit, key):
                return Input(key)
            case Op(Form.ATTRIBUTE, name, (owner,)) if self._is_kept(name):
                return Op(term.form, name, (self.in_unit(unit, owner),))
            case Op(Form.ATTRIBUTE) if WHEN in dict(term.keywords):
                return term
            case Op():
                return mapped(term, functools.partial(self.in_unit, unit))
        return term

    def _is_settled(self, unit: Unit, key: str) -> bool:
        owner, *attributes = key.split(".")
        if not attributes or not all(map(self._is_kept, attributes)):
            return False
        paths = {".".join([owner, *attributes[:count]]) for count in range(len(attributes))}
        return owner in ("self", "cls") or not paths & self._asked_to_do(unit)

    def _is_kept(self, attribute: str) -> bool:
        return not self._stores_by_text and attribute not in self._stored

    def _asked_to_do(self, unit: Unit) -> set[str]:
        """The objects whose methods a function calls."""
        calls = self.side.model.tree.below(unit, cst.Call)
        owners = (each.func.value for each in calls if isinstance(each.func, cst.Attribute))
        return {dotted(owner) or "" for owner in owners}

    @functools.cached_property
    def _stores_by_text(self) -> bool:
        tree = self.side.model.tree
        if any(tree.named(word) for word in _BY_TEXT):
            return True
        holders = (tree.parent(node) for word in _AS_DICT for node in tree.named(word))
        kept = (cst.Attribute, cst.Subscript, cst.Assign, cst.AnnAssign, cst.NamedExpr)
        return any(isinstance(tree.parent(h), kept) for h in holders if h is not None)

    @functools.cached_property
    def _stored(self) -> frozenset[str]:
        """The attributes that are assigned outside of constructors, or deleted."""
        tree = self.side.model.tree
        stores = (
            cst.AssignTarget, cst.AugAssign, cst.AnnAssign, cst.For, cst.CompFor, cst.AsName,
            cst.Del, cst.NamedExpr,
        )  # fmt: skip
        found: set[str] = set()
        for node in (each for kind in stores for each in tree.nodes(kind)):
            target = node.name if isinstance(node, cst.AsName) else getattr(node, "target", node)
            home = tree.ancestor(node, cst.FunctionDef)
            if not (isinstance(home, cst.FunctionDef) and home.name.value == "__init__"):
                parts = (target, *descendants(target))
                found.update(p.attr.value for p in parts if isinstance(p, cst.Attribute))
        return frozenset(found)


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
        roles = self._model.roles
        given = map(roles.switch, roles.scaler_calls)
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
