"""AMP403: the old API is asked for a TF32 setting that the new one has made."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from amp_lint._lazy import cst
from amp_lint.rule import Rule
from amp_lint.text.diagnostic import Diagnostic, Severity, quoted
from amp_lint.vocabulary.settings import FP32_PRECISION, OLD_GETTERS, OLD_SETTERS, READ_BROKEN_BY

if TYPE_CHECKING:
    from amp_lint.model import Model

_OLD = frozenset(name.rpartition(".")[2] for name in OLD_GETTERS)
_HELP = f"read `{FP32_PRECISION}` of the same backend, or set it in one way alone"


class MixedTf32Api(Rule):
    """``allow_tf32`` is read where ``fp32_precision`` was set."""

    code = "AMP403"
    name = "mixed-tf32-api"
    severity = Severity.ERROR
    preview = True
    requires = (frozenset({FP32_PRECISION}), _OLD)

    def check(self, model: Model) -> Iterator[Diagnostic]:
        """Report what raises, where nothing in the file sets it in the old way."""
        uses = [*_uses(model)]
        if any(use.name in OLD_SETTERS and use.value for use in uses):
            return
        for read in uses:
            made = [
                each for each in uses if _breaks(each, read) and _may_precede(model, each, read)
            ]
            if made:
                what = quoted(read.name.rpartition(".")[2])
                message = f"{what} raises RuntimeError where {quoted(FP32_PRECISION)} was set"
                related = [(made[0].node, f"set to {quoted(made[0].value)} here")]
                yield self.report(model, read.node, message, related, help=_HELP)


class _Use(NamedTuple):
    node: cst.BaseExpression
    name: str
    value: str
    """What it is set to, "?" if that is not known; "" where it is read."""


def _uses(model: Model) -> Iterator[_Use]:
    """Whatever in the file is an attribute of a module."""
    for node in model.tree.nodes(cst.Attribute):
        for name in model.names.qualified(node):
            parent = model.tree.parent(node)
            if isinstance(parent, cst.Call) and parent.func is node:
                yield _Use(node, name, "?" if name in OLD_SETTERS else "")
            elif isinstance(parent, cst.AssignTarget):
                assign = model.tree.parent(parent)
                values = (
                    model.values.constants(assign.value) if isinstance(assign, cst.Assign) else []
                )
                known = len(values) == 1 and isinstance(values[0], str)
                yield _Use(node, name, str(values[0]) if known else "?")
            else:
                yield _Use(node, name, "")


def _breaks(write: _Use, read: _Use) -> bool:
    return not read.value and read.name in READ_BROKEN_BY.get((write.name, write.value), ())


def _may_precede(model: Model, write: _Use, read: _Use) -> bool:
    """Whether something may be written before it is read."""
    home = model.program.function_of
    is_before = model.tree.order(write.node) < model.tree.order(read.node)
    return is_before or home(write.node) is not home(read.node)
