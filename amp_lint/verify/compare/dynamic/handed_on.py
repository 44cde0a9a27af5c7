"""Functions and classes that are handed on, to what may ask for their annotations or docstrings."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from amp_lint.model import Model
from amp_lint.syntax.names import callee
from amp_lint.syntax.references import is_read, reference
from amp_lint.vocabulary.purity import ASKING, hands_on

_UNSEEN = ("annotation", "base", "call", "decorator", "type")
"""What becomes of a function or class that nobody asks what it says of itself."""
_ONLY_LOOKING = ASKING - {"builtins.dir", "builtins.getattr", "builtins.vars"} | {"builtins.super"}
_READING = ("torch.jit.", "torch.library.", "torch._library.")
"""Where functions of torch are that read the annotations of those which they are given."""


def handed_on(model: Model) -> Iterator[int | str]:
    """The functions and classes, by id, that are read for more than to call them; or by name."""
    for name in _defined(model):
        for word in model.tree.named(name):
            holder = model.tree.parent(word)
            node = holder if isinstance(holder, cst.Attribute) and holder.attr is word else word
            if isinstance(node, (cst.Name, cst.Attribute)) and _is_handed_on(model, node):
                bindings = model.names.bindings(node) if isinstance(node, cst.Name) else ()
                yield from (id(each.node) for each in bindings)
                yield from (name,) if isinstance(node, cst.Attribute) else ()


def is_kept(model: Model, holder: cst.FunctionDef | cst.ClassDef) -> bool:
    """Whether a decorator may keep a function or class, or the class around it, and look at it."""
    around = model.tree.ancestor(holder, cst.ClassDef)
    given = around.decorators if around is not None else ()
    called = (callee(each.decorator) for each in given)
    known = (model.names.qualified(each) for each in called)
    return bool(holder.decorators) or not all(
        names and all(map(_hands_on, names)) for names in known
    )


def _hands_on(decorator: str) -> bool:
    return hands_on(decorator) or decorator.startswith(("dataclasses.", "enum."))


def _defined(model: Model) -> set[str]:
    return {
        *(each.name.value for each in model.tree.nodes(cst.FunctionDef)),
        *(each.name.value for each in model.tree.nodes(cst.ClassDef)),
    }


def _is_handed_on(model: Model, node: cst.Name | cst.Attribute) -> bool:
    tree, names = model.tree, model.names
    if not is_read(tree, node) or reference(tree, names, node, "").role in _UNSEEN:
        return False
    holder = tree.parent(node)
    if isinstance(holder, cst.Attribute):
        return holder.attr.value.startswith("__")  # else a member of a class
    call = tree.parent(holder) if isinstance(holder, cst.Arg) else None
    takers = names.qualified(call.func) if isinstance(call, cst.Call) else frozenset()
    return not takers or not all(map(_only_calls, takers))


def _only_calls(taker: str) -> bool:
    """Whether a function, by its qualified name, does no more with one than to call it."""
    is_torch = taker.startswith("torch.") and not taker.startswith(_READING)
    return is_torch or taker in _ONLY_LOOKING
