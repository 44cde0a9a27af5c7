"""The events of a training step, and which calls are one.

GradScaler is a protocol: per scaler and optimizer the gradients go from ready over scaled
(``scale(loss).backward()``) and unscaled (``unscale_``) to stepped (``step``) and back
(``update``). A rule about it says which event comes in the wrong state.
"""

from __future__ import annotations

import functools
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

import libcst as cst

from amp_lint.amp.frameworks import is_owner
from amp_lint.amp.gradient_values import GradientValues, is_gradient
from amp_lint.amp.regions import Region
from amp_lint.amp.roles import Roles
from amp_lint.flow.branches import deciding
from amp_lint.flow.counters import Counters
from amp_lint.flow.forwarding import direct
from amp_lint.flow.program import Program, is_stub
from amp_lint.flow.values import Values, arguments, literal
from amp_lint.syntax.assignments import targets_of
from amp_lint.syntax.memo import per_node
from amp_lint.syntax.names import dotted
from amp_lint.syntax.tree import descendants, is_a
from amp_lint.vocabulary.amp import STAGES
from amp_lint.vocabulary.frameworks import OWNERS
from amp_lint.vocabulary.meaning import EVERY as EVERY
from amp_lint.vocabulary.meaning import Kind as Kind
from amp_lint.vocabulary.meaning import Meaning, Part, Role
from amp_lint.vocabulary.operations import ONES
from amp_lint.vocabulary.purity import ASKING
from amp_lint.vocabulary.table import BY_METHOD, BY_NAME, methods, rows, words
from amp_lint.vocabulary.training import COPY, NORMS, UPDATES_STEP
from amp_lint.vocabulary.written import STEPS, UNSCALE, handles_scale, reads_scale

_SCALING = methods(Role.SCALER, rows(Role.SCALED_LOSS))
_CLIPS = words(Kind.CLIP)
_BACKWARD = methods(Role.LOSS, rows(Kind.BACKWARD))
_MAX_NAMES = 50  # that a value is made from, and that are followed
(_STEPPED,) = {row.place(Part.OPTIMIZER) for row in rows(Kind.STEP, Role.SCALER)}


def recorded(node: cst.BaseExpression) -> cst.Attribute | None:
    """What a scaler notes of each optimizer's gradients, if an expression is that, or an item."""
    node = node.value if is_a(node, cst.Subscript) else node
    return node if is_a(node, cst.Attribute) and node.attr.value == STAGES else None


@dataclass(frozen=True, slots=True, eq=False)
class Event:
    """One event. Objects are named by keys: equal keys are the same object on a path."""

    kind: Kind
    node: cst.CSTNode
    scaler: str | None = None
    """BACKWARD: the scaler that scaled the loss. STEP: the scaler that steps, None if direct."""
    optimizer: str | None = None
    """UNSCALE, STEP, ZERO_GRAD: the optimizer; `EVERY` if it is all there are."""
    region: Region | None = None
    """BACKWARD, STEP: the autocast region that is active, if one may be."""
    outer: Region | None = None
    """BACKWARD: the region that would be active without that one."""
    params: str | None = None
    """CLIP: the object whose parameters are clipped, where it can be named."""
    through: cst.Call | None = None
    """BACKWARD, CLIP: the call in the file itself that runs it, where it is in another file.

    GRADIENT_WRITE: the call in the function that ran backward, where it is in another one."""
    absent: bool = False
    """UNSCALE, STEP, UPDATE: the scaler is known to be None on this path, so that this raises."""
    enabled: bool | None = None
    """BACKWARD to UPDATE: whether the scaler was made to be on, where the path tells."""
    idle: str | None = None
    """BACKWARD: the scaler that was given the loss and left it as it was, being off.

    Where paths are exact also the one that a path does without, as it is off."""
    framework: Role | None = None
    """BACKWARD: what scales the loss by itself. STEP, SCHEDULE: what prepared what is stepped."""
    varies: bool = False
    """UNSCALE, STEP: the optimizer is another one in each round of the loop around."""

    @property
    def place(self) -> cst.CSTNode:
        """Where it is in the file itself."""
        return self.through or self.node


class Recognizer:
    """Tells which nodes are events, without regard to paths."""

    def __init__(self, program: Program, roles: Roles) -> None:
        self.program = program
        self.tree = program.tree
        self.names = program.names
        self.values = program.values
        self.roles = roles

    @per_node
    def meaning(self, call: cst.Call) -> Meaning | None:
        """What the vocabulary says of a call that does something in a training step."""
        if self.roles.is_foreign:
            return None
        named = self._named(call)
        rows = [named] if named is not None else []
        if isinstance(call.func, cst.Attribute):
            owner, method = call.func.value, call.func.attr.value
            known = (row for row in BY_METHOD.get(method, ()) if row.does)
            rows += (row for row in known if self._is_by(row, call, owner))
        return next(iter(rows), None) or self._named(self.direct(call))

    def _named(self, call: cst.Call) -> Meaning | None:
        """The row of a function of torch's that does something in a training step."""
        found = (BY_NAME.get(name) for name in sorted(self.names.qualified(call.func)))
        return next((row for row in found if row is not None and row.does), None)

    @per_node
    def direct(self, call: cst.Call) -> cst.Call:
        """A call of what is known, where one goes through something that holds it; else itself."""
        if self._named(call) is not None:
            return call
        ways = [way for way in direct(call, self.program) if self._named(way) is not None]
        handed = len(self.program.handed(call.func))  # where some is no event, none is
        return call if not ways or len(ways) < handed else ways[0]

    @per_node
    def kind(self, call: cst.Call) -> Kind | None:
        """The kind of event that a call is."""
        meaning = self.meaning(call)
        if meaning is not None or self.roles.is_foreign:
            return meaning.kind if meaning is not None else None
        target = self.program.target(call)
        if target is None and _is_called_unscale(call):
            return Kind.OPAQUE
        if self.gradients.is_measure(call) or self._is_called_measure(call):
            return Kind.GRADIENT_READ
        if self._repairs(call):
            return Kind.GRADIENT_REPAIR
        if self._is_called_clip(call):
            return Kind.CLIP
        if target is not None and self._is_hook(target):
            return Kind.OPAQUE
        return Kind.OPAQUE if target is None and self._is_given_scaler(call) else None

    def _repairs(self, call: cst.Call) -> bool:
        """Whether a call replaces what is inf or NaN in gradients, where they are."""
        given = self.gradients.replaced(call)
        if given is None:
            return self._selects_written(call)
        written = arguments(call).get(None, "out")
        in_place = _last_word(call.func).endswith("_")
        return in_place or any(map(is_gradient, filter(None, (written, *self._targets(call)))))

    def _selects_written(self, call: cst.Call) -> bool:
        """Whether a call says which gradients are written to: ``p.grad[isnan(p.grad)] = 0``."""
        if not self.gradients.is_asked(call):
            return False
        whole = self.tree.ancestor(call, cst.Subscript)
        if not isinstance(whole, cst.Subscript) or self.tree.contains(whole.value, call):
            return False
        is_target = isinstance(self.tree.parent(whole), cst.AssignTarget)
        asked = filter(self.gradients.is_asked, self.tree.below(whole, cst.Call))
        return is_target and next(asked, None) is call and self.gradients.holds(whole.value)

    def _targets(self, call: cst.Call) -> list[cst.BaseExpression]:
        """What the result of a call is assigned to, or copied into."""
        parent = self.tree.parent(call)
        copy = self.tree.parent(parent) if isinstance(parent, cst.Arg) else None
        func = copy.func if isinstance(copy, cst.Call) else None
        into = [func.value] if isinstance(func, cst.Attribute) and func.attr.value == COPY else []
        return [*targets_of(self.tree, call), *into]

    def _is_called_clip(self, call: cst.Call) -> bool:
        """Whether something that is not seen is called as torch calls a clip, for a module's."""
        if _last_word(call.func) not in _CLIPS or self.program.target(call) is not None:
            return False
        given = call.args[0].value if call.args else None
        return isinstance(given, cst.Call) and _last_word(given.func) == "parameters"

    def _is_called_measure(self, call: cst.Call) -> bool:
        """Whether a helper of a file that is not seen is called after the norm of gradients."""
        if self.program.target(call) is not None or self.names.definition(call.func) is not None:
            return False
        given = call.args[0].value if len(call.args) == 1 else None
        owned = isinstance(given, cst.Call) and isinstance(given.func, cst.Attribute)
        return owned and any(n.rpartition(".")[2] in NORMS for n in self.names.qualified(call.func))

    def _is_hook(self, function: cst.FunctionDef) -> bool:
        """Whether a method is empty, for a subclass to fill in."""
        if not isinstance(
            self.tree.ancestor(function, cst.FunctionDef, cst.ClassDef), cst.ClassDef
        ):
            return False
        return is_stub(function)

    @functools.cached_property
    def gradients(self) -> GradientValues:
        """Which expressions are gradients."""
        return GradientValues(self.names, self.values)

    def _is_by(self, row: Meaning, call: cst.Call, owner: cst.BaseExpression) -> bool:
        """Whether a call of a method is the one that a row is about."""
        if row.unique:
            return True
        match row.owner:
            case Role.LOSS:
                return self._is_of_loss(call, owner)
            case Role.SCALER if Kind.STEP in row.does and stepped(call) is None:
                return False
            case Role.SCALER:
                return self.roles.is_scaler(owner)
            case Role.OPTIMIZER:
                known = self._is_followed(call, row) or self._is_given_scaler(call)
                is_torch = not known and self.roles.is_optimizer(owner)
                return is_torch and not self._is_stepped_inside(call, owner)
            case Role.SCHEDULER:
                return self._is_schedule(call, owner)
            case Role.GRADIENT:
                return is_gradient(owner)
        return self.program.target(call) is None and is_owner(row, owner, self.names, self.values)

    def _is_followed(self, call: cst.Call, row: Meaning) -> bool:
        """Whether a method is one of the program, and no step that an optimizer takes by itself."""
        target = self.program.target(call)
        owner = self.values.enclosing_class(target) if target is not None else None
        if target is None or owner is None or Kind.STEP not in row.does:
            return target is not None
        return not self.values.is_optimizer_class(owner) or self._leaves_step(owner)

    @per_node
    def _leaves_step(self, owner: cst.ClassDef) -> bool:
        """Whether an optimizer has another one take its steps, or knows of the scale of a loss."""
        parts = [*self.tree.below(owner, cst.Name)]
        steps = (each for each in map(self.tree.parent, parts) if isinstance(each, cst.Attribute))
        others = (each for each in steps if each.attr.value in STEPS)
        handed = any(not self._is_super(e.value) and dotted(e.value) != "self" for e in others)
        return handed or any(handles_scale(name.value) for name in parts)

    def _is_stepped_inside(self, call: cst.Call, owner: cst.BaseExpression) -> bool:
        """Whether a method of the object's class has a scaler take the step."""
        name = _last_word(call.func)
        methods = (self.values.method(each, name) for each in self.roles.origins.classes(owner))
        inside = (c for m in methods if m is not None for c in self.tree.below(m, cst.Call))
        return any(_last_word(each.func) in STEPS and stepped(each) is not None for each in inside)

    @per_node
    def framework(self, call: cst.Call) -> Role | None:
        """What scales the loss of a backward by itself, or prepared what is stepped."""
        meaning = self.meaning(call)
        if meaning is None or meaning.owner in OWNERS:
            return meaning.owner if meaning is not None else None
        prepared = stepped(call) if meaning.owner is Role.SCALER else None
        by_itself = meaning.owner in (Role.OPTIMIZER, Role.SCHEDULER)
        if by_itself and isinstance(call.func, cst.Attribute):
            prepared = call.func.value
        if meaning.kind not in (Kind.STEP, Kind.SCHEDULE) or prepared is None:
            return None
        if meaning.kind is Kind.SCHEDULE and self.roles.frameworks.counts_each(prepared):
            return None
        owners = {each.owner for each in self.roles.frameworks.preparations(prepared)}
        return owners.pop() if len(owners) == 1 else None

    def _is_of_loss(self, call: cst.Call, owner: cst.BaseExpression) -> bool:
        """``loss.backward()``, not the method of a module, an autograd function or an engine."""
        if self.program.target(call) is not None or self._is_super(owner):
            return False
        if dotted(owner) in ("self", "cls") or arguments(call).starred:
            return False
        positional = arguments(call).positional
        return not positional or (len(positional) == 1 and not _looks_like_loss(positional[0]))

    def loss(self, backward: cst.Call) -> cst.BaseExpression | None:
        """The loss that a backward call is about."""
        meaning = self.meaning(backward)
        if meaning is not None and meaning.owner is not Role.LOSS:
            return arguments(backward).get(*meaning.place(Part.LOSS))
        return backward.func.value if isinstance(backward.func, cst.Attribute) else None

    @per_node
    def continues(self, backward: cst.Call) -> bool:
        """Whether a backward goes on with a gradient that came from elsewhere, scaled or not."""
        meaning = self.meaning(backward)
        given = arguments(backward).get(*meaning.place(Part.INCOMING)) if meaning else None
        if given is None or literal(given) is None:
            return False
        values = self.values.alternatives(given)
        return not all(isinstance(v, cst.Call) and _last_word(v.func) in ONES for v in values)

    def _is_super(self, owner: cst.BaseExpression) -> bool:
        return isinstance(owner, cst.Call) and self.names.is_any(owner.func, {"builtins.super"})

    def _is_schedule(self, call: cst.Call, owner: cst.BaseExpression) -> bool:
        """One that counts steps: what is given a metric or an epoch counts those."""
        if _last_word(call.func) in UPDATES_STEP.methods:
            counts = self._is_told_updates(call) and self.roles.counts_updates(call, owner)
        else:
            own = self.program.target(call) is not None
            counts = not own and (not call.args or self._is_told_rounds(call))
        return counts and self.roles.schedules_rate(owner)

    def _is_told_rounds(self, call: cst.Call) -> bool:
        """Whether all that a method is given is how many rounds there were."""
        given = [arg.value for arg in call.args if not arg.star]
        if len(given) != len(call.args) or len(given) != 1:
            return False
        return self._are_of_all(self._counters.raised(given[0], call))

    def _is_told_updates(self, call: cst.Call) -> bool:
        """Whether a method is told how many rounds there were, as if each were an update."""
        given = arguments(call).get(0, UPDATES_STEP.order[0])
        return given is not None and self._are_of_all(self._counters.rounds(given, call))

    def _are_of_all(self, counted: Sequence[cst.CSTNode]) -> bool:
        """Whether a number is raised in all rounds, not only where the scale did not fall."""
        tests = (test for each in counted for test, _ in deciding(self.tree, each))
        return bool(counted) and not any(decides_by_scale(test, self.values) for test in tests)

    @functools.cached_property
    def _counters(self) -> Counters:
        return Counters(self.program)

    @per_node
    def is_scale(self, call: cst.Call) -> bool:
        """Whether a call is ``scaler.scale(loss)``."""
        if not isinstance(call.func, cst.Attribute) or call.func.attr.value not in _SCALING:
            return False
        if self.program.target(call) is not None or len(call.args) != 1:
            return False
        return self.roles.is_scaler(call.func.value) or self._feeds_backward(call)

    def _feeds_backward(self, call: cst.Call) -> bool:
        holder = self.tree.parent(call)
        return isinstance(holder, cst.Attribute) and holder.attr.value in _BACKWARD

    def _is_given_scaler(self, call: cst.Call) -> bool:
        """Whether a call hands a scaler on: to something that may unscale, step or update."""
        names = (arg.value for arg in call.args if isinstance(arg.value, (cst.Name, cst.Attribute)))
        given = any(map(self.roles.is_scaler, names))
        return given and not self.names.is_any(call.func, ASKING)

    @functools.cached_property
    def eventful(self) -> frozenset[int]:
        """Ids of the functions in which an event may happen, in themselves or in what they call."""
        return self.program.running(self.event_nodes())

    @functools.cached_property
    def updates(self) -> list[cst.Call]:
        """Every call that updates a scaler, in source order."""
        return [call for call in self.tree.nodes(cst.Call) if self.kind(call) is Kind.UPDATE]

    def are_cleared(self, cleared: Mapping[str, Event], keys: Collection[str | None]) -> bool:
        """Whether ``zero_grad`` cleared what one of some optimizers steps.

        A module's clears what all of them do.
        """
        return any(key in keys or not self._is_optimizers(e) for key, e in cleared.items())

    def _is_optimizers(self, event: Event) -> bool:
        """Whether a method is called on an optimizer."""
        method = event.node.func if isinstance(event.node, cst.Call) else None
        return isinstance(method, cst.Attribute) and self.roles.is_optimizer(method.value)

    @functools.cached_property
    def scaler_steps(self) -> list[cst.Call]:
        """Every call by which a scaler steps an optimizer, in source order."""
        calls = (call for call in self.tree.nodes(cst.Call) if self.kind(call) is Kind.STEP)
        known = ((call, self.meaning(call)) for call in calls)
        return [call for call, row in known if row is not None and row.owner is Role.SCALER]

    @functools.cached_property
    def training(self) -> frozenset[int]:
        """Ids of the functions that run backward, themselves or in what they call."""
        calls = self.tree.nodes(cst.Call)
        return self.program.running(call for call in calls if self.kind(call) is Kind.BACKWARD)

    @functools.cached_property
    def stepping(self) -> frozenset[int]:
        """Ids of the functions that step an optimizer, themselves or in what they call."""
        calls = self.tree.nodes(cst.Call)
        return self.program.running(call for call in calls if self.kind(call) is Kind.STEP)

    def event_nodes(self) -> Iterator[cst.CSTNode]:
        """Every node that is an event in itself, or scales a loss."""
        for call in self.tree.nodes(cst.Call):
            if self.kind(call) is not None or self.is_scale(call):
                yield call
        targets = self.tree.nodes(cst.AssignTarget)
        yield from (t for t in targets if is_gradient(t.target) or recorded(t.target) is not None)
        changed = self.tree.nodes(cst.AugAssign)
        yield from (assign for assign in changed if is_gradient(assign.target))


def _last_word(function: cst.BaseExpression) -> str:
    return (dotted(function) or "").rpartition(".")[2]


def _is_called_unscale(call: cst.Call) -> bool:
    return isinstance(call.func, cst.Attribute) and UNSCALE in call.func.attr.value


def stepped(call: cst.Call) -> cst.BaseExpression | None:
    """The optimizer that ``scaler.step`` or ``scaler.unscale_`` is given, in whatever way."""
    return arguments(call).get(*_STEPPED)


def mentions_scale(call: cst.Call, values: Values) -> bool:
    """Whether an argument of a clip is made from the scale: its limit is a scaled one."""
    return any(is_made_from_scale(arg.value, values) for arg in call.args)


def is_made_from_scale(node: cst.BaseExpression, values: Values) -> bool:
    """Whether an expression, or what the names in it may stand for, asks for the scale."""
    seen: set[int] = set()
    for each in (todo := [node]):  # grows while it is read
        parts = [part for value in values.alternatives(each) for part in descendants(value)]
        if any(isinstance(part, cst.Attribute) and reads_scale(part.attr.value) for part in parts):
            return True
        names = {id(values.names.bindings(p)): p for p in parts if isinstance(p, cst.Name)}
        todo += (name for key, name in names.items() if key not in seen and len(todo) < _MAX_NAMES)
        seen |= names.keys()
    return False


def decides_by_scale(test: cst.BaseExpression, values: Values) -> bool:
    """Whether a test asks for the scale, in what its names and attributes may stand for."""
    return any(is_made_from_scale(part, values) for part in (test, *named(test)))


def named(node: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
    """The names and attributes in an expression."""
    nodes = (node, *descendants(node))
    return (part for part in nodes if isinstance(part, (cst.Name, cst.Attribute)))


def _looks_like_loss(node: cst.BaseExpression) -> bool:
    return "loss" in (dotted(node) or "").lower()
