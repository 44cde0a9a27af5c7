"""Which annotations make no difference: types, computed without failing."""

from __future__ import annotations

import builtins
import collections.abc
import typing
from types import MappingProxyType
from typing import Any

import libcst as cst

from amp_lint.model import Model
from amp_lint.syntax.names import Binding

_BUILTIN = frozenset(
    {"None", "bool", "bytes", "complex", "dict", "float", "frozenset", "int", "list", "object",
     "set", "str", "tuple", "type"}
)  # fmt: skip
_MODULES = MappingProxyType({"typing": typing, "collections.abc": collections.abc})
_TORCH = MappingProxyType(
    {
        name: type(name, (), {})
        for name in (
            "torch.Tensor", "torch.device", "torch.dtype", "torch.nn.Module",
            "torch.optim.Optimizer",
        )
    }
)  # fmt: skip
"""Classes of torch that are there in every version; plain ones stand for them: none has items."""


class _NoTypeError(Exception):
    """An expression that is not known to be a type."""


_FAILURES = (
    _NoTypeError, AttributeError, MemoryError, RecursionError, SyntaxError, TypeError, ValueError
)  # fmt: skip
"""What computing an annotation raises; a text in it is compiled, however deep it nests."""


def is_type(model: Model, annotation: cst.BaseExpression) -> bool:
    """Whether an annotation gives a type wherever it is computed, and does nothing else.

    It is computed here, of names that are known: ``"Net" | None`` raises an error, as does
    ``Optional[int, str]``.
    """
    try:
        _value(model, annotation)
    except _FAILURES:
        return False
    return True


def _value(model: Model, node: cst.CSTNode) -> object:
    one: Any
    match node:
        case cst.Name() | cst.Attribute():
            return _named(model, node)
        case cst.Subscript(value=owner, slice=elements):
            items = tuple(_value(model, element.slice) for element in elements)
            one = _value(model, owner)
            return one[items[0] if len(items) == 1 else items]
        case cst.Index(value=value, star=None) | cst.Element(value=value):
            return _value(model, value)
        case cst.BinaryOperation(left=left, operator=cst.BitOr(), right=right):
            one = _value(model, left)
            return one | _value(model, right)
        case cst.List(elements=elements):
            return [_value(model, element) for element in elements]
        case cst.Ellipsis():
            return ...
        case cst.SimpleString():
            return node.evaluated_value
    raise _NoTypeError


def _named(model: Model, node: cst.Name | cst.Attribute) -> object:
    """What a name stands for that is bound in every run.

    Raises:
        _NoTypeError: it is not known.
    """
    root = node
    while isinstance(root, cst.Attribute):
        if not isinstance(root.value, (cst.Name, cst.Attribute)):
            raise _NoTypeError
        root = root.value
    bound = model.names.bindings(root)
    if not bound and root is node and root.value in _BUILTIN:
        return getattr(builtins, root.value, None)
    known = [*model.names.qualified(node)]
    if len(known) != 1 or not all(_is_always_bound(model, each) for each in bound):
        raise _NoTypeError
    if known[0] in _TORCH:
        return _TORCH[known[0]]
    module, _, name = known[0].rpartition(".")
    if module not in _MODULES:
        raise _NoTypeError
    found: object = getattr(_MODULES[module], name)
    return found


def _is_always_bound(model: Model, binding: Binding) -> bool:
    """Whether a name is bound in every run: not so ``if TYPE_CHECKING:``."""
    around = model.tree.ancestor(binding.node, cst.If, cst.Try, cst.FunctionDef)
    return around is None and binding.kind in ("import", "assign")
