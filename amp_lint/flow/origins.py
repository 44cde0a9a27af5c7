"""Which object an expression is, wherever it was made and whatever it is called on the way.

Two expressions with an origin in common may be the same object. Followed are names, parameters to
what their callers give, attributes to the classes of their objects, and containers to what is in
them; what cannot be followed is its own origin, the same one for all who mean it.
"""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Hashable, Iterator

import libcst as cst

from amp_lint.flow.program import Program
from amp_lint.flow.values import MAX_ALTERNATIVES, literal, lookup
from amp_lint.syntax.assignments import assignments, held_in
from amp_lint.syntax.memo import per_node
from amp_lint.syntax.names import Binding, dotted
from amp_lint.syntax.returns import returned
from amp_lint.vocabulary.modules import (
    CASTING,
    CONTAINERS,
    COPYING,
    FACTORIES,
    KEEPING,
    UNWRAPPING,
    WRAPPED,
    WRAPPERS,
)

_NAMES = (cst.Name, cst.Attribute)
_SEQUENCES = (cst.List, cst.Tuple)
Origin = Hashable
"""A call that makes an object, a name that nobody gives a value, or an attribute of an origin."""
_VIEWS = ("values", "items", "get", "pop")
"""Methods of a container that give what is in it."""
_FILLING = ("append", "add", "extend", "insert")
"""Methods that put their last argument into it."""


class Origins:
    """The origins of expressions of a linked tree."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.tree = program.tree
        self.names = program.names
        self.values = program.values
        self._made: dict[Origin, cst.Call] = {}
        self._said: dict[Origin, cst.ClassDef] = {}
        self._open: set[int] = set()

    def of(self, node: cst.BaseExpression) -> frozenset[Origin]:
        """What an expression may be in the end; nothing, for None and for what nobody can tell."""
        if id(node) in self._open:
            return frozenset()  # what is made from itself adds nothing
        self._open.add(id(node))
        try:
            return self._known(node)
        finally:
            self._open.discard(id(node))

    def same(self, one: cst.BaseExpression, other: cst.BaseExpression) -> bool:
        """Whether two expressions may be one object."""
        return not self.of(one).isdisjoint(self.of(other))

    def one(self, node: cst.BaseExpression) -> Origin | None:
        """What an expression is, where that is one thing that no other name may stand for.

        Not an attribute of what nobody knows: it may be any object.
        """
        found = [*self.of(node)]
        if len(found) != 1:
            return None
        (origin,) = found
        pair = origin if isinstance(origin, tuple) and len(origin) == 2 else (0, "")
        return origin if isinstance(pair[0], int) or pair[0] == "instance" else None

    def classes(self, node: cst.BaseExpression) -> list[cst.ClassDef]:
        """The classes that an expression may be an instance of."""
        owners = (owner for origin in self.of(node) for owner in self._classes(origin))
        return [*{id(owner): owner for owner in owners}.values()]

    def parts(self, node: cst.BaseExpression) -> Iterator[cst.ClassDef]:
        """The classes that an expression may be an instance of, and those that these make."""
        known = {id(owner): owner for owner in self.classes(node)}
        todo = [*known.values()]
        for owner in todo:  # grows while it is read
            yield owner
            calls = self.tree.below(owner, cst.Call)
            made = (part for call in calls for part in self._made_by(call))
            fresh = {id(p): p for p in (*made, *self.values.lineage(owner)[1:])}
            todo += (part for key, part in fresh.items() if key not in known)
            known |= fresh

    @per_node
    def makers(self, node: cst.BaseExpression) -> tuple[cst.Call, ...]:
        """The calls that make what an expression may be, as far as they are known.

        Of a copy what is copied, and of a call of a function of this file what it returns.
        """
        found: dict[int, cst.Call] = {}
        entered: set[int] = set()
        for each in (todo := [node]):  # grows while it is read
            for call in (self._made[o] for o in self.of(each) if o in self._made):
                function = self.program.target(call)
                is_copy = bool(call.args) and self.names.is_any(call.func, COPYING)
                by = call if function is None else function
                if id(by) in entered:
                    continue
                entered.add(id(by))
                if function is None and not is_copy:
                    found[id(call)] = call
                else:
                    todo += returned(function) if function else (call.args[0].value,)
        return tuple(found.values())

    @per_node
    def _known(self, node: cst.BaseExpression) -> frozenset[Origin]:
        ends = [*self.values.alternatives(node)]
        if isinstance(node, cst.Attribute) and (owner := self._own_class(node.value)) is not None:
            ends += self._in_heirs(owner, node.attr.value)
            made = self._constructions.get(id(owner), ())
            fields = (self.values.field(owner, node.attr.value, call) for call in made)
            ends += [value for value in fields if value is not None]
        found = {origin for end in ends for origin in self._of_end(end)}
        found.update(origin for put in self._put_into(node) for origin in self.of(put))
        return frozenset(found) if len(found) <= MAX_ALTERNATIVES else frozenset()

    def _of_end(self, node: cst.BaseExpression) -> Iterator[Origin]:
        match node:
            case cst.Name():
                yield from self._of_name(node) if literal(node) is ... else ()
            case cst.Attribute(value=owner, attr=cst.Name(value=name)):
                yield from self._of_attribute(owner, name)
            case cst.Subscript(value=owner):
                item = self._item(node)
                yield from self.of(owner) if item is None else item
            case cst.List(elements=elements) | cst.Tuple(elements=elements):
                yield from (origin for each in elements for origin in self.of(each.value))
            case cst.Dict(elements=entries):
                yield from (origin for each in entries for origin in self.of(each.value))
            case cst.Call(func=cst.Attribute(value=owner, attr=cst.Name(value=name))) if (
                name in _VIEWS
            ):
                yield from self.of(owner)
            case cst.ListComp(elt=element):
                yield from self.of(element)
            case cst.Call():
                found = {origin for each in self._same(node) for origin in self.of(each)}
                self._made[id(node)] = node
                yield from found or (id(node),)

    def _item(self, node: cst.Subscript) -> frozenset[Origin] | None:
        """What ``table["key"]`` is, of dicts that are written out; None of anything else."""
        found = lookup(node)
        key = literal(found[1]) if found is not None else None
        rows = [*self._rows(node.value)] if isinstance(key, str) else []
        tables = [self.values.items(row) for row in rows]
        if not tables or any(table is None for table in tables):
            return None
        values = [value for table in tables for name, value in table or () if name == key]
        values += self._put_into(node.value)
        return frozenset(origin for value in values for origin in self.of(value)) or None

    def _same(self, call: cst.Call) -> list[cst.BaseExpression]:
        """What a call gives back: the module that it moves or wraps, or those it is made of."""
        given = [arg.value for arg in call.args]
        if (inside := unwrapped(call)) is not call:
            return [inside]
        if given and self.names.is_any(call.func, WRAPPERS):
            return given[:1]
        if isinstance(call.func, cst.Attribute) and call.func.attr.value in KEEPING | CASTING:
            return [call.func.value]
        if (items := self.values.items(call)) is not None:
            return [value for _, value in items]
        return given if self.names.is_any(call.func, CONTAINERS) else []

    def _of_name(self, node: cst.Name) -> Iterator[Origin]:
        bindings = self.names.bindings(node)
        if not bindings:
            yield node.value
        for binding in bindings:
            yield from self._of_binding(binding)

    def _of_binding(self, binding: Binding) -> Iterator[Origin]:
        given: list[cst.BaseExpression] = []
        if binding.kind == "parameter":
            function = self._owner(binding)
            if function is not None and self.program.receiver_name(function) == binding.name:
                yield from self._receiver(function)
                return
            given = self._given(binding)
        elif isinstance(binding.node, (cst.For, cst.CompFor)):
            given = held_in(binding) or [*self._in_rows(binding)]
        elif binding.kind == "unpack":
            given = [*self._unpacked(binding)]
        elif binding.value is not None:
            given = [binding.value]
        found = {origin for each in given for origin in self.of(each)}
        if not found and (owner := self.values.annotated(binding)) is not None:
            self._said[id(binding.node), binding.name] = owner
        yield from found or ((id(binding.node), binding.name),)

    def returned(self, target: cst.Name, call: cst.Call) -> Iterator[Origin]:
        """What a variable is that a call, or a part of what it returns, is assigned to."""
        for binding in self.names.bindings(target):
            if binding.value is call or getattr(binding.node, "value", None) is call:
                yield from self._of_binding(binding)

    def given(self, name: cst.Name) -> list[cst.BaseExpression]:
        """What calls of this file give for the parameter that a name is; [] for other names."""
        return [value for each in self.names.bindings(name) for value in self._given(each)]

    def in_rows(self, name: cst.Name) -> list[cst.BaseExpression]:
        """What a name is in each round of a loop over tuples that are written out."""
        return [value for each in self.names.bindings(name) for value in self._in_rows(each)]

    def _given(self, binding: Binding) -> list[cst.BaseExpression]:
        function = self._owner(binding) if binding.kind == "parameter" else None
        return [*self._arguments(function, binding.name)] if function is not None else []

    def _owner(self, parameter: Binding) -> cst.FunctionDef | None:
        """The function that has a parameter."""
        function = self.tree.parent(self.tree.parent(parameter.node) or parameter.node)
        return function if isinstance(function, cst.FunctionDef) else None

    def _receiver(self, function: cst.FunctionDef) -> Iterator[Origin]:
        """The object that a method is called on: an instance of a class, whichever."""
        owner = self.values.enclosing_class(function)
        if owner is not None:
            yield "instance", id(owner)

    def _of_attribute(self, owner: cst.BaseExpression, name: str) -> Iterator[Origin]:
        """``owner.name``: what its class assigns to that, where the class is known."""
        own = self._own_class(owner)
        if own is not None:
            root = self.values.lineage(own)[-1]
            yield "instance", id(root), name
            return
        for origin in self.of(owner) or (dotted(owner),):
            found: set[Origin] = set()
            for each in self._classes(origin):
                values = [*self._fields(origin, each, name), *self._assigned(each, name)]
                found |= {known for value in values for known in self.of(value)}
            if name == WRAPPED and not found:
                found = {origin}
            yield from found or ((origin, name),)

    def _fields(
        self, origin: Origin, owner: cst.ClassDef, name: str
    ) -> Iterator[cst.BaseExpression]:
        """What an object of a dataclass is given for a field where it is made."""
        for call in self.makers(self._made[origin]) if origin in self._made else ():
            value = self.values.field(owner, name, call)
            if value is not None and owner in self._made_by(call):
                yield value

    def _own_class(self, node: cst.BaseExpression) -> cst.ClassDef | None:
        """The class of the method that an expression is ``self`` of."""
        return self.values.enclosing_class(node) if dotted(node) in ("self", "cls") else None

    def _classes(self, origin: Origin) -> Iterator[cst.ClassDef]:
        """The class that an origin is an instance of; those that a function may give, of a call."""
        for call in self.makers(self._made[origin]) if origin in self._made else ():
            yield from self._made_by(call)
        if isinstance(origin, tuple) and len(origin) == 2 and origin[0] == "instance":
            yield from (each for each in self.tree.nodes(cst.ClassDef) if id(each) == origin[1])
        if origin in self._said:
            yield self._said[origin]

    def _made_by(self, call: cst.Call) -> Iterator[cst.ClassDef]:
        """The classes that a call makes an instance of."""
        func = call.func
        if isinstance(func, cst.Attribute) and func.attr.value in FACTORIES:
            func = func.value
        owners = [*map(self.names.definition, self.meant(func))]
        owners += [self.values.enclosing_class(call)] if dotted(func) == "cls" else []
        yield from (owner for owner in owners if isinstance(owner, cst.ClassDef))

    @per_node
    def meant(self, func: cst.BaseExpression) -> tuple[cst.BaseExpression, ...]:
        """What is called as ``func``: itself, or what a table or a function may give for it."""
        found: dict[int, cst.BaseExpression] = {}
        for each in (todo := [func]):  # grows while it is read
            function = self.program.target(each) if isinstance(each, cst.Call) else None
            more = self._entries(each) or (returned(function) if function is not None else [])
            more = more or [*self._given_or_default(each)]
            if not more or len(todo) > MAX_ALTERNATIVES:
                found[id(each)] = each
            todo += (value for value in more if not any(value is known for known in todo))
        return tuple(found.values())

    def _given_or_default(self, func: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
        """What a parameter is given, and what it is where it is not."""
        for binding in self.names.bindings(func) if isinstance(func, cst.Name) else ():
            function = self._owner(binding) if binding.kind == "parameter" else None
            if function is not None:
                yield from self._arguments(function, binding.name)
                default = self.program.default(function, binding.name)
                if default is not None and literal(default) is ...:
                    yield default

    def _entries(self, func: cst.BaseExpression) -> list[cst.BaseExpression]:
        """What ``TABLE[key]`` may be, where the table is written out."""
        if not isinstance(func, cst.Subscript):
            return []
        tables = self.values.alternatives(func.value)
        return [value for table in tables for _, value in self.values.items(table) or ()]

    def _assigned(self, owner: cst.ClassDef, name: str) -> list[cst.BaseExpression]:
        """What a class, its bases and its heirs assign to an attribute of themselves."""
        family = self.values.lineage(owner)
        values = (v for each in family for v in self.values.class_attributes(each).get(name, ()))
        return [*values, *self._in_heirs(owner, name)]

    def _in_heirs(self, owner: cst.ClassDef, name: str) -> list[cst.BaseExpression]:
        heirs = self.values.heirs(owner)
        return [v for heir in heirs for v in self.values.class_attributes(heir).get(name, ())]

    # --- what is put into containers ----------------------------------------------------------

    def _put_into(self, node: cst.BaseExpression) -> list[cst.BaseExpression]:
        """What is added, anywhere, to the container that a name or attribute is."""
        puts = self._puts.get(_last(node), ()) if isinstance(node, _NAMES) else ()
        return [value for held, value in puts if self._is_container(node, held)]

    def _is_container(self, node: cst.BaseExpression, held: cst.BaseExpression) -> bool:
        """Whether a name or attribute of the same last name is the same one."""
        if isinstance(node, cst.Name) and isinstance(held, cst.Name):
            return self.names.bindings(node) is self.names.bindings(held)
        if not isinstance(node, cst.Attribute) or not isinstance(held, cst.Attribute):
            return False
        one, other = self._own_class(node.value), self._own_class(held.value)
        if one is None or other is None:
            return one is other and dotted(node) == dotted(held)
        return self.values.lineage(one)[-1] is self.values.lineage(other)[-1]

    def _in_rows(self, binding: Binding) -> Iterator[cst.BaseExpression]:
        """What a name of a loop's ``a, b`` is, where the tuples are written out that it gets."""
        loop = binding.node
        if not isinstance(loop, (cst.For, cst.CompFor)) or not isinstance(loop.target, cst.Tuple):
            return
        rows = [*self._put_into(loop.iter)]
        for value in self.values.alternatives(loop.iter):
            if isinstance(value, _SEQUENCES):
                rows += [each.value for each in value.elements]
        for row in rows:
            yield from _part(loop.target, binding.name, row)

    def _unpacked(self, binding: Binding) -> Iterator[cst.BaseExpression]:
        """What a name of ``a, b = both`` is, where all that ``both`` may be is written out."""
        if not isinstance(binding.node, cst.Assign):
            return
        for target in binding.node.targets:
            if isinstance(target.target, _SEQUENCES):
                for row in self._rows(binding.node.value):
                    yield from _part(target.target, binding.name, row)

    def _rows(self, value: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
        """What something may be: of a parameter what calls give, and of a call what it returns."""
        seen: set[int] = set()
        for each in (todo := [value]):  # grows while it is read
            for end in self.values.alternatives(each):
                if id(end) in seen:
                    continue
                seen.add(id(end))
                function = self.program.target(end) if isinstance(end, cst.Call) else None
                if function is not None:
                    todo += returned(function)
                elif isinstance(end, cst.Name):
                    todo += self.given(end)
                else:
                    yield end

    @functools.cached_property
    def _puts(self) -> dict[str, list[tuple[cst.BaseExpression, cst.BaseExpression]]]:
        """Last name of a container -> every container of that name, with what is put into it."""
        found: dict[str, list[tuple[cst.BaseExpression, cst.BaseExpression]]] = defaultdict(list)
        for target, value in assignments(self.tree):
            if isinstance(target, cst.Subscript) and value is not None:
                found[_last(target.value)].append((target.value, value))
        for call in self.tree.nodes(cst.Call):
            match call:
                case cst.Call(
                    func=cst.Attribute(value=held, attr=cst.Name(value=method)), args=[*_, last]
                ) if method in _FILLING:
                    found[_last(held)].append((held, last.value))
        return dict(found)

    # --- what parameters are given ------------------------------------------------------------

    def _arguments(self, function: cst.FunctionDef, name: str) -> Iterator[cst.BaseExpression]:
        calls = [*self.program.calls_of(function)]
        owner = self.tree.ancestor(function, cst.FunctionDef, cst.ClassDef)
        if isinstance(owner, cst.ClassDef) and function.name.value == "__init__":
            calls += self._constructions.get(id(owner), ())
        rest = function.params.star_kwarg
        for call in calls:
            if rest is not None and rest.name.value == name:
                yield from self._rest(function, call)
                continue
            value = self.program.bind(function, call).get(name)
            if value is not None:
                yield value

    def _rest(self, function: cst.FunctionDef, call: cst.Call) -> Iterator[cst.BaseExpression]:
        """What a call gives for ``**rest``, also by a dict that is written out."""
        params = (*function.params.params, *function.params.kwonly_params)
        known = {param.name.value for param in params}
        for arg in call.args:
            if arg.keyword is not None and arg.keyword.value not in known:
                yield arg.value
            elif arg.star == "**":
                for spread in self.values.alternatives(arg.value):
                    items = self.values.items(spread) or ()
                    yield from (value for key, value in items if key not in known)

    def constructions(self, owner: cst.ClassDef) -> list[cst.Call]:
        """The calls that make an object of a class, and of no other one."""
        start = self.values.method(owner, "__init__")
        holder = self.values.enclosing_class(start) if start is not None else owner
        calls = self._constructions.get(id(holder), ())
        return [call for call in calls if self.names.definition(call.func) is owner]

    def constructor(self, call: cst.Call) -> cst.FunctionDef | None:
        """The ``__init__`` that a call runs, of a class of this file or of a linked one."""
        owner = self._constructed(call)
        return self.values.method(owner, "__init__") if owner is not None else None

    @functools.cached_property
    def _constructions(self) -> dict[int, list[cst.Call]]:
        """Id of a class -> the calls that run its ``__init__``, or make it where it has none."""
        found: dict[int, list[cst.Call]] = defaultdict(list)
        for call in self.tree.nodes(cst.Call):
            if (owner := self._constructed(call)) is not None:
                start = self.values.method(owner, "__init__")
                holder = self.values.enclosing_class(start) if start is not None else owner
                if holder is not None:
                    found[id(holder)].append(call)
        return dict(found)

    def _constructed(self, call: cst.Call) -> cst.ClassDef | None:
        """The class of ``Class()`` and ``cls()``, and the base in ``super().__init__()``."""
        match call.func:
            case cst.Name(value="cls"):
                return self.values.enclosing_class(call)
            case cst.Attribute(
                value=cst.Call(func=cst.Name(value="super")), attr=cst.Name(value="__init__")
            ):
                owner = self.values.enclosing_class(call)
                above = self.values.lineage(owner)[1:2] if owner is not None else []
                return above[0] if above else None
        found = self.names.definition(call.func)
        return found if isinstance(found, cst.ClassDef) else None


def unwrapped(node: cst.BaseExpression) -> cst.BaseExpression:
    """``x`` of ``framework.unwrap_model(x)``; else what it is given."""
    match node:
        case cst.Call(func=cst.Attribute(attr=cst.Name(value=name)), args=[given, *_]):
            return given.value if name in UNWRAPPING else node
    return node


def _part(
    target: cst.Tuple | cst.List, name: str, row: cst.BaseExpression
) -> Iterator[cst.BaseExpression]:
    """What a name of ``a, b`` gets of a row that is written out."""
    named = [dotted(each.value) for each in target.elements]
    if not isinstance(row, _SEQUENCES) or len(row.elements) != len(named) or name not in named:
        return  # it is part of a tuple within
    if not any(isinstance(e, cst.StarredElement) for e in (*target.elements, *row.elements)):
        yield row.elements[named.index(name)].value


def _last(node: cst.BaseExpression) -> str:
    """The last name of ``a.b.c``; "" for what is neither a name nor an attribute."""
    return (dotted(node) or "").rpartition(".")[2]
