"""Dicts that hold the state of a scaler now: they have to become checkpoints, which can hold it.

A row of a table, a record that is averaged, what a log takes and a file of tensors cannot.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum

import libcst as cst

from amp_lint.flow.values import arguments, literal
from amp_lint.syntax.assignments import assigned
from amp_lint.syntax.returns import is_property
from amp_lint.verify.compare.places.containers import Containers, Ends
from amp_lint.verify.compare.regions import shown
from amp_lint.verify.compare.side import Side
from amp_lint.verify.compare.units import name_of
from amp_lint.vocabulary.amp import LOAD_STATE_DICT, STATE_DICT
from amp_lint.vocabulary.frameworks import SAVING
from amp_lint.vocabulary.purity import DICT_CHANGES, DICT_COPIES
from amp_lint.vocabulary.training import SAVED_AS, SAVES

_MAX_STEPS = 6  # names, calls and dicts around one another that a dict is followed through
_ASKING = DICT_CHANGES | {"get", "pop"}
"""Methods of a dict that ask for one item, or put some into it."""
_COPY = "copy"
_BUILTINS = "builtins."
_LOOKING = frozenset({"builtins.bool", "builtins.id", "builtins.isinstance", "builtins.type"})


class _End(Enum):
    """What becomes of a dict."""

    SAVED = "written to a file that can hold whatever it is"
    HANDED_ON = "given to code that nobody knows"
    READ = "read as a whole"


def reasons(before: Side, after: Side) -> Iterator[str]:
    """The state of a scaler that is put where it may not be saved, and was not before."""
    known = {_key(before, *each) for each in _elements(before)}
    for display, element in _elements(after):
        if _key(after, display, element) not in known and not _is_checkpoint(after, display):
            code = shown(after, element)
            yield f"line {after.line(element)}: `{code}`: what holds it may be no checkpoint"


def _elements(side: Side) -> Iterator[tuple[cst.Dict, cst.DictElement]]:
    """The elements of dicts that are the state of a scaler."""
    for display in side.model.tree.nodes(cst.Dict):
        for each in display.elements:
            if isinstance(each, cst.DictElement) and side.lifter.is_scaler_state(each.value):
                yield display, each


def _key(side: Side, display: cst.Dict, element: cst.DictElement) -> tuple[str, ...]:
    """Equal for what both texts have: the function, the element and the keys beside it."""
    source = side.model.tree.source
    keys = (source(each.key) for each in display.elements if isinstance(each, cst.DictElement))
    return name_of(side.model, display), source(element), *keys


def _is_checkpoint(side: Side, display: cst.Dict) -> bool:
    """Whether a dict is saved where it can hold the state, as far as the file tells.

    Who is given the state of an optimizer or a model under a key can hold one more. Where such a
    state is the dict itself, what loads it finds a key that it does not know.
    """
    flow = _Flow(side)
    ends = {*flow.of(display, _MAX_STEPS)}
    if _End.READ in ends or any(map(flow.is_flat, flow.displays)):
        return False
    return ends == {_End.SAVED} or any(map(flow.has_states, flow.displays))


def _loads(call: cst.Call) -> bool:
    """Whether a call loads all that it is given: ``model.load_state_dict(merged)``."""
    return isinstance(call.func, cst.Attribute) and call.func.attr.value in LOAD_STATE_DICT.words


class _Flow:
    """Follows a dict to all that it is handed to."""

    def __init__(self, side: Side) -> None:
        self._side = side
        self._model, self._tree = side.model, side.model.tree
        self.displays: list[cst.Dict] = []
        """The dict, and those that it is merged into."""
        self._seen: set[int] = set()
        ends = Ends(_End.SAVED, _End.HANDED_ON, _End.READ)
        self._containers = Containers(self._model, self, ends)

    def of(self, node: cst.CSTNode, steps: int) -> Iterator[_End]:
        """What becomes of the value of an expression."""
        if id(node) in self._seen:
            return
        self._seen.add(id(node))
        if isinstance(node, cst.Dict):
            self.displays.append(node)
        parent = self._tree.parent(node)
        held = self._containers.of(node, steps)
        if steps <= 0:
            yield _End.HANDED_ON
        elif held is not None:
            yield from held
        elif isinstance(parent, cst.Arg):
            yield from self._given(parent, steps)
        elif isinstance(parent, (cst.Assign, cst.AnnAssign, cst.NamedExpr)):
            yield from self._bound(parent, node, steps)
        elif isinstance(parent, cst.Return):
            yield from self._returned(parent, steps)
        elif not isinstance(parent, cst.Expr):
            yield from self._within(node, parent, steps)

    def _within(self, node: cst.CSTNode, parent: cst.CSTNode | None, steps: int) -> Iterator[_End]:
        """What becomes of an expression around it."""
        match parent:
            case cst.StarredDictElement() | cst.DictElement():
                around = self._tree.parent(parent)
                yield from self._nested(around, steps, merged=isinstance(around, cst.Dict))
            case cst.IfExp(test=test) if test is node:
                return
            case cst.IfExp() | cst.BooleanOperation() | cst.Await():
                yield from self.of(parent, steps)
            case cst.BinaryOperation(operator=cst.BitOr()):
                yield from self.of(parent, steps)
            case cst.Lambda():
                yield _End.READ
            case _:
                yield _End.HANDED_ON

    def _nested(self, around: cst.CSTNode | None, steps: int, *, merged: bool) -> Iterator[_End]:
        if around is not None and merged:
            yield from self.of(around, steps - 1)
        else:
            yield _End.HANDED_ON

    # --- names --------------------------------------------------------------------------------

    def _bound(self, holder: cst.CSTNode, value: cst.CSTNode, steps: int) -> Iterator[_End]:
        for target, given in assigned(holder):
            if given is not value:
                continue
            match target:
                case cst.Name():
                    yield from self.named(target, holder, steps - 1)
                case cst.Attribute(attr=attr):
                    yield from self._attributes(attr.value, steps - 1)
                case _:
                    yield _End.HANDED_ON
        if isinstance(holder, cst.NamedExpr):
            yield from self.of(holder, steps)

    def named(self, name: cst.Name, holder: cst.CSTNode, steps: int) -> Iterator[_End]:
        """What becomes of what a name stands for, wherever it may be what a place binds."""
        for use in self._tree.named(name.value):
            bindings = self._model.names.bindings(use)
            if use is not name and any(each.node is holder for each in bindings):
                yield from self.used(use, steps)

    def _attributes(self, word: str, steps: int) -> Iterator[_End]:
        for each in self._tree.named(word):
            holder = self._tree.parent(each)
            if isinstance(holder, cst.Attribute) and holder.attr is each:
                yield from self.used(holder, steps)

    def used(self, use: cst.BaseExpression, steps: int) -> Iterator[_End]:
        """What one read of a name does with the dict that it is."""
        parent = self._tree.parent(use)
        match parent:
            case cst.AssignTarget() | cst.Param() | cst.If() | cst.While() | cst.UnaryOperation():
                return
            case cst.Arg(keyword=keyword) if keyword is use:
                return
            case cst.Attribute(value=owner, attr=attr):
                yield from self._asked(parent, attr.value, steps) if owner is use else ()
            case cst.Subscript(value=owner, slice=[cst.SubscriptElement(slice=cst.Index(key))]):
                if owner is use and literal(key) is ... and not self._is_stored(parent):
                    yield _End.READ
            case cst.ComparisonTarget(operator=operator):
                yield from () if isinstance(operator, (cst.In, cst.NotIn)) else (_End.READ,)
            case cst.Comparison(comparisons=[one]) if isinstance(one.operator, (cst.Is, cst.IsNot)):
                return
            case cst.For(target=target) | cst.CompFor(target=target) if target is use:
                return
            case cst.For() | cst.CompFor() | cst.FormattedStringExpression() | cst.Comparison():
                yield _End.READ
            case _:
                yield from self.of(use, steps)

    def _is_stored(self, item: cst.CSTNode) -> bool:
        return isinstance(self._tree.parent(item), (cst.AssignTarget, cst.Del))

    def _asked(self, method: cst.Attribute, name: str, steps: int) -> Iterator[_End]:
        """``state.get("epoch")``, ``state.update(more)``, ``state.items()``."""
        call = self._tree.parent(method)
        if not isinstance(call, cst.Call) or call.func is not method:
            yield _End.READ
        elif name == _COPY:
            yield from self.of(call, steps)
        elif name not in _ASKING:
            yield _End.READ

    # --- calls --------------------------------------------------------------------------------

    def _given(self, arg: cst.Arg, steps: int) -> Iterator[_End]:
        call = self._tree.parent(arg)
        if not isinstance(call, cst.Call) or arg.star:
            yield _End.READ
            return
        names, target = self._model.names.qualified(call.func), self._model.program.target(call)
        if target is not None:
            yield from self._handed(target, call, arg, steps)
        elif self._saves(call, arg, names):
            yield _End.SAVED
        elif names and names <= DICT_COPIES:
            yield from self.of(call, steps)
        elif not names and isinstance(owner := self._filled(call), cst.Name):
            yield from self._put_into(owner, steps)
        elif _loads(call):
            yield _End.READ
        elif not names or not all(name.startswith(_BUILTINS) for name in names):
            yield _End.HANDED_ON
        elif not names <= _LOOKING:
            yield _End.READ

    def _filled(self, call: cst.Call) -> cst.BaseExpression | None:
        """``state`` of ``state.update({...})``."""
        func = call.func
        puts = isinstance(func, cst.Attribute) and func.attr.value in DICT_CHANGES
        return func.value if puts and isinstance(func, cst.Attribute) else None

    def _put_into(self, owner: cst.Name, steps: int) -> Iterator[_End]:
        """What becomes of a dict that gets the items of another one."""
        bindings = self._model.names.bindings(owner)
        if self._is_state(owner) or not all(each.kind == "assign" for each in bindings):
            yield _End.READ
        for each in bindings:
            for target, _ in assigned(each.node):
                if isinstance(target, cst.Name):
                    yield from self.named(target, each.node, steps - 1)

    def _handed(
        self, function: cst.FunctionDef, call: cst.Call, arg: cst.Arg, steps: int
    ) -> Iterator[_End]:
        """What a function of the file does with it."""
        bound = self._model.program.bind(function, call)
        names = {name for name, value in bound.items() if value is arg.value}
        params = [
            each for each in self._tree.below(function, cst.Param) if each.name.value in names
        ]
        if not params:
            yield _End.HANDED_ON
        for param in params:
            yield from self.named(param.name, param, steps - 1)

    def _saves(self, call: cst.Call, arg: cst.Arg, names: frozenset[str]) -> bool:
        """Whether a call writes what it is given, whatever that is."""
        method = call.func.attr.value if isinstance(call.func, cst.Attribute) else ""
        is_call_of = self._model.roles.frameworks.is_call_of
        if any(method in row.methods and is_call_of(row, call) for row in SAVING):
            return True
        given = arguments(call)
        firsts = (given.get(0, keyword) for keyword in SAVED_AS)
        return bool(names) and names <= SAVES and any(arg.value is first for first in firsts)

    def _returned(self, node: cst.CSTNode, steps: int) -> Iterator[_End]:
        """What those who call do with what their function returns."""
        function = self._tree.ancestor(node, cst.FunctionDef)
        calls = self._model.program.calls_of(function) if function is not None else ()
        if function is not None and is_property(function):
            yield from self._attributes(function.name.value, steps - 1)
        elif not calls:
            yield _End.HANDED_ON
        for call in calls:
            yield from self.of(call, steps - 1)

    # --- what is beside it --------------------------------------------------------------------

    def has_states(self, display: cst.Dict) -> bool:
        """Whether a dict holds what else has a state under a key."""
        pairs = (each for each in display.elements if isinstance(each, cst.DictElement))
        return any(self._is_state(each.value) for each in pairs)

    def is_flat(self, display: cst.Dict) -> bool:
        """Whether the items of such a state are items of the dict."""
        merged = [e.value for e in display.elements if isinstance(e, cst.StarredDictElement)]
        around = self._tree.parent(display)
        if isinstance(around, cst.BinaryOperation):
            merged += [around.left, around.right]
        return any(map(self._is_state, merged))

    def _is_state(self, node: cst.BaseExpression) -> bool:
        """Whether an expression is the state of something that is no scaler, or a copy of it."""
        for value in self._model.values.alternatives(node):
            if not isinstance(value, cst.Call):
                continue
            if self._model.names.qualified(value.func) & DICT_COPIES and value.args:
                return self._is_state(value.args[0].value)
            if isinstance(value.func, cst.Attribute) and (
                value.func.attr.value in STATE_DICT.words
                and not self._model.roles.is_scaler(value.func.value)
            ):
                return True
        return False
