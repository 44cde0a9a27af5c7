"""Whether a file may bind or ask for names of its own by their text: of the module as an object."""

from __future__ import annotations

from pathlib import PurePath

import libcst as cst

from amp_lint.flow.values import literal
from amp_lint.model import Model

_BY_TEXT = frozenset({"builtins.eval", "builtins.exec"})
_GLOBALS = frozenset({"builtins.globals"})
_SCOPES = _GLOBALS | {"builtins.dir", "builtins.locals", "builtins.vars"}
_MODULES = frozenset({"sys.modules"})
_LOADING = frozenset(
    {
        "builtins.__import__", "importlib.__import__", "importlib.import_module",
        "pkgutil.resolve_name", "pydoc.locate", "runpy.run_module", "runpy.run_path",
    }
)  # fmt: skip
"""What gives a module by its name, or what is in it."""
_MODULE_OF = frozenset({"inspect.getmodule"})
_MAIN = "__main__"
_OF_FUNCTION = ("__globals__", "func_globals")
"""The attributes of a function that have the names of its module."""


def asks_for_names(model: Model) -> bool:
    """Whether a file may bind names of its own, or ask for them, by their text."""
    tree, names = model.tree, model.names
    words = (tree.parent(word) for word in tree.named("modules"))
    of_sys = (each for each in (*words, *tree.named("modules")) if each is not None)
    texts = {node.raw_value for node in tree.nodes(cst.SimpleString)}
    return (
        any(names.is_any(each, _MODULES) for each in of_sys)
        or any(tree.named(word) or word in texts for word in _OF_FUNCTION)
        or any(_is_own(model, each.qualified or "") for each in names.every_binding())
        or any(_gives_names(model, call) for call in tree.nodes(cst.Call))
    )


def _is_own(model: Model, imported: str) -> bool:
    """Whether an import gives the module of the file itself, or something of it."""
    stem = PurePath(model.source.name).stem
    is_beside = imported.startswith(".") and imported.rpartition(".")[2] == stem
    return imported.partition(".")[0] == _MAIN or is_beside or imported == stem


def _gives_names(model: Model, call: cst.Call) -> bool:
    """Whether a call gives the names of the module, or the module."""
    known = model.names.qualified(call.func)
    if not known.isdisjoint(_LOADING):
        own = not call.args or _may_be_own(model, call.args[0].value)
        return own and not _asks_for_another(model, call)
    asked = _BY_TEXT if call.args else _scopes(model, call)
    return not known.isdisjoint(asked | _MODULE_OF)


def _asks_for_another(model: Model, call: cst.Call) -> bool:
    """Whether a module that is loaded is asked for one name at once, which the file has not."""
    holder = model.tree.parent(call)
    if not isinstance(holder, cst.Attribute):
        return False
    bound = model.names.scope_of(model.tree.module).bindings
    return holder.attr.value not in bound and not holder.attr.value.startswith("__")


def _may_be_own(model: Model, name: cst.BaseExpression) -> bool:
    """Whether a text may be the name of the file's own module."""
    text = literal(name)
    if isinstance(text, str):
        return _is_own(model, text)
    parts = name.parts if isinstance(name, cst.FormattedString) else ()
    first = parts[0] if parts else None
    return not isinstance(first, cst.FormattedStringText) or "." not in first.value


def _scopes(model: Model, call: cst.Call) -> frozenset[str]:
    """What gives the names of the module: in a function ``locals()`` gives its own."""
    inside = model.tree.ancestor(call, cst.FunctionDef, cst.Lambda) is not None
    return _GLOBALS if inside else _SCOPES
