"""Optimizers that a library's checkpointer is given, and saves."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator

import libcst as cst

from amp_lint.flow.values import arguments, literal
from amp_lint.model import Model
from amp_lint.syntax.names import dotted
from amp_lint.vocabulary.training import (
    CHECKPOINTERS,
    GIVEN_LATER,
    GIVEN_TO_LOAD,
    GIVEN_TO_SAVE,
    LOADS_GIVEN,
    RESUME,
)
from amp_lint.vocabulary.written import is_about_scaler

from .data import Checkpoint
from .naming import last
from .saves import Saves
from .steps import ScaledSteps


class Libraries:
    """What libraries save and load as it is given to them."""

    def __init__(self, model: Model) -> None:
        self.steps = model.part(ScaledSteps)
        self.saves = model.part(Saves)
        self.own = model.tree
        self.tree = model.linked
        self.names = model.names
        self.values = model.values
        self.roles = model.roles
        self.program = model.program
        self.origins = model.origins

    @functools.cached_property
    def to_checkpointers(self) -> list[Checkpoint]:
        """The optimizers that a library's checkpointer is given, which are stepped by scalers.

        Where it resumes, and is given nothing later.
        """
        calls = [*filter(self.own.is_own, self.tree.nodes(cst.Call))]
        made = [c for c in calls if self._is_checkpointer(c.func)]
        resumes = any(last(call.func) == RESUME and self._may_resume(call) for call in calls)
        later = (self.tree.parent(name) for name in self.tree.named(GIVEN_LATER))
        if not resumes or any(not _is_own(attribute) for attribute in later):
            return []
        found = []
        for call in made:
            given = [arg for arg in call.args if arg.keyword is not None]
            hidden = any(arg.star or self.roles.is_scaler(arg.value) for arg in call.args)
            steps = (
                (a, s) for a in given for s in self.steps.scaled if self.steps.is_of(s, a.value)
            )
            found += [
                Checkpoint(arg.value, arg.value, step.call, None, None, is_given=True)
                for arg, step in itertools.islice(steps, not hidden)
            ]
        return found

    @functools.cached_property
    def in_dicts(self) -> list[Checkpoint]:
        """The dicts of objects that a library saves and loads, an optimizer among them."""
        loaded = [e.value for given in self._dicts_given(GIVEN_TO_LOAD) for e in _entries(given)]
        found = []
        for given in self._dicts_given(GIVEN_TO_SAVE) if loaded else ():
            entries = _entries(given)
            steps = (
                (e, s) for e in entries for s in self.steps.scaled if self.steps.is_of(s, e.value)
            )
            if len(entries) < len(given.elements) or not self.own.is_own(given):
                continue
            for entry, step in itertools.islice(steps, 1):
                again = any(self.origins.same(entry.value, each) for each in loaded)
                if again and not any(map(self._is_handed_on, self.saves.uses(given))):
                    made = Checkpoint(given, entry.value, step.call, None, None, is_given=True)
                    found.append(made)
        return found

    def _is_handed_on(self, use: cst.Name) -> bool:
        """Whether other code than that library's gets a dict, and may put the scaler into it."""
        parent = self.tree.parent(use)
        named = parent.keyword if isinstance(parent, cst.Arg) else None
        known = named is not None and named.value in (GIVEN_TO_LOAD, GIVEN_TO_SAVE)
        return not known and self.saves.may_grow(use)

    def _dicts_given(self, keyword: str) -> Iterator[cst.Dict]:
        """The dicts that functions of other packages are given by a keyword of ignite's."""
        for arg in self.tree.nodes(cst.Arg):
            call = self.tree.parent(arg)
            if arg.keyword is None or arg.keyword.value != keyword:
                continue
            if not isinstance(call, cst.Call) or self.program.target(call) is not None:
                continue
            if keyword == GIVEN_TO_SAVE or last(call.func) == LOADS_GIVEN:
                values = self.values.alternatives(arg.value)
                yield from (value for value in values if isinstance(value, cst.Dict))

    def _may_resume(self, call: cst.Call) -> bool:
        resume = arguments(call).get(1, "resume")
        return resume is None or literal(resume) is not False

    def _is_checkpointer(self, maker: cst.BaseExpression) -> bool:
        """Whether a class is a library's checkpointer, or derived from it and knows no scaler."""
        if self.names.is_any(maker, CHECKPOINTERS):
            return True
        owner = self.names.definition(maker)
        bases = owner.bases if isinstance(owner, cst.ClassDef) else ()
        if owner is None or not any(self.names.is_any(b.value, CHECKPOINTERS) for b in bases):
            return False
        return not any(is_about_scaler(part.value) for part in self.tree.below(owner, cst.Name))


def _entries(given: cst.Dict) -> list[cst.DictElement]:
    return [each for each in given.elements if isinstance(each, cst.DictElement)]


def _is_own(attribute: cst.CSTNode | None) -> bool:
    """Whether a method asks for an attribute of its own object."""
    return isinstance(attribute, cst.Attribute) and dotted(attribute.value) == "self"
