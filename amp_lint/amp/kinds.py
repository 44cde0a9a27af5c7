"""What kind of object an expression certainly is, and what a name certainly stands for."""

from __future__ import annotations

import enum
from collections.abc import Iterable

import libcst as cst

from amp_lint.flow.branches import contradict
from amp_lint.flow.values import Values, literal
from amp_lint.syntax.names import Binding, Names, canonical, dotted
from amp_lint.syntax.tree import Tree

_DTYPES = frozenset(
    f"torch.{name}"
    for name in ("bfloat16", "double", "float", "float16", "float32", "float64", "half")
)
_DEVICE = frozenset({"torch.device"})
_TELLS = frozenset(
    {
        "builtins.hasattr",
        "builtins.isinstance",
        "torch.cuda.is_available",
        "torch.cuda.is_bf16_supported",
        "torch.backends.mps.is_available",
        "torch.is_autocast_enabled",
    }
)
"""Functions that answer with True or False."""
_TESTS = (cst.Is, cst.IsNot, cst.In, cst.NotIn)


class ObjectKind(enum.Enum):
    """A type of object."""

    BOOL = "bool"
    NUMBER = "number"
    TEXT = "str"
    DTYPE = "torch.dtype"
    DEVICE = "torch.device"


class Kinds:
    """Tells the kind of an expression where every value that it may have is of one kind."""

    def __init__(self, names: Names, values: Values) -> None:
        self.names = names
        self.values = values

    def of(self, node: cst.BaseExpression | None) -> ObjectKind | None:
        """The kind of an expression; None if it is not known, or may be several."""
        if node is None:
            return None
        kinds = {self._of(value) for value in self.values.alternatives(node)}
        return kinds.pop() if len(kinds) == 1 else None

    def _of(self, node: cst.BaseExpression) -> ObjectKind | None:
        value = literal(node)
        if isinstance(value, bool) or self._is_test(node):
            return ObjectKind.BOOL
        if isinstance(value, (int, float)):
            return ObjectKind.NUMBER
        if isinstance(value, str) or isinstance(node, cst.FormattedString):
            return ObjectKind.TEXT
        if self.names.is_only(node, _DTYPES):
            return ObjectKind.DTYPE
        return ObjectKind.DEVICE if self._is_device(node) else None

    def _is_test(self, node: cst.BaseExpression) -> bool:
        """Whether an expression is a test; a comparison by ``==`` may be one of tensors."""
        if isinstance(node, cst.Comparison):
            target = node.comparisons[0]
            return isinstance(target.operator, _TESTS) or literal(target.comparator) is not ...
        if isinstance(node, cst.Call):
            return self.names.is_only(node.func, _TELLS)
        return isinstance(node, cst.UnaryOperation) and isinstance(node.operator, cst.Not)

    def _is_device(self, node: cst.BaseExpression) -> bool:
        """``torch.device(...)``, ``next(model.parameters()).device``."""
        if isinstance(node, cst.Call):
            return self.names.is_only(node.func, _DEVICE)
        if not isinstance(node, cst.Attribute) or node.attr.value != "device":
            return False
        owner = node.value
        return isinstance(owner, cst.Call) and dotted(owner.func) == "next" and _parameters(owner)


def _parameters(call: cst.Call) -> bool:
    inner = call.args[0].value if call.args else None
    return (
        isinstance(inner, cst.Call)
        and isinstance(inner.func, cst.Attribute)
        and inner.func.attr.value == "parameters"
    )


def certain(names: Names, node: cst.BaseExpression, wanted: Iterable[str]) -> str | None:
    """The one of ``wanted`` that an expression stands for, if it can be nothing else.

    `Names.qualified` leaves out what it does not know; here a single unknown binding is enough
    to say nothing.
    """
    found = names.qualified(node)
    known = len(found) == 1 and found <= frozenset(wanted) and _all_known(names, node)
    return next(iter(found)) if known else None


def imported_as(
    names: Names, tree: Tree, node: cst.Name | cst.Attribute, wanted: Iterable[str]
) -> frozenset[str]:
    """Those of ``wanted`` that a name may stand for, where an import per version says what.

    Empty unless nothing else is possible. What an ``except`` imports instead is left out, and so
    is what a test excludes that the place is under as well.
    """
    if not names.qualified(node) <= frozenset(wanted) or not _all_known(names, node):
        return frozenset()
    root = _root(node)
    bindings = names.bindings(root) if root is not None else []
    taken = (b for b in bindings if tree.ancestor(b.node, cst.ExceptHandler) is None)
    possible = [b.qualified for b in taken if not contradict(tree, b.node, node)]
    rest = (dotted(node) or "").partition(".")[1:]
    return frozenset(canonical(f"{name}{''.join(rest)}") for name in possible if name)


def _all_known(names: Names, node: cst.BaseExpression) -> bool:
    root = _root(node)
    return root is not None and all(_is_known(names, binding) for binding in names.bindings(root))


def _root(node: cst.BaseExpression) -> cst.Name | None:
    while isinstance(node, cst.Attribute):
        node = node.value
    return node if isinstance(node, cst.Name) else None


def _is_known(names: Names, binding: Binding) -> bool:
    if binding.qualified is not None:
        return True
    return (
        binding.kind == "assign"
        and binding.value is not None
        and bool(names.qualified(binding.value))
    )
