"""Modules that may do more or something else than their class does.

Something stores another one in their attribute, changes a setting of them, or hooks them.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass

import libcst as cst

from amp_lint.flow.values import literal
from amp_lint.model import Model
from amp_lint.syntax.assignments import assignments, paired
from amp_lint.syntax.names import dotted
from amp_lint.vocabulary.modules import HOOKING, HOOKING_ALL, MEMBERS, OVERRIDING, SETTINGS, STORING
from amp_lint.vocabulary.signatures import order

_OWN = ("self", "cls")
_READING = frozenset({"copy", "get", "items", "keys", "values"})
"""Methods of a dict that leave it as it is."""
_HOOK = "_hook"
"""Ends the names of the methods that hook."""
_UNBOUND = 3
"""Arguments of ``nn.Module.add_module(net, "act", x)``: the object, a name and a value."""


@dataclass(frozen=True, slots=True)
class _Change:
    """What may happen to modules of a file."""

    name: str | None
    """The attribute or variable that they are; None for all."""
    owner: cst.ClassDef | None = None
    """The class whose they are, or a relative of it; None for all."""
    setting: str | None = None
    """What is set of them; None for anything."""


class Replaced:
    """Says which modules of a file are not only what they are made as."""

    def __init__(self, model: Model) -> None:
        self._model = model

    def is_changed(self, module: cst.BaseExpression, kind: str) -> bool:
        """Whether a module of some class of torch, by a name or as it is made, is changed."""
        if not isinstance(module, (cst.Name, cst.Attribute)):
            return self._are_all_hooked
        name = module.attr.value if isinstance(module, cst.Attribute) else module.value
        owner = self._model.values.enclosing_class(module)
        settings = SETTINGS.union(order(kind))
        return (owner is not None and self._is_overridden(owner, name)) or any(
            each.name in (name, None)
            and (each.setting is None or each.setting in settings)
            and (each.owner is None or self._are_related(each.owner, owner))
            for each in self._changes
        )

    def _is_overridden(self, owner: cst.ClassDef, name: str) -> bool:
        """Whether a derived class stores the attribute, or one says itself how it is read."""
        values = self._model.values
        if any(name in values.class_attributes(each) for each in values.heirs(owner)):
            return True
        return any(values.method(owner, each) is not None for each in OVERRIDING)

    def _are_related(self, one: cst.ClassDef, other: cst.ClassDef | None) -> bool:
        """Whether an object may be of both classes: one of them, or a third, is derived of both."""
        values = self._model.values
        families = [
            {id(each) for heir in (known, *values.heirs(known)) for each in values.lineage(heir)}
            for known in (one, other)
            if known is not None
        ]
        return len(families) == 2 and not families[0].isdisjoint(families[1])

    @functools.cached_property
    def _changes(self) -> frozenset[_Change]:
        return frozenset((*self._stores(), *self._calls(), *self._members(), *self._hooks()))

    # --- stores -------------------------------------------------------------------------------

    def _stores(self) -> Iterator[_Change]:
        """``net.act = x``, ``net.act.dim = 0``, and ``self.act = x`` if x is not known."""
        names = self._model.names
        for target, value in self._stored():
            own = dotted(target.value) in _OWN
            owner = self._model.values.enclosing_class(target) if own else None
            if not own or value is None or owner is None:
                yield _Change(target.attr.value, owner)
            if any(each.startswith("torch.nn.") for each in names.qualified(target.value)):
                yield _Change(None)  # ``nn.Softmax.forward = f``
            elif not own and self._model.values.instance_class(target.value) is None:
                yield _Change(_word(target.value), None, target.attr.value)

    def _stored(self) -> Iterator[tuple[cst.Attribute, cst.BaseExpression | None]]:
        tree = self._model.tree
        found = [*assignments(tree)]
        found += [(each.target, None) for each in tree.nodes(cst.AugAssign)]
        found += [(each.target, None) for each in tree.nodes(cst.Del)]
        found += [pair for each in tree.nodes(cst.For) for pair in paired(each.target, None)]
        names = (item.asname.name for item in tree.nodes(cst.WithItem) if item.asname is not None)
        found += [pair for name in names for pair in paired(name, None)]
        for target, value in found:
            for each, its in paired(target, value):
                if isinstance(each, cst.Attribute):
                    yield each, its

    # --- calls --------------------------------------------------------------------------------

    def _calls(self) -> Iterator[_Change]:
        """``setattr(net, name, x)``, ``net.add_module("act", x)``."""
        for call in self._uses(STORING):
            if call is None:
                yield _Change(None)
                continue
            given = [arg.value for arg in call.args]
            bound = isinstance(call.func, cst.Attribute) and len(given) < _UNBOUND
            holders = [call.func.value] if isinstance(call.func, cst.Attribute) else []
            name = _text(given[not bound]) if len(given) > (not bound) else None
            owner = self._owner(*holders, *given[:1])
            yield _Change(name, owner)
            if name is not None and owner is None:
                yield _Change(None, None, name)

    def _members(self) -> Iterator[_Change]:
        """``net._modules["act"] = x``, and whatever else is not only read of it."""
        tree = self._model.tree
        for word in (each for name in MEMBERS for each in tree.named(name)):
            node = tree.parent(word)
            if not isinstance(node, cst.Attribute) or node.attr is not word:
                yield _Change(None)
                continue
            around = tree.parent(node)
            if not isinstance(around, cst.Attribute) or around.attr.value not in _READING:
                key, owner = _key(around), self._owner(node.value)
                yield _Change(key, owner)
                if key is not None and owner is None:
                    yield _Change(None, None, key)

    def _owner(self, *holders: cst.BaseExpression) -> cst.ClassDef | None:
        """The class of the object whose attribute is set; None if it is not known."""
        values = self._model.values
        for holder in holders:
            is_super = isinstance(holder, cst.Call) and dotted(holder.func) == "super"
            if is_super or dotted(holder) in _OWN:
                return values.enclosing_class(holder)
            owner = values.instance_class(holder)
            if owner is not None:
                return owner
        return None

    # --- hooks --------------------------------------------------------------------------------

    @functools.cached_property
    def _are_all_hooked(self) -> bool:
        return any(True for _ in self._uses(HOOKING_ALL))

    def _hooks(self) -> Iterator[_Change]:
        """``net.act.register_forward_hook(f)``; of all, where it is not told of which."""
        parts = self._model.tree.nodes(cst.FormattedStringText)
        yield from (_Change(None) for each in parts if _HOOK in each.value)
        for call in self._uses(HOOKING | HOOKING_ALL):
            owner = call.func.value if call and isinstance(call.func, cst.Attribute) else None
            if owner is None or self._model.names.qualified(owner):
                yield _Change(None)
            elif dotted(owner) not in _OWN and self._model.values.instance_class(owner) is None:
                yield _Change(_word(owner))

    def _uses(self, words: frozenset[str]) -> Iterator[cst.Call | None]:
        """The calls of what has one of some names; None for another use."""
        tree = self._model.tree
        texts = {node.raw_value for node in tree.nodes(cst.SimpleString)}
        yield from (None for _ in words & texts)
        for word in (each for name in words for each in tree.named(name)):
            holder = tree.parent(word)
            called = holder if isinstance(holder, cst.Attribute) and holder.attr is word else word
            call = tree.parent(called)
            if isinstance(call, cst.Call) and call.func is called:
                yield call
            elif not isinstance(holder, cst.FunctionDef):
                yield None


def _word(node: cst.BaseExpression) -> str | None:
    """The attribute that an expression asks for; None for a variable, which may be any module."""
    return node.attr.value if isinstance(node, cst.Attribute) else None


def _text(node: cst.BaseExpression | None) -> str | None:
    """The last name of a literal text; None for anything else."""
    text = literal(node) if node is not None else None
    return text.rpartition(".")[2] if isinstance(text, str) else None


def _key(node: cst.CSTNode | None) -> str | None:
    """The text between the brackets of an item; None for anything else."""
    indices = [each.slice for each in node.slice] if isinstance(node, cst.Subscript) else []
    first = indices[0] if indices else None
    return _text(first.value) if isinstance(first, cst.Index) else None
