"""Training steps in float16 autocast that no scaler, and no framework, scales the loss of."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from dataclasses import dataclass

import libcst as cst

from amp_lint.amp.ambient import device_of, inherited
from amp_lint.amp.events import Event, Kind
from amp_lint.amp.gradient_values import is_untracked
from amp_lint.amp.regions import Region
from amp_lint.flow.branches import Guard, arms, contradict, excludes, guards, joined, may_fail
from amp_lint.flow.values import literal
from amp_lint.model import Model
from amp_lint.syntax.names import Binding, dotted
from amp_lint.syntax.references import is_read
from amp_lint.syntax.returns import returned
from amp_lint.syntax.tree import children
from amp_lint.vocabulary.amp import DEVICE_AUTOCAST
from amp_lint.vocabulary.frameworks import ASIDE, ASIDE_MODULES, OWNERS, OWNING_THE_STEP
from amp_lint.vocabulary.meaning import Part
from amp_lint.vocabulary.operations import FLOAT16
from amp_lint.vocabulary.written import AMP_SWITCH, SCALED_LOSS, SCALER, SCALER_SWITCH, STATES

from ._checkpoints.naming import last
from ._precision import Precision

_DEFAULT_DTYPE = frozenset(
    {"torch.set_autocast_dtype", "torch.set_autocast_gpu_dtype", "torch.set_default_dtype"}
)
_SCALED_LOSS = re.compile(SCALED_LOSS, re.IGNORECASE)
_SCALED = re.compile(rf"{SCALER}|{SCALED_LOSS}", re.IGNORECASE)
_OPTION = re.compile(rf"{AMP_SWITCH}|{SCALER_SWITCH}")
_DETACHING = frozenset({"detach", "item", "numpy", "tolist"})
_MAX_CALLS = 3  # functions of this file that are looked into, one in the other
_MAX_NODES = 400  # assignments that one loss is traced back through
_MAX_GIVEN = 20  # calls that give something for one parameter


@dataclass(frozen=True, slots=True)
class UnscaledForward:
    """A float16 region in which the loss of a plain training step is computed."""

    region: Region
    backward: cst.Call
    step: cst.CSTNode
    place: cst.CSTNode
    """The region, or the backward where that is in another file."""
    option: cst.BaseExpression | None = None
    """The option that is false there, without which nothing is scaled; None if nothing ever is."""
    never: cst.BaseExpression | None = None
    """The test that turns on the scaler there, which fails whatever the options."""


class Unscaled:
    """Traces the losses of plain backward calls back into float16 regions."""

    def __init__(self, model: Model) -> None:
        self.tree = model.linked
        self.names = model.names
        self.values = model.values
        self.flow = model.flow
        self.regions = model.regions
        self.reach = model.reach
        self.steps = model.steps
        self.precision = model.part(Precision)

    @functools.cached_property
    def forwards(self) -> list[UnscaledForward]:
        """One for each such region, or backward of one in another file, in source order."""
        if not any(map(self._is_float16, self.regions.all)):
            return []
        if self._may_scale:
            found_here = [*self._switched, *self._never_scaled]
            known = {id(forward.place) for forward in found_here}
            found_here += (each for each in self._apart if id(each.place) not in known)
            return sorted(found_here, key=lambda forward: self.tree.order(forward.place))
        found: dict[int, UnscaledForward] = {}
        for backward, step in self._first_steps():
            for region in self._regions_of(backward):
                place = region.node if self.tree.is_own(region.node) else backward
                if self.tree.is_own(place):
                    found.setdefault(id(place), UnscaledForward(region, backward, step, place))
        return sorted(found.values(), key=lambda forward: self.tree.order(forward.place))

    @property
    def _switched(self) -> list[UnscaledForward]:
        """The same where an option of mixed precision decides about the scaler, not the region."""
        found: dict[int, UnscaledForward] = {}
        for backward, step in () if self._has_owner else self._first_steps():
            option = self._option(backward)
            for region in self._regions_of(backward, 0) if option is not None else ():
                node = region.node  # around this very forward, not another one of the same method
                if self.tree.is_own(node) and self._is_always_on(region, backward):
                    found.setdefault(
                        id(node), UnscaledForward(region, backward, step, node, option)
                    )
            for region in self._decorating(backward) if option is not None else ():
                if self.tree.is_own(backward):
                    forward = UnscaledForward(region, backward, step, backward, option)
                    found.setdefault(id(backward), forward)
        return [*found.values()]

    def _decorating(self, backward: cst.Call) -> Iterator[Region]:
        """The regions that are always on, as decorators of what the loss of a backward calls."""
        loss = self.steps.recognizer.loss(backward)
        for region in self._trace([loss], _MAX_CALLS, backward) if loss is not None else ():
            is_decorator = isinstance(self.tree.parent(region.node), cst.Decorator)
            is_plain = region.enabled is None and region.dtype is None and not region.starred
            if is_decorator and is_plain and not (region.conditional or region.of_several):
                yield region

    @property
    def _never_scaled(self) -> Iterator[UnscaledForward]:
        """The same where the test that a scaler is made on under knows none of the options."""
        seen: set[int] = set()
        for backward, step in self._idle_steps():
            for test in self._failing(backward):
                options = [*self.steps.roles.options.failing(test)]
                halves = (
                    r for r in self._regions_of(backward) if self.precision.may_be_half(r, options)
                )
                region = next(halves, None)
                if region is not None and self.tree.is_own(test) and id(test) not in seen:
                    seen.add(id(test))
                    yield UnscaledForward(region, backward, step, test, never=test)

    @property
    def _apart(self) -> Iterator[UnscaledForward]:
        """The same in functions that have nothing to do with what scales in the program."""
        if not self._scales or self._sets_default_dtype or self._has_owner:
            return
        seen: set[int] = set()
        for backward, step in self._first_steps():
            for region in self._regions_of(backward, 0):
                node = region.node
                if id(node) in seen or not self.tree.is_own(node):
                    continue
                seen.add(id(node))
                if self._is_always_on(region, backward) and self._is_apart(backward):
                    yield UnscaledForward(region, backward, step, node)

    def _is_apart(self, backward: cst.Call) -> bool:
        """Whether a function, what it calls and the tests that it is called under scale nothing."""
        function = self.steps.program.function_of(backward)
        if function is None or id(function) in self._scaling:
            return False
        calls = self.steps.program.calls_by_class(function)
        tests = (test for call in calls for test, _ in arms(self.tree, call))
        names = (name for test in tests for name in self.tree.below(test, cst.Name))
        return not any(map(self._is_about_scaling, names)) and not any(
            self._is_used(name) and not isinstance(self.tree.parent(name), cst.Param)
            for name in self.tree.below(function, cst.Name)
        )

    @functools.cached_property
    def _scaling(self) -> frozenset[int]:
        """Ids of the functions that scale a loss, or call one that does."""
        calls = (call for calls in self._scales.values() for call in calls)
        return self.steps.program.running(calls)

    def _idle_steps(self) -> Iterator[tuple[cst.Call, cst.CSTNode]]:
        """Backward calls of a loss that went through a scaler which is off, and its next step."""
        for backward, step in self._pairs():
            if backward.idle is not None and backward.idle == step.scaler:
                assert isinstance(backward.node, cst.Call)
                yield backward.node, step.node

    def _failing(self, backward: cst.Call) -> Iterator[cst.BaseExpression]:
        """The tests that fail for every option, and turn on the scalers of a function's losses."""
        roles = self.steps.roles
        for scale in self._scales.get(id(self.steps.program.function_of(backward)), ()):
            assert isinstance(scale.func, cst.Attribute)
            for made in roles.scaler_origins(scale.func.value):
                switch = roles.switch(made)
                if switch is not None and roles.options.words(switch):
                    yield switch

    def _option(self, backward: cst.Call) -> cst.BaseExpression | None:
        """``amp`` of ``if amp: scaler.scale(loss).backward()``, if this is or has the other arm."""
        for scale in self._scales.get(id(self.steps.program.function_of(backward)), ()):
            for test, holds in map(Guard.normal, guards(self.tree, scale)):
                of_loss = self.tree.contains(backward, test)  # (scaled if amp else loss).backward()
                if not holds or not (of_loss or excludes(self.tree, backward, test)):
                    continue
                named = (part for part in joined(test) if _OPTION.fullmatch(last(part)))
                for option in named:
                    if may_fail(self.tree, backward, option):
                        return option
        return None

    @functools.cached_property
    def _scales(self) -> dict[int, list[cst.Call]]:
        """The calls that scale a loss, by the functions that they are in."""
        found: dict[int, list[cst.Call]] = {}
        for call in filter(self.steps.recognizer.is_scale, self.tree.nodes(cst.Call)):
            found.setdefault(id(self.steps.program.function_of(call)), []).append(call)
        return found

    def _is_always_on(self, region: Region, backward: cst.Call) -> bool:
        """Whether a region is on, in float16, wherever a backward of its function is reached."""
        if region.conditional or region.of_several or region.starred:
            return False
        func = region.node.func if isinstance(region.node, cst.Call) else None
        if func is None or any(value is not func for value in self.values.alternatives(func)):
            return False  # what is called may be something else, such as `nullcontext`
        home = self.steps.program.function_of
        tests = {(id(test), holds) for test, holds in arms(self.tree, backward)}
        own = ((id(test), holds) for test, holds in arms(self.tree, region.node))
        if home(region.node) is not home(backward) or not tests.issuperset(own):
            return False
        if region.enabled is not None and literal(region.enabled) is not True:
            return False
        return region.dtype is None or self.names.is_only(region.dtype, FLOAT16)

    @functools.cached_property
    def _may_scale(self) -> bool:
        """Whether the program uses anything that scales, or owns the step."""
        if self._scales or self._sets_default_dtype:
            return True
        names = filter(self._is_used, self.tree.nodes(cst.Name))
        if self._has_owner or any(map(self._trains, names)):
            return True
        strings = self.tree.nodes(cst.SimpleString)
        found = (each for each in strings if self._about_scaling.search(each.value))
        return any(self._trains(each) and not self._is_aside(each) for each in found)

    @property
    def _sets_default_dtype(self) -> bool:
        """Whether the program says what autocast casts to where that is not written out."""
        calls = self.tree.nodes(cst.Call)
        return any(self.names.is_any(call.func, _DEFAULT_DTYPE) for call in calls)

    def _trains(self, node: cst.CSTNode) -> bool:
        """Whether a place is in this file, or in a helper that takes part in a step."""
        function = self.steps.program.function_of(node)
        return self.tree.is_own(node) or (
            function is None or id(function) in self.steps.recognizer.eventful
        )

    @property
    def _has_owner(self) -> bool:
        """Whether something is used that may be of a framework which owns the step."""
        bindings = self.names.every_binding(linked=True)
        owned = [b for b in bindings if b.qualified and _root(b.qualified) in OWNING_THE_STEP]
        stars = (node for node in self.tree.nodes(cst.ImportFrom) if _imports_all(node))
        if any(
            _root(dotted(node.module) or "") in OWNING_THE_STEP for node in stars if node.module
        ):
            return True
        named = {node for b in owned for node in self.tree.named(b.name)}
        return any(is_read(self.tree, node) and self._may_own(node) for node in named)

    def _may_own(self, node: cst.Name) -> bool:
        """Whether a name, or what begins with it, stands for more than a framework's aid."""
        whole: cst.CSTNode = node
        while (
            isinstance(parent := self.tree.parent(whole), cst.Attribute) and whole is parent.value
        ):
            whole = parent
        names = self.names.qualified(whole) if isinstance(whole, (cst.Name, cst.Attribute)) else ()
        owned = [name for name in names if _root(name) in OWNING_THE_STEP]
        return any(
            name.rpartition(".")[2] not in ASIDE and not f"{name}.".startswith(ASIDE_MODULES)
            for name in owned
        )

    def _is_used(self, name: cst.Name) -> bool:
        """Whether a name is about scaling, and more than imported, made, saved and loaded."""
        if not self._is_about_scaling(name) or self._is_imported(name):
            return False
        node: cst.CSTNode = name
        parent = self.tree.parent(node)
        if isinstance(parent, cst.Attribute) and parent.attr is node:
            node, parent = parent, self.tree.parent(parent)
        made = self._makes(self.tree.parent(node)) if isinstance(parent, cst.Call) else False
        kept = isinstance(parent, cst.Attribute) and parent.attr.value in STATES
        bound = isinstance(parent, cst.AssignTarget) and self._makes_local(parent)
        return not (made or kept or bound)

    def _is_about_scaling(self, name: cst.Name) -> bool:
        """Whether a name says, or stands for, what scales a loss."""
        roles = self.steps.roles
        is_scaler = roles.has_scalers_of_data and roles.is_scaler(name)
        is_word = self._about_scaling.search(name.value) is not None
        return is_word or is_scaler or name.value in self._made

    @property
    def _about_scaling(self) -> re.Pattern[str]:
        """What is found in names and texts that are about the scaling of a loss."""
        return _SCALED_LOSS if self.steps.roles.has_scalers_of_data else _SCALED

    @functools.cached_property
    def _made(self) -> set[str]:
        """The names of the variables that are scalers."""
        made = (each for each in self.tree.nodes(cst.Assign) if self._makes(each.value))
        targets = (each.target for assign in made for each in assign.targets)
        return {target.value for target in targets if isinstance(target, cst.Name)}

    def _is_imported(self, name: cst.Name) -> bool:
        return self.tree.ancestor(name, cst.ImportFrom, cst.Import) is not None

    def _makes(self, call: cst.CSTNode | None) -> bool:
        """Whether a call constructs a scaler for a variable, whose uses are looked at."""
        holder = self.tree.parent(call) if call is not None else None
        return (
            isinstance(call, cst.Call)
            and self.steps.roles.is_constructor(call)
            and isinstance(holder, cst.Assign)
            and all(isinstance(each.target, cst.Name) for each in holder.targets)
        )

    def _makes_local(self, target: cst.AssignTarget) -> bool:
        holder = self.tree.parent(target)
        return isinstance(holder, cst.Assign) and self._makes(holder.value)

    def _is_aside(self, text: cst.SimpleString) -> bool:
        """Whether a string is a docstring, or the key of a scaler in a checkpoint."""
        holder = self.tree.parent(text)
        if isinstance(holder, cst.Expr):
            return True
        if isinstance(holder, cst.DictElement):
            return any(
                part.func.attr.value in STATES
                for part in self.tree.below(holder.value, cst.Call)
                if isinstance(part.func, cst.Attribute)
            )
        calls = (each for each in self.tree.ancestors(text) if isinstance(each, cst.Call))
        called = (call.func for call in calls)
        return any(isinstance(f, cst.Attribute) and f.attr.value in STATES for f in called)

    # --- plain training steps -----------------------------------------------------------------

    def _first_steps(self) -> list[tuple[cst.Call, cst.CSTNode]]:
        """Each backward that a step follows, both without a scaler, and the first such step."""
        steps: dict[int, tuple[cst.Call, cst.CSTNode]] = {}
        for pair in self._plain_steps():
            steps.setdefault(id(pair[0]), pair)
        return [*steps.values()]

    def _plain_steps(self) -> Iterator[tuple[cst.Call, cst.CSTNode]]:
        """Backward calls that a step follows, both without a scaler, and that step; often again."""
        for backward, step in self._pairs():
            if step.scaler is None:
                assert isinstance(backward.node, cst.Call)
                yield backward.node, step.node

    def _pairs(self) -> Iterator[tuple[Event, Event]]:
        """Backward calls of a loss that nothing scales, each with the steps that follow."""
        for root in self.steps.roots:
            for cycle in root.cycles:
                backward: Event | None = None
                for event in cycle:
                    if event.kind is Kind.BACKWARD:
                        backward = event if event.scaler is None else None
                    elif event.kind is Kind.STEP and backward is not None:
                        yield backward, event

    # --- where the loss comes from ------------------------------------------------------------

    def _regions_of(self, backward: cst.Call, calls: int = _MAX_CALLS) -> Iterator[Region]:
        meaning = self.steps.recognizer.meaning(backward)
        loss = self.steps.recognizer.loss(backward)
        if loss is not None and meaning is not None and meaning.owner not in OWNERS:
            yield from self._trace([loss], calls)
            yield from self._open_around(backward, loss)

    def _open_around(self, backward: cst.Call, loss: cst.BaseExpression) -> Iterator[Region]:
        """The float16 region in which others call a function that computes a loss and uses it."""
        names = self.tree.below(loss, cst.Name)
        is_given = any(b.kind == "parameter" for name in names for b in self.flow.reaching(name))
        home = self.steps.program.function_of
        for event in self.steps.backwards if not is_given else ():
            region = event.region
            if event.node is not backward or region is None or not self._is_float16(region):
                continue
            if home(region.node) is not home(backward):
                yield region

    def _trace(
        self, todo: list[cst.BaseExpression], depth: int, use: cst.CSTNode | None = None
    ) -> Iterator[Region]:
        """The float16 regions in which a value, or what it is made from, is computed.

        But for what the tests around its ``use`` exclude.
        """
        seen: set[int] = set()
        while todo and len(seen) < _MAX_NODES:
            expression = todo.pop()
            if id(expression) in seen or is_untracked(self.tree, self.names, expression):
                continue
            seen.add(id(expression))
            region = self._region(expression)
            if region is not None:
                yield region
            for part in self._with_gradient(expression):
                if use is not None and contradict(self.tree, use, part):
                    continue
                if isinstance(part, cst.Name):
                    todo += self._assigned(part)
                elif isinstance(part, cst.Attribute) and depth > 0:
                    yield from self._kept(part, depth - 1)
                elif isinstance(part, cst.Call) and depth > 0:
                    yield from self._trace(self._returned(part), depth - 1)

    def _assigned(self, name: cst.Name) -> Iterator[cst.BaseExpression]:
        """The values that a local name, or a parameter, may have here."""
        holder = self.tree.parent(name)
        if isinstance(holder, cst.Call) and holder.func is name:
            return
        for binding in self.flow.reaching(name):
            value = getattr(binding.node, "value", None)
            kinds = (cst.Assign, cst.AnnAssign, cst.AugAssign)
            if isinstance(binding.node, kinds) and isinstance(value, cst.BaseExpression):
                yield value
            if isinstance(binding.node, cst.AugAssign):
                yield binding.node.target  # what was there before
            if binding.kind == "parameter":
                yield from self._given(binding)

    def _given(self, parameter: Binding) -> Iterator[cst.BaseExpression]:
        """What the calls of a function give for a parameter."""
        program = self.steps.program
        function = self.tree.ancestor(parameter.node, cst.FunctionDef)
        if function is None:
            return
        calls = program.calls_by_class(function)[:_MAX_GIVEN]
        bound = (program.bind(function, call) for call in calls)
        yield from (given[parameter.name] for given in bound if parameter.name in given)

    def _kept(self, node: cst.Attribute, depth: int) -> Iterator[Region]:
        """The regions in which ``self.loss`` is computed, if each that it may be has one."""
        holder = self.tree.parent(node)
        if isinstance(holder, cst.Call) and holder.func is node:
            return
        values = (v for v in self.values.attribute_values(node) if literal(v) is ...)
        found = [[*self._trace([value], depth)] for value in values]
        if all(found):
            yield from (region for regions in found for region in regions)

    def _returned(self, call: cst.Call) -> list[cst.BaseExpression]:
        """What a function of this file returns, or the forward of a module."""
        function = self.reach.target(call)
        return [*returned(function)] if function is not None else []

    # --- which regions are float16 ------------------------------------------------------------

    def _with_gradient(self, node: cst.CSTNode) -> Iterator[cst.CSTNode]:
        """The parts of an expression through which a gradient may flow."""
        todo = [node]
        while todo:
            part = todo.pop()
            if not isinstance(part, cst.Call) or not self._stops_gradients(part):
                yield part
                todo += children(part)

    def _stops_gradients(self, call: cst.Call) -> bool:
        """Whether a call detaches, or runs a function of this file that tracks no gradient."""
        if isinstance(call.func, cst.Attribute) and call.func.attr.value in _DETACHING:
            return True
        function = self.reach.target(call)
        return function is not None and is_untracked(self.tree, self.names, function.body)

    def _region(self, expression: cst.BaseExpression) -> Region | None:
        """The float16 region around an expression that calls something there."""
        if not any(isinstance(part, cst.Call) for part in self._with_gradient(expression)):
            return None
        around = [r for r in self.regions.around(expression) if device_of(r) != "cpu"]
        decisive = around[:1] if around and around[0].dtype is not None else around
        return around[0] if around and all(map(self._is_float16, decisive)) else None

    def _is_float16(self, region: Region) -> bool:
        """Whether a region, when it is on, casts to float16 wherever there is a GPU."""
        if region.never_enabled or region.starred or not region.function:
            return False
        if region.dtype is not None:
            return self.precision.may_be_half(region)
        if region.function in DEVICE_AUTOCAST:
            return DEVICE_AUTOCAST[region.function] == "cuda"
        device = literal(region.device)
        if isinstance(device, str):
            return device.partition(":")[0] == "cuda" and not self._inherits(region)
        return region.device is not None and not self._inherits(region)

    def _inherits(self, region: Region) -> bool:
        """Whether the dtype may come from a region around this one."""
        if not isinstance(region.node, cst.Call):
            return True
        return Part.DTYPE in inherited(self.regions, self.names, region.node, "cuda", "float16")


def _root(name: str) -> str:
    """The package of a qualified name."""
    return name.lstrip(".").partition(".")[0]


def _imports_all(node: cst.ImportFrom) -> bool:
    return isinstance(node.names, cst.ImportStar)
