"""Attributes that are computed whenever they are read, and may be something else each time."""

from __future__ import annotations

import functools
import sys
from collections.abc import Iterator

import libcst as cst

from amp_lint.flow.values import literal
from amp_lint.model import Model
from amp_lint.syntax.assignments import assignments
from amp_lint.syntax.names import callee, dotted
from amp_lint.vocabulary.purity import QUERIES, hands_on

_PROPERTIES = frozenset({"abc.abstractproperty", "builtins.property"})
_GET = "__get__"
"""The method by which an object computes the attribute of a class that it is."""
_LOOKS_UP = ("__getattr__", "__getattribute__")
_PLAIN = (
    frozenset({"attr", "attrs", "builtins", "numpy", "pydantic", "torch"}) | sys.stdlib_module_names
)
"""Packages whose objects have no such method, their properties aside."""
_LOOKING_UP = QUERIES | {
    "AttributeError", "KeyError", "getattr", "hasattr", "isinstance", "repr", "super", "type",
    *_LOOKS_UP,
}  # fmt: skip
"""What is called to find an attribute, or to say that there is none."""


class Computed:
    """Says which attributes a file computes when they are read."""

    def __init__(self, model: Model) -> None:
        self._model = model

    def is_computed(self, node: cst.Attribute) -> bool:
        """Whether an attribute, of what is not imported, may be computed."""
        name = node.attr.value
        parent = self._model.tree.parent(node)
        called = isinstance(parent, cst.Call) and parent.func is node
        if name in self.made | self._by_decorators or (name in self._decorated and not called):
            return True
        return name not in self._stored and self._is_looked_up(node)

    @functools.cached_property
    def made(self) -> frozenset[str]:
        """The attributes of classes to which something is assigned that computes them."""
        return frozenset((*self._by_values(), *self._by_texts()))

    @functools.cached_property
    def _by_decorators(self) -> frozenset[str]:
        functions = self._model.tree.nodes(cst.FunctionDef)
        return frozenset(
            each.name.value
            for each in functions
            for one in each.decorators
            if dotted(one.decorator) == "property" or self._is_descriptor(one.decorator)
        )

    @functools.cached_property
    def _decorated(self) -> frozenset[str]:
        """The methods that something unknown decorates: it may make properties of them."""
        names, is_method = self._model.names, self._model.program.is_method
        return frozenset(
            each.name.value
            for each in self._model.tree.nodes(cst.FunctionDef)
            if each.decorators and is_method(each)
            for one in each.decorators
            if not all(map(hands_on, names.qualified(callee(one.decorator)) or [""]))
        )

    def _by_values(self) -> Iterator[str]:
        """``noise = property(f)`` in a class, ``Net.noise = property(f)`` anywhere."""
        scope = self._model.names.scope
        for target, value in assignments(self._model.tree):
            if isinstance(target, cst.Attribute) and value is not None:
                if self._is_made_descriptor(value):
                    yield target.attr.value
            elif isinstance(target, cst.Name) and value is not None:
                is_own = isinstance(scope(target).node, cst.ClassDef)
                if is_own and self._may_be_descriptor(value):
                    yield target.value

    def _by_texts(self) -> Iterator[str]:
        """``setattr(Net, "noise", property(f))``."""
        for call in self._model.tree.nodes(cst.Call):
            if any(self._is_made_descriptor(arg.value) for arg in call.args):
                texts = (literal(arg.value) for arg in call.args)
                yield from (text for text in texts if isinstance(text, str))

    def _is_made_descriptor(self, value: cst.BaseExpression) -> bool:
        """Whether a value is a property, or an object of the file that computes attributes."""
        made = self._model.values.alternatives(value)
        return any(isinstance(each, cst.Call) and self._is_descriptor(each.func) for each in made)

    def _is_descriptor(self, kind: cst.BaseExpression) -> bool:
        """Whether a call of a class of the file makes objects that compute attributes."""
        owner = self._model.names.definition(kind)
        if isinstance(owner, cst.ClassDef):
            return self._model.values.method(owner, _GET) is not None
        return self._model.names.is_any(kind, _PROPERTIES)

    def _may_be_descriptor(self, value: cst.BaseExpression) -> bool:
        """As above, or an object of another file, of whose class nothing is known."""
        names, values = self._model.names, self._model.values
        for each in values.alternatives(value):
            if isinstance(each, cst.Call):
                owner = names.definition(each.func)
                known = values.lineage(owner) if isinstance(owner, cst.ClassDef) else []
                kinds = (
                    [base.value for one in known for base in one.bases] if known else [each.func]
                )
                foreign = [kind for kind in kinds if names.definition(kind) is None]
                if self._is_descriptor(each.func) or not all(map(self._is_plain, foreign)):
                    return True
        return False

    def _is_plain(self, kind: cst.BaseExpression) -> bool:
        known = self._model.names.qualified(kind)
        return bool(known) and all(name.partition(".")[0] in _PLAIN for name in known)

    # --- what a class looks up by itself ------------------------------------------------------

    @functools.cached_property
    def _stored(self) -> frozenset[str]:
        """The names of attributes that the file stores, or defines in classes."""
        targets = (target for target, _ in assignments(self._model.tree))
        found = {each.attr.value for each in targets if isinstance(each, cst.Attribute)}
        for owner in self._model.tree.nodes(cst.ClassDef):
            found.update(self._model.names.scope_of(owner).bindings)
        return frozenset(found)

    def _is_looked_up(self, node: cst.Attribute) -> bool:
        """Whether the class of an object may compute an attribute that is stored nowhere."""
        values = self._model.values
        owner = values.enclosing_class(node) if dotted(node.value) in ("self", "cls") else None
        if owner is None:
            return bool(self._computing)
        family = [each for heir in (owner, *values.heirs(owner)) for each in values.lineage(heir)]
        return any(id(each) in self._computing for each in family)

    @functools.cached_property
    def _computing(self) -> frozenset[int]:
        """The classes, by id, that do more than to look up attributes which are not there."""
        tree = self._model.tree
        return frozenset(
            id(owner)
            for name in _LOOKS_UP
            for word in tree.named(name)
            if isinstance(function := tree.parent(word), cst.FunctionDef)
            and (owner := tree.ancestor(function, cst.ClassDef)) is not None
            and not all(_last(call.func) in _LOOKING_UP for call in tree.below(function, cst.Call))
        )


def _last(node: cst.BaseExpression) -> str:
    return (dotted(node) or "").rpartition(".")[2]
