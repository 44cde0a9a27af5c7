"""The functions of a file: which call runs which, with what, in which loop; each asked once."""

from __future__ import annotations

import functools
import re
from collections import defaultdict
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from typing import Protocol

import libcst as cst

from amp_lint.flow.choices import Choices
from amp_lint.flow.conditions import is_constant, is_mode_test, text
from amp_lint.flow.values import Slot, Values, arguments, literal
from amp_lint.syntax.assignments import paired
from amp_lint.syntax.memo import per_node
from amp_lint.syntax.names import Binding, Names, callee, dotted
from amp_lint.syntax.returns import is_property, returned
from amp_lint.syntax.tree import Tree, children, descendants, last_statement, statements_of
from amp_lint.vocabulary.modules import COMMON
from amp_lint.vocabulary.purity import hands_on

Loop = cst.For | cst.While
_NAMED = (cst.Name, cst.Attribute, cst.SimpleString, cst.Integer)
_INNER = (cst.FunctionDef, cst.Lambda, cst.ClassDef)
_BINDING = (cst.AssignTarget, cst.For, cst.AugAssign, cst.AnnAssign, cst.NamedExpr)


class Objects(Protocol):
    """Where objects come from."""

    def classes(self, node: cst.BaseExpression) -> Sequence[cst.ClassDef]:
        """The classes that an expression may be an instance of."""

    def given(self, name: cst.Name) -> Sequence[cst.BaseExpression]:
        """What calls give for the parameter that a name is; nothing for other names."""


_HOOK = re.compile(r"(?:on|before|after|pre|post)_\w")
"""What methods are called that a trainer runs of whatever it is given."""


class Program:
    """Who calls whom, and what is repeated, in the linked tree."""

    def __init__(
        self, tree: Tree, names: Names, values: Values, objects: Objects | None = None
    ) -> None:
        """Prepare; ``objects`` tell the classes of what has been handed from call to call."""
        self.tree = tree
        self.names = names
        self.values = values
        self._objects = objects
        self._assigned: dict[int, tuple[cst.BaseExpression, ...]] = {}

    # --- places -------------------------------------------------------------------------------

    @functools.cached_property
    def choices(self) -> Choices:
        """What decides whether attributes are None."""
        return Choices(self.values)

    def function_of(self, node: cst.CSTNode) -> cst.FunctionDef | None:
        """The function that a node stands in; None for the module's own script."""
        return self.tree.ancestor(node, cst.FunctionDef)

    def loops(self, node: cst.CSTNode) -> Iterator[Loop]:
        """The loops that repeat a node in its own function, innermost first."""
        child = node
        for holder in self.tree.ancestors(node):
            if isinstance(holder, _INNER):
                return
            if isinstance(holder, (cst.For, cst.While)) and child is holder.body:
                yield holder
            child = holder

    def loop(self, node: cst.CSTNode) -> Loop | None:
        """The innermost of them."""
        return next(self.loops(node), None)

    def assigned(self, node: cst.CSTNode) -> tuple[cst.BaseExpression, ...]:
        """The targets that are assigned anywhere below a node, no tuples, one of each spelling."""
        if id(node) not in self._assigned:
            by_text = {text(target): target for target in self._targets_below(node)}
            self._assigned[id(node)] = tuple(by_text.values())
        return self._assigned[id(node)]

    def _targets_below(self, node: cst.CSTNode) -> Iterator[cst.BaseExpression]:
        for kind in _BINDING:
            for item in self.tree.below(node, kind):
                yield from (target for target, _ in paired(item.target, None))  # type: ignore[attr-defined]

    # --- calls --------------------------------------------------------------------------------

    def target(self, call: cst.Call) -> cst.FunctionDef | None:
        """The function of this file that a call runs: by name, method, or ``__call__``."""
        return self._targets.get(id(call))

    def calls_of(self, function: cst.FunctionDef) -> Sequence[cst.Call]:
        """The calls that run a function, in source order."""
        return self._calls_of.get(id(function), ())

    def calls_by_class(self, function: cst.FunctionDef) -> list[cst.Call]:
        """The same, and those of ``self.f()`` in the bases whose ``f`` a method stands in for."""
        name = function.name.value
        owner = self.values.enclosing_class(function) if self.is_method(function) else None
        above = self.values.lineage(owner)[1:] if owner is not None else ()
        stood = (method for base in above if (method := self.values.method(base, name)) is not None)
        taken = {id(each): each for each in (function, *stood)}.values()
        calls = {id(call): call for each in taken for call in self.calls_of(each)}
        if any(is_stub(each) for each in taken):  # whose calls are said to run one that fills it in
            written = (call for base in above for call in self.tree.below(base, cst.Call))
            calls |= {id(call): call for call in written if dotted(call.func) == f"self.{name}"}
        return [*calls.values()]

    def running(self, nodes: Iterable[cst.CSTNode]) -> frozenset[int]:
        """Ids of the functions that run one of some nodes, or call a function that does."""
        found: set[int] = set()
        fresh = {id(f) for f in map(self.function_of, nodes) if f is not None}
        while fresh:
            found |= fresh
            fresh = {caller for callee in fresh for caller in self._callers[callee]} - found
        return frozenset(found)

    @per_node
    def answered(self, call: cst.Call) -> cst.BaseExpression | None:
        """The comparison that a call gives the answer of, where what it is given has names."""
        target = self.target(call)
        test = self.answer(target) if target is not None else None
        if test is None or not all(isinstance(arg.value, _NAMED) for arg in call.args):
            return None
        owner = call.func.value if isinstance(call.func, cst.Attribute) else None
        of_class = owner is not None and isinstance(self.names.definition(owner), cst.ClassDef)
        return None if of_class else test

    @per_node
    def answer(self, function: cst.FunctionDef) -> cst.BaseExpression | None:
        """The one comparison of settings that a function gives the answer of.

        Of its parameters, attributes and constants, with nothing called in it; None where it may
        give something else, or a subclass may have another method in its place.
        """
        values, last = returned(function), last_statement(function.body)
        if len(values) != 1 or not isinstance(last, cst.Return) or last.value is not values[0]:
            return None
        found = [*self.values.alternatives(values[0])]
        if len(found) != 1 or self.function_of(found[0]) is not function:
            return None
        plain = all(map(self._hands_on, function.decorators)) and not self._is_overridden(function)
        return found[0] if plain and self._is_asked(found[0], function) else None

    def _is_asked(self, test: cst.BaseExpression, function: cst.FunctionDef) -> bool:
        """Whether a comparison calls nothing, and its variables are as the function got them."""
        compares = isinstance(test, (cst.Comparison, cst.BooleanOperation, cst.UnaryOperation))
        parts = (test, *descendants(test))
        if not compares or not is_mode_test(test) or any(isinstance(p, cst.Call) for p in parts):
            return False
        return all(self._is_given(each, function) for each in _whole_names(test))

    def _is_given(self, node: cst.Name | cst.Attribute, function: cst.FunctionDef) -> bool:
        """Whether a name is a parameter, at most converted to another type, or a constant."""
        root = node
        while isinstance(root, cst.Attribute) and isinstance(root.value, (cst.Name, cst.Attribute)):
            root = root.value
        if isinstance(root, cst.Name) and root.value in self.names.local(function):
            given, *others = self.names.bindings(root)
            return given.kind == "parameter" and all(
                self._converts(other, root.value, function) for other in others
            )
        return is_constant(node)

    def _converts(self, binding: Binding, name: str, function: cst.FunctionDef) -> bool:
        """Whether a line of a function's own block makes a parameter an enum, or a text, of it."""
        line = self.tree.statement(binding.node)
        if line is None or self.tree.parent(line) is not function.body:
            return False
        match binding.value:
            case cst.Call(func=cst.Name(value=kind), args=[cst.Arg(value=cst.Name(value=given))]):
                return given == name and (kind == "str" or kind[:1].isupper())
        return False

    def _is_overridden(self, method: cst.FunctionDef) -> bool:
        """Whether a class that is derived from a method's has another one in its place."""
        owner = self.tree.ancestor(method, cst.FunctionDef, cst.ClassDef)
        heirs = self.values.heirs(owner) if isinstance(owner, cst.ClassDef) else ()
        name = method.name.value
        return any(name in self.names.scope_of(heir).bindings for heir in heirs)

    def is_method(self, function: cst.FunctionDef) -> bool:
        """Whether the first parameter of a function is what it is called on."""
        static = any(dotted(each.decorator) == "staticmethod" for each in function.decorators)
        holder = self.tree.ancestor(function, cst.FunctionDef, cst.ClassDef)
        return isinstance(holder, cst.ClassDef) and not static

    def receiver_name(self, function: cst.FunctionDef) -> str | None:
        """The parameter that a method's object is given as, such as ``self``."""
        params = (*function.params.posonly_params, *function.params.params)
        return params[0].name.value if params and self.is_method(function) else None

    def default(self, function: cst.FunctionDef, name: str) -> cst.BaseExpression | None:
        """What a parameter is where a call does not give it; None if it has no default.

        Or if the decorator of a library may give it another value.
        """
        params = function.params
        every = (*params.posonly_params, *params.params, *params.kwonly_params)
        found = next((each.default for each in every if each.name.value == name), None)
        return found if all(map(self._hands_on, function.decorators)) else None

    @per_node
    def _hands_on(self, decorator: cst.Decorator) -> bool:
        """Whether a decorator gives a function what it is called with, and nothing else."""
        node = callee(decorator.decorator)
        own = self.values.function(node) is not None
        return own or all(map(hands_on, self.names.qualified(node)))

    def bind(self, function: cst.FunctionDef, call: cst.Call) -> dict[str, cst.BaseExpression]:
        """Parameter -> what a call gives for it; without what stars hide, and without defaults."""
        names = [p.name.value for p in (*function.params.posonly_params, *function.params.params)]
        names = names[1:] if self.is_method(function) else names
        positional = self._positional(call)
        return {**dict(zip(names, positional, strict=False)), **arguments(call).keywords}

    def _positional(self, call: cst.Call) -> Iterator[cst.BaseExpression]:
        """What a call gives by position, up to a star behind which something is hidden."""
        for arg in call.args:
            if arg.star:
                spread = self._spread(arg)
                if spread is None:
                    return
                yield from spread
            elif arg.keyword is None:
                yield arg.value

    def _spread(self, arg: cst.Arg) -> list[cst.BaseExpression] | None:
        """What ``*parts`` gives, if that is a tuple which is written out."""
        match [*self.values.alternatives(arg.value)] if arg.star == "*" else []:
            case [cst.Tuple(elements=parts)] if all(isinstance(p, cst.Element) for p in parts):
                return [part.value for part in parts]
        return None

    @functools.cached_property
    def _targets(self) -> dict[int, cst.FunctionDef]:
        calls = self.tree.nodes(cst.Call)
        found = ((id(call), self._target(call.func)) for call in calls)
        return {  # what a property gives is called, and not the property
            key: function
            for key, function in found
            if function is not None and not is_property(function)
        }

    def handed(self, func: cst.BaseExpression) -> list[cst.BaseExpression]:
        """What the parameters that are called by an expression may be, besides None.

        Which is what calls give for them, and their defaults. Nothing, where it may be something
        else.
        """
        if not isinstance(func, (cst.Name, cst.Attribute)):
            return []
        found: list[cst.BaseExpression] = []
        for end in self.values.alternatives(func):
            param = self._parameter(end)
            given = self._given(end) if param is not None else ()  # type: ignore[arg-type]
            if not given and literal(end) is not None:
                return []
            default = param.default if param is not None else None
            found += (each for each in (*given, default) if each and literal(each) is not None)
        return found

    def _given(self, parameter: cst.Name) -> Sequence[cst.BaseExpression]:
        """What calls give for a parameter: those that name its function, while no more is known."""
        if self._objects is not None:
            return self._objects.given(parameter)
        param = self._parameter(parameter)
        function = self.tree.ancestor(param, cst.FunctionDef) if param is not None else None
        if param is None or function is None:
            return ()
        bound = (self.bind(function, call) for call in self._named_calls.get(id(function), ()))
        values = (each.get(param.name.value) for each in bound)
        return [value for value in values if value is not None]

    @functools.cached_property
    def _named_calls(self) -> dict[int, list[cst.Call]]:
        """The calls of functions by their own names."""
        found: dict[int, list[cst.Call]] = defaultdict(list)
        for call in self.tree.nodes(cst.Call):
            if (function := self.values.function(call.func)) is not None:
                found[id(function)].append(call)
        return dict(found)

    def _parameter(self, node: cst.BaseExpression) -> cst.Param | None:
        """The parameter that a name is, where nothing else is assigned to it."""
        bindings = self.names.bindings(node) if isinstance(node, cst.Name) else []
        only = bindings[0].node if len(bindings) == 1 else None
        return only if isinstance(only, cst.Param) else None

    def given_by_all(self, name: cst.Name) -> list[cst.BaseExpression]:
        """What each call gives for the parameter that a name is; [] if one may give another.

        Or if the function is handed on, to be called by others.
        """
        param = self._parameter(name)
        function = self.tree.ancestor(param, cst.FunctionDef) if param is not None else None
        if param is None or function is None or self.values.takers(function):
            return []
        bound = [self.bind(function, call) for call in self.calls_of(function)]
        values = [each.get(param.name.value) for each in bound]
        return [value for value in values if value is not None] if all(values) else []

    def value_in(
        self, node: cst.BaseExpression, calls: Mapping[int, cst.Call]
    ) -> cst.BaseExpression:
        """What a name is where its function, and those that call it, run by some calls.

        ``calls`` are by the ids of the functions that they run. A parameter that nothing else is
        assigned to is what its call gives, or its default; anything else itself.
        """
        for _ in range(len(calls)):
            param = self._parameter(node)
            function = self.tree.ancestor(param, cst.FunctionDef) if param is not None else None
            call = calls.get(id(function))
            if param is None or function is None or call is None:
                return node
            given = self.bind(function, call).get(param.name.value, param.default)
            if given is None or any(arg.star for arg in call.args):
                return node
            node = given
        return node

    def is_left_out(self, node: cst.BaseExpression | cst.Param) -> bool:
        """Whether a parameter, or a name of one, is None by default, and no known call gives it."""
        param = node if isinstance(node, cst.Param) else self._parameter(node)
        return param is not None and self._is_left_out(param, frozenset())

    def _is_left_out(self, param: cst.Param, asked: frozenset[int]) -> bool:
        function = self.tree.ancestor(param, cst.FunctionDef)
        calls = self.calls_of(function) if function is not None else ()
        if not calls or id(param) in asked or literal(param.default) is not None:
            return False
        if function is None or any(arg.star for call in calls for arg in call.args):
            return False
        given = (self.bind(function, call).get(param.name.value) for call in calls)
        others = [each for each in given if each is not None and literal(each) is not None]
        known = [self._parameter(each) for each in others]
        return all(each and self._is_left_out(each, asked | {id(param)}) for each in known)

    def _handed_function(self, func: cst.BaseExpression) -> cst.FunctionDef | None:
        """The function of this file that all calls give for what is called."""
        given = self.handed(func)
        functions = [self.values.function(each) or self._returned_function(each) for each in given]
        same = functions and all(each is functions[0] for each in functions)
        return functions[0] if same else None

    def _returned_function(self, func: cst.BaseExpression) -> cst.FunctionDef | None:
        """The function that another one defines and returns, of its call or what holds that."""
        made = [*self.values.alternatives(func)] if isinstance(func, (cst.Name, cst.Call)) else []
        if len(made) != 1 or not isinstance(made[0], cst.Call):
            return None
        factory = self.values.function(made[0].func)
        given = returned(factory) if factory is not None else []
        found = self.names.definition(given[0]) if len(given) == 1 else None
        inner = isinstance(found, cst.FunctionDef) and self.function_of(found) is factory
        return found if inner and isinstance(found, cst.FunctionDef) else None

    def _target(self, func: cst.BaseExpression) -> cst.FunctionDef | None:
        function = (
            self.values.function(func)
            or self._handed_function(func)
            or self._returned_function(func)
        )
        if function is not None:
            return self._filled_in(function, func) or function
        if isinstance(func, cst.Attribute):
            if not isinstance(func.value, (cst.Name, cst.Attribute, cst.Call)):
                return None
            own = self.values.enclosing_class(func) if dotted(func.value) == "self" else None
            if own is not None:
                heir = self._of_heir(own, func.attr.value, self.function_of(func))
                return heir or self._run_of(self.values.instance_class(func))
            owner = self.values.instance_class(func.value)
            if owner is None:
                return None if isinstance(func.value, cst.Call) else self._of_object(func)
            method = self.values.method(owner, func.attr.value)
            return method or self._run_of(self.values.instance_class(func))
        if isinstance(func, cst.Name):
            owner = self.values.instance_class(func)
            return self._run_of(owner) if owner is not None else self._of_object(func)
        return None

    def _run_of(self, owner: cst.ClassDef | None) -> cst.FunctionDef | None:
        """What runs where an object of a class is called."""
        return self.values.method(owner, "__call__") if owner is not None else None

    def _of_object(self, func: cst.Attribute | cst.Name) -> cst.FunctionDef | None:
        """What runs of an object whose class is known by where it comes from, if it is one.

        Its ``__call__``, or the method that is called; else that by what the object is asked for.
        """
        node: cst.BaseExpression = func
        name = "__call__"
        if isinstance(func, cst.Attribute):
            node, name = func.value, func.attr.value
        if self._objects is None or name not in self._methods or self.names.qualified(func):
            return None
        owners = self._objects.classes(node)
        found = {id(m): m for each in owners if (m := self.values.method(each, name))}
        if isinstance(func, cst.Attribute) and not owners:
            found = {id(m): m for m in self._hooks(name) or self._asked_of(func)}
        return next(iter(found.values())) if len(found) == 1 else None

    def _asked_of(self, func: cst.Attribute) -> list[cst.FunctionDef]:
        """The method of an object nobody knows, by what else it is asked for."""
        slot = self.values.slot(func.value)
        owner = self._told.get(slot) if slot is not None else None
        method = self.values.method(owner, func.attr.value) if owner is not None else None
        return [method] if method is not None and _has_several_words(func.attr.value) else []

    @functools.cached_property
    def _told(self) -> dict[Slot, cst.ClassDef]:
        """Variable -> the first class that has all the methods which are called on it.

        Those count whose name has several words, and that are methods of some class here: two at
        least, and no class but that one's relatives has them.
        """
        asked: dict[Slot, set[str]] = defaultdict(set)
        for call in self.tree.nodes(cst.Call):
            func = call.func
            if not isinstance(func, cst.Attribute) or func.attr.value not in self._methods:
                continue
            slot = self.values.slot(func.value) if _has_several_words(func.attr.value) else None
            if slot is not None:
                asked[slot].add(func.attr.value)
        found = {slot: self._owner_of(names) for slot, names in asked.items() if len(names) > 1}
        return {slot: owner for slot, owner in found.items() if owner is not None}

    def _owner_of(self, methods: Iterable[str]) -> cst.ClassDef | None:
        """The first of the classes that have some methods, if all of these have one root."""
        owners = [
            owner
            for owner in self.tree.nodes(cst.ClassDef)
            if all(self.values.method(owner, name) is not None for name in methods)
        ]
        above = {id(each) for owner in owners for each in self.values.lineage(owner)[1:]}
        last = [owner for owner in owners if id(owner) not in above]
        roots = {id(self.values.lineage(owner)[-1]) for owner in last}
        return last[0] if len(roots) == 1 else None

    def _hooks(self, name: str) -> list[cst.FunctionDef]:
        """The methods that something is done in, of classes from which none of them is derived."""
        named = [f for f in self._hooks_of.get(name, ()) if not is_stub(f)]
        owners = [self.values.enclosing_class(f) for f in named]
        above = {id(c) for owner in owners if owner for c in self.values.lineage(owner)[1:]}
        return [f for f, owner in zip(named, owners, strict=True) if id(owner) not in above]

    @functools.cached_property
    def _hooks_of(self) -> dict[str, list[cst.FunctionDef]]:
        """Name -> the methods that are called so, of those that a trainer may run."""
        found: dict[str, list[cst.FunctionDef]] = defaultdict(list)
        for each in self.tree.nodes(cst.FunctionDef):
            if _HOOK.match(each.name.value) and self.is_method(each):
                found[each.name.value].append(each)
        return dict(found)

    @functools.cached_property
    def _methods(self) -> frozenset[str]:
        """The names of all methods there are."""
        functions = self.tree.nodes(cst.FunctionDef)
        return frozenset(each.name.value for each in functions if self.is_method(each))

    def _filled_in(self, stub: cst.FunctionDef, func: cst.BaseExpression) -> cst.FunctionDef | None:
        """The method of the only subclass that has what is a stub in the class of ``self``."""
        owner, caller = self.values.enclosing_class(stub), self.function_of(func)
        if owner is None or caller is None or not is_stub(stub):
            return None
        found: dict[int, cst.FunctionDef] = {}
        for heir in self.values.heirs(owner):
            method = self.values.method(heir, stub.name.value)
            same = self.values.method(heir, caller.name.value) is caller
            if method is not None and same and not is_stub(method):
                found[id(method)] = method
        if len(found) == 1:
            return next(iter(found.values()))
        return self._of_heir(owner, stub.name.value, caller)

    def _of_heir(
        self, owner: cst.ClassDef, name: str, caller: cst.FunctionDef | None
    ) -> cst.FunctionDef | None:
        """What a class leaves to those derived from it, as the first of these does it all.

        If that is the one which runs what calls it.
        """
        heir = self._heir(owner) if caller is not None and name in self._left(owner) else None
        if heir is None or caller is None:
            return None
        runs = self.values.method(heir, caller.name.value) is caller
        return self.values.method(heir, name) if runs else None

    @per_node
    def _heir(self, owner: cst.ClassDef) -> cst.ClassDef | None:
        """The first of the classes derived from a class that has all which that leaves to them."""
        left = self._left(owner)
        heirs = ((each, self._filling(each, left)) for each in self.values.heirs(owner))
        known = [(each, filled) for each, filled in heirs if filled]
        every = frozenset().union(*(filled for _, filled in known))
        return next((each for each, filled in known if filled == every), None)

    def _filling(self, heir: cst.ClassDef, names: frozenset[str]) -> frozenset[str]:
        """Those of some names for which a class has a method that does something."""
        methods = ((name, self.values.method(heir, name)) for name in names)
        return frozenset(name for name, each in methods if each is not None and not is_stub(each))

    @per_node
    def _left(self, owner: cst.ClassDef) -> frozenset[str]:
        """The methods that a class calls of itself, and has none of, or only a stub."""
        called = {
            call.func.attr.value
            for call in self.tree.below(owner, cst.Call)
            if isinstance(call.func, cst.Attribute) and dotted(call.func.value) == "self"
        }
        attributes = [self.values.class_attributes(each) for each in self.values.lineage(owner)]
        return frozenset(name for name in called if self._is_left(owner, name, attributes))

    def _is_left(
        self, owner: cst.ClassDef, name: str, attributes: Iterable[Container[str]]
    ) -> bool:
        method = self.values.method(owner, name)
        return is_stub(method) if method else not any(name in each for each in attributes)

    @functools.cached_property
    def _calls_of(self) -> dict[int, list[cst.Call]]:
        found: dict[int, list[cst.Call]] = defaultdict(list)
        for call in self.tree.nodes(cst.Call):
            if (target := self.target(call)) is not None:
                found[id(target)].append(call)
        return dict(found)

    @functools.cached_property
    def _callers(self) -> dict[int, set[int]]:
        """Id of a function -> ids of the functions that call it."""
        inside: dict[int, set[int]] = defaultdict(set)
        for target, calls in self._calls_of.items():
            holders = map(self.function_of, calls)
            inside[target] = {id(holder) for holder in holders if holder is not None}
        return inside


def _has_several_words(method: str) -> bool:
    """Whether a method's name has several words, and is none of those of torch's own objects."""
    return "_" in method.strip("_") and method not in COMMON


def is_stub(function: cst.FunctionDef) -> bool:
    """Whether a function is empty, for a subclass to fill in."""
    return all(map(_is_empty, statements_of(function.body)))


def _is_empty(small: cst.CSTNode) -> bool:
    """``pass``, ``...``, a docstring, ``return``, ``raise NotImplementedError``."""
    match small:
        case cst.Pass() | cst.Return(value=None):
            return True
        case cst.Expr(value=value):
            return isinstance(value, (cst.Ellipsis, cst.SimpleString, cst.ConcatenatedString))
        case cst.Raise(exc=raised):
            name = raised.func if isinstance(raised, cst.Call) else raised
            return name is not None and dotted(name) == "NotImplementedError"
    return False


def _whole_names(node: cst.CSTNode) -> Iterator[cst.Name | cst.Attribute]:
    """The names and dotted names that an expression is made of."""
    if isinstance(node, (cst.Name, cst.Attribute)):
        yield node
        return
    for child in children(node):
        yield from _whole_names(child)
