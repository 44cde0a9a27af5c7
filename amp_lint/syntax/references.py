"""Where a file refers to given qualified names, and what it does with them there."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import libcst as cst

from amp_lint.syntax.names import PARTIAL, Binding, Names, canonical
from amp_lint.syntax.tree import Tree

Role = Literal["call", "decorator", "partial", "type", "annotation", "base", "alias", "value"]
"""What becomes of a name where it is referred to.

``call``: called; ``decorator``: decorates without being called; ``partial``: first argument of
``partial``; ``type``: second argument of ``isinstance``, or compared; ``base``: base of a class;
``alias``: given another plain name; ``value``: anything else, so that nobody knows who calls it.
"""

_TYPE_TESTS = ("isinstance", "issubclass")
_TYPE_CASTS = frozenset({"typing.cast"})
_GROUPING = (cst.Tuple, cst.List, cst.Element, cst.BinaryOperation)
_INDEXING = (cst.Subscript, cst.SubscriptElement, cst.Index)


@dataclass(frozen=True, slots=True, eq=False)
class Reference:
    """One expression that stands for a wanted name."""

    node: cst.Name | cst.Attribute
    name: str
    """The qualified name, one of those wanted."""
    role: Role
    call: cst.Call | None = None
    """The call that gives the arguments: of the name itself, or of ``partial``."""

    @property
    def skipped(self) -> int:
        """How many arguments of ``call`` in front are not arguments of the name."""
        return 1 if self.role == "partial" else 0

    @property
    def root(self) -> cst.Name | None:
        """``a`` of ``a.b.c``."""
        node: cst.BaseExpression = self.node
        while isinstance(node, cst.Attribute):
            node = node.value
        return node if isinstance(node, cst.Name) else None


def references(tree: Tree, names: Names, wanted: frozenset[str]) -> list[Reference]:
    """Every reference to one of ``wanted``, in source order; imports are none."""
    members = {name.rpartition(".")[2] for name in wanted}
    bound = _bound_names(names, wanted) | (members if names.module.star_imports else set())
    nodes: list[cst.Name | cst.Attribute] = [
        node for node in tree.nodes(cst.Attribute) if node.attr.value in members
    ]
    nodes += [node for node in tree.nodes(cst.Name) if node.value in bound]
    found = [
        reference(tree, names, node, name)
        for node in nodes
        if is_read(tree, node)
        for name in sorted(names.spelled(node) & wanted)[:1]
        if not _is_probe(tree, node)
    ]
    return sorted(found, key=lambda each: tree.order(each.node))


def _bound_names(names: Names, wanted: frozenset[str]) -> set[str]:
    """The names that an import or a plain alias binds to one of ``wanted``."""
    return {b.name for b in names.every_binding() if _stands_for(names, b, wanted)}


def _stands_for(names: Names, binding: Binding, wanted: frozenset[str]) -> bool:
    if binding.qualified is not None:
        return canonical(binding.qualified) in wanted
    plain = isinstance(binding.value, (cst.Name, cst.Attribute)) and binding.kind == "assign"
    return plain and binding.value is not None and names.is_any(binding.value, wanted)


def is_read(tree: Tree, node: cst.Name | cst.Attribute) -> bool:
    """Whether the expression is evaluated: not bound, not part of a longer dotted name."""
    parent = tree.parent(node)
    match parent:
        case cst.Attribute():
            return parent.attr is not node
        case cst.Arg():
            return parent.keyword is not node
        case cst.Param():
            return parent.name is not node
        case cst.FunctionDef() | cst.ClassDef() | cst.ImportAlias() | cst.ImportFrom():
            return False
        case cst.AsName() | cst.AssignTarget() | cst.NameItem() | cst.Del():
            return False
        case cst.AnnAssign() | cst.NamedExpr() | cst.For() | cst.CompFor() | cst.AugAssign():
            return parent.target is not node
    return True


def _is_probe(tree: Tree, node: cst.CSTNode) -> bool:
    """``_ = torch.cuda.amp.autocast`` only looks whether the name is there."""
    parent = tree.parent(node)
    target = parent.targets[0].target if isinstance(parent, cst.Assign) else None
    return isinstance(target, cst.Name) and target.value == "_"


def reference(tree: Tree, names: Names, node: cst.Name | cst.Attribute, name: str) -> Reference:
    """What becomes of an expression that is read and stands for ``name``."""
    parent = tree.parent(node)
    match parent:
        case cst.Call() if parent.func is node:
            return Reference(node, name, "call", parent)
        case cst.Decorator():
            return Reference(node, name, "decorator")
        case cst.Assign() if isinstance(parent.targets[0].target, cst.Name):
            return Reference(node, name, "alias" if len(parent.targets) == 1 else "value")
        case cst.Arg():
            call = tree.parent(parent)
            is_partial = isinstance(call, cst.Call) and names.is_only(call.func, PARTIAL)
            if isinstance(call, cst.Call) and is_partial and call.args[0] is parent:
                return Reference(node, name, "partial", call)
    return Reference(node, name, _type_role(tree, names, node))


def _type_role(tree: Tree, names: Names, node: cst.CSTNode) -> Role:
    """The role of a name that may be part of a type expression such as ``A | list[B]``."""
    indexed = False
    for holder in tree.ancestors(node):
        if isinstance(holder, cst.Annotation):
            return "annotation"
        if isinstance(holder, (cst.Comparison, cst.ComparisonTarget)):
            return "type"
        if isinstance(holder, cst.Arg):
            return _argument_role(tree, names, holder, indexed)
        if isinstance(holder, _INDEXING):
            indexed = True
        elif not isinstance(holder, _GROUPING):
            break
    return "value"


def _argument_role(tree: Tree, names: Names, arg: cst.Arg, indexed: bool) -> Role:
    holder = tree.parent(arg)
    if isinstance(holder, cst.ClassDef):
        return "annotation" if indexed else "base"
    if isinstance(holder, cst.Call):
        place = holder.args.index(arg)
        if place == 0 and names.is_only(holder.func, _TYPE_CASTS):
            return "annotation"
        plain = isinstance(holder.func, cst.Name) and holder.func.value in _TYPE_TESTS
        if place == 1 and plain and not indexed:
            return "type"
    return "value"


class Readers:
    """Where names are read, by what they may mean there."""

    def __init__(self, tree: Tree, names: Names) -> None:
        self._tree = tree
        self._names = names
        self._known: dict[str, dict[int, list[cst.Name]]] = {}

    def of(self, binding: Binding) -> list[cst.Name]:
        """The places, in source order, where a name is read and may mean a binding."""
        name = binding.name
        if name not in self._known:
            found = self._known[name] = defaultdict(list)
            for node in self._tree.named(name):
                if is_read(self._tree, node):
                    found[id(self._names.bindings(node))].append(node)
        return self._known[name].get(id(self._names.fellows(binding)), [])


def without_aliases(names: Names, found: list[Reference]) -> list[Reference]:
    """``found`` with each other name for it once: where it is used, or where it is made.

    One that is only handed on is made where the name has to change, and so is one of several that a
    variable may stand for.
    """
    made = {id(reference.node) for reference in found}
    used: dict[int, list[Reference]] = defaultdict(list)
    dropped: set[int] = set()
    for reference in found:
        root = reference.root
        bindings = names.bindings(root) if root is not None else []
        values = [id(each) for binding in bindings for each in _choices(binding.value)]
        if len(values) > 1 and not made.isdisjoint(values):
            dropped.add(id(reference.node))
            continue
        for value in made.intersection(values):
            used[value].append(reference)
    handed_on = {key for key, uses in used.items() if {use.role for use in uses} == {"value"}}
    dropped |= used.keys() - handed_on
    dropped |= {id(use.node) for key in handed_on for use in used[key]}
    return [reference for reference in found if id(reference.node) not in dropped]


def _choices(value: cst.BaseExpression | None) -> Iterator[cst.BaseExpression]:
    """What a variable is another name for: a value, or each arm of ``a if test else b``."""
    if isinstance(value, cst.IfExp):
        yield from _choices(value.body)
        yield from _choices(value.orelse)
    elif value is not None:
        yield value
