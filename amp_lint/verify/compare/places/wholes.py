"""Attributes that hold a scaler now, of objects all of whose attributes are read.

What is written as JSON, sent to a log or compared, scaler and all, is not what it was.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from amp_lint.flow.values import literal
from amp_lint.syntax.assignments import assigned
from amp_lint.syntax.names import dotted
from amp_lint.verify.compare.places.bound import bound, word
from amp_lint.verify.compare.regions import shown
from amp_lint.verify.compare.side import Side
from amp_lint.vocabulary.purity import READING_ALL, READING_ALL_OF
from amp_lint.vocabulary.training import SAVES

_OWN = ("self", "cls")
_DICT = "__dict__"
_BY_NAME = frozenset({"builtins.getattr", "builtins.hasattr", "builtins.setattr"})
_LOOKING = _BY_NAME | {"builtins.callable", "builtins.id", "builtins.isinstance", "builtins.type"}
_WHOLE = READING_ALL | SAVES
_TESTS = (cst.If, cst.While, cst.Not, cst.UnaryOperation)


def reasons(before: Side, after: Side) -> Iterator[str]:
    """What is an attribute more of an object that something reads as a whole."""
    for target in bound(after, before):
        if not isinstance(target, cst.Attribute):
            continue
        place = _read_as_whole(after, target)
        if place is not None:
            code, where = shown(after, target), after.line(place)
            yield f"line {after.line(target)}: `{code}` is read with all attributes in line {where}"


def _read_as_whole(side: Side, target: cst.Attribute) -> cst.CSTNode | None:
    """Where all attributes of the object that gets one may be read."""
    values, owner = side.model.values, target.value
    if dotted(owner) in _OWN:
        around = values.enclosing_class(target)
        return next(_of_class(side, around), None) if around is not None else owner
    if not isinstance(owner, (cst.Name, cst.Attribute)):
        return owner
    classes = side.model.origins.classes(owner)
    inner = (place for each in classes for place in _of_class(side, each))
    return next(inner, None) or next(_Object(side).reads(owner), None)


def _of_class(side: Side, owner: cst.ClassDef) -> Iterator[cst.CSTNode]:
    """Where an object of a class, or of one that is derived from it, is read as a whole."""
    tree, values = side.model.tree, side.model.values
    family = {id(each) for heir in (owner, *values.heirs(owner)) for each in values.lineage(heir)}

    def is_one(node: cst.BaseExpression) -> bool:
        own = values.enclosing_class(node) if dotted(node) in _OWN else None
        known = [own] if own is not None else side.model.origins.classes(node)
        return any(id(each) in family for each in known)

    for each in tree.named(_DICT):
        holder = tree.parent(each)
        if isinstance(holder, cst.Attribute) and is_one(holder.value):
            yield holder
    for call in tree.nodes(cst.Call):
        if side.model.names.is_any(call.func, _WHOLE):
            yield from (call for arg in call.args if is_one(arg.value))


class _Object:
    """Follows an object by its name, wherever the file has it."""

    def __init__(self, side: Side) -> None:
        self._side = side
        self._model, self._tree = side.model, side.model.tree
        self._words: list[str] = []

    def reads(self, owner: cst.Name | cst.Attribute) -> Iterator[cst.CSTNode]:
        """Where it may be read as a whole: by whoever is given it and is not known, too."""
        self._words.append(word(owner))
        for name in self._words:  # grows while it is read
            for each in self._tree.named(name):
                holder = self._tree.parent(each)
                is_member = isinstance(holder, cst.Attribute) and holder.attr is each
                use = holder if is_member else each
                if isinstance(use, (cst.Name, cst.Attribute)) and not self._is_single(use):
                    yield use

    def _known_as(self, name: str) -> None:
        if name not in self._words:
            self._words.append(name)

    def _is_single(self, use: cst.Name | cst.Attribute) -> bool:
        """Whether one read asks for single attributes, or gives the object another known name."""
        parent = self._tree.parent(use)
        match parent:
            case cst.Attribute(value=owner, attr=attr):
                return owner is not use or attr.value not in {_DICT, *READING_ALL_OF}
            case cst.Arg(keyword=keyword) if keyword is use:
                return True
            case cst.Arg(star=star):
                call = self._tree.parent(parent)
                return not star and isinstance(call, cst.Call) and self._is_known(call, use)
            case cst.Call(func=func):
                return func is use
            case cst.Assign(value=value) | cst.AnnAssign(value=value) if value is use:
                targets = [target for target, _ in assigned(parent)]
                for each in targets:
                    if isinstance(each, (cst.Name, cst.Attribute)):
                        self._known_as(word(each))
                return all(isinstance(each, (cst.Name, cst.Attribute)) for each in targets)
            case cst.Return():
                return self._is_returned(parent)
            case cst.Comparison(comparisons=[one]):
                return isinstance(one.operator, (cst.Is, cst.IsNot))
            case cst.ImportAlias() | cst.FunctionDef() | cst.ClassDef() | cst.Annotation():
                return True
        return isinstance(parent, (cst.AssignTarget, cst.AnnAssign, cst.Param, *_TESTS))

    def _is_known(self, call: cst.Call, use: cst.BaseExpression) -> bool:
        """Whether a function asks for single attributes: one of Python's, or of the file."""
        names, target = self._model.names.qualified(call.func), self._model.program.target(call)
        if target is None:
            return bool(names) and names <= _LOOKING and self._are_told(call, names)
        bound_to = self._model.program.bind(target, call).items()
        found = [name for name, value in bound_to if value is use]
        for each in found:
            self._known_as(each)
        return bool(found)

    def _are_told(self, call: cst.Call, names: frozenset[str]) -> bool:
        """Whether a function that asks by name is told which."""
        asked = call.args[1].value if len(call.args) > 1 else None
        return names.isdisjoint(_BY_NAME) or (asked is not None and literal(asked) is not ...)

    def _is_returned(self, node: cst.CSTNode) -> bool:
        """Whether all who get what is returned are in the file, and give it a name."""
        function = self._tree.ancestor(node, cst.FunctionDef)
        calls = self._model.program.calls_of(function) if function is not None else ()
        for call in calls:
            holder = self._tree.parent(call)
            targets = [target for target, _ in assigned(holder)] if holder is not None else []
            if not targets or not all(isinstance(t, (cst.Name, cst.Attribute)) for t in targets):
                return False
            for each in targets:
                assert isinstance(each, (cst.Name, cst.Attribute))
                self._known_as(word(each))
        return bool(calls)
