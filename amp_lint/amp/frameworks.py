"""Which objects are those of a framework that scales losses and opens regions itself."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import libcst as cst

from amp_lint.flow.origins import Origin, Origins
from amp_lint.flow.program import Program
from amp_lint.flow.values import Slot, Values, arguments, literal
from amp_lint.syntax.assignments import assignments, paired
from amp_lint.syntax.memo import per_node
from amp_lint.syntax.names import Names, dotted
from amp_lint.syntax.tree import descendants
from amp_lint.vocabulary.frameworks import (
    CONFIGURED_BY,
    LOWERING,
    SCALING,
    STEPPING,
    STEPS_WITH_OPTIMIZER,
)
from amp_lint.vocabulary.meaning import Kind, Meaning, Part, Role
from amp_lint.vocabulary.table import BY_METHOD, BY_NAME, words
from amp_lint.vocabulary.training import makes_optimizer, makes_scheduler

_STEP = words(Kind.STEP)
_MAX_BINDINGS = 20  # of one name that a framework prepares

_Returned = tuple[cst.BaseExpression, cst.Call, cst.BaseExpression | None]


def is_owner(row: Meaning, node: cst.BaseExpression, names: Names, values: Values) -> bool:
    """Whether an object has the methods of a row: by its origin, or by what it is called."""
    origins = {name for made in _makers(node, values) for name in names.qualified(made)}
    if any(BY_NAME[name].gives is row.owner for name in origins & BY_NAME.keys()):
        return True
    called = (dotted(values.original(node)) or "").rpartition(".")[2].strip("_")
    return bool(called) and called == row.called


def _makers(node: cst.BaseExpression, values: Values) -> Iterator[cst.BaseExpression]:
    """The classes that an object is of: by the calls that made it, or those around ``self``."""
    if dotted(node) == "self":
        yield from _bases(node, values)
    calls = (value for value in values.alternatives(node) if isinstance(value, cst.Call))
    yield from (call.func for call in calls)


def _bases(node: cst.CSTNode, values: Values) -> Iterator[cst.BaseExpression]:
    """The bases, as they are written, of the class around a place and of its known bases."""
    around = values.enclosing_class(node)
    for each in values.lineage(around) if around is not None else ():
        yield from (base.value for base in each.bases)


@dataclass(frozen=True, slots=True, eq=False)
class Preparation:
    """One object that a framework gives back for what it was given."""

    call: cst.Call
    owner: Role
    """The role of the framework's object."""
    given: cst.BaseExpression | None
    """What it was given for this one, where that can be told."""


@dataclass(frozen=True, slots=True, eq=False)
class Lowering:
    """What has a framework run models in half precision."""

    call: cst.Call
    dtypes: frozenset[str]
    """What products may be computed in."""
    prepared_only: bool
    """Whether it is only so in the forward of what it prepared, which gives float32."""


class Frameworks:
    """Follows what frameworks prepare."""

    def __init__(self, program: Program, origins: Origins) -> None:
        self.program = program
        self.tree = program.tree
        self.names = program.names
        self.values = program.values
        self.origins = origins

    def preparations(self, node: cst.BaseExpression) -> list[Preparation]:
        """How an object came out of a framework, wherever that is done; [] if it did not.

        A parameter did if all calls give one that did.
        """
        return self._kept(node) or self._handed(node) or self._held_elsewhere(node)

    def _kept(self, node: cst.BaseExpression) -> list[Preparation]:
        return [each for slot in self._slots(node) for each in self._prepared.get(slot, ())]

    @per_node
    def _handed(self, node: cst.BaseExpression) -> list[Preparation]:
        found: list[Preparation] = []
        seen: set[int] = set()
        for each in (todo := [node] if self._prepared else []):  # grows while it is read
            given = self.program.given_by_all(each) if isinstance(each, cst.Name) else []
            if not given:
                return []
            if id(given[0]) not in seen:
                seen.add(id(given[0]))
                kept = [(value, self._kept(value)) for value in given]
                found += [one for _, several in kept for one in several]
                todo += [value for value, several in kept if not several]
        return found

    @per_node
    def _held_elsewhere(self, node: cst.BaseExpression) -> list[Preparation]:
        """How what an attribute was given came out of a framework, under another name."""
        if not self._preparing or not isinstance(node, cst.Attribute):
            return []
        origins = self.origins.of(node)
        return [each for origin, each in self._prepared_origins if origin in origins]

    def may_scale(
        self, role: Role, owner: cst.BaseExpression | None = None, *, named: bool = False
    ) -> bool:
        """Whether a framework's object may scale losses, by the precision that it is made with.

        ``named``: not where the file names none.
        """
        made = list(self._made(role, owner))
        if named:
            made = [(call, row) for call, row in made if _precision(call, row) is not None]
        return (not made and not named) or any(self._asks_to_scale(*each) for each in made)

    def steps_itself(self, role: Role, owner: cst.BaseExpression) -> bool:
        """Whether a framework's object is told to step in its own backward, and there alone."""
        given = [arguments(call).keywords for call, _ in self._made(role, owner)]
        engines = [each[name] for each in given for name in STEPPING & each.keys()]
        return any(literal(each) is not None for each in engines)

    def lowering(self) -> Iterator[Lowering]:
        """What has frameworks run models in half precision, where they are told which."""
        for call in self.tree.nodes(cst.Call):
            for row in self._rows(call):
                known = LOWERING.get(row.gives, {})
                precision = _precision(call, row)
                said = [None] if precision is None else self.values.constants(precision)
                dtypes = {known[value] for value in said if value in known}
                if row.gives is Role.APEX and ... in said:
                    dtypes = {*known.values()}
                if dtypes:
                    yield Lowering(call, frozenset(dtypes), row.gives is Role.ACCELERATOR)

    def may_skip(self, prepared: Preparation, *, named: bool = True) -> bool:
        """Whether a step of what was prepared may be left out: in a precision that is named.

        Without ``named`` also in one that a launcher or a caller chooses.
        """
        apex = self._patching(prepared.call)
        if apex is not None:
            return self._asks_to_scale(prepared.call, apex)
        func = prepared.call.func
        return isinstance(func, cst.Attribute) and self.may_scale(
            prepared.owner, func.value, named=named
        )

    def leaves_out(self, stepped: cst.BaseExpression) -> bool:
        """Whether what is stepped is certainly torch's own, where others are prepared."""
        made = self.values.alternatives(stepped)
        if not self._preparing or not all(map(self._is_from_torch, made)):
            return False
        slots = set(self._slots(stepped))
        given = (arg for call in self._preparing for arg in call.args)
        return not any(arg.star or slots & self._held(arg.value) for arg in given)

    def counts_each(self, scheduler: cst.BaseExpression) -> bool:
        """Whether what prepared a scheduler was told not to ask if the optimizer stepped."""
        prepared = self.preparations(scheduler)
        return bool(prepared) and all(map(self._is_told_to_count, prepared))

    def _is_told_to_count(self, prepared: Preparation) -> bool:
        func = prepared.call.func
        made = self._made(prepared.owner, func.value) if isinstance(func, cst.Attribute) else ()
        given = [arguments(call).keywords.get(STEPS_WITH_OPTIMIZER) for call, _ in made]
        told = [self.values.constants(each) if each is not None else [] for each in given]
        return bool(told) and all(each == [False] for each in told)

    def _held(self, given: cst.BaseExpression) -> set[Slot]:
        """Where all is held that an expression mentions."""
        parts = (p for p in descendants(given) if isinstance(p, (cst.Name, cst.Attribute)))
        return {slot for part in parts for slot in self._slots(part)}

    @functools.cached_property
    def _preparing(self) -> list[cst.Call]:
        """Every call that prepares something."""
        return [call for call in self.tree.nodes(cst.Call) if self._owner(call) is not None]

    def _is_from_torch(self, value: cst.BaseExpression) -> bool:
        names = self.names.qualified(value.func) if isinstance(value, cst.Call) else ()
        return any(makes_optimizer(name) or makes_scheduler(name) for name in names)

    def _made(
        self, role: Role, owner: cst.BaseExpression | None
    ) -> Iterator[tuple[cst.Call, Meaning]]:
        """The calls that made it, or else what this file makes to configure such a thing."""
        wanted = CONFIGURED_BY.get(role, role)
        values: Iterable[cst.BaseExpression] = self.tree.nodes(cst.Call)
        if wanted is role and owner is not None:
            values = [v for v in self.values.alternatives(owner) if isinstance(v, cst.Call)]
            values = values or self.origins.makers(owner)
        for call in (value for value in values if isinstance(value, cst.Call)):
            yield from ((call, row) for row in self._rows(call) if row.gives is wanted)

    def _asks_to_scale(self, call: cst.Call, row: Meaning) -> bool:
        given, precision = arguments(call), _precision(call, row)
        found = [None] if precision is None else self.values.constants(precision)
        known = SCALING[row.gives] if row.gives is not None else frozenset()
        return given.starred or any(value is ... or value in known for value in found)

    def accumulates(self, owner: cst.BaseExpression, role: Role) -> bool:
        """Whether a framework's object may take several batches for a step."""
        return all(self._asks_for_rounds(call, row) for call, row in self._made(role, owner))

    def _asks_for_rounds(self, call: cst.Call, row: Meaning) -> bool:
        given = arguments(call)
        if given.starred or given.get(*row.place(Part.ACCUMULATION)) is not None:
            return True
        rounds = given.get(*row.place(Part.ROUNDS))
        return rounds is not None and set(self.values.constants(rounds)) != {1}

    def rounds(self, node: cst.CSTNode) -> Iterator[cst.With]:
        """The rounds of accumulation that a place of a function stands in, innermost first."""
        for holder in self.tree.ancestors(node):
            if isinstance(holder, (cst.FunctionDef, cst.Lambda)):
                return
            if isinstance(holder, cst.With) and any(map(self._is_round, holder.items)):
                yield holder

    def _is_round(self, item: cst.WithItem) -> bool:
        call = item.item
        if not isinstance(call, cst.Call) or not isinstance(call.func, cst.Attribute):
            return False
        rows = BY_METHOD.get(call.func.attr.value, ())
        return any(row.gives is Role.ROUND and self.is_call_of(row, call) for row in rows)

    def overridden(self, function: cst.FunctionDef) -> Role | None:
        """The role of the class whose step a method is written in the stead of."""
        qualified = map(self.names.qualified, _bases(function, self.values))
        roles = {BY_NAME[name].gives for names in qualified for name in names & BY_NAME.keys()}
        rows = BY_METHOD.get(function.name.value, ())
        return next((row.owner for row in rows if row.owner in roles & CONFIGURED_BY.keys()), None)

    def is_optimizer(self, node: cst.BaseExpression) -> bool:
        """Whether an expression is prepared, stepped, and not prepared from a scheduler."""
        found = self.preparations(node)
        if not found or self._stepped.isdisjoint(self._slots(node)):
            return False
        return not any(self._is_scheduler(each.given) for each in found)

    def is_call_of(self, row: Meaning, call: cst.Call) -> bool:
        """Whether a call of that name is the one that a row is about."""
        if not isinstance(call.func, cst.Attribute) or self.program.target(call) is not None:
            return False
        return is_owner(row, call.func.value, self.names, self.values)

    @functools.cached_property
    def _prepared(self) -> dict[Slot, list[Preparation]]:
        found: dict[Slot, list[Preparation]] = {}
        for target, call, given in self._called():
            slot, owner = self.values.slot(target), self._owner(call)
            if slot is not None and owner is not None:
                found.setdefault(slot, []).append(Preparation(call, owner, given))
        return found

    @functools.cached_property
    def _prepared_origins(self) -> list[tuple[Origin, Preparation]]:
        """The origin of each variable, or field, that something is prepared as, with how."""
        return [
            (origin, Preparation(call, owner, given))
            for target, call, given in self._called()
            if (owner := self._owner(call)) is not None
            for origin in self._origins_of(target, call)
        ]

    def _origins_of(self, target: cst.BaseExpression, call: cst.Call) -> Iterable[Origin]:
        if isinstance(target, cst.Name):
            return self.origins.returned(target, call)
        return self.origins.of(target) if self.values.slot(target) is None else ()

    def _called(self) -> Iterator[_Returned]:
        """Each target of a call, alone or with others, with what the call was given for it."""
        for target, value in assignments(self.tree):
            if isinstance(value, cst.Call):
                yield from _returned(target, value)
        for node in self.tree.nodes(cst.Assign):
            several = (
                t.target for t in node.targets if isinstance(t.target, (cst.Tuple, cst.List))
            )
            if isinstance(node.value, cst.Call):
                for target in several:
                    yield from _returned(target, node.value)

    @per_node
    def _owner(self, call: cst.Call) -> Role | None:
        """The role of the framework's object that prepares by a call."""
        if self._patching(call) is not None:
            return Role.APEX
        if not isinstance(call.func, cst.Attribute):
            return None
        for row in BY_METHOD.get(call.func.attr.value, ()):
            if row.gives is Role.PREPARED and self.is_call_of(row, call):
                return row.owner
        return None

    def _rows(self, call: cst.Call) -> Iterator[Meaning]:
        """What the vocabulary says of the function or class that is called."""
        found = (BY_NAME.get(name) for name in self.names.qualified(call.func))
        return (row for row in found if row is not None)

    def _patching(self, call: cst.Call) -> Meaning | None:
        """The row of a call by which apex patches what it is given."""
        return next((row for row in self._rows(call) if row.gives is Role.APEX), None)

    @functools.cached_property
    def _stepped(self) -> set[Slot]:
        """Where those objects are held that have a step."""
        calls = (call.func for call in self.tree.nodes(cst.Call))
        methods = (func for func in calls if isinstance(func, cst.Attribute))
        stepped = (func.value for func in methods if func.attr.value in _STEP)
        return {slot for node in stepped for slot in self._slots(node)}

    def _slots(self, node: cst.BaseExpression) -> list[Slot]:
        """Where an object is held: an attribute by its class and the bases of that."""
        node = self.values.original(node)
        slot, around = self.values.slot(node), self.values.enclosing_class(node)
        if slot is None or around is None or not isinstance(node, cst.Attribute):
            return [slot] if slot is not None else []
        return [(id(each), slot[1]) for each in self.values.lineage(around)]

    def _is_scheduler(self, given: cst.BaseExpression | None) -> bool:
        """Whether something is made by torch as a learning-rate scheduler."""
        bindings = self.names.bindings(given) if isinstance(given, cst.Name) else []
        values = [b.value for b in bindings[:_MAX_BINDINGS] if b.value is not None]
        if given is not None:
            values += self.values.alternatives(given)
        made = (value.func for value in values if isinstance(value, cst.Call))
        names = {name for function in made for name in self.names.qualified(function)}
        return any(map(makes_scheduler, names))


def _precision(call: cst.Call, row: Meaning) -> cst.BaseExpression | None:
    return arguments(call).get(*row.place(Part.PRECISION))


def _returned(target: cst.BaseExpression, call: cst.Call) -> Iterator[_Returned]:
    """Each target with the argument that comes back there: all do, in their order."""
    targets = [each for each, _ in paired(target, None)]
    given = arguments(call)
    known = not given.starred and len(given.positional) == len(targets)
    for index, each in enumerate(targets):
        yield each, call, given.positional[index] if known else None
