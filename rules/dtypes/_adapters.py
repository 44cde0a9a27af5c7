"""Trained modules that become float16 by way of another, or again after each step.

Of a base model, by a pipeline around them, or in the loop that trains them.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass

import libcst as cst

from amp_lint.amp.modules import HALF, changes_parameters
from amp_lint.flow.branches import contradict
from amp_lint.flow.values import Slot
from amp_lint.model import Model
from amp_lint.vocabulary.frameworks import ADD_ADAPTER, CAST_TRAINED
from amp_lint.vocabulary.meaning import Kind
from amp_lint.vocabulary.table import words

_LOOPS = (cst.For, cst.While)
_DTYPES = ("dtype", "torch_dtype")
_STEP = words(Kind.STEP)


@dataclass(frozen=True, slots=True)
class Adopted:
    """Trained parameters that take the dtype of something else, which may be float16."""

    node: cst.Call
    """``model.add_adapter(...)`` of a half model, or the cast of a pipeline that holds it."""
    cause: cst.BaseExpression
    """The cast of the base model, or where the pipeline gets the trained module."""
    trained: cst.Call
    """The constructor of the optimizer."""
    shared: bool
    """Whether it is a pipeline's cast."""


class Adapters:
    """Finds parameters that are made, or cast, in the dtype of what they belong to."""

    def __init__(self, model: Model) -> None:
        self.modules = model.modules
        self.tree = model.tree
        self.values = model.values

    @functools.cached_property
    def adopted(self) -> list[Adopted]:
        """Every such place of this file, in source order."""
        if not self._trained:
            return []
        found = [*self._adapters(), *self._shared()]
        return sorted(found, key=lambda each: self.tree.order(each.node))

    @functools.cached_property
    def _trained(self) -> dict[Slot, cst.Call]:
        """The variables of the modules that are trained -> the optimizer's constructor."""
        found: dict[Slot, cst.Call] = {}
        for call, module in self.modules.trainings():
            slot = self.values.slot(module)
            if slot is not None and self.tree.is_own(call):
                found.setdefault(slot, call)
        return found

    def _methods(self, *names: str) -> Iterator[tuple[cst.Call, cst.BaseExpression]]:
        """The calls of some methods, each with what it is called on."""
        for call in self.tree.nodes(cst.Call):
            if isinstance(call.func, cst.Attribute) and call.func.attr.value in names:
                yield call, call.func.value

    # --- adapters -----------------------------------------------------------------------------

    def _adapters(self) -> Iterator[Adopted]:
        for call, module in self._methods(*ADD_ADAPTER):
            slot = self.values.slot(module)
            trained = self._trained.get(slot) if slot is not None else None
            if trained is None or not self._follows(call, trained):
                continue
            before = [*self._loads(module)]
            before += [c for c, base in self._methods("to", "half") if self._is_cast(c, base, slot)]
            before = [each for each in before if self._follows(each, call)]
            if before and not self._is_cast_back(call, trained, slot):
                yield Adopted(call, before[-1], trained, shared=False)

    def _is_cast(self, call: cst.Call, base: cst.BaseExpression, slot: Slot | None) -> bool:
        return self.values.slot(base) == slot and self._may_be_half(call)

    def _loads(self, module: cst.BaseExpression) -> Iterator[cst.Call]:
        """``from_pretrained(..., torch_dtype=torch.float16)``, where a variable gets its module."""
        made = self.modules.flow.reaching(module) if isinstance(module, cst.Name) else ()
        loads = {id(call) for call, _ in self._methods("from_pretrained")}
        for value in (binding.value for binding in made):
            if isinstance(value, cst.Call) and id(value) in loads and self._may_be_half(value):
                yield value

    def _may_be_half(self, call: cst.Call) -> bool:
        if self.modules.is_half_cast(call):
            return True
        given = (a.value for a in call.args if a.keyword is None or a.keyword.value in _DTYPES)
        return any(self._may_be_float16(value) for value in given)

    def _may_be_float16(self, value: cst.BaseExpression) -> bool:
        names = self.modules.names
        bindings = names.bindings(value) if isinstance(value, cst.Name) else []
        passed = (g for b in bindings for g in self.modules.arguments_of(b))
        return any(names.is_any(each, HALF) for each in (value, *passed))

    def _follows(self, first: cst.CSTNode, then: cst.CSTNode) -> bool:
        """Whether one place is reached from another in the same function."""
        homes = {id(self.tree.ancestor(each, cst.FunctionDef)) for each in (first, then)}
        later = self.tree.order(first) < self.tree.order(then)
        return len(homes) == 1 and later and not contradict(self.tree, first, then)

    def _is_cast_back(self, call: cst.Call, trained: cst.Call, slot: Slot | None) -> bool:
        """Whether a module, or some parameters, are cast to float32 between two places."""
        for each in self.tree.nodes(cst.Call):
            func = each.func
            last = func.attr if isinstance(func, cst.Attribute) else func
            named = isinstance(last, cst.Name) and last.value in CAST_TRAINED
            wider = self.modules.is_widening(each) and self._slot_of(func) == slot
            if (named or wider) and self._is_between(call, each, trained):
                return True
        loops = (
            loop for loop in self.tree.nodes(cst.For) if changes_parameters(loop.body) is not None
        )
        return any(self._is_between(call, loop, trained) for loop in loops)

    def _is_between(self, first: cst.CSTNode, node: cst.CSTNode, last: cst.CSTNode) -> bool:
        return self._follows(first, node) and self._follows(node, last)

    # --- pipelines ----------------------------------------------------------------------------

    def _shared(self) -> Iterator[Adopted]:
        for call, holder in self._methods("to", "half"):
            if not isinstance(holder, cst.Name) or not self._may_be_half(call):
                continue
            for place, value in self._origins(call, holder):
                part = self._trained_part(value)
                if part is not None and self._is_trained_around(place):
                    yield Adopted(call, *part, shared=True)
                    break

    def _origins(
        self, call: cst.Call, holder: cst.Name
    ) -> Iterator[tuple[cst.CSTNode, cst.BaseExpression]]:
        """What a variable may hold, with the place of this training where it is used."""
        for binding in self.modules.flow.reaching(holder):
            if binding.kind == "parameter":
                for given in self.modules.arguments_of(binding):
                    held = self.modules.flow.reaching(given) if isinstance(given, cst.Name) else ()
                    yield from ((given, each.value) for each in held if each.value is not None)
            elif binding.value is not None:
                yield call, binding.value

    def _trained_part(
        self, value: cst.BaseExpression
    ) -> tuple[cst.BaseExpression, cst.Call] | None:
        """The trained module that a constructor gets by name: ``unet=unwrap(unet)``."""
        for arg in value.args if isinstance(value, cst.Call) else ():
            given = arg.value
            if isinstance(given, cst.Call) and len(given.args) == 1:
                given = given.args[0].value
            slot = self.values.slot(given)
            if arg.keyword is not None and slot in self._trained:
                return given, self._trained[slot]
        return None

    def _slot_of(self, func: cst.BaseExpression) -> Slot | None:
        return self.values.slot(func.value) if isinstance(func, cst.Attribute) else None

    def _is_trained_around(self, place: cst.CSTNode) -> bool:
        """Whether a loop around a place also goes backward."""
        return any(
            isinstance(call.func, cst.Attribute) and call.func.attr.value in words(Kind.BACKWARD)
            for holder in self.tree.ancestors(place)
            if isinstance(holder, _LOOPS)
            for call in self.tree.below(holder, cst.Call)
        )


# --- what is rounded --------------------------------------------------------------------------


def rounded(model: Model) -> Iterator[tuple[cst.Call, cst.Call]]:
    """The casts of modules that were float32 for a step of the same round, each with that step."""
    modules = model.modules
    widened = [(node, module) for node, module, widens in modules.releases() if widens]
    for cast, module in (*modules.given_casts, *modules.in_place_casts):
        loop, slot = model.program.loop(cast), model.values.slot(module)
        if loop is None or slot is None or not model.tree.is_own(cast):
            continue
        calls = model.tree.below(loop.body, cst.Call)
        before = [call for call in calls if _leads(model, call, cast)]
        step = next((call for call in reversed(before) if _is_step(model, call)), None)
        if step is None or model.program.loop(step) is not loop:
            continue
        earlier = before[: before.index(step)]
        if any(_widens(model, call, slot, widened) for call in earlier):
            yield cast, step


def _leads(model: Model, call: cst.Call, cast: cst.Call) -> bool:
    """Whether a call is done before a cast of the same round."""
    order = model.tree.order
    return order(call) < order(cast) and not model.flow.exclusive(call, cast)


def _is_step(model: Model, call: cst.Call) -> bool:
    func = call.func
    is_step = isinstance(func, cst.Attribute) and func.attr.value in _STEP
    return is_step and isinstance(func, cst.Attribute) and model.roles.is_optimizer(func.value)


def _widens(
    model: Model,
    call: cst.Call,
    slot: Slot,
    widened: list[tuple[cst.CSTNode, cst.BaseExpression]],
) -> bool:
    """Whether a call casts what a variable holds back, or is of a function that does.

    ``widened``: what does that anywhere, with the module.
    """
    function = model.program.target(call)
    if function is None:
        return any(node is call and model.values.slot(module) == slot for node, module in widened)
    given = model.program.bind(function, call)
    names = [
        module.value
        for node, module in widened
        if isinstance(module, cst.Name) and model.tree.linked.contains(function, node)
    ]
    return any(name in given and model.values.slot(given[name]) == slot for name in names)
