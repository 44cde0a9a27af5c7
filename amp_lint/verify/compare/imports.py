"""What a text imports that the other one does not: it has to be there."""

from __future__ import annotations

import builtins
import sys
from collections.abc import Iterator

import libcst as cst

from amp_lint.verify.compare.side import Side
from amp_lint.verify.compare.units import name_of
from amp_lint.verify.obligations import Import, Place

_Member = tuple[str, str]
"""A module, and a name in it or ""."""
_DOING = frozenset(
    {"antigravity", "idlelib", "readline", "rlcompleter", "site", "test", "this", "turtle",
     "turtledemo"}
)  # fmt: skip
"""Modules of Python itself whose import does something."""


def is_idle(whole: str) -> bool:
    """Whether the import of a dotted name is known to do nothing: of torch, or of Python itself.

    Not so what begins with an underscore: ``unittest.__main__`` runs tests. An experiment imports
    what is idle, to see whether it is there.
    """
    root, *_ = parts = whole.split(".")
    is_known = root == "torch" or root in sys.stdlib_module_names - _DOING
    return is_known and not any(part.startswith("_") for part in parts)


def imports(before: Side, after: Side) -> Iterator[Import]:
    """What only the new text imports, and does nothing.

    What others bring nobody answers for; an import that is tried may fail, and one in a function
    may not have run, but where the new text has it there as well.
    """
    known = {member for member, node in _imported(before) if _is_run(before, node)}
    kept = {(member, *_place(before, node)) for member, node in _imported(before)}
    for member, node in dict(_imported(after)).items():
        is_kept = member in known or (member, *_place(after, node)) in kept
        if not is_kept and is_tried(after, node, ".".join(filter(None, member))):
            place = Place(0, after.line(node), name_of(after.model, node))
            yield Import(place, *member)


def is_tried(side: Side, alias: cst.ImportAlias, whole: str) -> bool:
    """Whether an experiment asks if what is imported is there, unless the other text has it."""
    tried = side.model.tree.ancestor(alias, cst.Try, cst.TryStar) is not None
    return is_idle(whole) and not tried and not hides(side, alias)


def _is_run(side: Side, node: cst.CSTNode) -> bool:
    """Whether code runs whenever the file does, and its errors are seen."""
    inner = cst.Try, cst.TryStar, cst.If, cst.FunctionDef, cst.For, cst.While
    return side.model.tree.ancestor(node, *inner) is None


def _place(side: Side, node: cst.CSTNode) -> tuple[str, ...]:
    """In which function something stands, and in which statements there."""
    around = (type(holder).__name__ for holder in side.model.tree.ancestors(node))
    return name_of(side.model, node), *around


def hides(side: Side, alias: cst.ImportAlias) -> bool:
    """Whether an import makes a name from around a function one of it: it has no value before."""
    tree = side.model.tree
    if tree.ancestor(alias, cst.FunctionDef) is None:
        return False
    bound = alias.asname.name if alias.asname is not None else alias.name
    name = tree.source(bound).partition(".")[0]
    scope = side.model.names.scope(alias).parent
    while scope is not None:
        if name in scope.bindings:
            return True
        scope = scope.parent
    return False


def keeps_names(before: Side, after: Side, alias: cst.ImportAlias) -> bool:
    """Whether an import gives a name to what the old text calls by it, if it calls it anything."""
    tree, names = before.model.tree, before.model.names
    if isinstance(after.model.names.scope(alias).node, cst.ClassDef):
        return False  # it is an attribute, and others may ask for one of that name
    (binding,) = (each for each in after.model.names.every_binding() if each.node is alias)
    known = [each for each in names.every_binding() if each.name == binding.name]
    if any(each.qualified != binding.qualified for each in known):
        return False
    holders = ((each, tree.parent(each)) for each in tree.named(binding.name))
    is_new = all(isinstance(holder, cst.Attribute) and holder.attr is n for n, holder in holders)
    may_be_known = known or names.module.star_imports or hasattr(builtins, binding.name)
    return is_new or not may_be_known or binding.name == binding.qualified


def _imported(side: Side) -> Iterator[tuple[_Member, cst.ImportAlias]]:
    source, tree = side.model.tree.source, side.model.tree
    for alias in tree.nodes(cst.ImportAlias):
        holder = tree.parent(alias)
        if isinstance(holder, cst.Import):
            yield (source(alias.name), ""), alias
        elif isinstance(holder, cst.ImportFrom) and holder.module and not holder.relative:
            yield (source(holder.module), source(alias.name)), alias
