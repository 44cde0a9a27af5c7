"""Subtrees as ranges of source order: what lies below a node is a slice, not a search."""

from __future__ import annotations

import bisect
from collections.abc import Sequence
from typing import TypeVar

import libcst as cst

from amp_lint.tree import Tree, children

Node = TypeVar("Node", bound=cst.CSTNode)


class Extents:
    """Where subtrees begin and end in the order of a tree."""

    def __init__(self, tree: Tree) -> None:
        self.tree = tree
        self._ends: dict[int, int] = {}
        self._ranks: dict[type[cst.CSTNode], list[int]] = {}

    def end(self, node: cst.CSTNode) -> int:
        """The rank after that of the last node below ``node``."""
        known = self._ends.get(id(node))
        if known is None:
            last = node
            while below := tuple(children(last)):
                last = below[-1]
            known = self._ends[id(node)] = self.tree.order(last) + 1
        return known

    def contains(self, outer: cst.CSTNode, inner: cst.CSTNode) -> bool:
        """Whether ``inner`` is ``outer`` or lies below it."""
        return self.tree.order(outer) <= self.tree.order(inner) < self.end(outer)

    def below(self, node: cst.CSTNode, kind: type[Node]) -> Sequence[Node]:
        """The nodes of exactly this type in a subtree, its root included, in source order."""
        nodes = self.tree.nodes(kind)
        if kind not in self._ranks:
            self._ranks[kind] = [self.tree.order(each) for each in nodes]
        ranks = self._ranks[kind]
        first = bisect.bisect_left(ranks, self.tree.order(node))
        return nodes[first : bisect.bisect_left(ranks, self.end(node))]
