"""The functions, classes and the script of a file, by the names under which two texts match."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Iterator
from typing import TypeVar

import libcst as cst

from amp_lint.model import Model

T = TypeVar("T")
Unit = cst.FunctionDef | cst.ClassDef | cst.Module
SCRIPT = "<module>"


def units(model: Model) -> Iterator[tuple[str, Unit]]:
    """Every unit with its name; of several with one name, the later ones are numbered."""
    yield SCRIPT, model.tree.module
    seen: Counter[str] = Counter()
    nodes: list[cst.FunctionDef | cst.ClassDef] = [
        *model.tree.nodes(cst.FunctionDef),
        *model.tree.nodes(cst.ClassDef),
    ]
    for node in sorted(nodes, key=model.tree.order):
        name = _qualified(model, node)
        seen[name] += 1
        yield (name if seen[name] == 1 else f"{name}#{seen[name]}"), node


def common(one: Iterable[T], other: Container[T]) -> list[T]:
    """What is in both, in the order of the first: sets have another order in each process."""
    return [each for each in one if each in other]


def name_of(model: Model, node: cst.CSTNode) -> str:
    """The name of the function or class around a place."""
    for holder in model.tree.ancestors(node):
        if isinstance(holder, (cst.FunctionDef, cst.ClassDef)):
            return _qualified(model, holder)
    return SCRIPT


def _qualified(model: Model, node: cst.FunctionDef | cst.ClassDef) -> str:
    kinds = (cst.FunctionDef, cst.ClassDef)
    holders = [h.name.value for h in model.tree.ancestors(node) if isinstance(h, kinds)]
    return ".".join([*reversed(holders), node.name.value])
