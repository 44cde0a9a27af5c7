"""What hooks do with gradients: they are called while backward runs, each for one tensor."""

from __future__ import annotations

import functools
from collections.abc import Iterator

import libcst as cst

from amp_lint.amp.events import Event, Kind, is_made_from_scale
from amp_lint.amp.gradient_values import is_gradient, limited
from amp_lint.flow.branches import arms, deciding, excludes
from amp_lint.flow.values import literal
from amp_lint.model import Model
from amp_lint.syntax.names import dotted
from amp_lint.syntax.returns import returned
from amp_lint.syntax.tree import descendants
from amp_lint.vocabulary.training import HOOKS
from amp_lint.vocabulary.written import reads_scale
from amp_lint.walk.clips import ScaledClip, clip_limit, is_infinite

_ENDING = frozenset({Kind.STEP, Kind.UPDATE, Kind.OPAQUE})
"""After which an optimizer may be unscaled again."""


class Hooks:
    """Looks for such hooks in a file that scales losses."""

    def __init__(self, model: Model) -> None:
        self.tree = model.tree
        self.names = model.names
        self.values = model.values
        self.roles = model.roles
        self.program = model.program
        self.steps = model.steps
        self.scale = model.clips.initial_scale

    @functools.cached_property
    def limiting(self) -> list[ScaledClip]:
        """Every limit in a hook, once, in source order."""
        calls = self._hooking
        scaled = (e for e in self.steps.backwards if e.scaler is not None)
        backward = next((e for e in scaled if self.tree.is_own(e.place)), None) if calls else None
        if backward is None:
            return []
        limits = [limit for call in calls for hook in self._hooks(call) for limit in hook]
        unique = {id(limit): limit for limit in limits if not self._is_exempt(limit)}
        return [self._described(limit, backward) for limit in unique.values()]

    @functools.cached_property
    def _hooking(self) -> list[cst.Call]:
        return [call for call in self.tree.nodes(cst.Call) if self._is_hooking(call)]

    @functools.cached_property
    def unscaling(self) -> list[cst.Call]:
        """Every call in a hook of several parameters that unscales the same for each of them."""
        several = (call for call in self._hooking if self._is_of_several(call))
        found = (
            e for call in several for hook in self._functions(call) for e in self._same(hook, call)
        )
        return [*{id(each): each for each in found if self.tree.is_own(each)}.values()]

    def _is_of_several(self, call: cst.Call) -> bool:
        """Whether a loop hands a hook to one parameter after the other, but for frozen ones."""
        loop = self.program.loop(call)
        owner = call.func.value if isinstance(call.func, cst.Attribute) else None
        if not isinstance(loop, cst.For) or not isinstance(owner, cst.Name):
            return False
        walked = any("param" in name for name in _names(loop.iter))
        inner = [test for test in self._tests(call) if self.tree.contains(loop, test)]
        plain = all("requires_grad" in _names(test) for test in inner)
        return walked and plain and owner.value in _names(loop.target)

    def _same(
        self, hook: cst.Lambda | cst.FunctionDef, registering: cst.Call
    ) -> Iterator[cst.Call]:
        """The calls of a hook that unscale the same for each tensor, and are not followed by more.

        What is decided by the tensor, by what comes with it or by what the hook changes is not the
        same; what the hook steps or updates in any case may be unscaled again.
        """
        homes = [hook, *(h for h in self.tree.ancestors(hook) if isinstance(h, cst.FunctionDef))]
        factories = [home for home in homes if not self.tree.contains(home, registering)]
        own = {name for home in factories for name in _names(home.params)}
        calls = [part for part in descendants(hook.body) if isinstance(part, cst.Call)]
        ends = [call for call in calls if self.steps.recognizer.kind(call) in _ENDING]
        for call in filter(self._unscales, calls):
            tests = [test for test, _ in deciding(self.tree, call)]
            if any(isinstance(part, cst.Call) for test in tests for part in descendants(test)):
                continue  # nobody knows what it says the next time
            meaning = self.steps.recognizer.meaning(call)
            is_every = meaning is not None and meaning.every
            decisive = [*tests, *(() if is_every else (arg.value for arg in call.args))]
            ended = any(set(map(id, self._tests(end))) <= set(map(id, tests)) for end in ends)
            changed = own | {*_changed(hook.body, call)}
            known = changed.isdisjoint(name for node in decisive for name in _names(node))
            if known and not ended and self._may_be_on(call):
                yield call

    def _is_before(self, unscale: cst.Call, limit: cst.Call) -> bool:
        """Whether gradients are certainly unscaled where they are limited."""
        tests = set(map(id, self._tests(unscale)))
        before = self.tree.order(unscale) < self.tree.order(limit)
        return before and tests <= set(map(id, self._tests(limit)))

    def _unscales(self, call: cst.Call) -> bool:
        meaning = self.steps.recognizer.meaning(call)
        return meaning is not None and Kind.UNSCALE in meaning.does

    def _tests(self, node: cst.CSTNode) -> Iterator[cst.BaseExpression]:
        return (test for test, _ in arms(self.tree, node))

    def _may_be_on(self, call: cst.Call) -> bool:
        """Whether what unscales may scale at all: a framework does so in some precisions alone."""
        role = self.steps.recognizer.framework(call)
        owner = call.func.value if isinstance(call.func, cst.Attribute) else None
        if role is not None:
            return self.roles.frameworks.may_scale(role, owner)
        return owner is None or self.roles.may_be_on(owner)

    def _is_hooking(self, call: cst.Call) -> bool:
        named = isinstance(call.func, cst.Attribute) and call.func.attr.value in HOOKS
        return named and len(call.args) == 1

    def _hooks(self, call: cst.Call) -> Iterator[list[cst.Call]]:
        """The limits in each function that a tensor's gradient may be handed to."""
        for hook in self._functions(call):
            params = [each.name.value for each in hook.params.params if each.default is None]
            calls = [part for part in descendants(hook.body) if isinstance(part, cst.Call)]
            unscaled = [each for each in calls if self._unscales(each)]
            own = [each for each in calls if self.tree.is_own(each) and self._limits(each, params)]
            yield [each for each in own if not any(self._is_before(u, each) for u in unscaled)]

    def _functions(self, call: cst.Call) -> list[cst.Lambda | cst.FunctionDef]:
        """The functions that a hook may be."""
        given = call.args[0].value
        known = [*self.values.alternatives(given)]
        hooks: list[cst.Lambda | cst.FunctionDef] = [v for v in known if isinstance(v, cst.Lambda)]
        made = (v.func for v in known if isinstance(v, cst.Call))
        factories = [f for f in map(self.values.function, made) if f is not None]
        named = [given, *(value for factory in factories for value in returned(factory))]
        return hooks + [f for f in map(self.values.function, named) if f is not None]

    def _limits(self, call: cst.Call, params: list[str]) -> bool:
        """Whether a call limits the gradient that a hook is given, or that of its tensor."""
        if self.steps.recognizer.kind(call) is Kind.CLIP:
            return True
        value = limited(call, self.names) if call.args else None
        return value is not None and (is_gradient(value) or dotted(value) in params[-1:])

    def _is_exempt(self, call: cst.Call) -> bool:
        """Whether a limit is made from the scale, or is none, as 0 and infinity are."""
        limits = [arg.value for arg in call.args]
        made = any(is_made_from_scale(each, self.values) for each in limits)
        none = is_infinite(self._limit(call)) or literal(self._limit(call)) == 0
        return made or none or self._is_unscaled(call)

    def _is_unscaled(self, call: cst.Call) -> bool:
        """Whether scalers are off where a limit is reached: beside one that is made of the scale.

        Or where their switch is off, that of those in the same function or class.
        """
        if any(self._reads_scale(arm) for arm in self._other_arms(call)):
            return True
        made = self.roles.scaler_calls
        near = [each for each in made if self.tree.contains(self._unit(each), call)] or made
        switches = [self.roles.switch(each) for each in near]
        return bool(switches) and all(
            switch is not None and excludes(self.tree, call, switch) for switch in switches
        )

    def _other_arms(self, call: cst.Call) -> Iterator[cst.CSTNode]:
        """What runs instead where the tests around a limit turn out otherwise."""
        for test, holds in deciding(self.tree, call):
            branch = self.tree.parent(test)
            if isinstance(branch, cst.If):
                yield (branch.orelse or branch.test) if holds else branch.body

    def _reads_scale(self, node: cst.CSTNode) -> bool:
        return any(reads_scale(part.attr.value) for part in self.tree.below(node, cst.Attribute))

    def _unit(self, node: cst.CSTNode) -> cst.CSTNode:
        """The outermost function or class around a node, or the module."""
        holders = self.tree.ancestors(node)
        units = [each for each in holders if isinstance(each, (cst.FunctionDef, cst.ClassDef))]
        return units[-1] if units else self.tree.module

    def _limit(self, call: cst.Call) -> cst.BaseExpression:
        """The last of the limits, which is the upper one of two."""
        known = clip_limit(call) if self.steps.recognizer.kind(call) is Kind.CLIP else None
        return known or call.args[-1].value

    def _described(self, call: cst.Call, backward: Event) -> ScaledClip:
        limit = literal(self._limit(call))
        return ScaledClip(
            call=call,
            function=(dotted(call.func) or "").rpartition(".")[2],
            parameter="max",
            backward=backward,
            step=None,
            limit=float(limit) if isinstance(limit, (int, float)) else None,
            scale=self.scale,
            place_for_unscale=None,
        )


def _names(node: cst.CSTNode) -> set[str]:
    """The names in some code."""
    return {part.value for part in descendants(node) if isinstance(part, cst.Name)}


def _changed(body: cst.CSTNode, but: cst.Call) -> Iterator[str]:
    """The names that some code binds, or of whose objects it assigns a part or calls a method."""
    for part in descendants(body):
        match part:
            case cst.AssignTarget(target=target) | cst.AugAssign(target=target):
                yield from _names(target)
            case cst.AnnAssign(target=target) | cst.NamedExpr(target=target):
                yield from _names(target)
            case cst.For(target=target) | cst.CompFor(target=target):
                yield from _names(target)
            case cst.AsName(name=target):
                yield from _names(target)
            case cst.Call(func=cst.Attribute(value=owner)) if part is not but:
                yield from _names(owner)
