"""Whether an element of a distribution was picked by an index that the distribution chose."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

import libcst as cst

from amp_lint.amp.operations import Operation
from amp_lint.model import Model
from amp_lint.syntax.names import Binding, dotted
from amp_lint.syntax.references import is_read
from amp_lint.syntax.tree import descendants

_CHOICES = re.compile(r"argmax|max|multinomial|sample(_\w+)?")
"""Functions and methods whose result is never an element of probability 0."""
_ORDERS = ("argmax", "argmin", "argsort")
_MAX_STEPS = 2


class Choices:
    """Follows an index back to where it was chosen."""

    def __init__(self, model: Model) -> None:
        self.flow = model.flow

    def picks_likely(self, steps: Sequence[Operation], distribution: Operation) -> bool:
        """Whether one of ``steps`` picks by the likeliest or a sampled index.

        Args:
            steps: operations that were applied to the distribution.
            distribution: the softmax, as the last of its chain.
        """
        source = {name.value for name in self._read(distribution.node)}
        source |= {through.binding.name for step in steps for through in step.via}
        source |= {through.binding.name for through in distribution.via}
        return any(self._is_choice(index, source, _MAX_STEPS) for index in _indices(steps))

    def is_compared(self, call: cst.CSTNode) -> bool:
        """Whether only the order of a result counts: ``x.log().argmax()``."""
        parent = self.flow.tree.parent(call)
        if isinstance(parent, cst.Attribute):
            holder = self.flow.tree.parent(parent)
            called = isinstance(holder, cst.Call) and holder.func is parent
            return called and parent.attr.value in _ORDERS
        holder = self.flow.tree.parent(parent) if isinstance(parent, cst.Arg) else None
        orders = {f"torch.{name}" for name in _ORDERS}
        return isinstance(holder, cst.Call) and self.flow.names.is_any(holder.func, orders)

    def _is_choice(self, index: cst.CSTNode, source: set[str], steps: int) -> bool:
        """Whether an expression holds a choice from ``source``, and from nothing else."""
        choices = [node for node in descendants(index) if self._is_choice_call(node)]
        if choices:
            return all(self._reads(call, source, _MAX_STEPS) for call in choices)
        return steps > 0 and any(
            self._were_choices(self.flow.reaching(name), source, steps)
            for name in self._read(index)
        )

    def _is_choice_call(self, node: cst.CSTNode) -> bool:
        if not isinstance(node, cst.Call):
            return False
        func = node.func
        written = func.attr.value if isinstance(func, cst.Attribute) else dotted(func) or ""
        names = (written, *self.flow.names.qualified(func))
        return any(_CHOICES.fullmatch(name.rpartition(".")[2]) for name in names)

    def _reads(self, node: cst.CSTNode, source: set[str], steps: int) -> bool:
        """Whether an expression is of a variable in ``source``, or of one made from such."""
        return any(
            name.value in source
            or (
                steps > 0
                and any(
                    binding.value is not None and self._reads(binding.value, source, steps - 1)
                    for binding in self.flow.reaching(name)
                )
            )
            for name in self._read(node)
        )

    def _were_choices(self, bindings: Iterable[Binding], source: set[str], steps: int) -> bool:
        values = [getattr(binding.node, "value", None) for binding in bindings]
        return bool(values) and all(
            isinstance(value, cst.BaseExpression) and self._is_choice(value, source, steps - 1)
            for value in values
        )

    def _read(self, node: cst.CSTNode) -> Iterator[cst.Name]:
        """The variables in an expression: neither modules nor functions that are called."""
        for name in descendants(node):
            if isinstance(name, cst.Name) and is_read(self.flow.tree, name):
                parent = self.flow.tree.parent(name)
                called = isinstance(parent, cst.Call) and parent.func is name
                if not called and not self.flow.names.qualified(name):
                    yield name


def _indices(steps: Iterable[Operation]) -> Iterator[cst.CSTNode]:
    for step in steps:
        if isinstance(step.node, cst.Subscript):
            yield from step.node.slice
        elif step.name in ("gather", "index_select", "take_along_dim"):
            yield from (*step.args.positional, *step.args.keywords.values())
