"""Which device a file runs on, as far as it says."""

from __future__ import annotations

import functools

import libcst as cst

from amp_lint.flow.values import literal
from amp_lint.syntax.names import Names
from amp_lint.syntax.tree import Tree

TYPES = frozenset({"cpu", "cuda", "hpu", "mps", "mtia", "npu", "privateuseone", "xla", "xpu"})
"""What torch calls device types."""


class Devices:
    """Collects device types: in strings, in names such as ``torch.mps``, in calls of ``cuda``."""

    def __init__(self, tree: Tree, names: Names) -> None:
        self.tree = tree
        self.names = names

    @functools.cached_property
    def mentioned(self) -> frozenset[str]:
        """The device types that the file names somewhere."""
        found = {_type(literal(text)) for text in self.tree.nodes(cst.SimpleString)}
        found |= {node.attr.value for node in self.tree.nodes(cst.Attribute)}
        for binding in self.names.every_binding():
            found |= set((binding.qualified or "").split("."))
        return frozenset(found) & TYPES

    @property
    def only_cuda(self) -> bool:
        """Whether the file names CUDA, and no other accelerator."""
        return self.mentioned - {"cpu"} == {"cuda"}


def _type(text: object) -> str:
    """``cuda`` of ``"cuda:0"``."""
    return text.partition(":")[0] if isinstance(text, str) else ""
