"""Attributes that are something, or None, as a test decides when their object is made.

``self.scaler = GradScaler() if cfg.amp else None`` in one method and ``if self.scaler is None:`` in
another: who asks for the scaler there asks for the setting, wherever that is kept.
"""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import libcst as cst

from amp_lint.flow.branches import arms
from amp_lint.flow.conditions import Equals, Formula, Truthy, atoms, both, either, formula, opposite
from amp_lint.flow.values import Values, literal
from amp_lint.syntax.assignments import assignments
from amp_lint.syntax.names import dotted
from amp_lint.syntax.tree import descendants

_MOST_ATOMS = 4
"""Values that a test may ask for, to be remembered."""


@dataclass(frozen=True, slots=True)
class _Choice:
    target: cst.Attribute
    test: cst.BaseExpression
    holds: bool
    """Whether there is something where the test holds."""
    kept: dict[str, str]
    """Names of the method, by the attributes that keep them."""


class Choices:
    """What decides whether attributes are None."""

    def __init__(self, values: Values) -> None:
        self._values = values
        self._known: dict[str, Formula] = {}

    @functools.cached_property
    def tests(self) -> list[tuple[cst.BaseExpression, cst.BaseExpression]]:
        """Attributes, each with the test that decides about it."""
        return [(choice.target, choice.test) for choice in self._choices.values()]

    def about(self, keys: Iterable[str]) -> Formula:
        """What is so of the values under some keys, on every path."""
        if not self._choices:
            return True
        return both(*map(self._about, keys))

    def _about(self, key: str) -> Formula:
        owner, _, name = key.rpartition(".")
        choice = self._choices.get(name) if owner else None
        if choice is None:
            return True
        if key not in self._known:
            self._known[key] = self._formula(owner, key, choice)
        return self._known[key]

    def _formula(self, owner: str, key: str, choice: _Choice) -> Formula:
        def key_of(node: cst.BaseExpression) -> str | None:
            if isinstance(node, cst.Attribute):
                holder = key_of(node.value)
                return f"{holder}.{self._values.setting(node)}" if holder else None
            if not isinstance(node, cst.Name):
                return None
            if node.value in choice.kept:
                return f"{owner}.{choice.kept[node.value]}"
            return owner if node.value == "self" else self._values.names.key(node)

        there = formula(choice.test, key_of, self._values.constant)
        if isinstance(there, bool) or len(atoms(there)) > _MOST_ATOMS:
            return True
        there = there if choice.holds else opposite(there)
        return either(both(there, Truthy(key)), both(opposite(there), Equals(key, None)))

    @functools.cached_property
    def _choices(self) -> dict[str, _Choice]:
        """By its name, each attribute that one object makes, or leaves None, in one method."""
        given: dict[str, list[tuple[cst.Attribute, cst.BaseExpression | None]]] = defaultdict(list)
        for target, value in assignments(self._values.tree):
            if isinstance(target, cst.Attribute) and dotted(target.value) == "self":
                given[target.attr.value].append((target, value))
        found = {name: self._chosen(pairs) for name, pairs in given.items()}
        return {name: choice for name, choice in found.items() if choice is not None}

    def _chosen(
        self, pairs: list[tuple[cst.Attribute, cst.BaseExpression | None]]
    ) -> _Choice | None:
        target, value = pairs[0]
        decided: tuple[cst.BaseExpression, bool] | None = None
        if len(pairs) == 1 and isinstance(value, cst.IfExp):
            decided = _by_expression(value)
        elif len(pairs) == 2:
            decided = self._by_statement([each for _, each in pairs])
        owner = self._values.enclosing_class(target)
        if decided is None or owner is None:
            return None
        if self._values.times_set(target.attr.value) != len(pairs):
            return None
        kept = dict(self._kept(owner))
        return _Choice(target, *decided, kept) if self._is_named(decided[0], kept) else None

    def _by_statement(
        self, values: list[cst.BaseExpression | None]
    ) -> tuple[cst.BaseExpression, bool] | None:
        """The test under which an attribute is made, that is None else, or was before."""
        tree = self._values.tree
        made = [value for value in values if isinstance(value, cst.Call)]
        absent = [value for value in values if value is not None and literal(value) is None]
        if len(made) != 1 or len(absent) != 1:
            return None
        if tree.ancestor(made[0], cst.FunctionDef) is not tree.ancestor(absent[0], cst.FunctionDef):
            return None
        decided = [*arms(tree, made[0])]
        if not decided:
            return None
        (test, holds), *around = decided
        others = [*arms(tree, absent[0])]
        earlier = others == around and tree.order(absent[0]) < tree.order(made[0])
        is_either = earlier or others == [(test, not holds), *around]
        return (test, holds) if is_either else None

    def _kept(self, owner: cst.ClassDef) -> Iterator[tuple[str, str]]:
        """Names that a method gives to attributes, which nothing else is given."""
        for name, values in self._values.class_attributes(owner).items():
            for value in values:
                if isinstance(value, cst.Name) and self._is_kept(value, name):
                    yield value.value, name

    def _is_kept(self, value: cst.Name, name: str) -> bool:
        once = len(self._values.names.bindings(value)) == 1
        return once and self._values.times_set(name) == 1

    def _is_named(self, test: cst.BaseExpression, kept: dict[str, str]) -> bool:
        """Whether all that a test asks for has a name elsewhere, and is set once at most."""
        parts = test, *descendants(test)
        if any(isinstance(part, (cst.Call, cst.NamedExpr, cst.Lambda)) for part in parts):
            return False
        read = {id(part.attr): part.attr.value for part in parts if isinstance(part, cst.Attribute)}
        names = {p.value for p in parts if isinstance(p, cst.Name) and id(p) not in read}
        method = self._values.tree.ancestor(test, cst.FunctionDef)
        local = self._values.names.local(method) if method is not None else frozenset()
        once = all(self._values.times_set(name) <= 1 for name in read.values())
        return once and not (names & local) - {*kept, "self"}


def _by_expression(value: cst.IfExp) -> tuple[cst.BaseExpression, bool] | None:
    """The test under which a value is made, by a call, and whether it holds then.

    None where the value is not None else.
    """
    if isinstance(value.body, cst.Call) and literal(value.orelse) is None:
        return value.test, True
    is_made = isinstance(value.orelse, cst.Call) and literal(value.body) is None
    return (value.test, False) if is_made else None
