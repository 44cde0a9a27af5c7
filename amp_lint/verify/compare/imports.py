"""What a text imports that the other one does not: it has to be there."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from amp_lint.syntax.project import OUTSIDE
from amp_lint.verify.compare.side import Side
from amp_lint.verify.compare.units import name_of
from amp_lint.verify.obligations import Import, Place

_Member = tuple[str, str]
"""A module, and a name in it or ""."""


def imports(before: Side, after: Side) -> Iterator[Import]:
    """What of torch and of Python itself only the new text imports.

    What others bring nobody answers for; an import that is tried may fail.
    """
    known = {member for member, _ in _imported(before)}
    for member, node in dict(_imported(after)).items():
        root, _, _ = member[0].partition(".")
        tried = after.model.tree.ancestor(node, cst.Try, cst.TryStar) is not None
        if member not in known and root in OUTSIDE and not tried:
            place = Place(0, after.line(node), name_of(after.model, node))
            yield Import(place, *member)


def _imported(side: Side) -> Iterator[tuple[_Member, cst.ImportAlias]]:
    source, tree = side.model.tree.source, side.model.tree
    for alias in tree.nodes(cst.ImportAlias):
        holder = tree.parent(alias)
        if isinstance(holder, cst.Import):
            yield (source(alias.name), ""), alias
        elif isinstance(holder, cst.ImportFrom) and holder.module and not holder.relative:
            yield (source(holder.module), source(alias.name)), alias
