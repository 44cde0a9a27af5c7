"""Def-use of values: which expressions a name, an attribute or a call may stand for."""

from __future__ import annotations

import ast
import contextlib
import functools
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

import libcst as cst

from amp_lint.syntax.assignments import assignments, paired
from amp_lint.syntax.memo import per_node
from amp_lint.syntax.names import Binding, Names, dotted
from amp_lint.syntax.returns import is_property, returned
from amp_lint.syntax.tree import Tree, descendants, is_a
from amp_lint.vocabulary.purity import DICT_CHANGES
from amp_lint.vocabulary.training import OPTIMIZERS, makes_optimizer

_MAX_BITS = 1024  # a float has no larger numbers
_MAX_NAMES = 5  # for one thing
_MOST_CACHED = 64  # characters of a literal: long ones are seldom asked for twice
_CONSTANTS = {"True": True, "False": False, "None": None}
_UNBOUND = frozenset({"classmethod", "staticmethod"})
"""What makes methods that a class runs without an object."""
_READING = frozenset({"copy", "get", "items", "keys", "values"})  # of a dict
Slot = tuple[int, str]
"""Where an object is held: a name in a scope, or an attribute of a class."""
MAX_ALTERNATIVES = 200
"""Expressions that are looked at to find what one may stand for."""


@dataclass(frozen=True, slots=True)
class Arguments:
    """The arguments of a call, ``partial`` calls included, by position and by keyword."""

    positional: tuple[cst.BaseExpression, ...]
    keywords: dict[str, cst.BaseExpression]
    starred: bool
    """Whether there are ``*args`` or ``**kwargs``, whose content is unknown."""

    def get(self, position: int | None, keyword: str | None) -> cst.BaseExpression | None:
        """The argument given at this position or under this keyword."""
        if keyword is not None and keyword in self.keywords:
            return self.keywords[keyword]
        if position is not None and position < len(self.positional):
            return self.positional[position]
        return None


def _put(node: cst.CSTNode, name: str) -> list[cst.BaseExpression]:
    """What a statement puts at the end of the list that has a name."""
    match node:
        case cst.Assign(targets=[cst.AssignTarget(target=target)], value=cst.List(elements=put)):
            return [each.value for each in put] if dotted(target) == name else []
        case cst.AugAssign(target=target, operator=cst.AddAssign(), value=cst.List(elements=put)):
            return [each.value for each in put] if dotted(target) == name else []
        case cst.Call(func=cst.Attribute(value=owner, attr=cst.Name(value="append")), args=[given]):
            return [given.value] if dotted(owner) == name else []
        case cst.Call(
            func=cst.Attribute(value=owner, attr=cst.Name(value="extend")),
            args=[cst.Arg(value=cst.List(elements=put) | cst.Tuple(elements=put))],
        ):
            return [each.value for each in put] if dotted(owner) == name else []
    return []


def arguments(call: cst.Call) -> Arguments:
    """The arguments of one call."""
    positional = tuple(arg.value for arg in call.args if arg.keyword is None and not arg.star)
    keywords = {arg.keyword.value: arg.value for arg in call.args if arg.keyword is not None}
    return Arguments(positional, keywords, any(arg.star for arg in call.args))


class Values:
    """Follows assignments, without regard to the path that led to them."""

    def __init__(self, tree: Tree, names: Names) -> None:
        self.tree = tree
        self.names = names
        self._settings_of: dict[int, dict[str, str]] = {}
        self._unpacking: set[int] = set()

    # --- what an expression may stand for -----------------------------------------------------

    def alternatives(self, node: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
        """The expressions that ``node`` may stand for: itself, when nothing more is known.

        Follows names to their assignments in any branch, ``self.x`` to the assignments of that
        attribute in the class, and both arms of conditional expressions; each expression once,
        so that a name that is assigned to itself adds nothing. Of what may stand for more than
        `MAX_ALTERNATIVES` expressions nothing is known.
        """
        # while a function is unpacked, it is not followed into itself: that holds only there
        return iter(self._ends(node) if self._unpacking else self._known_ends(node))

    @per_node
    def _known_ends(self, node: cst.BaseExpression) -> list[cst.BaseExpression]:
        return self._ends(node)

    def _ends(self, node: cst.BaseExpression) -> list[cst.BaseExpression]:
        seen: set[int] = set()
        todo: list[cst.BaseExpression] = [node]
        ends: list[cst.BaseExpression] = []
        while todo:
            value = todo.pop()
            if id(value) in seen:
                continue
            seen.add(id(value))
            followed = list(self._next(value))
            if not followed:
                ends.append(value)
            followed.reverse()
            todo += followed
            if len(seen) + len(followed) > MAX_ALTERNATIVES:
                return [node]
        return ends or [node]

    def _next(self, node: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
        if isinstance(node, cst.Name):
            bindings = self.names.bindings(node)
            few = len(bindings) <= MAX_ALTERNATIVES
            if bindings and few and all(b.kind in ("assign", "with") for b in bindings):
                yield from (
                    b.value for b in bindings if b.value is not None and b.value is not node
                )
            elif len(bindings) == 1 and bindings[0].kind == "unpack":
                yield from self.returned_parts(bindings[0])
            else:
                yield from self._imported(node)
        elif isinstance(node, cst.Attribute):
            yield from self.attribute_values(node) or self._imported(node)
        elif isinstance(node, cst.IfExp):
            yield from (node.body, node.orelse)
        elif isinstance(node, cst.BooleanOperation):
            yield from (node.left, node.right)
        elif isinstance(node, cst.NamedExpr):
            yield node.value
        elif isinstance(node, (cst.Subscript, cst.Call)):
            yield from self._looked_up(node)

    def returned_parts(self, binding: Binding) -> list[cst.BaseExpression]:
        """What a variable of ``a, b = f()`` is, where ``f`` of this file writes the tuple out.

        Nothing, where that is a parameter of the function, or what nobody knows.
        """
        assign = binding.node
        if not isinstance(assign, cst.Assign) or not isinstance(assign.value, cst.Call):
            return []
        function = self.function(assign.value.func)
        if function is None or id(function) in self._unpacking:  # it calls itself
            return []
        self._unpacking.add(id(function))
        try:
            return self._parts_of(binding, assign, returned(function))
        finally:
            self._unpacking.remove(id(function))

    def _parts_of(
        self, binding: Binding, assign: cst.Assign, rows: Sequence[cst.BaseExpression]
    ) -> list[cst.BaseExpression]:
        """The parts of some tuples that a variable gets, where all of them are known."""
        parts = [
            value
            for row in rows
            for target in assign.targets
            for name, value in paired(target.target, row)
            if isinstance(name, cst.Name) and name.value == binding.name
        ]
        found = [part for part in parts if part is not None]
        ends = [end for part in found for end in self.alternatives(part)]
        is_known = bool(found) and len(found) == len(parts) == len(rows)
        return found if is_known and not any(isinstance(e, cst.Name) for e in ends) else []

    def _looked_up(self, node: cst.Subscript | cst.Call) -> list[cst.BaseExpression]:
        """What ``table[key]`` or ``table.get(key, other)`` may give, of a dict that is written out.

        [] where the dict may hold something else, or is none.
        """
        found = lookup(node)
        if found is None:
            return []
        named, key, rest = found
        *names, table = self._same(named)
        if not isinstance(table, (cst.Dict, cst.Name)):
            return []  # nobody knows who changes what an attribute holds
        held = [table] if isinstance(table, cst.Dict) else [*self._next(table)]
        if len(held) != 1 or not isinstance(held[0], cst.Dict):
            return []
        if any(map(self.is_changed, (*names, table))):
            return []
        entries = [each for each in held[0].elements if isinstance(each, cst.DictElement)]
        if len(entries) != len(held[0].elements):
            return []
        asked = literal(key)
        if asked is ...:
            return [*(each.value for each in entries), *rest]
        return [each.value for each in entries if literal(each.key) == asked] or rest

    def original(self, node: cst.BaseExpression) -> cst.BaseExpression:
        """The name or attribute that a variable is only another name for; else itself."""
        *_, last = self._same(node)
        return last

    def _same(self, node: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
        """A variable, what it is only another name for, and so on."""
        yield node
        for _ in range(_MAX_NAMES):
            bindings = self.names.bindings(node) if isinstance(node, cst.Name) else []
            if len(bindings) != 1 or bindings[0].kind != "assign":
                return
            value = bindings[0].value
            if not isinstance(value, (cst.Name, cst.Attribute)):
                return
            yield (node := value)

    def annotated(self, parameter: Binding) -> cst.ClassDef | None:
        """The class, here or linked, that a parameter is said to be of, if none is derived."""
        said = parameter.node.annotation if isinstance(parameter.node, cst.Param) else None
        owner = self.names.definition(said.annotation) if said is not None else None
        return owner if isinstance(owner, cst.ClassDef) and not self.heirs(owner) else None

    def slot(self, node: cst.BaseExpression) -> Slot | None:
        """The variable or attribute of its own class that an expression names."""
        if isinstance(node, cst.Name):
            bindings = self.names.bindings(node)
            return (id(bindings), node.value) if bindings else None
        if isinstance(node, cst.Attribute) and dotted(node.value) in ("self", "cls"):
            owner = self.enclosing_class(node)
            return (id(owner), node.attr.value) if owner is not None else None
        return None

    def _imported(self, node: cst.Name | cst.Attribute) -> list[cst.BaseExpression]:
        """What a linked file assigns to the variable that it shares."""
        bindings = self.names.imported(node)
        if any(binding.kind not in ("assign", "with") for binding in bindings):
            return []
        return [binding.value for binding in bindings if binding.value is not None]

    def argument(
        self, call: cst.Call, position: int | None, keyword: str | None
    ) -> cst.BaseExpression | None:
        """What a call gives at this position or under this keyword; None if hidden by ``*``."""
        given = arguments(call)
        return None if given.starred else given.get(position, keyword)

    def constants(self, node: cst.BaseExpression) -> list[object]:
        """`literal` of every expression that ``node`` may stand for."""
        return [literal(value) for value in self.alternatives(node)]

    def usual(self, node: cst.BaseExpression) -> list[object]:
        """The same; of a parameter, its default."""
        return [literal(self._default(value) or value) for value in self.alternatives(node)]

    def _default(self, node: cst.BaseExpression) -> cst.BaseExpression | None:
        """The default of a parameter that nothing else is assigned to."""
        bindings = self.names.bindings(node) if isinstance(node, cst.Name) else []
        param = bindings[0].node if len(bindings) == 1 else None
        return param.default if isinstance(param, cst.Param) else None

    def items(self, node: cst.BaseExpression) -> list[tuple[str, cst.BaseExpression]] | None:
        """What a dict that is written out holds for names; None for anything else."""
        if isinstance(node, cst.Call):
            plain = self.names.is_any(node.func, {"builtins.dict"})
            given = arguments(node)
            known = plain and not given.positional and not given.starred
            return [*given.keywords.items()] if known else None
        if not isinstance(node, cst.Dict):
            return None
        pairs = (each for each in node.elements if isinstance(each, cst.DictElement))
        named = [(literal(pair.key), pair.value) for pair in pairs]
        return [(name, value) for name, value in named if isinstance(name, str)]

    def gathered(self, node: cst.BaseExpression) -> list[tuple[cst.BaseExpression, bool]]:
        """What a list holds that a function fills, in that order, and whether each is certain.

        [] for anything else: a list of which something else is made, or that is handed on.
        """
        if isinstance(node, cst.List):
            return [(each.value, True) for each in node.elements]
        bindings = self.names.bindings(node) if isinstance(node, cst.Name) else []
        home = self.tree.ancestor(node, cst.FunctionDef)
        if home is None or not bindings or not isinstance(bindings[0].value, cst.List):
            return []
        found: list[tuple[cst.BaseExpression, bool]] = []
        for part in descendants(home.body):
            put = _put(part, dotted(node) or "")
            certain = self.tree.ancestor(part, cst.If, cst.For, cst.While, cst.FunctionDef) is home
            if put and isinstance(part, cst.Assign) and certain:
                found.clear()
            found += ((value, certain) for value in put)
        return found

    def is_changed(self, node: cst.BaseExpression) -> bool:
        """Whether something in the file may change the items of a variable's value."""
        return isinstance(node, cst.Name) and node.value in self._changed

    @functools.cached_property
    def _changed(self) -> frozenset[str]:
        """The names of which a method is called, an item is assigned, or that are handed on."""
        targets = (target for target, _ in assignments(self.tree))
        items = (target.value for target in targets if isinstance(target, cst.Subscript))
        calls = self.tree.nodes(cst.Call)
        methods = (call.func for call in calls if isinstance(call.func, cst.Attribute))
        owners = (func.value for func in methods if func.attr.value not in _READING)
        handed = (arg.value for call in calls for arg in call.args if arg.star != "**")
        names = (each for each in (*items, *owners, *handed) if isinstance(each, cst.Name))
        return frozenset(name.value for name in names)

    def constant(self, node: cst.BaseExpression) -> object:
        """`literal` of what a name or a member of a class always is; ``...`` for anything else.

        A member of an enumeration counts as its value.
        """
        bindings: list[Binding] = []
        if isinstance(node, cst.Attribute):
            owner = self.names.definition(node.value)
            if isinstance(owner, cst.ClassDef):
                bindings = self.names.scope_of(owner).bindings.get(node.attr.value, [])
            elif node.attr.value == "value" and isinstance(node.value, cst.Attribute):
                return self.constant(node.value)
        elif isinstance(node, cst.Name):
            bindings = self.names.bindings(node)
        if len(bindings) == 1 and bindings[0].kind == "assign":
            return literal(bindings[0].value)
        return literal(node)

    def attribute_values(self, node: cst.Attribute) -> list[cst.BaseExpression]:
        """What the class of this method assigns to ``self.x``, anywhere; [] for other objects.

        What its bases assign, where it does not itself.
        """
        if not isinstance(node.value, cst.Name) or node.value.value not in ("self", "cls"):
            return []
        owner, name = self.enclosing_class(node), node.attr.value
        for ancestor in self.lineage(owner) if owner is not None else ():
            assigned = self.class_attributes(ancestor).get(name, [])
            if len(assigned) > MAX_ALTERNATIVES:
                return []
            if found := [value for value in assigned if value is not node]:
                return found
        return []

    @per_node
    def setting(self, node: cst.Attribute) -> str:
        """An attribute's name; ``cfg.amp`` for ``self.amp``, if the class keeps ``cfg`` as well.

        Where a method takes it out of there, and no assignment or call in the file shows that one
        of the two is changed for itself.
        """
        name = node.attr.value
        owner = self.enclosing_class(node) if dotted(node.value) == "self" else None
        for ancestor in self.lineage(owner) if owner is not None else ():
            if name in self.class_attributes(ancestor):
                return self._settings(ancestor).get(name, name)
        return name

    def _settings(self, owner: cst.ClassDef) -> dict[str, str]:
        """What attributes of a class are taken from: those that are assigned once."""
        if id(owner) not in self._settings_of:
            self._settings_of[id(owner)] = dict(self._taken_from(owner))
        return self._settings_of[id(owner)]

    def _taken_from(self, owner: cst.ClassDef) -> Iterator[tuple[str, str]]:
        attributes = self.class_attributes(owner).items()
        once = {name: values[0] for name, values in attributes if len(values) == 1}
        kept: dict[int, str] = {}
        for name, value in once.items():
            bindings = self.names.bindings(value) if isinstance(value, cst.Name) else []
            if [each.kind for each in bindings] == ["parameter"]:
                kept[id(bindings)] = name
        for name, value in once.items():
            if isinstance(value, cst.Attribute) and isinstance(value.value, cst.Name):
                holder = kept.get(id(self.names.bindings(value.value)))
                if holder and value.attr.value == name and self._is_set_once(name, holder):
                    yield name, f"{holder}.{name}"

    def _is_set_once(self, name: str, holder: str) -> bool:
        """Whether an attribute, and what is kept with it, are assigned once, and not as an item."""
        once = self._set_times[name] == 1 and self._set_times[holder] == 1
        return once and name not in self._named_in_calls

    def times_set(self, name: str) -> int:
        """How often an attribute of that name is assigned, whatever object it is of."""
        return self._set_times[name]

    @functools.cached_property
    def _set_times(self) -> Counter[str]:
        targets = [target for target, _ in assignments(self.tree)]
        targets += [each.target for each in self.tree.nodes(cst.AugAssign)]
        targets += [each.target for each in self.tree.nodes(cst.For)]
        return Counter(each.attr.value for each in targets if isinstance(each, cst.Attribute))

    @functools.cached_property
    def _named_in_calls(self) -> frozenset[str]:
        """Texts in the arguments of calls and in subscripts, and what an ``update`` is given."""
        strings = self.tree.nodes(cst.SimpleString)
        held = (
            each for each in strings if isinstance(self.tree.parent(each), (cst.Arg, cst.Index))
        )
        updates = (
            call
            for call in self.tree.nodes(cst.Call)
            if isinstance(call.func, cst.Attribute) and call.func.attr.value in DICT_CHANGES
        )
        given = (keyword for call in updates for keyword in arguments(call).keywords)
        return frozenset({*(str(each.evaluated_value) for each in held), *given})

    @per_node
    def lineage(self, owner: cst.ClassDef) -> list[cst.ClassDef]:
        """A class and its bases, as far as they are known, each once, depth first."""
        found: dict[int, cst.ClassDef] = {}
        todo = [owner]
        while todo and len(found) < MAX_ALTERNATIVES:
            each = todo.pop()
            if id(each) not in found:
                found[id(each)] = each
                bases = [self.names.definition(base.value) for base in each.bases]
                todo += (base for base in reversed(bases) if isinstance(base, cst.ClassDef))
        return [*found.values()]

    def heirs(self, owner: cst.ClassDef) -> Sequence[cst.ClassDef]:
        """The classes that are derived from a class, directly or not."""
        return self._heirs.get(id(owner), ())

    @functools.cached_property
    def _heirs(self) -> dict[int, list[cst.ClassDef]]:
        found: dict[int, list[cst.ClassDef]] = defaultdict(list)
        for heir in self.tree.nodes(cst.ClassDef):
            for ancestor in self.lineage(heir)[1:]:
                found[id(ancestor)].append(heir)
        return dict(found)

    @per_node
    def function(self, node: cst.BaseExpression) -> cst.FunctionDef | None:
        """The function that ``f``, ``self.f`` or ``module.f`` calls, if it can be only one.

        Of this file, or of one that it is linked with. Of a class that leaves it to those that are
        derived from it, what one of them has.
        """
        if isinstance(node, cst.Attribute) and dotted(node.value) in ("self", "cls"):
            owner = self.enclosing_class(node)
            name = node.attr.value
            return self.method(owner, name) or self._of_heir(owner, name) if owner else None
        if isinstance(node, cst.Attribute) and _is_super(node.value):
            owner = self.enclosing_class(node)
            above = self.lineage(owner)[1:] if owner is not None else []
            methods = (self._own_method(each, node.attr.value) for each in above)
            return next(filter(None, methods), None)
        found = self.names.definition(node)
        if found is None and isinstance(node, cst.Attribute):
            found = self._of_class(node)
        return found if isinstance(found, cst.FunctionDef) else None

    def _of_class(self, node: cst.Attribute) -> cst.FunctionDef | None:
        """The static or class method that ``Class.f`` is."""
        owner = self.names.definition(node.value)
        method = self.method(owner, node.attr.value) if isinstance(owner, cst.ClassDef) else None
        decorators = method.decorators if method is not None else ()
        is_bound = any(dotted(each.decorator) in _UNBOUND for each in decorators)
        return method if is_bound else None

    def method(self, owner: cst.ClassDef, name: str) -> cst.FunctionDef | None:
        """The method of a class, its own or inherited from a class that is known."""
        for each in self.lineage(owner):
            bound = name in self.names.scope_of(each).bindings
            found = self._own_method(each, name)
            if found is not None or (bound and each is owner):
                return found
        return None

    def _own_method(self, owner: cst.ClassDef, name: str) -> cst.FunctionDef | None:
        bindings = self.names.scope_of(owner).bindings.get(name, [])
        functions = [b.node for b in bindings if isinstance(b.node, cst.FunctionDef)]
        return functions[-1] if functions else None

    def _of_heir(self, owner: cst.ClassDef, name: str) -> cst.FunctionDef | None:
        """The only method of that name in the classes derived from one that does not bind it."""
        if any(name in self.class_attributes(each) for each in self.lineage(owner)):
            return None
        found = {id(f): f for heir in self.heirs(owner) if (f := self._own_method(heir, name))}
        return next(iter(found.values())) if len(found) == 1 else None

    def instance_class(self, node: cst.BaseExpression) -> cst.ClassDef | None:
        """The class that an expression is an instance of, by its construction.

        Not one of a linked file if it may be another one as well, or is an optimizer or the like:
        what its methods do is torch's business.
        """
        found: list[cst.ClassDef] = []
        for value in self.alternatives(node):
            if isinstance(value, cst.Call):
                owner = self.names.definition(value.func)
                if isinstance(owner, cst.ClassDef):
                    if self.names.part(owner) == 0:
                        return owner
                    found.append(owner)
        if any(owner is not found[0] for owner in found) or (found and self._is_torch(found[0])):
            return None
        return found[0] if found else None

    def _is_torch(self, owner: cst.ClassDef) -> bool:
        """Whether a class is an optimizer, a scheduler or an autograd function."""
        bases = (base.value for each in self.lineage(owner) for base in each.bases)
        names = (name for base in bases for name in self.names.qualified(base))
        return any(name.startswith((OPTIMIZERS, "torch.autograd.")) for name in names)

    @per_node
    def is_optimizer_class(self, owner: cst.ClassDef) -> bool:
        """Whether a class is derived from an optimizer of torch, or of what comes with it."""
        bases = (base.value for each in self.lineage(owner) for base in each.bases)
        return any(makes_optimizer(name) for base in bases for name in self.names.qualified(base))

    def enclosing_class(self, node: cst.CSTNode) -> cst.ClassDef | None:
        """The class in whose method ``node`` stands."""
        return self.tree.ancestor(node, cst.ClassDef)

    def class_attributes(self, owner: cst.ClassDef) -> dict[str, list[cst.BaseExpression]]:
        """Attribute name -> every value that the class body or a method assigns to it."""
        return self._class_attributes[id(owner)]

    def field(self, owner: cst.ClassDef, name: str, made: cst.Call) -> cst.BaseExpression | None:
        """What a call that makes a dataclass, or its like, gives for a field of it."""
        if self.method(owner, "__init__") is not None:
            return None
        fields = [each for base in reversed(self.lineage(owner)) for each in _annotated(base)]
        given = arguments(made)
        place = fields.index(name) if name in fields and not given.starred else None
        return given.get(place, name) if name in fields else None

    def takers(self, function: cst.FunctionDef) -> Sequence[cst.Call]:
        """The calls that a function is handed to."""
        return self._takers.get(id(function), ())

    @functools.cached_property
    def _takers(self) -> dict[int, list[cst.Call]]:
        found: dict[int, list[cst.Call]] = defaultdict(list)
        for call in self.tree.nodes(cst.Call):
            for arg in call.args:
                if (function := self.function(arg.value)) is not None:
                    found[id(function)].append(call)
        return dict(found)

    @functools.cached_property
    def _class_attributes(self) -> dict[int, dict[str, list[cst.BaseExpression]]]:
        found: dict[int, dict[str, list[cst.BaseExpression]]] = defaultdict(
            lambda: defaultdict(list)
        )
        for owner in self.tree.nodes(cst.ClassDef):
            for name, bindings in self.names.scope_of(owner).bindings.items():
                found[id(owner)][name] += [b.value for b in bindings if b.value is not None]
        for target, value in assignments(self.tree):
            if isinstance(target, cst.Attribute) and dotted(target.value) in ("self", "cls"):
                holder = self.enclosing_class(target)
                if holder is not None and value is not None:
                    found[id(holder)][target.attr.value].append(value)
        for function in filter(is_property, self.tree.nodes(cst.FunctionDef)):
            holder = self.enclosing_class(function)
            if holder is not None:
                found[id(holder)][function.name.value] += returned(function)
        return found


def _is_super(node: cst.BaseExpression) -> bool:
    return isinstance(node, cst.Call) and dotted(node.func) == "super"


_LITERALS = (
    cst.Name,
    cst.Float,
    cst.Integer,
    cst.SimpleString,
    cst.ConcatenatedString,
    cst.FormattedString,
    cst.UnaryOperation,
    cst.BinaryOperation,
)
"""What may be a literal."""


def _annotated(owner: cst.ClassDef) -> Iterator[str]:
    """The names that a class body annotates: the fields of a dataclass, in order."""
    lines = (each for each in owner.body.body if isinstance(each, cst.SimpleStatementLine))
    for small in (small for line in lines for small in line.body):
        if isinstance(small, cst.AnnAssign) and isinstance(small.target, cst.Name):
            yield small.target.value


def lookup(
    node: cst.Subscript | cst.Call,
) -> tuple[cst.BaseExpression, cst.BaseExpression, list[cst.BaseExpression]] | None:
    """The table, the key, and what is given where it is not there; None for other expressions."""
    match node:
        case cst.Subscript(value=table, slice=[cst.SubscriptElement(slice=cst.Index(value=key))]):
            return table, key, []
        case cst.Call(
            func=cst.Attribute(value=table, attr=cst.Name(value="get")), args=[first, *rest]
        ):
            return table, first.value, [each.value for each in rest]
    return None


@functools.lru_cache(maxsize=8192)
def _evaluated(text: str) -> object:
    """The value of a token; Python's compiler is asked for it."""
    return ast.literal_eval(text)


def called_on(node: cst.BaseExpression, methods: AbstractSet[str]) -> cst.BaseExpression:
    """``Net()`` of ``Net().cuda().eval()``, for methods that give back what they are called on.

    The expression itself, where that is no call.
    """
    inner = node
    while isinstance(inner, cst.Call) and isinstance(inner.func, cst.Attribute):
        if inner.func.attr.value not in methods:
            break
        inner = inner.func.value
    return inner if isinstance(inner, cst.Call) else node


def _plain(node: cst.FormattedString) -> object:
    """The text of ``f"name"``, in which nothing is filled in and nothing is escaped."""
    parts = [each.value for each in node.parts if isinstance(each, cst.FormattedStringText)]
    text = "".join(parts)
    filled = len(parts) < len(node.parts)
    return ... if filled or any(each in text for each in "{}\\") else text


def literal(node: cst.BaseExpression | None) -> object:
    """The value of a literal number, string, bool or None; ``...`` when it is not one.

    An integer that no float can hold counts as none: what is done with it would raise.
    """
    if not is_a(node, _LITERALS):
        return ...
    if type(node) is cst.Name:
        return _CONSTANTS.get(node.value, ...)
    if isinstance(node, (cst.Float, cst.Integer, cst.SimpleString)):
        short = len(node.value) <= _MOST_CACHED
        value = _evaluated(node.value) if short else node.evaluated_value
        is_large = isinstance(value, int) and value.bit_length() >= _MAX_BITS
        return ... if is_large else value
    if isinstance(node, cst.ConcatenatedString):
        return node.evaluated_value
    if isinstance(node, cst.FormattedString):
        return _plain(node)
    if isinstance(node, cst.UnaryOperation) and isinstance(node.operator, cst.Minus):
        value = literal(node.expression)
        return -value if isinstance(value, (int, float)) else ...
    if isinstance(node, cst.BinaryOperation) and isinstance(node.operator, cst.Power):
        base, exponent = literal(node.left), literal(node.right)
        if isinstance(base, (int, float)) and isinstance(exponent, int) and base:
            with contextlib.suppress(OverflowError):
                return float(base) ** exponent
    return ...
