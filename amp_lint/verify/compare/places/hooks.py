"""Plain syntax in another region, behind which a class of the file computes something.

An attribute, an item, a text, a round of a loop: what runs for it depends on the object.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Sequence

import libcst as cst

from amp_lint.syntax.names import dotted
from amp_lint.syntax.tree import descendants
from amp_lint.verify.compare.places.loaded import (
    has_casting_functions,
    is_dataset,
    may_be_loader,
)
from amp_lint.verify.compare.regions import shown
from amp_lint.verify.compare.side import Side
from amp_lint.verify.compare.units import common

_GET, _SET = ("__getattr__", "__getattribute__"), ("__setattr__",)
_TEXT = ("__str__", "__repr__", "__format__")
_ROUNDS = ("__iter__", "__next__", "__len__", "__getitem__")
_OF_OPERATORS: dict[type[cst.CSTNode], tuple[str, ...]] = {
    cst.In: ("__contains__", "__iter__"), cst.NotIn: ("__contains__", "__iter__"),
    cst.Equal: ("__eq__",), cst.NotEqual: ("__ne__", "__eq__"),
    cst.LessThan: ("__lt__", "__gt__"), cst.GreaterThan: ("__gt__", "__lt__"),
    cst.LessThanEqual: ("__le__", "__ge__"), cst.GreaterThanEqual: ("__ge__", "__le__"),
    cst.Add: ("__add__", "__radd__"), cst.Subtract: ("__sub__", "__rsub__"),
    cst.Multiply: ("__mul__", "__rmul__"), cst.Divide: ("__truediv__", "__rtruediv__"),
    cst.AddAssign: ("__iadd__", "__add__"), cst.SubtractAssign: ("__isub__", "__sub__"),
    cst.MultiplyAssign: ("__imul__", "__mul__"), cst.DivideAssign: ("__itruediv__", "__truediv__"),
}  # fmt: skip
_OF_BUILTINS = {
    **dict.fromkeys(("str", "repr", "format", "print"), _TEXT),
    **dict.fromkeys(
        ("all", "any", "dict", "enumerate", "iter", "len", "list", "map", "max", "min", "next",
         "set", "sorted", "sum", "tuple", "zip"),
        _ROUNDS,
    ),
    "bool": ("__bool__", "__len__"),
}  # fmt: skip
_OF_LOADERS = frozenset({"enumerate", "iter", "list", "map", "next", "tuple", "zip"})
_GENERATOR = "generator"
_CONTEXTS = ("contextmanager", "asynccontextmanager")
_ASKING: tuple[type[cst.CSTNode], ...] = (
    cst.Attribute, cst.AugAssign, cst.BinaryOperation, cst.Call, cst.Comparison, cst.CompFor,
    cst.Del, cst.For, cst.FormattedString, cst.Subscript,
)  # fmt: skip
_LOADED = "loaded "
"""Before what a loader asks a data set for: nobody else does, of what is not walked over."""
_BY_LOADER = tuple(f"{_LOADED}{name}" for name in _ROUNDS)


def reasons(before: Side, after: Side) -> Iterator[str]:
    """What may compute behind plain syntax, and runs in another region than before."""
    hooks = _hooks(before), _hooks(after)
    for name in common(before.units, after.units):
        old, new = (
            [*_asked(side, name, its)] for side, its in zip((before, after), hooks, strict=True)
        )
        known = Counter((text, before.state(node)) for text, node in old)
        texts = {text for text, _ in old}
        for text, node in new:
            key = text, after.state(node)
            if text in texts and not known[key]:
                yield f"line {after.line(node)}: `{shown(after, node)}` runs in another region"
            known[key] -= 1


def _hooks(side: Side) -> frozenset[str]:
    """The methods and properties of the file that may compute what autocast casts."""
    model = side.model
    found: set[str] = set()
    for function in model.tree.nodes(cst.FunctionDef):
        owner = model.values.enclosing_class(function)
        if not any(map(model.regions.may_be_cast, descendants(function.body))):
            continue
        if model.tree.below(function, cst.Yield):
            found |= {_GENERATOR} if not any(map(_is_context, function.decorators)) else set()
        elif owner is not None:
            for name in _names(function):
                loaded = name in _ROUNDS and is_dataset(side, owner)
                found.add(f"{_LOADED}{name}" if loaded else name)
    return frozenset(found | ({f"{_LOADED}__next__"} if has_casting_functions(side) else set()))


def _is_context(decorator: cst.Decorator) -> bool:
    """Whether a generator is made a context, which nobody walks over."""
    return (dotted(decorator.decorator) or "").rpartition(".")[2] in _CONTEXTS


def _names(method: cst.FunctionDef) -> Iterator[str]:
    """What asks for a method without calling it by its name."""
    name = method.name.value
    if name.startswith("__"):
        yield name
    for each in method.decorators:
        called = dotted(each.decorator) or ""
        if called.rpartition(".")[2] in ("property", "cached_property"):
            yield f"get {name}"
        elif called == f"{name}.setter":
            yield f"set {name}"


def _asked(side: Side, name: str, hooks: frozenset[str]) -> Iterator[tuple[str, cst.CSTNode]]:
    """The places of a function that may run one of them, as they are written."""
    tree, unit = side.model.tree, side.units[name]
    nodes = itertools.chain.from_iterable(tree.below(unit, kind) for kind in _ASKING)
    for node in nodes:
        if hooks.intersection(_asks_for(side, node)):
            place = node.iter if isinstance(node, (cst.For, cst.CompFor)) else node
            yield tree.source(place), place


def _asks_for(side: Side, node: cst.CSTNode) -> Iterator[str]:
    """The names of what may run for a piece of syntax."""
    parent = side.model.tree.parent(node)
    is_target = isinstance(parent, cst.AssignTarget)
    match node:
        case cst.Attribute(attr=attr):
            yield from (*_SET, f"set {attr.value}") if is_target else (*_GET, f"get {attr.value}")
        case cst.Subscript(value=owner, slice=index):
            yield "__setitem__" if is_target else "__getitem__"
            if not _is_named(index) and _may_be_dataset(side, owner):
                yield f"{_LOADED}__getitem__"
        case cst.Del():
            yield from ("__delitem__", "__delattr__", "__del__")
        case cst.Call(func=cst.Name(value=name), args=args):
            yield from _OF_BUILTINS.get(name, ())
            yield from (_GENERATOR,) if _OF_BUILTINS.get(name) is _ROUNDS else ()
            if name in _OF_LOADERS and any(_is_loader(side, arg.value) for arg in args):
                yield from _BY_LOADER
        case cst.For(iter=walked) | cst.CompFor(iter=walked):
            if not _is_display(side, walked):
                yield from (*_ROUNDS, _GENERATOR)
            yield from _BY_LOADER if _is_loader(side, walked) else ()
        case cst.FormattedString():
            yield from _TEXT
        case cst.BinaryOperation(operator=operator) | cst.AugAssign(operator=operator):
            yield from _OF_OPERATORS.get(type(operator), ())
        case cst.Comparison(comparisons=comparisons):
            for each in comparisons:
                yield from _OF_OPERATORS.get(type(each.operator), ())


def _is_loader(side: Side, walked: cst.BaseExpression) -> bool:
    """Whether a loader may be behind what is walked over."""
    return may_be_loader(side, walked) and not _is_display(side, walked)


def _is_named(index: Sequence[cst.SubscriptElement]) -> bool:
    """Whether an item is asked for by a word: those of a data set are numbered."""
    return any(isinstance(getattr(each.slice, "value", None), cst.SimpleString) for each in index)


def _may_be_dataset(side: Side, node: cst.BaseExpression) -> bool:
    """Whether a data set may be asked for an item: not a batch, nor what a model gives."""
    bindings = side.model.names.bindings(node) if isinstance(node, cst.Name) else ()
    made = side.model.values.instance_class
    return not bindings or any(
        each.kind not in ("for", "unpack")
        and not (isinstance(each.value, cst.Call) and made(each.value) is None)
        for each in bindings
    )


def _is_display(side: Side, node: cst.BaseExpression) -> bool:
    """Whether something is a list or the like that stands in the function."""
    kinds = (cst.List, cst.Tuple, cst.Dict, cst.Set, cst.ListComp)
    bindings = side.model.names.bindings(node) if isinstance(node, cst.Name) else ()
    values = [each.value for each in bindings] or [node]
    return all(isinstance(each, kinds) for each in values)
