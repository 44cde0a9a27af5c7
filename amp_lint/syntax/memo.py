"""Remembers what a method says of a node, for all that ask again."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TypeVar

Owner = TypeVar("Owner")
Node = TypeVar("Node")
Answer = TypeVar("Answer")


def per_node(method: Callable[[Owner, Node], Answer]) -> Callable[[Owner, Node], Answer]:
    """A method that works out its answer once for each object and node.

    The answer must not depend on anything that changes. The node is kept with it, so that another
    at the same address is not mistaken for it.
    """
    key = f"{method.__name__} of node"

    @functools.wraps(method)
    def known(owner: Owner, node: Node) -> Answer:
        answers: dict[int, tuple[Node, Answer]] | None = vars(owner).get(key)
        if answers is None:
            answers = vars(owner)[key] = {}
        found = answers.get(id(node))
        if found is None:
            found = answers[id(node)] = node, method(owner, node)
        return found[1]

    return known
