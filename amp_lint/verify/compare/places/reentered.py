"""Regions that are entered in themselves."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from amp_lint.verify.compare.side import Side


def reasons(before: Side, after: Side) -> Iterator[str]:
    """Regions that are one object, and entered in themselves: autocast stays on behind those."""
    del before
    tree = after.model.tree
    for inner in tree.nodes(cst.With):
        for item in inner.items:
            if not isinstance(item.item, (cst.Name, cst.Attribute)):
                continue
            code = tree.source(item.item)
            around = (a for a in tree.ancestors(inner) if isinstance(a, cst.With))
            outer = (tree.source(each.item) for holder in around for each in holder.items)
            if code in outer and after.model.regions.of(item.item) is not None:
                yield f"line {after.line(inner)}: `{code}` is entered in itself"
