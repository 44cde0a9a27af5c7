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
        """Every call in a hook of several tensors that unscales the same optimizers for each."""
        several = (call for call in self._hooking if self._is_repeated(call))
        hooks = (hook for call in several for hook in self._functions(call))
        found = (call for hook in hooks for call in self._unscaled_in(hook))
        return [*{id(call): call for call in found}.values()]

    def _is_repeated(self, call: cst.Call) -> bool:
        """Whether a loop of its function hands a hook to one tensor after the other."""
        return self.program.loop(call) is not None

    def _unscaled_in(self, hook: cst.Lambda | cst.FunctionDef) -> Iterator[cst.Call]:
        """The calls of a hook that unscale the same for each tensor, and are not followed by more.

        What is decided by the tensor, by what comes with it or by what the hook counts is not the
        same; what the hook steps or updates in any case may be unscaled again.
        """
        params = (*hook.params.params, *hook.params.kwonly_params)
        own = {each.name.value for each in params} | {*_changed(hook.body)}
        calls = [part for part in descendants(hook.body) if isinstance(part, cst.Call)]
        ends = [call for call in calls if self.steps.recognizer.kind(call) in _ENDING]
        for call in calls:
            meaning = self.steps.recognizer.meaning(call)
            if meaning is None or not self._unscales(call) or not self._may_be_on(call):
                continue
            tests = [test for test, _ in arms(self.tree, call)]
            decisive = [*tests, *(() if meaning.every else (arg.value for arg in call.args))]
            ended = any(set(map(id, self._tests(end))) <= set(map(id, tests)) for end in ends)
            if not ended and own.isdisjoint(name for node in decisive for name in _names(node)):
                yield call

    def _unscales(self, call: cst.Call) -> bool:
        meaning = self.steps.recognizer.meaning(call)
        return meaning is not None and Kind.UNSCALE in meaning.does

    def _tests(self, node: cst.CSTNode) -> Iterator[cst.BaseExpression]:
        return (test for test, _ in arms(self.tree, node))

    def _may_be_on(self, call: cst.Call) -> bool:
        """Whether what unscales may scale at all: a framework does so in some precisions alone."""
        role = self.steps.recognizer.framework(call)
        if role is None:
            return True
        owner = call.func.value if isinstance(call.func, cst.Attribute) else None
        return self.roles.frameworks.may_scale(role, owner)

    def _is_hooking(self, call: cst.Call) -> bool:
        named = isinstance(call.func, cst.Attribute) and call.func.attr.value in HOOKS
        return named and len(call.args) == 1

    def _hooks(self, call: cst.Call) -> Iterator[list[cst.Call]]:
        """The limits in each function that a tensor's gradient may be handed to."""
        for hook in self._functions(call):
            params = [each.name.value for each in hook.params.params if each.default is None]
            calls = [part for part in descendants(hook.body) if isinstance(part, cst.Call)]
            unscaled = next((n for n, each in enumerate(calls) if self._unscales(each)), len(calls))
            own = filter(self.tree.is_own, calls[:unscaled])
            yield [each for each in own if self._limits(each, params)]

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


def _names(node: cst.CSTNode) -> Iterator[str]:
    return (part.value for part in descendants(node) if isinstance(part, cst.Name))


def _changed(body: cst.CSTNode) -> Iterator[str]:
    """The names that some code assigns to, or of whose parts it assigns to one."""
    for part in descendants(body):
        targets = part.targets if isinstance(part, cst.Assign) else ()
        changed: list[cst.CSTNode] = [each.target for each in targets]
        if isinstance(part, (cst.AugAssign, cst.AnnAssign)):
            changed.append(part.target)
        for target in changed:
            yield from _names(target)
