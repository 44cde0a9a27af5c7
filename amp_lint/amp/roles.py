"""Which expressions are GradScalers and optimizers."""

from __future__ import annotations

import functools
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from collections.abc import Set as AbstractSet

import libcst as cst

from amp_lint.amp.frameworks import Frameworks
from amp_lint.flow.branches import arms, contradict
from amp_lint.flow.forwarding import completed, merged, passed_on
from amp_lint.flow.options import Options
from amp_lint.flow.origins import Origins
from amp_lint.flow.program import Program
from amp_lint.flow.values import MAX_ALTERNATIVES, arguments, literal, lookup
from amp_lint.syntax.assignments import held_in
from amp_lint.syntax.memo import per_node
from amp_lint.syntax.names import PARTIAL, dotted
from amp_lint.syntax.returns import returned
from amp_lint.vocabulary.amp import STATE_DICT
from amp_lint.vocabulary.frameworks import NOT_TORCH
from amp_lint.vocabulary.meaning import Kind, Part, Role
from amp_lint.vocabulary.table import ROWS, methods, names, place, words
from amp_lint.vocabulary.training import (
    BY_EPOCHS,
    OTHER_SCHEDULES,
    UPDATES_STEP,
    makes_optimizer,
    makes_scheduler,
)

SCALERS = names(Role.SCALER)
_STEPPERS = names(Role.STEPPER)
_SCALER_NAME = re.compile(r"(^|_)scaler\d*(_|$)|gradscaler|loss_scaler", re.IGNORECASE)
_DIGITS = "0123456789"
_NOBODY = {"", "None"}
_NOT_OPTIMIZER_NAME = re.compile(r"sched|profil|lr|warmup|wandb|prof$|ema|timer", re.IGNORECASE)
_SCHEDULES = frozenset({"sched", "scheds", "scheduler", "schedulers"})
_OTHER_SCHEDULE = re.compile(
    r"(^|_)({0})\d*_?sched|sched[a-z]{{0,8}}_({0})\d*(_|$)".format(
        "|".join(sorted(OTHER_SCHEDULES))
    )
)
_CAPITAL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_MAX_STEPS = 2  # helpers within helpers that make a scaler
_MAX_CALLERS = 40  # calls that hand on one parameter
_SCALER_OF_DATA = re.compile(
    r"^sklearn\..*Scaler$|(?:Standard|MinMax|MaxAbs|Robust|Feature|Data)Scaler$"
)
_PREPROCESSING = {"fit", "transform", "fit_transform", "inverse_transform", "partial_fit"}


class Roles:
    """Roles by origin where it can be seen, else by the methods called and by name."""

    def __init__(self, program: Program, origins: Origins) -> None:
        self.program = program
        self.tree = program.tree
        self.names = program.names
        self.values = program.values
        self.origins = origins
        self.frameworks = Frameworks(program, origins)
        self.options = Options(program.values)
        self._origins: dict[int, list[cst.Call]] = {}
        self._made: dict[int, list[cst.Call]] = {}
        self._places: dict[int, cst.Call] = {}
        self._by_parameter: dict[tuple[int, str], bool] = {}
        self._callers = 0  # that are being asked what they give

    @functools.cached_property
    def _methods(self) -> dict[str, set[str]]:
        """Last part of an object's name -> the methods called on it anywhere in the file."""
        found: dict[str, set[str]] = defaultdict(set)
        for call in self.tree.nodes(cst.Call):
            if isinstance(call.func, cst.Attribute):
                method = call.func.attr.value
                names = self._called(call.func.value) if method in _TELLING else ()
                for name in (_last(call.func.value), *names):
                    found[name].add(method)
        found.pop("", None)
        return found

    @per_node
    def _called(self, node: cst.BaseExpression) -> set[str]:
        """The last names of all that an expression is another name for, and its own."""
        names = (cst.Name, cst.Attribute, cst.Subscript)
        while isinstance(node, cst.Subscript):
            if key := _word(node):
                held = self._called(node.value)  # any of them, where something walks over them
                return {f"{name}_{key}" for name in held} | (held & self._walked)
            node = node.value
        known = (node, *self._held_in(node))
        alternatives = (*known, *(v for each in known for v in self.values.alternatives(each)))
        return {_last(each) for each in alternatives if isinstance(each, names)} - _NOBODY

    @functools.cached_property
    def _walked(self) -> frozenset[str]:
        """The last names of what is subscripted with something that is no word."""
        every = (each for each in self.tree.nodes(cst.Subscript) if not _word(each))
        return frozenset(_last(each.value) for each in every)

    def _called_in_scope(self, node: cst.BaseExpression) -> set[str]:
        """The methods that are called of what has a name in one function, or in a class."""
        name = dotted(node) or ""
        kinds = (cst.ClassDef,) if name.startswith("self.") else (cst.FunctionDef, cst.ClassDef)
        scope = self.tree.ancestor(node, *kinds) or self.tree.module
        funcs = (call.func for call in self.tree.below(scope, cst.Call))
        return {
            func.attr.value
            for func in funcs
            if isinstance(func, cst.Attribute) and dotted(func.value) == name
        }

    def _held_in(self, node: cst.BaseExpression) -> list[cst.BaseExpression]:
        """What a loop's variable is one element of after the other."""
        bindings = self.names.bindings(node) if isinstance(node, cst.Name) else []
        if not all(isinstance(each.node, (cst.For, cst.CompFor)) for each in bindings):
            return []
        found = [held for each in bindings for held in held_in(each)]
        shown = (each for each in found if isinstance(each, (cst.List, cst.Tuple)))
        return [*found, *(element.value for each in shown for element in each.elements)]

    @functools.cached_property
    def is_foreign(self) -> bool:
        """Whether the file is written for another framework, whose GradScaler has its own rules."""
        imported = {b.qualified for b in self.names.every_binding() if b.qualified is not None}
        roots = {name.partition(".")[0] for name in imported}
        return "torch" not in roots and not roots.isdisjoint(NOT_TORCH)

    @functools.cached_property
    def scaler_calls(self) -> list[cst.Call]:
        """Every call of this file that constructs a GradScaler."""
        return self._scaler_calls

    @functools.cached_property
    def _scaler_calls(self) -> list[cst.Call]:
        return [*filter(self.tree.is_own, self.all_scaler_calls)]

    @functools.cached_property
    def all_scaler_calls(self) -> list[cst.Call]:
        """The same for all files in sight."""
        return [*filter(self.is_constructor, self.tree.nodes(cst.Call))]

    def is_constructor(self, call: cst.Call) -> bool:
        """Whether a call itself constructs a GradScaler."""
        return self.names.is_any(call.func, SCALERS)

    @functools.cached_property
    def steppers(self) -> list[cst.Call]:
        """Every call that makes a library's scaler which takes a whole step when it is called."""
        return [call for call in self.tree.nodes(cst.Call) if self.is_stepper(call)]

    def is_stepper(self, call: cst.Call) -> bool:
        """Whether a call makes such a scaler."""
        return self.names.is_any(call.func, _STEPPERS)

    def scaler_makers(self) -> list[cst.Call]:
        """Every call of a linked file's helper that gives a GradScaler, and nothing else."""
        return [call for call in self.tree.nodes(cst.Call) if self._is_maker(call)]

    def _is_maker(self, call: cst.Call) -> bool:
        function = self.values.function(call.func) if self.tree.is_own(call) else None
        if function is None or self.tree.is_own(function):
            return False
        values = (v for each in returned(function) for v in self.values.alternatives(each))
        made = [isinstance(v, cst.Call) and bool(self.constructors(v)) for v in values]
        return bool(made) and all(made)

    def scaler_origins(self, node: cst.BaseExpression) -> list[cst.Call]:
        """The constructor calls that an expression may come from.

        One in a helper has the arguments that the helper is given; it has no place in the tree.
        """
        if id(node) not in self._origins:
            calls = [v for v in self.values.alternatives(node) if isinstance(v, cst.Call)]
            self._origins[id(node)] = [o for call in calls for o in self.constructors(call)]
        return self._origins[id(node)]

    def may_be_on(self, scaler: cst.BaseExpression) -> bool:
        """Whether a scaler is not one that is always made disabled, here or by all who call."""
        made = self.scaler_origins(scaler) or self.given_scalers(scaler)
        return not made or not all(map(self.is_never_on, made))

    def is_always_on(self, scaler: cst.BaseExpression) -> bool:
        """Whether all that a scaler may be is made enabled, here or by who calls."""
        made = self.scaler_origins(scaler)
        ends = [*self.values.alternatives(scaler)]
        known = all(isinstance(end, cst.Call) and self.gives_scaler(end) for end in ends)
        if not made:
            made = self.given_scalers(scaler)
            known = len(made) == len(self.origins.of(scaler))
        return bool(made) and known and not any(map(self.is_switchable, made))

    def gives_scaler(self, call: cst.Call) -> bool:
        """Whether a call makes a scaler, itself or as a helper that gives nothing else."""
        target = self.program.target(call)
        ends = [] if target is None else returned(target)
        ends = [end for each in ends for end in self.values.alternatives(each)]
        return bool(self.constructors(call)) and all(isinstance(end, cst.Call) for end in ends)

    def given_scalers(self, scaler: cst.BaseExpression) -> list[cst.Call]:
        """The constructor calls of what those who call give for a scaler."""
        return [call for call in self.origins.makers(scaler) if self.is_constructor(call)]

    def constructors(self, call: cst.Call, steps: int = _MAX_STEPS) -> list[cst.Call]:
        """The constructor calls whose result a call gives: itself, or those of a helper."""
        if self.is_constructor(call):
            return [call]
        if steps <= 0:
            return []
        if id(call) not in self._made:
            self._made[id(call)] = []  # a helper that calls itself adds nothing
            self._made[id(call)] = [*self._of_partial(call)] or self._of_helper(call, steps)
        return self._made[id(call)]

    def _of_partial(self, call: cst.Call) -> Iterator[cst.Call]:
        """The call that ``make(...)`` stands for, after ``make = partial(GradScaler, ...)``."""
        for value in self.values.alternatives(call.func):
            if isinstance(value, cst.Call) and self.names.is_any(value.func, PARTIAL):
                made, given = completed(value, call)
                if made is not None and self.names.is_any(made, SCALERS):
                    constructor = merged(call.with_changes(func=made), given)
                    self._places[id(constructor)] = call
                    yield constructor

    def _of_helper(self, call: cst.Call, steps: int) -> list[cst.Call]:
        function = self.values.function(call.func)
        if function is None:
            return []
        values = [v for each in returned(function) for v in self.values.alternatives(each)]
        calls = [value for value in values if isinstance(value, cst.Call)]
        inner = [made for each in calls for made in self.constructors(each, steps - 1)]
        few = len(inner) <= MAX_ALTERNATIVES
        return [self._passed_on(i, function, call) for i in inner if few]

    def _passed_on(self, inner: cst.Call, function: cst.FunctionDef, call: cst.Call) -> cst.Call:
        made = merged(inner, passed_on(inner, function, call, self.program))
        self._places[id(made)] = self.place(inner)
        return made

    def place(self, constructor: cst.Call) -> cst.Call:
        """Where a constructor call stands, whatever arguments it is given there."""
        return self._places.get(id(constructor), constructor)

    def initial_scale(self, constructor: cst.Call) -> cst.BaseExpression | None:
        """What a constructor call gives as ``init_scale``, in any of its places."""
        return self._given(constructor, Part.INITIAL_SCALE)

    def switch(self, constructor: cst.Call) -> cst.BaseExpression | None:
        """What a constructor call gives as ``enabled``, in any of its places."""
        return self._given(constructor, Part.ENABLED)

    @per_node
    def is_never_on(self, constructor: cst.Call) -> bool:
        """Whether a GradScaler is made disabled, or not at all, whatever the options."""
        enabled = self.switch(constructor)
        off = enabled is not None and (
            literal(enabled) is False
            or bool(self.options.words(enabled))
            or self.options.never(enabled)
        )
        tests = arms(self.tree, self.place(constructor))
        return off or any(self.options.never(test, holds=holds) for test, holds in tests)

    def is_switchable(self, constructor: cst.Call) -> bool:
        """Whether a GradScaler may be made disabled."""
        enabled = self.switch(constructor)
        starred = arguments(constructor).starred
        return starred or (enabled is not None and literal(enabled) is not True)

    def _given(self, constructor: cst.Call, part: Part) -> cst.BaseExpression | None:
        known = sorted(self.names.qualified(constructor.func) & SCALERS)
        return arguments(constructor).get(*place(known[0], part)) if known else None

    def is_scaler(self, node: cst.BaseExpression) -> bool:
        """Whether an expression is a GradScaler: constructed as one, used as one, or named so."""
        if self.scaler_origins(node):
            return True
        names = self._called(node)
        methods = {method for name in names for method in self._methods.get(name, ())}
        if not methods.isdisjoint(_PREPROCESSING):
            if methods.isdisjoint(_UNIQUE):
                return False
            methods = self._called_in_scope(node)  # two things in one file have that name
            if not methods.isdisjoint(_PREPROCESSING):
                return False
        if not methods.isdisjoint(_UNIQUE) or methods >= _DONE - _UNIQUE:
            return True
        if any(map(_SCALER_NAME.search, names)) and not methods.isdisjoint(_PROTOCOL):
            return True
        if methods >= _STEPPED_AND_UPDATED and self._steps_optimizers(names):
            return True
        return self._is_given(node, self.is_scaler)

    @functools.cached_property
    def has_scalers_of_data(self) -> bool:
        """Whether something is made that scales what goes into a model."""
        called = (call.func for call in self.tree.nodes(cst.Call))
        return any(
            _SCALER_OF_DATA.search(name)
            for func in called
            for name in self.names.qualified(func) or {dotted(func) or ""}
        )

    def scales_data(self, node: cst.BaseExpression) -> bool:
        """Whether something of that name fits or transforms data, and scales no loss."""
        names = self._called(node)
        methods = {method for name in names for method in self._methods.get(name, ())}
        return methods.isdisjoint(_UNIQUE) and not methods.isdisjoint(_PREPROCESSING)

    def _steps_optimizers(self, names: AbstractSet[str]) -> bool:
        """Whether each ``step`` of an object gets an optimizer, by its name or origin."""
        return bool(names) and all(self._given_to_steps.get(name, False) for name in names)

    @functools.cached_property
    def _given_to_steps(self) -> dict[str, bool]:
        """Last part of an object's name -> whether each of its steps gets an optimizer."""
        found: dict[str, bool] = {}
        for call in self.tree.nodes(cst.Call):
            if isinstance(call.func, cst.Attribute) and call.func.attr.value in _STEPS:
                given = arguments(call).get(*_GIVEN.get(call.func.attr.value, (None, None)))
                is_given = given is not None and self._is_named_or_made_optimizer(given)
                name = _last(call.func.value)
                found[name] = found.get(name, True) and is_given
        return found

    def _is_named_or_made_optimizer(self, node: cst.BaseExpression) -> bool:
        made = (v for v in self.values.alternatives(node) if isinstance(v, cst.Call))
        known = (self.names.qualified(each.func) for each in made)
        return _names_optimizer(_last(node)) or any(
            makes_optimizer(name) for names in known for name in names
        )

    def _is_given(
        self, node: cst.BaseExpression, asked: Callable[[cst.BaseExpression], bool]
    ) -> bool:
        """Whether a parameter has a role since every call of its function gives it such a thing."""
        bindings = self.names.bindings(node) if isinstance(node, cst.Name) else []
        if len(bindings) != 1 or bindings[0].kind != "parameter":
            return False
        parameter = bindings[0].node
        key = id(parameter), asked.__name__
        if key not in self._by_parameter and self._callers < _MAX_CALLERS:
            self._by_parameter[key] = False  # a function that calls itself adds nothing
            values = list(self._arguments(parameter, bindings[0].name))
            self._callers += 1
            given = bool(values) and all(v is not None and asked(v) for v in values)
            self._callers -= 1
            self._by_parameter[key] = given
        return self._by_parameter.get(key, False)

    def _arguments(self, parameter: cst.CSTNode, name: str) -> Iterator[cst.BaseExpression | None]:
        """What each call of its function gives for a parameter; None if that is not known."""
        function = self.tree.ancestor(parameter, cst.FunctionDef)
        if function is not None:
            for call in self.program.calls_of(function):
                yield self.program.bind(function, call).get(name)

    def is_optimizer(self, node: cst.BaseExpression) -> bool:
        """Whether an expression is an optimizer, judged by origin, name and methods."""
        for value in self.values.alternatives(node):
            if isinstance(value, cst.Call):
                names = self.names.qualified(value.func)
                if any(map(makes_scheduler, names)):
                    return False
                if any(map(makes_optimizer, names)) or self._is_of_optimizer(value.func):
                    return True
        called = self._called(node)
        if any(map(_names_optimizer, called)):
            return True
        if self.frameworks.is_optimizer(node):
            return not self.is_scheduler(node)
        known = not called.isdisjoint(self._stepped)
        return known or self._is_given(node, self.is_optimizer)

    def _is_of_optimizer(self, maker: cst.BaseExpression) -> bool:
        """Whether what is called is a class of the program that is derived from an optimizer."""
        owner = self.names.definition(maker)
        return isinstance(owner, cst.ClassDef) and self.values.is_optimizer_class(owner)

    @functools.cached_property
    def _stepped(self) -> frozenset[str]:
        """The last names of what a scaler steps or unscales, or what steps and clears gradients."""
        given: set[str] = set()
        done: dict[str, set[str]] = defaultdict(set)
        for call in self.tree.nodes(cst.Call):
            if not isinstance(call.func, cst.Attribute) or call.func.attr.value not in _STEPPING:
                continue
            owner, method = call.func.value, call.func.attr.value
            known = arguments(call).get(*_GIVEN.get(method, (None, None)))
            if known is None:
                for name in self._called(owner):
                    done[name].add(method)
            elif method in _UNIQUE or self.is_scaler(owner):
                given |= self._called(known)
        used = {name for name, methods in done.items() if methods >= _OPTIMIZING}
        engines = {name for name, methods in done.items() if methods & _BACKWARDS}
        return frozenset(given | used - engines) - {"self"}

    def is_scheduler(self, node: cst.BaseExpression) -> bool:
        """Whether an expression is a scheduler of an optimizer, judged by origin and name."""
        if any(map(self._is_made_scheduler, self._made_by(node))):
            return True
        return any(_names_scheduler(name.lower()) for name in self._called(node))

    def schedules_rate(self, node: cst.BaseExpression) -> bool:
        """Whether it is one of a learning rate, not of what its name says: ``ema_scheduler``."""
        made = self._made_by(node)
        if any(makes_scheduler(name) for v in made for name in self.names.qualified(v.func)):
            return True
        called = {*self._called(node), *(_in_words(_last(value.func)) for value in made)}
        others = (_names_other_schedule(name.lower()) for name in called)
        return self.is_scheduler(node) and not any(others)

    def counts_updates(self, step: cst.Call, scheduler: cst.BaseExpression) -> bool:
        """Whether a scheduler heeds what it is told of updates: made so, or told nothing else.

        Of one that a class of timm's kind is, the class is told so.
        """
        made = self.origins.makers(scheduler) or self._made_by(scheduler)
        told = [arguments(each).keywords.get(BY_EPOCHS) for each in made]
        if any(told):
            return any(each is not None and literal(each) is False for each in told)
        if not made or any(_last(each.func)[:1].isupper() for each in made):
            return False
        others = (call for call in self.tree.nodes(cst.Call) if call is not step)
        return all(
            call.func.attr.value in UPDATES_STEP.methods or contradict(self.tree, call, step)
            for call in others
            if isinstance(call.func, cst.Attribute) and call.func.attr.value in _SCHEDULING
            if _last(call.func.value) == _last(scheduler)
        )

    def _made_by(self, node: cst.BaseExpression) -> Sequence[cst.Call]:
        made = [v for v in self.values.alternatives(node) if isinstance(v, cst.Call)]
        return made or self.origins.makers(node)

    def _is_made_scheduler(self, made: cst.Call) -> bool:
        """Whether torch makes one, or what is called so of an optimizer: ``PolyScheduler(opt)``."""
        if any(map(makes_scheduler, self.names.qualified(made.func))):
            return True
        given = (name for arg in made.args for name in self._called(arg.value))
        return _names_scheduler(_in_words(_last(made.func))) and any(map(_names_optimizer, given))


def _names_optimizer(name: str) -> bool:
    """Whether a name is an optimizer's: ``optim_d``, ``opt2``, ``g_opt``."""
    if _NOT_OPTIMIZER_NAME.search(name):
        return False
    words = name.lower().split("_")
    last = words[-1].rstrip(_DIGITS)
    named = last in ("opt", "opts", "sgd", "adam", "adamw") or "opt" in words
    return named or any(word.startswith("optim") for word in words)


def _names_scheduler(name: str) -> bool:
    words = (word.rstrip(_DIGITS) for word in name.split("_"))
    return "lr_sched" in name or not _SCHEDULES.isdisjoint(words)


def _names_other_schedule(name: str) -> bool:
    """Whether a name says what is scheduled, and that is no learning rate: ``wd_scheduler``."""
    return _OTHER_SCHEDULE.search(name) is not None and "lr" not in name.split("_")


def _in_words(name: str) -> str:
    """``poly_scheduler`` of ``PolyScheduler``."""
    return _CAPITAL.sub("_", name).lower()


_DONE = methods(Role.SCALER)
_UNIQUE = methods(Role.SCALER, (row for row in ROWS if row.unique))
_PROTOCOL = _DONE | STATE_DICT.words
_GIVEN = {
    method: row.place(Part.OPTIMIZER)
    for row in ROWS
    if row.owner is Role.SCALER and row.keyword(Part.OPTIMIZER)
    for method in row.methods
}
"""What a scaler does for an optimizer, and where that is given."""
_OPTIMIZING = methods(Role.OPTIMIZER)
_BACKWARDS = methods(Role.LOSS)
_STEPS = words(Kind.STEP) & _GIVEN.keys()
_STEPPED_AND_UPDATED = _STEPS | words(Kind.UPDATE) & _DONE
_SCHEDULING = methods(Role.SCHEDULER)
_STEPPING = _OPTIMIZING | _BACKWARDS | _GIVEN.keys()
_TELLING = _PROTOCOL | _PREPROCESSING
"""Methods that say what an object is."""


def _last(node: cst.BaseExpression) -> str:
    """The last name of ``a.b.c`` or ``a.b[i]``: what an object is called wherever it is held.

    With the key, if that is a word: what else a dict holds are other things.
    """
    if isinstance(node, cst.Subscript):
        key = _word(node)
        return f"{_last(node.value)}_{key}" if key else _last(node.value)
    name = dotted(node)
    return name.rpartition(".")[2] if name else ""


def _word(node: cst.Subscript) -> str:
    """The key of an item, if it is a word that is written out."""
    found = lookup(node)
    word = literal(found[1]) if found is not None else None
    return word if isinstance(word, str) else ""
