"""What a text imports that the other one does not: it has to be there."""

from __future__ import annotations

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

    What others bring nobody answers for; an import that is tried may fail.
    """
    known = {member for member, _ in _imported(before)}
    for member, node in dict(_imported(after)).items():
        tried = after.model.tree.ancestor(node, cst.Try, cst.TryStar) is not None
        idle = is_idle(".".join(filter(None, member)))
        if member not in known and idle and not tried and not hides(after, node):
            place = Place(0, after.line(node), name_of(after.model, node))
            yield Import(place, *member)


def hides(side: Side, alias: cst.ImportAlias) -> bool:
    """Whether an import makes a name of the module one of a function: it has no value before."""
    tree = side.model.tree
    if tree.ancestor(alias, cst.FunctionDef) is None:
        return False
    bound = alias.asname.name if alias.asname is not None else alias.name
    name = tree.source(bound).partition(".")[0]
    return name in side.model.names.scope_of(tree.module).bindings


def _imported(side: Side) -> Iterator[tuple[_Member, cst.ImportAlias]]:
    source, tree = side.model.tree.source, side.model.tree
    for alias in tree.nodes(cst.ImportAlias):
        holder = tree.parent(alias)
        if isinstance(holder, cst.Import):
            yield (source(alias.name), ""), alias
        elif isinstance(holder, cst.ImportFrom) and holder.module and not holder.relative:
            yield (source(holder.module), source(alias.name)), alias
