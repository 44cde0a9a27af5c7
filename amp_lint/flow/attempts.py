"""Code that is run to see whether it raises, and code that runs where it has."""

from __future__ import annotations

import libcst as cst

from amp_lint.syntax.tree import Tree, descendants

_EXPECTS = frozenset(
    {"assertRaises", "assertRaisesRegex", "assertWarns", "raises", "suppress", "warns"}
)
_MISUSE = frozenset(
    {"AttributeError", "BaseException", "Exception", "RuntimeError", "TypeError", "ValueError"}
)


def is_attempt(tree: Tree, node: cst.CSTNode) -> bool:
    """Whether something in the same function expects what misuse of a library raises.

    That is a ``try`` that handles it, or ``with pytest.raises(...)`` and the like.
    """
    child = node
    for holder in tree.ancestors(node):
        if isinstance(holder, cst.Try) and child is holder.body:
            if any(map(_handles_misuse, holder.handlers)):
                return True
        elif isinstance(holder, cst.With) and any(map(_expects, holder.items)):
            return True
        elif isinstance(holder, cst.FunctionDef):
            return False
        child = holder
    return False


def is_recovery(tree: Tree, node: cst.CSTNode, within: cst.CSTNode | None = None) -> bool:
    """Whether a place is reached only where something was raised, in its function or ``within``."""
    for holder in tree.ancestors(node):
        if isinstance(holder, (cst.ExceptHandler, cst.ExceptStarHandler)):
            return True
        if holder is within or isinstance(holder, (cst.FunctionDef, cst.Lambda)):
            return False
    return False


def _handles_misuse(handler: cst.ExceptHandler) -> bool:
    """Whether a handler goes on after what misuse raises."""
    last = handler.body.body[-1]
    if isinstance(last, cst.SimpleStatementLine) and isinstance(last.body[-1], cst.Raise):
        return False
    if handler.type is None:
        return True
    return any(isinstance(n, cst.Name) and n.value in _MISUSE for n in descendants(handler.type))


def _expects(item: cst.WithItem) -> bool:
    if not isinstance(item.item, cst.Call):
        return False
    function = item.item.func
    name = function.attr if isinstance(function, cst.Attribute) else function
    return isinstance(name, cst.Name) and name.value in _EXPECTS
