"""What becomes of the items of a list, or of a dict of dicts: who walks over them, or picks one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

import libcst as cst

from amp_lint.flow.values import literal
from amp_lint.model import Model
from amp_lint.syntax.assignments import assigned
from amp_lint.syntax.names import dotted
from amp_lint.vocabulary.training import SAVES

End = TypeVar("End", covariant=True)
"""What becomes of something, in the words of who asks."""

_ADDING = frozenset({"append", "insert"})
"""Methods of a list that put an item into it."""
_JOINING = "extend"
_SILENT = _ADDING | {"clear", "count", _JOINING, "index", "remove", "reverse"}
_PICKING = frozenset({"get", "pop", "popleft"})
_GIVING_ALL = frozenset({"copy", "values"})
_ALIKE = frozenset(f"builtins.{name}" for name in ("iter", "list", "reversed", "sorted", "tuple"))
"""Functions that give what has the same items."""
_PICKERS = frozenset({"builtins.max", "builtins.min", "builtins.next"})
_ASKING = frozenset(f"builtins.{name}" for name in ("bool", "id", "isinstance", "len", "type"))
_NUMBERED = "builtins.enumerate"
_DISPLAYS = (cst.List, cst.Tuple)
_BINDING = (
    cst.AssignTarget, cst.AugAssign, cst.Comparison, cst.ComparisonTarget, cst.Del, cst.Expr,
    cst.If, cst.Param, cst.UnaryOperation, cst.While,
)  # fmt: skip
"""What reads no item, or puts something in the place of all."""


class Items(Protocol[End]):
    """Follows one item."""

    def used(self, use: cst.BaseExpression, steps: int) -> Iterator[End]:
        """What becomes of an item that an expression is."""
        ...

    def named(self, name: cst.Name, holder: cst.CSTNode, steps: int) -> Iterator[End]:
        """What becomes of an item that a name stands for, as a place binds it."""
        ...


@dataclass(frozen=True, slots=True)
class Ends(Generic[End]):
    """What becomes of an item with what holds it."""

    saved: End
    handed_on: End
    """To code that nobody knows."""
    read: End
    """By what is not followed."""


class Containers(Generic[End]):
    """Follows what holds an item to where the item is taken out of it."""

    def __init__(self, model: Model, items: Items[End], ends: Ends[End]) -> None:
        self._model, self._tree = model, model.tree
        self._items, self._ends = items, ends
        self._seen: set[tuple[int, object]] = set()

    def of(self, item: cst.CSTNode, steps: int) -> Iterator[End] | None:
        """What becomes of an item that is put into something where it stands; None if it is not."""
        parent = self._tree.parent(item)
        if isinstance(parent, cst.Element):
            display = self._tree.parent(parent)
            key = display.elements.index(parent) if isinstance(display, cst.Tuple) else ...
            return self._read(display, steps, key) if isinstance(display, _DISPLAYS) else None
        if isinstance(parent, cst.Yield):
            return self._returned(parent, steps, ...)
        if isinstance(parent, cst.Arg):
            owner = self._added_to(parent)
            return None if owner is None else self._everywhere(owner, steps, ...)
        for target, value in assigned(parent) if parent is not None else ():
            if value is item and isinstance(target, cst.Subscript):
                return self._everywhere(target.value, steps, _key(target))
        return None

    def _added_to(self, arg: cst.Arg) -> cst.BaseExpression | None:
        """``states`` of ``states.append({...})``."""
        match self._tree.parent(arg):
            case cst.Call(func=cst.Attribute(value=owner, attr=attr)) if attr.value in _ADDING:
                return owner
        return None

    def _everywhere(self, owner: cst.BaseExpression, steps: int, key: object) -> Iterator[End]:
        """What becomes of the items of what has a name, wherever that is read."""
        text = dotted(owner)
        if text is None:
            yield self._ends.read
            return
        bindings = self._model.names.bindings(owner) if isinstance(owner, cst.Name) else ()
        if not bindings or any(each.kind == "parameter" for each in bindings):
            yield self._ends.handed_on  # others may have it
        for use in self._tree.named(text.rpartition(".")[2]):
            holder = self._tree.parent(use)
            whole = holder if isinstance(holder, cst.Attribute) and holder.attr is use else use
            if whole is not owner and dotted(whole) == text:
                yield from self._read(whole, steps - 1, key)

    def _read(self, read: cst.CSTNode, steps: int, key: object) -> Iterator[End]:
        """What becomes of the items of an expression; of one of them alone, if it has a key."""
        if steps <= 0 or (id(read), key) in self._seen:
            return
        self._seen.add((id(read), key))
        parent = self._tree.parent(read)
        match parent:
            case cst.Subscript(value=owner) if owner is read:
                if ... in (key, _key(parent)) or key == _key(parent):
                    yield from self._items.used(parent, steps)
            case cst.For(iter=walked) | cst.CompFor(iter=walked) if walked is read:
                yield from self._walked(parent, steps, numbered=False)
            case cst.Attribute(value=owner, attr=attr) if owner is read:
                yield from self._asked(parent, attr.value, steps, key)
            case cst.Arg():
                yield from self._given(parent, steps, key)
            case cst.BinaryOperation() | cst.BooleanOperation() | cst.IfExp():
                yield from self._read(parent, steps, key)
            case cst.AugAssign(target=target, value=value) if value is read:
                yield from self._everywhere(target, steps, key)
            case cst.Assign(targets=[cst.AssignTarget(target=cst.Tuple(elements=parts))]):
                yield from self._unpacked(parts, parent, steps, key)
            case cst.Assign() | cst.AnnAssign() | cst.NamedExpr():
                for alias, given in assigned(parent):
                    if given is read:
                        yield from self._everywhere(alias, steps, key)
            case cst.Return():
                yield from self._returned(parent, steps, key)
            case _ if not isinstance(parent, _BINDING):
                yield self._ends.read

    def _unpacked(
        self, parts: Sequence[cst.BaseElement], holder: cst.CSTNode, steps: int, key: object
    ) -> Iterator[End]:
        """``state, name = collected()``."""
        found = parts[key].value if isinstance(key, int) and key < len(parts) else None
        if isinstance(found, cst.Name) and not any(
            isinstance(p, cst.StarredElement) for p in parts
        ):
            yield from self._items.named(found, holder, steps)
        else:
            yield self._ends.read

    def _walked(self, loop: cst.For | cst.CompFor, steps: int, *, numbered: bool) -> Iterator[End]:
        """``for state in states``, ``for at, state in enumerate(states)``."""
        match loop.target:
            case cst.Name() as name if not numbered:
                yield from self._items.named(name, loop, steps)
            case cst.Tuple(elements=[_, cst.Element(value=cst.Name() as name)]) if numbered:
                yield from self._items.named(name, loop, steps)
            case _:
                yield self._ends.read

    def _asked(self, method: cst.Attribute, name: str, steps: int, key: object) -> Iterator[End]:
        call = self._tree.parent(method)
        if not isinstance(call, cst.Call) or call.func is not method:
            yield self._ends.read
        elif name in _PICKING:
            yield from self._items.used(call, steps)
        elif name in _GIVING_ALL:
            yield from self._read(call, steps, key)
        elif name == "items" and isinstance(
            loop := self._tree.parent(call), (cst.For, cst.CompFor)
        ):
            yield from self._walked(loop, steps, numbered=True)
        elif name not in _SILENT:
            yield self._ends.read

    def _given(self, arg: cst.Arg, steps: int, key: object) -> Iterator[End]:
        call = self._tree.parent(arg)
        if not isinstance(call, cst.Call) or arg.star:
            yield self._ends.read
            return
        names, target = self._model.names.qualified(call.func), self._model.program.target(call)
        loop, method = self._tree.parent(call), call.func
        if isinstance(method, cst.Attribute) and method.attr.value == _JOINING:
            yield from self._everywhere(method.value, steps, ...)
        elif self._added_to(arg) is not None:
            yield self._ends.read
        elif target is not None:
            bound = self._model.program.bind(target, call)
            given = [name for name, value in bound.items() if value is arg.value]
            for param in self._tree.below(target, cst.Param):
                if param.name.value in given:
                    yield from self._everywhere(param.name, steps, key)
        elif names == {_NUMBERED} and isinstance(loop, (cst.For, cst.CompFor)):
            yield from self._walked(loop, steps, numbered=True)
        elif names and names <= _ALIKE:
            yield from self._read(call, steps, key)
        elif names and names <= _PICKERS:
            yield from self._items.used(call, steps)
        elif names and names <= SAVES:
            yield self._ends.saved
        elif not names or not all(name.startswith("builtins.") for name in names):
            yield self._ends.handed_on
        elif not names <= _ASKING:
            yield self._ends.read

    def _returned(self, node: cst.CSTNode, steps: int, key: object) -> Iterator[End]:
        """What those who call take out of what their function gives."""
        function = self._tree.ancestor(node, cst.FunctionDef)
        calls = [*self._model.program.calls_of(function)] if function is not None else []
        if not calls:
            yield self._ends.handed_on
        for call in calls:
            yield from self._read(call, steps - 1, key)


def _key(item: cst.Subscript) -> object:
    """The word or number of ``states["last"]``; ... for what is none."""
    match item.slice:
        case [cst.SubscriptElement(slice=cst.Index(value=value))]:
            known = literal(value)
            return known if isinstance(known, (int, str)) else ...
    return ...
