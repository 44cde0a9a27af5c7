"""Checkpoints that hold the state of an optimizer, but not that of the scaler it is used with."""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import libcst as cst

from amp_lint.amp.events import stepped
from amp_lint.flow.origins import unwrapped
from amp_lint.flow.values import arguments, literal, lookup
from amp_lint.model import Model
from amp_lint.syntax.assignments import assigned, assignments, held_in, targets_of
from amp_lint.syntax.names import dotted
from amp_lint.syntax.returns import returned
from amp_lint.syntax.tree import statements_of
from amp_lint.vocabulary.amp import LOAD_STATE_DICT, STATE_DICT, STEPPER_CALL
from amp_lint.vocabulary.frameworks import ENGINES, KEEPING
from amp_lint.vocabulary.meaning import Part, Role
from amp_lint.vocabulary.purity import ASKING, DICT_CHANGES
from amp_lint.vocabulary.table import words
from amp_lint.vocabulary.training import (
    CHECKPOINTERS,
    GIVEN_LATER,
    GIVEN_TO_LOAD,
    GIVEN_TO_SAVE,
    LOADS_GIVEN,
    RESUME,
    makes_optimizer,
)
from amp_lint.vocabulary.written import SCALER, STEPS, is_about_scaler

from ._precision import Precision

_INERT_BASES = frozenset({"torch.nn.Module", "builtins.object"})
_WHOLE = (cst.Call, cst.DictComp, cst.ListComp, cst.Name)
"""What may be saved as it is: a state, those of several things, or what they are called."""
Unit = cst.FunctionDef | cst.ClassDef | cst.Module
_STATE = STATE_DICT.words | LOAD_STATE_DICT.words
_SAVE = re.compile(
    r"^(?!on_|before_|pre_).*(save|checkpoint|ckpt|snapshot|dump|upload)", re.IGNORECASE
)
_ASIDE = re.compile(r"^(meta|aliases|config|description|extra_info|hparams|tags)", re.IGNORECASE)
"""Arguments in which what is saved is described."""
_ABOUT_ATTRIBUTES = frozenset({"builtins.delattr", "builtins.hasattr"})
_LOOKING = frozenset({"builtins.getattr", "builtins.vars"})
_DICT = frozenset({"builtins.dict"})
_HARMLESS = frozenset({"print", "len", "str", "type", "isinstance", "info", "debug", "warning"})
_LOOKED_UP = frozenset({"get", "pop"})
_SCALER = re.compile(SCALER, re.IGNORECASE)
_SETTING = re.compile(
    r"(^|_)(apply|use|enabled?|disabled?|init|growth|backoff|factor|interval|steps?|tweaks?|kwargs"
    r"|args|config|cfg|type|window|path|file|filename|dir)(_|$)",
    re.IGNORECASE,
)
"""In the names of what says how a scaler is made or used."""
_OF_TPU = "torch_xla."
"""The library of TPUs, where gradients are scaled by its own scaler if at all."""
TRAINS = re.compile(r"^_?train(?!er)|_train$|_epoch$")
_EPOCH = re.compile(r"(^|_)epoch$")
_NOT_WORD = re.compile(r"\W")


@dataclass(frozen=True, slots=True)
class Load:
    """Where the state of the optimizer is restored."""

    statement: cst.BaseStatement
    """The statement that does it, alone on its lines."""
    loaded: cst.BaseExpression
    """The checkpoint."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """What is saved, without the state of the scaler."""

    node: cst.BaseExpression
    """The dict or the call that holds the optimizer's state, or that state where it is added."""
    optimizer: cst.BaseExpression
    steps: cst.Call
    """The constructor of the scaler, or a step of the optimizer by one that is made elsewhere."""
    scaler: str | None
    """How to write the scaler where the checkpoint is made, if that is certain."""
    load: Load | None
    """Where to restore the scaler too, if there is one place and it can be written there."""
    optional: str | None = None
    """What to write instead where one test decides whether there is a scaler."""
    key: str | None = None
    """The key, as it is written, under which a load looks for the scaler's state already."""
    is_given: bool = False
    """Whether a library's checkpointer is given the optimizer, and saves what it is given."""
    is_sure: bool = True
    """Whether an optimizer's state is loaded anywhere that is seen, and no other scaler's saved."""
    is_stepped: bool = True
    """Whether a scaler is seen to step this very optimizer."""


@dataclass(frozen=True, slots=True)
class OfFramework:
    """A framework that scales."""

    role: Role
    scaler: cst.BaseExpression
    """Its object."""
    named: bool
    """Whether the precision in which it scales is named, and not a launcher's or a caller's."""


@dataclass(frozen=True, slots=True)
class _Scaler:
    call: cst.Call
    target: cst.BaseExpression
    unit: Unit


@dataclass(frozen=True, slots=True)
class _Step:
    """``scaler.step(optimizer)``."""

    call: cst.Call
    scaler: cst.BaseExpression
    optimizer: cst.BaseExpression


class Checkpoints:
    """Finds such checkpoints in files that own a scaler and say nothing of its state."""

    def __init__(self, model: Model) -> None:
        self.own = model.tree
        self.tree = model.linked
        self.names = model.names
        self.values = model.values
        self.roles = model.roles
        self.program = model.program
        self.origins = model.origins
        self.recognizer = model.steps.recognizer
        self.holders = model.holders
        self.items = model.items
        self.halves = model.halves
        self.regions = model.regions
        self.precision = model.part(Precision)

    @functools.cached_property
    def incomplete(self) -> list[Checkpoint]:
        """Every such checkpoint, in source order."""
        if not (self._scalers or self._steps):
            return []
        if self._mentions_state:
            return [*filter(self._may_lose_scale, self._forgotten())]
        if self._is_never_half:
            return []  # nothing overflows, so that no step is skipped
        found = [c for state in self._optimizer_states() if (c := self._checkpoint(state))]
        found += (*self._handed_on(), *self._registered(), *self._given, *self._saved_as_given)
        found = [*filter(self._may_lose_scale, found)]
        found.sort(key=lambda checkpoint: not checkpoint.is_stepped)
        unique = {self._identity(checkpoint.node): checkpoint for checkpoint in reversed(found)}
        whole = {self._place(c.node) for c in unique.values() if isinstance(c.node, cst.Dict)}
        others = (c for key, c in unique.items() if not key[1] or key not in whole)
        return sorted(others, key=lambda checkpoint: self.tree.order(checkpoint.node))

    @property
    def _is_never_half(self) -> bool:
        """Whether the regions of what goes backward are in sight, and none can be float16."""
        homes = (self.program.function_of(each.node) for each in self.regions.all)
        training = self.recognizer.training
        return self.halves.never_half and any(id(home) in training for home in homes if home)

    def _may_lose_scale(self, checkpoint: Checkpoint) -> bool:
        """Whether a scaler that is not saved may have to find its scale."""
        step = next((each for each in self._steps if each.call is checkpoint.steps), None)
        made = self.roles.scaler_origins(step.scaler) if step is not None else []
        return self._may_find_scale(made or self.roles.constructors(checkpoint.steps))

    def _may_find_scale(self, made: list[cst.Call]) -> bool:
        """Whether one of some scalers may serve something float16; one that is not known may."""
        return not made or any(map(self.precision.may_serve_half, made))

    def _forgotten(self) -> Iterator[Checkpoint]:
        """One of several scalers that is not saved, though each of the others is: of those first.

        All that is saved is told by where it was made, and nothing that may save gets this one.
        """
        states = [call for call in self.own.nodes(cst.Call) if self._is_state_of_scaler(call)]
        made = [self.roles.scaler_origins(_owner(state)) for state in states]
        saved = {id(call) for calls in made for call in calls}
        if not states or any(len(calls) != 1 for calls in made):
            return
        for scaler in self._scalers:
            step = next((s for s in self._steps if self._is_taken_by(s, scaler)), None)
            lost = id(scaler.call) not in saved and not self._is_handed_to_save(scaler)
            if step is not None and lost and len(self._scalers) == len(saved) + 1:
                yield Checkpoint(states[0], step.optimizer, scaler.call, None, None, is_sure=False)

    def _is_state_of_scaler(self, call: cst.Call) -> bool:
        asks = isinstance(call.func, cst.Attribute) and call.func.attr.value in STATE_DICT.words
        return asks and self.roles.is_scaler(_owner(call)) and not self._is_only_shown(call)

    def _is_taken_by(self, step: _Step, scaler: _Scaler) -> bool:
        made = self.roles.scaler_origins(step.scaler)
        return len(made) == 1 and made[0] is scaler.call

    def _is_handed_to_save(self, scaler: _Scaler) -> bool:
        """Whether a call that does not train gets a scaler, or something keeps it."""
        name = dotted(scaler.target)
        entries = (each.value for each in self.tree.nodes(cst.DictElement))
        calls = (call for call in self.tree.nodes(cst.Call) if not self._trains(call))
        given = (arg.value for call in calls for arg in call.args)
        return any(dotted(value) == name for value in (*entries, *given))

    def _identity(self, holder: cst.BaseExpression) -> tuple[int, str]:
        """Equal for what is added to one checkpoint, by its name."""
        scope, name = self._place(holder)
        return (scope, name) if name and not isinstance(holder, cst.Dict) else (id(holder), "")

    def _place(self, holder: cst.BaseExpression) -> tuple[int, str]:
        """The function in which something is made that is saved, and what it is called there."""
        return id(self._scope(holder)), self._name(holder) or ""

    # --- the scaler ---------------------------------------------------------------------------

    @functools.cached_property
    def _scalers(self) -> list[_Scaler]:
        """The scalers that this file makes, keeps under a name, and lets find their scale."""
        found = []
        for call in (*self.roles.scaler_calls, *filter(self.own.is_own, self.roles.steppers)):
            target = self.target(call)
            if target is None or self.roles.is_never_on(call):
                continue
            scaler = _Scaler(call, target, self._unit(call))
            if dotted(target) and (self._updates_in(scaler.unit) or self._is_trained_with(scaler)):
                found.append(scaler)
        return found

    def _updates_in(self, unit: Unit) -> bool:
        """Whether some scaler is updated in a function, class or module."""
        updates = (*self.recognizer.updates, *(step.call for step in self._whole_steps))
        return any(self.tree.contains(unit, update) for update in updates)

    def _is_trained_with(self, scaler: _Scaler) -> bool:
        """Whether the code that makes a scaler hands it to a function that updates it."""
        name = dotted(scaler.target)
        calls = self.tree.below(scaler.unit, cst.Call)
        return any(
            self._trains(call) for call in calls if any(dotted(a.value) == name for a in call.args)
        )

    def _trains(self, call: cst.Call) -> bool:
        """Whether a function updates a scaler; one that nobody knows, if its name says so."""
        if self.program.target(call) is None:
            return bool(TRAINS.search(last(call.func)))
        return any(map(self._updates_in, self._reached(call)))

    def target(self, value: cst.BaseExpression) -> cst.BaseExpression | None:
        """What an expression, or one that holds it, is assigned to."""
        for holder in self.tree.ancestors(value):
            for target, given in assigned(holder):
                if given is not None and self.tree.contains(given, value):
                    return target
            if isinstance(holder, cst.BaseStatement):
                return None
        return None

    @functools.cached_property
    def _mentions_state(self) -> bool:
        """Whether the program may save a scaler anywhere: its state, itself, or by another."""
        strings = (*self.tree.nodes(cst.SimpleString), *self.tree.nodes(cst.FormattedString))
        keys = (text for text in strings if names_scaler(str(literal(text))))
        kept = (key for key in keys if not self.is_aside(key) and not self._is_read(key))
        kept = (key for key in kept if not self._is_of_another(self._kept_as(key)))
        kept = (key for key in kept if not self._is_taken_apart(self.tree.ancestor(key, cst.Dict)))
        if any(self.is_reached(key) and not self._is_for_nobody(key) for key in kept):
            return True
        entries = self.tree.nodes(cst.DictElement)
        held = (entry for entry in entries if self.roles.is_scaler(entry.value))
        held = (entry for entry in held if not self._is_of_another(entry.value))
        held = (e for e in held if not self._is_taken_apart(self.tree.ancestor(e, cst.Dict)))
        if any(map(self.is_reached, held)):
            return True
        calls = filter(self._may_save_scaler, self.tree.nodes(cst.Call))
        return any(map(self.is_reached, calls))

    def _kept_as(self, key: cst.BaseExpression) -> cst.BaseExpression | None:
        """Of what the state is kept under a key: ``x`` of ``"key": x.state_dict()``."""
        holder = self.tree.ancestor(key, cst.DictElement, cst.Assign)
        value = holder.value if isinstance(holder, (cst.DictElement, cst.Assign)) else None
        return _asked_for_state(value) if value is not None else None

    def _is_of_another(self, scaler: cst.BaseExpression | None) -> bool:
        """Whether a scaler is certainly none of this file, which has its own."""
        made = self.roles.scaler_origins(scaler) if scaler is not None else []
        own = any(self.own.is_own(each.call) for each in self._scalers)
        return own and bool(made) and not any(map(self.own.is_own, made))

    def _is_taken_apart(self, made: cst.CSTNode | None) -> bool:
        """Whether all that may save a dict takes single things out of it, each by its key."""
        if not isinstance(made, cst.Dict | cst.Call) or self.values.items(made) is None:
            return False
        takers = self.items.takers(made)
        return takers is not None and not any(_SAVE.search(last(each.func)) for each in takers)

    def _is_for_nobody(self, key: cst.BaseExpression) -> bool:
        """Whether a string is the key of what is asked of a parameter that no call gives."""
        statement = self.tree.ancestor(key, cst.Assign)
        given = statement.value if isinstance(statement, cst.Assign) else None
        func = given.func if isinstance(given, cst.Call) else None
        return isinstance(func, cst.Attribute) and self.program.is_left_out(func.value)

    def is_reached(self, node: cst.CSTNode) -> bool:
        """Whether a place is in something that is called, or in a file that calls this one."""
        unit = self._unit(node)
        if not isinstance(unit, cst.FunctionDef) or self.program.calls_of(unit):
            return True
        if any(self._unit(scaler.call) is unit for scaler in self._scalers):
            return True  # or nobody trains with it either
        if self.own.is_own(node):
            named = any(n is not unit.name for n in self.tree.named(unit.name.value))
            return named or bool(unit.decorators) or not self._is_library
        run = (each for call in self.tree.below(unit, cst.Call) for each in self._reached(call))
        return any(map(self.own.is_own, run))

    @functools.cached_property
    def _is_library(self) -> bool:
        """Whether other files call functions of this one: what none of them names is not run.

        Unless something looks names up, of a module or of this one.
        """
        if self.tree.named("globals") or any(map(self._is_looked_into, self.tree.nodes(cst.Call))):
            return False
        functions = filter(self.own.is_own, self.tree.nodes(cst.FunctionDef))
        calls = (call for each in functions for call in self.program.calls_of(each))
        return not all(map(self.own.is_own, calls))

    def _is_looked_into(self, call: cst.Call) -> bool:
        """``getattr(module, name)`` or ``vars(module)``."""
        given = call.args[0].value if call.args else None
        if not isinstance(given, cst.Name) or not self.names.is_any(call.func, _LOOKING):
            return False
        return any(binding.kind == "import" for binding in self.names.bindings(given))

    def is_aside(self, text: cst.BaseExpression) -> bool:
        """Whether a string is in an annotation, or says how a wrapper's state is called.

        Or which attribute is asked for, or taken away.
        """
        if self.tree.ancestor(text, cst.Annotation) is not None:
            return True
        call = self.tree.ancestor(text, cst.Call)
        if call is not None and self.names.is_any(call.func, _ABOUT_ATTRIBUTES):
            return True
        owner = self.tree.ancestor(text, cst.ClassDef)
        return owner is not None and id(owner) in self._wrappers

    def _is_read(self, key: cst.BaseExpression) -> bool:
        """Whether a string says what is looked for in a checkpoint, which is put nowhere else."""
        holder = self.tree.parent(key)
        above = self.tree.parent(holder) if holder is not None else None
        if self.tree.ancestor(key, cst.DictElement, cst.Return) or self._is_in_save(key):
            return False
        match holder:
            case cst.Comparison(left=left, comparisons=[cst.ComparisonTarget(operator=sign)]):
                return left is key and isinstance(sign, (cst.In, cst.NotIn))
            case cst.Index() if above is not None:
                place = self.tree.parent(above)
                given = self.tree.parent(place) if place is not None else None
                return not isinstance(given, (cst.AssignTarget, cst.AugAssign))
            case cst.Arg():
                return isinstance(above, cst.Call) and last(above.func) in _LOOKED_UP
        return False

    def _may_save_scaler(self, call: cst.Call) -> bool:
        func = call.func
        if isinstance(func, cst.Attribute) and func.attr.value in _STATE:
            asks = func.attr.value in STATE_DICT.words and (
                self.is_scaler(func.value) or self._may_hold_scaler(func.value)
            )
            left_out = asks and self.program.is_left_out(func.value)
            left_out = left_out or self._is_of_another(func.value)
            goes_on = asks and not self._is_passed_on(call) and not self._is_only_shown(call)
            return goes_on and not left_out
        target = self.program.target(call)
        if target is not None:
            return self._is_among_the_rest(target, call)  # what else it does is seen there
        if self.names.definition(func) is not None:
            return False
        if self.roles.is_constructor(call) or self.names.is_any(func, ASKING):
            return False
        if self._is_taken_apart(call):
            return False
        if any(arg.keyword and _SCALER.search(arg.keyword.value) for arg in call.args):
            return not TRAINS.search(last(func)) and not self._is_spread_to_train(call)
        given = any(self.is_scaler(arg.value) for arg in call.args)
        hidden = not self.own.is_own(call) and not TRAINS.search(last(func))
        return given and (hidden or bool(_SAVE.search(last(func))))

    def _is_spread_to_train(self, call: cst.Call) -> bool:
        """Whether a dict of arguments joins those that are spread into calls which train alone."""
        parent = self.tree.parent(call)
        joined = self.tree.parent(parent) if isinstance(parent, cst.Arg) else None
        if not self.names.is_any(call.func, _DICT) or not isinstance(joined, cst.Call):
            return False
        rest = joined.func.value if isinstance(joined.func, cst.Attribute) else None
        if last(joined.func) not in DICT_CHANGES or not isinstance(rest, cst.Name):
            return False
        uses = self._uses_in(self._scope(call), rest.value)
        others = [use for use in uses if not isinstance(self.tree.parent(use), cst.Param)]
        others = [use for use in others if use is not rest]
        return bool(others) and all(map(self._is_spread_into_training, others))

    def _is_spread_into_training(self, use: cst.Name) -> bool:
        """``**kwargs`` in the call of a function that trains."""
        arg = self.tree.parent(use)
        call = self.tree.parent(arg) if isinstance(arg, cst.Arg) and arg.star == "**" else None
        return isinstance(call, cst.Call) and TRAINS.search(last(call.func)) is not None

    def _is_only_shown(self, state: cst.Call) -> bool:
        """Whether a state, or what has its name, is printed or logged, and nothing else."""
        if isinstance(self.tree.parent(state), cst.Arg):
            return self._is_harmless(self.tree.ancestor(state, cst.Expr))
        targets = targets_of(self.tree, state)
        target = targets[0] if len(targets) == 1 else None
        if not isinstance(target, cst.Name):
            return False
        uses = (use for use in self._uses(state) if use is not target)
        return all(self._is_shown_in(self.tree.statement(use), use) for use in uses)

    def _is_shown_in(self, statement: cst.CSTNode | None, use: cst.Name) -> bool:
        """Whether a statement only shows what it uses, or each item of it."""
        if isinstance(statement, cst.For) and self.tree.contains(statement.iter, use):
            return all(map(self._is_harmless, statements_of(statement.body)))
        small = statement.body if isinstance(statement, cst.SimpleStatementLine) else (statement,)
        return all(map(self._is_harmless, small))

    def _is_harmless(self, statement: cst.CSTNode | None) -> bool:
        """Whether a statement is a call that prints or logs, and calls nothing that may keep."""
        call = statement.value if isinstance(statement, cst.Expr) else None
        if not isinstance(call, cst.Call) or last(call.func) not in _HARMLESS:
            return False
        inner = (each for each in self.tree.below(call, cst.Call) if each is not call)
        return all(last(each.func) in _HARMLESS | STATE_DICT.words | _LOOKED_UP for each in inner)

    def _is_among_the_rest(self, function: cst.FunctionDef, call: cst.Call) -> bool:
        """Whether a function gets a scaler in its ``**rest``, and saves."""
        if function.params.star_kwarg is None or not _SAVE.search(function.name.value):
            return False
        known = (*function.params.params, *function.params.kwonly_params)
        names = {param.name.value for param in known}
        rest = (arg for arg in call.args if arg.keyword and arg.keyword.value not in names)
        return any(self.is_scaler(arg.value) for arg in rest)

    def is_scaler(self, node: cst.BaseExpression) -> bool:
        """Whether an expression is a scaler, or may be one by its name."""
        named = _SCALER.search(last(node)) and not self.roles.scales_data(node)
        if named or self._is_apex(node) or self.roles.is_scaler(node):
            return True
        if not isinstance(node, (cst.Name, cst.Attribute)):
            return False
        known = self.origins.classes(node)
        return any(id(owner) in self._wrappers for owner in known) or self._is_stepper(node)

    def _may_hold_scaler(self, node: cst.BaseExpression) -> bool:
        """Whether something is a scaler, be it one of several things with a state."""
        return any(map(self.roles.is_constructor, self.origins.makers(node)))

    def _is_stepper(self, node: cst.BaseExpression) -> bool:
        """Whether an expression is a library's scaler that takes a whole step when it is called."""
        made = self.origins.makers(node) if self.roles.steppers else ()
        return any(map(self.roles.is_stepper, made))

    def _is_apex(self, node: cst.BaseExpression) -> bool:
        """Whether something is ``amp`` of apex, which keeps its own scaler: not a switch."""
        if not isinstance(node, cst.Name) or node.value != "amp":
            return False
        qualified = self.names.qualified(node)
        known = any(name.partition(".")[0] == "apex" for name in qualified)
        return known or not self.names.bindings(node)

    @functools.cached_property
    def _wrappers(self) -> set[int]:
        """Ids of the classes whose own state is that of the scaler in them."""
        calls = filter(self._is_passed_on, self.tree.nodes(cst.Call))
        owners = (self.tree.ancestor(call, cst.ClassDef) for call in calls)
        return {id(owner) for owner in owners if owner is not None}

    def _is_passed_on(self, call: cst.Call) -> bool:
        """``return self.scaler.state_dict()`` in a method of that name, or the same for loading."""
        func = call.func
        if not isinstance(func, cst.Attribute) or func.attr.value not in _STATE:
            return False
        function = self.tree.ancestor(call, cst.FunctionDef)
        alone = isinstance(self.tree.parent(call), (cst.Return, cst.Expr))
        named = function is not None and function.name.value == func.attr.value
        return alone and named and self.roles.is_scaler(func.value)

    def _unit(self, node: cst.CSTNode) -> Unit:
        """The outermost function or class around a node, or the module."""
        holders = (h for h in self.tree.ancestors(node))
        units = [h for h in holders if isinstance(h, (cst.FunctionDef, cst.ClassDef))]
        return units[-1] if units else self.tree.module

    # --- the checkpoint -----------------------------------------------------------------------

    def _handed_on(self) -> Iterator[Checkpoint]:
        """The calls that have an optimizer saved by a file from which this one is not seen."""
        loaded, sure = [*self._own_loads], bool(self.loads)
        for call in self.own.nodes(cst.Call):
            scaler = self._trained_by(call)
            known = [*(self._held(call) if scaler is not None else ()), *loaded]
            owners = [*self._saved_far(call)] if known else []
            for optimizer in known if owners else ():
                saved = any(self.origins.same(optimizer, owner) for owner in owners)
                step = next((s for s in self._steps if saved and self._is_of(s, optimizer)), None)
                if scaler is not None and (step or (saved and self._is_left_out_of(call))):
                    yield Checkpoint(call, optimizer, scaler.call, None, None, is_sure=sure)
                elif step is not None:
                    yield Checkpoint(call, optimizer, step.call, None, None, is_sure=sure)

    def _is_left_out_of(self, call: cst.Call) -> bool:
        """Whether what is called would save a scaler, and is given none."""
        target = self.program.target(call)
        return target is not None and self._leaves_out(target)

    @property
    def _own_loads(self) -> Iterator[cst.BaseExpression]:
        """The optimizers whose state is restored in this file itself."""
        own = (load.func for load in self.loads if self.own.is_own(load))
        return (func.value for func in own if isinstance(func, cst.Attribute))

    def _held(self, call: cst.Call) -> Iterator[cst.BaseExpression]:
        """The arguments of a call, and those of the records among them."""
        for value in (arg.value for arg in call.args):
            yield value
            if isinstance(value, cst.Call) and self._is_record(value):
                yield from (arg.value for arg in value.args)

    def _trained_by(self, call: cst.Call) -> _Scaler | None:
        """The scaler of the code that makes a call of another file."""
        target = self.program.target(call)
        if target is None or self.own.is_own(target):
            return None
        unit = self._unit(call)
        return next((scaler for scaler in self._scalers if scaler.unit is unit), None)

    def _saved_far(self, call: cst.Call) -> Iterator[cst.BaseExpression]:
        """The optimizers that a call has saved in files that this one does not import itself."""
        target = self.program.target(call)
        if target is None or self.own.is_own(target):
            return
        for function in self._reached(call):
            if self.names.is_near(function) and not self._leaves_out(function):
                continue
            for state in self._states(self.tree.below(function, cst.Call)):
                holder = self._holder(self._entry(state))
                saved = holder is not None and self._is_saved(holder)
                grows = holder is None or any(map(self._may_grow, self._uses(holder)))
                if saved and not grows and self.names.is_passed_on(function):
                    continue  # it is found there
                optimizer = self._asked(state)
                if optimizer is not None and (saved or _SAVE.search(function.name.value)):
                    yield optimizer

    def _leaves_out(self, function: cst.FunctionDef) -> bool:
        """Whether a function would save a scaler that no call gives it."""
        params = (*function.params.params, *function.params.kwonly_params)
        return any(
            _SCALER.search(each.name.value) and self.program.is_left_out(each) for each in params
        )

    def _optimizer_states(self) -> Iterator[cst.BaseExpression]:
        """The states of optimizers that this file asks for, but for those that others register.

        And optimizers that are saved whole, and whose states are loaded.
        """
        for element in self.own.nodes(cst.DictElement):
            if self._is_saved_whole(element) and self._is_loaded(element.value):
                yield element.value
        for state in self._states(self.own.nodes(cst.Call)):
            owner = self._asked(state)
            if owner is not None and not self._is_put_elsewhere(owner):
                yield state

    def _is_saved_whole(self, element: cst.DictElement) -> bool:
        """Whether an optimizer is an item of a dict that is saved."""
        holder = self.tree.parent(element)
        if not isinstance(holder, cst.Dict) or not self.roles.is_optimizer(element.value):
            return False
        return any(self._is_in_save(each) for each in (holder, *self._uses(holder)))

    def _is_put_elsewhere(self, optimizer: cst.BaseExpression) -> bool:
        """Whether an optimizer comes out of a container that other files put it into."""
        held = self.names.bindings(optimizer) if isinstance(optimizer, cst.Name) else ()
        return any(map(held_in, held)) and any(
            self.origins.same(optimizer, value)
            for target, value in self._puts
            if not self.own.is_own(target)
        )

    def _states(self, calls: Iterable[cst.Call]) -> Iterator[cst.Call]:
        """``optimizer.state_dict()``."""
        return (call for call in calls if self._asked(call) is not None)

    @functools.cached_property
    def _given(self) -> list[Checkpoint]:
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
            steps = ((a, s) for a in given for s in self._steps if self._is_of(s, a.value))
            found += [
                Checkpoint(arg.value, arg.value, step.call, None, None, is_given=True)
                for arg, step in itertools.islice(steps, not hidden)
            ]
        return found

    def _is_checkpointer(self, maker: cst.BaseExpression) -> bool:
        """Whether a class is a library's checkpointer, or derived from it and knows no scaler."""
        if self.names.is_any(maker, CHECKPOINTERS):
            return True
        owner = self.names.definition(maker)
        bases = owner.bases if isinstance(owner, cst.ClassDef) else ()
        if owner is None or not any(self.names.is_any(b.value, CHECKPOINTERS) for b in bases):
            return False
        return not any(is_about_scaler(part.value) for part in self.tree.below(owner, cst.Name))

    @functools.cached_property
    def _saved_as_given(self) -> list[Checkpoint]:
        """The dicts of objects that a library saves and loads, an optimizer among them."""
        loaded = [e.value for given in self._dicts_given(GIVEN_TO_LOAD) for e in _entries(given)]
        found = []
        for given in self._dicts_given(GIVEN_TO_SAVE) if loaded else ():
            entries = _entries(given)
            steps = ((e, s) for e in entries for s in self._steps if self._is_of(s, e.value))
            if len(entries) < len(given.elements) or not self.own.is_own(given):
                continue
            for entry, step in itertools.islice(steps, 1):
                again = any(self.origins.same(entry.value, each) for each in loaded)
                if again and not any(map(self._is_handed_on, self._uses(given))):
                    made = Checkpoint(given, entry.value, step.call, None, None, is_given=True)
                    found.append(made)
        return found

    def _is_handed_on(self, use: cst.Name) -> bool:
        """Whether other code than that library's gets a dict, and may put the scaler into it."""
        parent = self.tree.parent(use)
        named = parent.keyword if isinstance(parent, cst.Arg) else None
        known = named is not None and named.value in (GIVEN_TO_LOAD, GIVEN_TO_SAVE)
        return not known and self._may_grow(use)

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

    def _registered(self) -> Iterator[Checkpoint]:
        """The optimizers that are put into what a class of another file saves and loads."""
        known = [(target, value) for target, value in self._puts if self.own.is_own(target)]
        far = [*self._far_states] if known else []
        units: set[int] = set()
        for target, optimizer in known:
            saved = any(self.origins.same(optimizer, owner) for owner in far)
            step = next((s for s in self._steps if saved and self._is_of(s, optimizer)), None)
            unit = id(self.tree.ancestor(target, cst.FunctionDef))
            if step is not None and unit not in units and self._is_loaded(optimizer):
                units.add(unit)  # one scaler for all that is put there
                yield Checkpoint(target, optimizer, step.call, None, None)

    @functools.cached_property
    def _puts(self) -> list[tuple[cst.Subscript, cst.BaseExpression]]:
        """The items that an optimizer is assigned to, and that."""
        return [
            (target, value)
            for target, value in assignments(self.tree)
            if isinstance(target, cst.Subscript) and value and self.roles.is_optimizer(value)
        ]

    @property
    def _far_states(self) -> Iterator[cst.BaseExpression]:
        """The optimizers of containers whose states other files put into what they save."""
        for call in self.tree.nodes(cst.Call):
            owner = self._asked(call) if not self.own.is_own(call) else None
            held = self.names.bindings(owner) if isinstance(owner, cst.Name) else ()
            if owner is not None and any(map(held_in, held)) and self.is_kept(call):
                yield owner

    def _asked(self, node: cst.BaseExpression) -> cst.BaseExpression | None:
        """The optimizer whose state an expression asks for, itself or by a helper."""
        if not isinstance(node, cst.Call):
            return None
        owner = _asked_for_state(node) or self._asked_by(node)
        return owner if owner is not None and self._may_be_optimizer(owner) else None

    def _asked_by(self, call: cst.Call) -> cst.BaseExpression | None:
        """What a helper that gives the state of its argument is given."""
        function = self.program.target(call) if call.args else None
        if function is None:
            return None
        values = (v for each in returned(function) for v in self.values.alternatives(each))
        names = (dotted(owner) for owner in map(_asked_for_state, values) if owner is not None)
        bound = self.program.bind(function, call)
        return next((bound[name] for name in names if name in bound), None)

    def _may_be_optimizer(self, node: cst.BaseExpression) -> bool:
        """Whether something is an optimizer, be it one of several things with a state."""
        if self.roles.is_optimizer(node):
            return True
        given = self.origins.given(node) if isinstance(node, cst.Name) else []
        given += self.origins.in_rows(node) if isinstance(node, cst.Name) else []
        made = (call.func for call in self.origins.makers(node))
        return any(map(self.roles.is_optimizer, given)) or any(
            makes_optimizer(name) for func in made for name in self.names.qualified(func)
        )

    def is_kept(self, state: cst.Call) -> bool:
        """Whether a state is put into a checkpoint that is saved."""
        holder = self._holder(self._entry(state))
        return holder is not None and self._is_saved(holder)

    def is_scaled(self, optimizer: cst.BaseExpression) -> bool:
        """Whether a scaler that has to find its scale steps an optimizer, and nothing else does."""
        steps = (step.scaler for step in self._steps if self._is_of(step, optimizer))
        made = map(self.roles.scaler_origins, steps)
        stepped = any(map(self._may_find_scale, made))
        return stepped and not self._is_stepped_directly(optimizer)

    def load_of(self, state: cst.Call) -> Load | None:
        """Where the scaler whose state is asked for can be loaded, if that is certain."""
        assert isinstance(state.func, cst.Attribute)
        name = dotted(state.func.value)
        scaler = next((s for s in self._scalers if dotted(s.target) == name), None)
        return self._load(scaler) if scaler is not None else None

    def _checkpoint(self, state: cst.BaseExpression) -> Checkpoint | None:
        holder = self._holder(self._entry(state))
        if holder is None or not self._is_saved(holder):
            return None
        function = self.tree.ancestor(holder, cst.FunctionDef)
        if function is not None and self._leaves_out(function):
            return None  # which is the mistake of those who call it
        optimizer = self._asked(state) or state
        step = next((s for s in self._steps if self._is_of(s, optimizer)), None)
        scaler = self._scaler_for(holder, step)
        if self._is_of_an_epoch(scaler, step, holder):
            return None
        together = scaler is not None and self._are_given_to_train(scaler, optimizer)
        if step is None and not together and self._is_stepped_directly(optimizer):
            return None
        if scaler is not None:
            known = isinstance(holder, cst.Dict) and len({*self._keys}) <= 1
            code = self._spelling(scaler, holder) if known else None
            optional = self._optional(scaler, holder) if code is None and known else None
            key = next(iter(self._keys), None)
            load = self._load(scaler) if key is None else None
            loaded = bool(self.loads)
            return Checkpoint(
                holder,
                optimizer,
                scaler.call,
                code,
                load,
                optional,
                key,
                is_sure=loaded,
                is_stepped=step is not None,
            )
        if step is None:
            return None
        loaded = any(map(self.own.is_own, self.loads)) or self._is_loaded(optimizer)
        return Checkpoint(holder, optimizer, step.call, None, None, is_sure=loaded)

    def _are_given_to_train(self, scaler: _Scaler, optimizer: cst.BaseExpression) -> bool:
        """Whether a call that trains gets both a scaler and an optimizer."""
        both = {dotted(scaler.target), dotted(optimizer)}
        calls = self.tree.below(scaler.unit, cst.Call)
        given = ({dotted(arg.value) for arg in call.args} for call in calls if self._trains(call))
        return any(map(both.issubset, given))

    def _is_of_an_epoch(
        self, scaler: _Scaler | None, step: _Step | None, saved: cst.BaseExpression
    ) -> bool:
        """Whether a scaler is made in each epoch, and a checkpoint in none: nothing is lost."""
        made = [scaler.call] if scaler is not None else []
        made += self.roles.scaler_origins(step.scaler) if step is not None else []
        return bool(made) and all(
            self._is_ended(call, saved) or self._is_of_the_round(call, saved) for call in made
        )

    def _is_of_the_round(self, made: cst.Call, saved: cst.BaseExpression) -> bool:
        """Whether a scaler is made at the start of a round, and a checkpoint at the end of it."""
        loop = self._round(made)
        return loop is not None and loop is self._round(saved)

    def _round(self, node: cst.CSTNode) -> cst.CSTNode | None:
        """The loop that a place is in, in its function."""
        holder = self.tree.ancestor(node, cst.For, cst.While, cst.FunctionDef)
        return None if isinstance(holder, cst.FunctionDef) else holder

    def _is_ended(self, made: cst.Call, saved: cst.BaseExpression) -> bool:
        """Whether a scaler is a variable of the function of an epoch that does not run another."""
        saving = self.tree.ancestor(saved, cst.FunctionDef)
        home, target = self.tree.ancestor(made, cst.FunctionDef), self.target(made)
        if home is None or not isinstance(target, cst.Name) or not _EPOCH.search(home.name.value):
            return False
        run = [function for c in self.tree.below(home, cst.Call) for function in self._reached(c)]
        return all(function is not saving for function in (home, *run))

    def _scaler_for(self, holder: cst.BaseExpression, step: _Step | None) -> _Scaler | None:
        """The scaler of the code that makes a checkpoint; of several that which takes the step."""
        serving = [scaler for scaler in self._scalers if self._serves(scaler, holder)]
        made = self.roles.scaler_origins(step.scaler) if step is not None else ()
        taking = (scaler for scaler in serving if any(scaler.call is call for call in made))
        return next(iter((*taking, *serving)), None)

    @functools.cached_property
    def _steps(self) -> list[_Step]:
        """The steps of this file, and of those linked with it, by a scaler that may be on."""
        found = []
        for call in self.tree.nodes(cst.Call):
            func, optimizer = call.func, stepped(call)
            if not isinstance(func, cst.Attribute) or func.attr.value not in STEPS:
                continue
            if optimizer is None or self._is_stand_in(func.value):
                continue
            if self.roles.is_scaler(func.value) and self.roles.may_be_on(func.value):
                found.append(_Step(call, func.value, optimizer))
        return [*found, *self._whole_steps, *self._framework_steps]

    def _is_stand_in(self, scaler: cst.BaseExpression) -> bool:
        """Whether something is of classes that are no scalers, have none, and are given none."""
        owners = self.origins.classes(scaler)
        if self.roles.scaler_origins(scaler):
            return False
        return bool(owners) and not any(
            owner.bases or any(map(self.is_scaler, self.tree.below(owner.body, cst.Name)))
            for owner in owners
        )

    @functools.cached_property
    def _whole_steps(self) -> list[_Step]:
        """The steps that a library's scaler takes with all that belongs to one: ``s(loss, o)``."""
        found = []
        for call in self.tree.nodes(cst.Call) if self.roles.steppers else ():
            optimizer = arguments(call).get(*STEPPER_CALL.place(Part.OPTIMIZER))
            if optimizer is not None and self._is_stepper(call.func):
                found.append(_Step(call, call.func, optimizer))
        return found

    @functools.cached_property
    def _framework_steps(self) -> list[_Step]:
        """The steps of optimizers that a framework prepared, which its own scaler takes.

        Where nothing that is seen saves or loads all that the framework has. The state of such an
        optimizer is that of the one it was made of, without the scaler.
        """
        frameworks = self.roles.frameworks
        found: list[_Step] = []
        if any(map(self.tree.named, ENGINES)):
            return found
        for call in self.tree.nodes(cst.Call):
            func = call.func
            if not isinstance(func, cst.Attribute) or func.attr.value not in STEPS or call.args:
                continue
            for made in frameworks.preparations(func.value):
                owner = made.call.func
                kept = any(map(self.tree.named, KEEPING.get(made.owner, ())))
                if kept or made.owner not in KEEPING or not isinstance(owner, cst.Attribute):
                    continue
                if frameworks.may_skip(made, named=False):
                    found.append(_Step(call, owner.value, func.value))
        return found

    def framework_of(self, step: cst.Call) -> OfFramework | None:
        """The framework whose scaler takes a step."""
        scaler = next((each.scaler for each in self._framework_steps if each.call is step), None)
        optimizer = step.func.value if isinstance(step.func, cst.Attribute) else None
        if scaler is None or optimizer is None:
            return None
        frameworks = self.roles.frameworks
        prepared = frameworks.preparations(optimizer)
        named = any(map(frameworks.may_skip, prepared))
        return OfFramework(prepared[0].owner, scaler, named)

    def _is_of(self, step: _Step, optimizer: cst.BaseExpression) -> bool:
        """Whether a step is one of an optimizer that is saved, or of the one that this wraps."""
        inside = [*self._wrapped_in(optimizer)]
        return any(self.origins.same(step.optimizer, each) for each in (optimizer, *inside))

    def _wrapped_in(self, optimizer: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
        """The optimizers whose state that of an object is."""
        for owner in self.origins.classes(optimizer):
            for name in STATE_DICT.words:
                function = self.values.method(owner, name)
                for given in returned(function) if function is not None else ():
                    if (inner := self._asked(given)) is not None:
                        yield inner

    def _is_stepped_directly(self, optimizer: cst.BaseExpression) -> bool:
        """Whether a step without a scaler is one of an optimizer that is saved."""
        prepared = {id(step.call) for step in self._framework_steps}
        calls = (call for call in self.tree.nodes(cst.Call) if id(call) not in prepared)
        called = (call.func for call in calls if not call.args)
        return any(
            isinstance(func, cst.Attribute)
            and func.attr.value in STEPS
            and self.origins.same(func.value, optimizer)
            for func in called
        )

    def _is_loaded(self, optimizer: cst.BaseExpression) -> bool:
        loaded = (call.func for call in self.loads)
        owners = (func.value for func in loaded if isinstance(func, cst.Attribute))
        return any(self.origins.same(owner, optimizer) for owner in owners)

    def _entry(self, state: cst.BaseExpression) -> cst.CSTNode:
        """Where the state is used: itself, or the one name that it gets first."""
        node = self._whole(state)
        if (copied := self._copied(self.tree.parent(node))) is not None:
            node = copied
        target = next(iter(targets_of(self.tree, node)), self._appended_to(node))
        of_dict = isinstance(target, cst.Subscript)
        name = target.value if isinstance(target, cst.Subscript) else target
        if not isinstance(name, cst.Name):
            return node
        scope = self._scope(node)
        uses = self._uses_in(scope, name.value)
        if of_dict:  # which is an entry of another
            uses = [n for n in uses if isinstance(self.tree.parent(n), cst.DictElement)]
        entries = (n for n in uses if self._holder(n) is not None)
        return next(entries, node)

    def _whole(self, state: cst.CSTNode) -> cst.CSTNode:
        """The list of such states, or the choice, that one is a part of; else itself."""
        node = state
        while True:
            parent = self.tree.parent(node)
            holder = self.tree.parent(parent) if isinstance(parent, cst.Element) else parent
            match holder:
                case cst.IfExp() | cst.List():
                    node = holder
                case cst.ListComp(elt=part) | cst.DictComp(value=part) if part is node:
                    node = holder
                case _:
                    return node

    def _appended_to(self, node: cst.CSTNode) -> cst.BaseExpression | None:
        """The list that an expression is appended to."""
        match self.tree.parent(self.tree.parent(node) or node):
            case cst.Call(
                func=cst.Attribute(value=held, attr=cst.Name(value="append")), args=[one]
            ) if one.value is node:
                return held
        return None

    def _copied(self, parent: cst.CSTNode | None) -> cst.Call | None:
        """A call that gives back what it is given, or a copy, such as ``deepcopy(...)``."""
        call = self.tree.parent(parent) if isinstance(parent, cst.Arg) else None
        if not isinstance(call, cst.Call) or len(call.args) != 1 or self._saves(call, call.args[0]):
            return None
        if not isinstance(parent, cst.Arg) or parent.keyword is not None:
            return None
        return None if isinstance(self.tree.parent(call), cst.Expr) else call

    def _holder(self, entry: cst.CSTNode) -> cst.BaseExpression | None:
        """The dict or record that an entry stands in; the entry, if it is added to a dict."""
        parent = self.tree.parent(entry)
        if isinstance(parent, cst.DictElement) and parent.value is entry:
            return self._outermost(parent)
        if isinstance(entry, cst.BaseExpression) and isinstance(
            self._appended_to(entry), cst.Subscript
        ):
            return entry
        call = self.tree.parent(parent) if isinstance(parent, cst.Arg) else None
        if isinstance(parent, cst.Arg) and isinstance(call, cst.Call):
            if parent.keyword is not None:
                kept = self._is_record(call) or self._shows(call, parent)
                return call if kept else None
            alone = isinstance(entry, _WHOLE) and self._saves(call, parent)
            return entry if alone and isinstance(entry, cst.BaseExpression) else None
        added = any(isinstance(t, cst.Subscript) for t in targets_of(self.tree, entry))
        added = added or self._is_state_of_each(entry)
        return entry if added and isinstance(entry, cst.BaseExpression) else None

    def _is_state_of_each(self, entry: cst.CSTNode) -> bool:
        """Whether a function gives the states of all that something holds, and that is saved."""
        function = self.tree.ancestor(entry, cst.FunctionDef)
        if not isinstance(entry, cst.DictComp | cst.Name) or function is None:
            return False
        calls = self.program.calls_of(function)
        whole = any(isinstance(self.tree.parent(c), cst.Arg) and self._is_in_save(c) for c in calls)
        if not whole or not isinstance(self.tree.parent(entry), cst.Return):
            return False
        made = [*self.values.alternatives(entry)]
        grows = any(map(self._may_grow, self._uses(made[0])))
        return len(made) == 1 and isinstance(made[0], cst.DictComp) and not grows

    def _outermost(self, element: cst.DictElement) -> cst.Dict | None:
        """The dict that holds an element, or holds the dict that does, where all is plain."""
        holder = self.tree.parent(element)
        if not isinstance(holder, cst.Dict):
            return None
        if not self._is_out_of_reach and not self._is_plain(holder):
            return None
        above = self.tree.parent(holder)
        return self._outermost(above) if isinstance(above, cst.DictElement) else holder

    def _is_plain(self, holder: cst.Dict) -> bool:
        """Whether a dict shows all it holds."""
        return not any(
            not self._is_without_scaler(element.value)
            if isinstance(element, cst.StarredDictElement)
            else dotted(element.value) == "self"
            for element in holder.elements
        )

    def _is_without_scaler(self, more: cst.BaseExpression) -> bool:
        """Whether all calls of a function are known, and none gives a scaler as ``**more``."""
        function = self.tree.ancestor(more, cst.FunctionDef)
        rest = function.params.star_kwarg if function is not None else None
        if function is None or rest is None or dotted(more) != rest.name.value:
            return False
        calls = self.program.calls_of(function)
        given = [arg for call in calls for arg in call.args]
        return bool(calls) and not any(arg.star or self.is_scaler(arg.value) for arg in given)

    def _shows(self, call: cst.Call, part: cst.Arg) -> bool:
        """Whether a call saves what it is given by name, and shows all that is."""
        return self._saves(call, part) and not any(arg.star for arg in call.args)

    def _is_record(self, call: cst.Call) -> bool:
        """``dict(...)`` or the constructor of a class, with named arguments only."""
        name = last(call.func)
        return (name == "dict" or name[:1].isupper()) and all(arg.keyword for arg in call.args)

    def _is_saved(self, holder: cst.BaseExpression) -> bool:
        """Whether a checkpoint is written somewhere, and nothing may be added to it before."""
        if self._is_in_save(holder) or self._is_given_back(holder):
            return True
        if isinstance(holder, cst.Call) and _SAVE.search(last(holder.func)):
            return True
        uses = self._uses(holder)
        saved = any(self._is_in_save(use) or self._is_given_back(use) for use in uses)
        return saved and (self._is_out_of_reach or not any(map(self._may_grow, uses)))

    def _uses(self, holder: cst.BaseExpression) -> list[cst.Name]:
        """Where a checkpoint is used that has a name."""
        name, scope = self._name(holder), self._scope(holder)
        uses = self._uses_in(scope, name) if name is not None else []
        others = (targets_of(self.tree, use) for use in uses)  # another name for the same
        named = {o.value for found in others for o in found if isinstance(o, cst.Name)} - {name}
        return [*uses, *(use for each in sorted(named) for use in self._uses_in(scope, each))]

    def _uses_in(self, scope: cst.CSTNode, name: str) -> list[cst.Name]:
        return [each for each in self.tree.named(name) if self.tree.contains(scope, each)]

    @functools.cached_property
    def _is_out_of_reach(self) -> bool:
        """Whether nobody but known functions, none of which saves it, has any of the scalers."""
        found: set[int] = set()
        for call in [scaler.call for scaler in self._scalers] or self._made_for_steps:
            home, target = self._scope(call), self.target(call)
            if not isinstance(target, cst.Name) or not isinstance(home, cst.FunctionDef):
                return False
            users = self.holders.functions(target.value, home)
            if users is None:
                return False
            found |= set(map(id, users))
        around = (self.tree.ancestors(step.call) for step in self._steps)
        return bool(found) and all(any(id(each) in found for each in above) for above in around)

    @property
    def _made_for_steps(self) -> list[cst.Call]:
        """The scalers of all steps that are known, also of other files."""
        return [made for step in self._steps for made in self.roles.scaler_origins(step.scaler)]

    def _is_given_back(self, node: cst.CSTNode) -> bool:
        """Whether something is what a function returns that gives a state, or what is saved."""
        function = self.tree.ancestor(node, cst.FunctionDef)
        if function is None or not isinstance(self.tree.parent(node), cst.Return):
            return False
        calls = (c for c in self.program.calls_of(function) if not self.tree.contains(function, c))
        return function.name.value in STATE_DICT.words or any(map(self._is_saved, calls))

    def _name(self, holder: cst.BaseExpression) -> str | None:
        """What the checkpoint is called in its function: the dict, or the one it is added to."""
        held = self._appended_to(holder)
        if isinstance(held, cst.Subscript):
            return held.value.value if isinstance(held.value, cst.Name) else None
        parent = self.tree.parent(holder)
        call = self.tree.parent(parent) if isinstance(parent, cst.Arg) else None
        if isinstance(call, cst.Call) and isinstance(call.func, cst.Attribute):
            owner = call.func.value if call.func.attr.value in DICT_CHANGES else None
            return owner.value if isinstance(owner, cst.Name) else None
        target = next(iter(targets_of(self.tree, holder)), None)
        node = target.value if isinstance(target, cst.Subscript) else target
        return node.value if isinstance(node, cst.Name) else None

    def _is_in_save(self, node: cst.CSTNode) -> bool:
        """Whether something is an argument of a call that saves, itself or within it."""
        child = node
        for holder in self.tree.ancestors(node):
            if isinstance(holder, cst.BaseStatement):
                return False
            if isinstance(holder, cst.Call) and self._saves(holder, child):
                return True
            child = holder
        return False

    def _saves(self, call: cst.Call, part: cst.CSTNode) -> bool:
        if part is call.func or not _SAVE.search(last(call.func)):
            return False
        if self._is_of_tpu(call.func) and not any(
            self._is_of_tpu(each.func) for each in self.roles.scaler_calls
        ):
            return False
        named = part.keyword if isinstance(part, cst.Arg) else None
        return named is None or _ASIDE.search(named.value) is None

    def _is_of_tpu(self, func: cst.BaseExpression) -> bool:
        return any(name.startswith(_OF_TPU) for name in self.names.qualified(func))

    def _may_grow(self, use: cst.Name) -> bool:
        """Whether a checkpoint goes to other code that may put the scaler into it."""
        parent = self.tree.parent(use)
        if isinstance(parent, cst.Subscript):
            return self._is_filled(parent)
        call = self.tree.parent(parent) if parent is not None else None
        if isinstance(parent, cst.Attribute) and isinstance(call, cst.Call):
            given = [arg.value for arg in call.args]
            return parent.attr.value in DICT_CHANGES and not all(
                isinstance(value, (cst.Dict, cst.SimpleString))
                or self._is_without_scaler(value)
                or self.program.is_left_out(value)
                for value in given[:1]
            )
        if not isinstance(parent, cst.Arg) or not isinstance(call, cst.Call):
            return False
        alone = isinstance(self.tree.parent(call), cst.Expr)
        return alone and not _SAVE.search(last(call.func)) and last(call.func) not in _HARMLESS

    def _is_filled(self, item: cst.Subscript) -> bool:
        """Whether something that is no optimizer's state is kept under a key that is no literal."""
        key = item.slice[0].slice if len(item.slice) == 1 else None
        if not isinstance(key, cst.Index) or literal(key.value) is not ...:
            return False
        holder = self.tree.parent(self.tree.parent(item) or item)
        values = (value for target, value in assigned(holder) if target is item) if holder else ()
        return any(value is None or self._asked(value) is None for value in values)

    def _serves(self, scaler: _Scaler, holder: cst.BaseExpression) -> bool:
        """Whether a scaler belongs to the code that makes a checkpoint, or that calls it."""
        unit = self._unit(holder)
        if unit is scaler.unit:
            return True
        if isinstance(unit, cst.ClassDef) and isinstance(scaler.unit, cst.ClassDef):
            return any(unit is each for each in self.values.lineage(scaler.unit))
        return isinstance(unit, cst.FunctionDef) and any(
            self.tree.contains(scaler.unit, call) for call in self.program.calls_of(unit)
        )

    # --- what a fix needs ---------------------------------------------------------------------

    def _spelling(self, scaler: _Scaler, place: cst.CSTNode) -> str | None:
        """How to write the scaler in a place, if it is certain to exist there."""
        name = dotted(scaler.target)
        if len(self._scalers) != 1 or name is None or not self._is_unconditional(scaler):
            return None
        before = self.tree.order(scaler.call) < self.tree.order(place)
        if "." not in name:
            return name if before and self._scope(place) is self._scope(scaler.call) else None
        method, start = self._scope(place), self._scope(scaler.call)
        if method is start:
            return name if before else None
        return name if self._is_later(method, start, scaler) else None

    def _optional(self, scaler: _Scaler, place: cst.CSTNode) -> str | None:
        """``s if args.amp``, for a local variable that is made under ``if args.amp:`` before."""
        name, home = dotted(scaler.target) or ".", self._scope(scaler.call)
        if "." in name:
            return self._optional_attribute(scaler, name, place)
        holder = self.tree.ancestor(scaler.call, cst.If)
        test = dotted(holder.test) if holder is not None else None
        if holder is None or test is None or self._scope(place) is not home:
            return None
        body = home if isinstance(home, cst.Module) else home.body
        only = all(value is scaler.call for value in self.values.alternatives(scaler.target))
        first = only and self.tree.order(scaler.call) < self.tree.order(place)
        plain = first and self.tree.parent(holder) is body and len(self._scalers) == 1
        return (
            f"{name} if {test}" if plain and self.tree.contains(holder.body, scaler.call) else None
        )

    def _optional_attribute(self, scaler: _Scaler, name: str, place: cst.CSTNode) -> str | None:
        """``self.s if self.s is not None``, where nothing else is assigned to that."""
        owner, attribute = name.partition(".")[::2]
        home = self.tree.ancestor(scaler.call, cst.ClassDef)
        inside = home is not None and self.tree.ancestor(place, cst.ClassDef) is home
        others = [v for v in self.values.alternatives(scaler.target) if v is not scaler.call]
        known = all(literal(value) is None for value in others)
        if owner != "self" or "." in attribute or not inside or not known or len(self._scalers) > 1:
            return None
        return (
            f"{name} if {name} is not None" if others else f'{name} if hasattr(self, "{attribute}")'
        )

    def _is_unconditional(self, scaler: _Scaler) -> bool:
        """Whether the scaler is made on every path of its function, and nowhere else.

        An attribute must be made by ``__init__``.
        """
        if any(value is not scaler.call for value in self.values.alternatives(scaler.target)):
            return False
        start = self._scope(scaler.call)
        line = self.tree.statement(scaler.call)
        body = start if isinstance(start, cst.Module) else start.body
        if line is None or self.tree.parent(line) is not body:
            return False
        name = dotted(scaler.target) or ""
        own = isinstance(start, cst.FunctionDef) and start.name.value == "__init__"
        return "." not in name or (own and name.startswith("self.") and name.count(".") == 1)

    def _is_later(
        self, method: cst.FunctionDef | cst.Module, start: cst.FunctionDef | cst.Module,
        scaler: _Scaler,
    ) -> bool:  # fmt: skip
        """Whether a method of the same class only runs when ``__init__`` has made the scaler."""
        owner = self.tree.ancestor(scaler.call, cst.ClassDef)
        if owner is None or self.tree.ancestor(method, cst.ClassDef) is not owner:
            return False
        if any(not self.names.is_only(base.value, _INERT_BASES) for base in owner.bases):
            return False
        limit = self.tree.order(scaler.call)
        early = {
            id(target)
            for call in self.tree.below(start, cst.Call)
            if self.tree.order(call) < limit
            for target in self._reached(call)
        }
        return id(method) not in early

    def _reached(self, call: cst.Call) -> list[cst.FunctionDef]:
        """The functions of this file that a call runs, and those that they call."""
        found: dict[int, cst.FunctionDef] = {}
        todo = [call]
        while todo:
            target = self.program.target(todo.pop())
            if target is not None and id(target) not in found:
                found[id(target)] = target
                todo += self.tree.below(target, cst.Call)
        return list(found.values())

    @functools.cached_property
    def loads(self) -> list[cst.Call]:
        """``optimizer.load_state_dict(...)``, as far as a program may come to it."""
        return [
            call
            for call in self.tree.nodes(cst.Call)
            if isinstance(call.func, cst.Attribute)
            and call.func.attr.value in LOAD_STATE_DICT.words
            and self._may_be_optimizer(call.func.value)
            and self._is_asked_for(call)
        ]

    def _is_asked_for(self, load: cst.Call) -> bool:
        """Whether a load is more than how a wrapper hands on what nobody asks it for.

        In another file it has to be in something that is named where this file sees it.
        """
        function = self.tree.ancestor(load, cst.FunctionDef)
        if function is None:
            return True
        name = function.name.value
        if name in LOAD_STATE_DICT.words and self._hands_on(load):
            return self._is_loaded_itself(load)
        used = (each for each in self.tree.named(name) if each is not function.name)
        return self.own.is_own(load) or bool(function.decorators) or any(used)

    def _hands_on(self, load: cst.Call) -> bool:
        """Whether a function has something else load all that it is given itself."""
        given = arguments(load).get(0, LOAD_STATE_DICT.order[0])
        bindings = self.names.bindings(given) if isinstance(given, cst.Name) else ()
        return any(binding.kind == "parameter" for binding in bindings)

    def _is_loaded_itself(self, load: cst.Call) -> bool:
        """Whether an object of the class in which a load stands is asked to load."""
        owner = self.tree.ancestor(load, cst.ClassDef)
        calls = (call for call in self.tree.nodes(cst.Call) if call is not load)
        funcs = (call.func for call in calls if isinstance(call.func, cst.Attribute))
        asked = (func.value for func in funcs if func.attr.value in LOAD_STATE_DICT.words)
        return owner is not None and any(owner in self.origins.classes(each) for each in asked)

    @functools.cached_property
    def _keys(self) -> list[str]:
        """The keys under which scalers are looked for in what is loaded; "" if one is not plain."""
        found = []
        for call in self.tree.nodes(cst.Call):
            match call:
                case cst.Call(func=cst.Attribute(value=owner, attr=cst.Name(value=name))) if (
                    name in LOAD_STATE_DICT.words and self.roles.is_scaler(owner)
                ):
                    given = arguments(call).get(0, LOAD_STATE_DICT.order[0])
                    found.append(_key(given) if given is not None else "")
        return found

    def _load(self, scaler: _Scaler) -> Load | None:
        if len(self.loads) != 1:
            return None
        (call,) = self.loads
        given = arguments(call).get(0, LOAD_STATE_DICT.order[0])
        small = self.tree.parent(call)
        line = self.tree.parent(small) if small is not None else None
        if not isinstance(small, cst.Expr) or not isinstance(line, cst.SimpleStatementLine):
            return None
        if len(line.body) > 1 or not isinstance(given, cst.Subscript) or not dotted(given.value):
            return None
        if self._spelling(scaler, call) is None:
            return None
        return Load(line, given.value)

    def _scope(self, node: cst.CSTNode) -> cst.FunctionDef | cst.Module:
        return self.tree.ancestor(node, cst.FunctionDef) or self.tree.module


def _owner(call: cst.Call) -> cst.BaseExpression:
    """``x`` of ``x.method()``."""
    assert isinstance(call.func, cst.Attribute)
    return call.func.value


def _entries(given: cst.Dict) -> list[cst.DictElement]:
    return [each for each in given.elements if isinstance(each, cst.DictElement)]


def _asked_for_state(node: cst.BaseExpression) -> cst.BaseExpression | None:
    """``x`` of ``x.state_dict()``, be it wrapped by a framework."""
    match node:
        case cst.Call(func=cst.Attribute(value=owner, attr=cst.Name(value=name))):
            return unwrapped(owner) if name in STATE_DICT.words else None
    return None


def _key(given: cst.BaseExpression) -> str:
    """``"scaler"`` of ``state["scaler"]`` or ``state.get("scaler")``, as it is written; or ""."""
    found = lookup(given) if isinstance(given, (cst.Subscript, cst.Call)) else None
    return found[1].value if found and isinstance(found[1], cst.SimpleString) else ""


def names_scaler(key: str) -> bool:
    """Whether a string is one word that names a scaler, and no setting of one."""
    if _NOT_WORD.search(key) or _SETTING.search(key) or key in words(Role.SCALER):
        return False
    return bool(_SCALER.search(key))


def last(node: cst.BaseExpression) -> str:
    """The last name of ``a.b.c`` or ``a.b[i]``."""
    while isinstance(node, cst.Subscript):
        node = node.value
    if isinstance(node, cst.Attribute):
        return node.attr.value
    return node.value if isinstance(node, cst.Name) else ""


def _is_own(attribute: cst.CSTNode | None) -> bool:
    """Whether a method asks for an attribute of its own object."""
    return isinstance(attribute, cst.Attribute) and dotted(attribute.value) == "self"
