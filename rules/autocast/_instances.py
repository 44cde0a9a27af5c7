"""Which places enter the same autocast object, and whether one does so within another."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import libcst as cst

from amp_lint.amp.reach import Chain
from amp_lint.amp.regions import Entered
from amp_lint.flow.branches import arms
from amp_lint.model import Model
from amp_lint.syntax.names import Binding, dotted

_MOST_BRANCHES = 8
_ME = ("self", "cls")


@dataclass(frozen=True, slots=True)
class Instance:
    """What identifies one object."""

    made: int
    """``id`` of the node that binds or uses it."""
    name: str
    own: bool = False
    """Whether it belongs to an object, so that other objects have another."""
    local: bool = False
    """Whether each call of a function makes one."""


@dataclass(frozen=True, slots=True, eq=False)
class Reentry:
    """One place that enters an object which is active there."""

    inner: Entered
    outer: Entered
    chain: Chain


class Instances:
    """Tells autocast objects apart by what they are bound to."""

    def __init__(self, model: Model) -> None:
        self.tree = model.linked
        self.names = model.names
        self.values = model.values
        self.regions = model.regions
        self.reach = model.reach

    @functools.cached_property
    def reentries(self) -> list[Reentry]:
        """The places that enter an object a second time, in source order."""
        found = (self._reentry(entered) for entered in self.regions.entries)
        return [reentry for reentry in found if reentry is not None]

    def of(self, entered: Entered) -> Instance | None:
        """The object that is entered; None if it is new each time, or may be several."""
        context = entered.context
        if not self._is_autocast(entered):
            return None
        known = self.values.original(context)
        if isinstance(known, cst.Name):
            return self._of_name(known)
        if isinstance(known, cst.Attribute):
            return self._of_attribute(known)
        if isinstance(entered.holder, cst.FunctionDef):
            return Instance(id(entered.holder), entered.holder.name.value)
        return None

    def _is_autocast(self, entered: Entered) -> bool:
        """Whether it is an object of torch: those of `contextlib` renew themselves, or raise."""
        made = entered.region.node
        values = self.values.alternatives(entered.context)
        return bool(entered.region.function) and any(value is made for value in values)

    def _of_name(self, name: cst.Name) -> Instance | None:
        bindings = self.names.bindings(name)
        if not bindings or not all(b.kind == "assign" for b in bindings):
            return None
        if not self._is_one(bindings):
            return None
        scope = self.names.scope(bindings[0].node).node
        local = not isinstance(scope, (cst.Module, cst.ClassDef))
        return Instance(id(bindings[0].node), name.value, local=local)

    def _is_one(self, bindings: Sequence[Binding]) -> bool:
        """Whether no more than one of several assignments runs, as in the branches of a test."""
        if len(bindings) > _MOST_BRANCHES:
            return False
        ways = [dict(arms(self.tree, binding.node)) for binding in bindings]
        return all(
            any(other.get(test, holds) != holds for test, holds in one.items())
            for one, other in itertools.combinations(ways, 2)
        )

    def _of_attribute(self, attribute: cst.Attribute) -> Instance | None:
        owner, name = self.values.enclosing_class(attribute), attribute.attr.value
        if owner is None or dotted(attribute.value) not in _ME:
            return None
        if self.values.function(attribute) is not None:
            return None  # a property may make a new one each time
        assigned_once = len(self.values.attribute_values(attribute)) == 1
        return Instance(id(owner), name, own=True) if assigned_once else None

    def _reentry(self, inner: Entered) -> Reentry | None:
        instance = self.of(inner)
        if instance is None or inner.region.never_enabled:
            return None
        start = inner.holder if isinstance(inner.holder, cst.With) else inner.context
        for chain in self.reach.chains(start):
            if chain.calls and not self._is_kept(instance, chain):
                continue
            for outer in chain.entered:
                if self.of(outer) == instance:
                    return Reentry(inner, outer, chain)
        return None

    def _is_kept(self, instance: Instance, chain: Chain) -> bool:
        """Whether the callers of a chain mean the same object by the same name."""
        if instance.own:
            return all(
                isinstance(call.func, cst.Attribute) and dotted(call.func.value) in _ME
                for call in chain.calls
            )
        return not instance.local
