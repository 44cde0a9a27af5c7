"""What is asked of the class of a scaler, other than by a test that is compared."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from amp_lint.syntax.names import callee
from amp_lint.verify.compare.side import Side
from amp_lint.vocabulary.amp import GRAD_SCALER

_ASKED = ("__module__", "__mro__", "mro")


def reasons(before: Side, after: Side) -> Iterator[str]:
    """Scalers of another class, where something may tell it from the old one."""
    old, new = ({*_made(side)} for side in (before, after))
    if old == new or not old or not new:
        return
    tree = after.model.tree
    for node in (each for name in _ASKED for each in tree.named(name)):
        yield f"line {after.line(node)}: a class is asked for `{node.value}`"
    for use in after.uses:
        if use.use.kind == "annotation" and use.use.name in old - new:
            function = after.units.get(use.function)
            if isinstance(function, cst.FunctionDef) and any(map(_is_free, function.decorators)):
                yield f"line {use.line}: a decorator may ask for `{use.use.name}`"


def _made(side: Side) -> Iterator[str]:
    """The classes of the scalers that are made."""
    for use in side.uses:
        if use.use.kind in ("call", "partial") and use.member == GRAD_SCALER.word:
            yield use.use.name


def _is_free(decorator: cst.Decorator) -> bool:
    """Whether a decorator may do anything: not one of the language, nor a context of torch."""
    func = callee(decorator.decorator)
    name = func.attr.value if isinstance(func, cst.Attribute) else getattr(func, "value", "")
    return name not in ("classmethod", "no_grad", "inference_mode", "property", "staticmethod")
