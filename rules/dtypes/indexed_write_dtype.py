"""AMP320: values of another dtype are written by index."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from amp_lint._lazy import cst
from amp_lint.rule import Rule
from amp_lint.text.diagnostic import Diagnostic, Severity
from amp_lint.vocabulary import written
from amp_lint.vocabulary.operations import INDEXED_WRITES

from ._low import LOWERING, REGIONS, elsewhere, first, shown

if TYPE_CHECKING:
    from amp_lint.amp.dtypes import Run, Value
    from amp_lint.model import Model

_INDICES = frozenset({"bool", "int64", "int32", "uint8"})


class _Write(NamedTuple):
    """Something written by index into a tensor."""

    node: cst.BaseExpression
    tensor: cst.BaseExpression
    value: cst.BaseExpression


class IndexedWriteDtype(Rule):
    """``buffer[mask] = value`` of two dtypes."""

    code = "AMP320"
    name = "indexed-write-dtype"
    severity = Severity.ERROR
    preview = True
    requires = (LOWERING,)
    elsewhere = REGIONS
    pattern = written.pattern(r"\]\s*=[^=]", "]") | written.look(INDEXED_WRITES)

    def check(self, model: Model) -> Iterator[Diagnostic]:
        """Judge every write by a mask, or by a tensor of indices."""
        for write in _writes(model):
            yield from first(model, write.node, self._judge, write)

    def _judge(self, model: Model, run: Run, write: _Write) -> Diagnostic | None:
        target, value = run.of(write.tensor), run.of(write.value)
        into, given = _only(target), _only(value)
        if into is None or given is None or into == given:
            return None
        if not {into, given} & {"float16", "bfloat16"} or value.dims.name == "NONE":
            return None
        if isinstance(write.node, cst.Subscript) and not _is_by_tensor(run, write.node):
            return None
        message = (
            f"writing {given} values by index into a {into} tensor raises RuntimeError"
            f"{elsewhere(run)}"
        )
        low = value if value.low else target
        help = f"write `.to({into})` of them, or make the tensor {given}"
        return self.report(model, write.value, message, shown(model, run, low), help=help)


def _only(value: Value) -> str | None:
    """The one dtype that a tensor is known to have, where it is floating point."""
    known = sorted(value.dtypes - {"?"}) if value.is_tensor else []
    return known[0] if len(known) == 1 and "float" in known[0] else None


def _is_by_tensor(run: Run, node: cst.Subscript) -> bool:
    """Whether an index is certainly a mask or a tensor of indices."""
    indices = [each.slice.value for each in node.slice if isinstance(each.slice, cst.Index)]
    values = [run.of(index) for index in indices]
    return any(isinstance(index, cst.Comparison) for index in indices) or any(
        value.is_known and value.dtypes <= _INDICES for value in values
    )


def _writes(model: Model) -> Iterator[_Write]:
    for assign in model.tree.nodes(cst.Assign):
        for target in assign.targets:
            if isinstance(target.target, cst.Subscript):
                yield _Write(target.target, target.target.value, assign.value)
    for call in model.tree.nodes(cst.Call):
        func = call.func
        if isinstance(func, cst.Attribute) and func.attr.value in INDEXED_WRITES:
            place = INDEXED_WRITES[func.attr.value]
            value = model.values.argument(call, place, "src") or model.values.argument(
                call, None, "source"
            )
            if value is not None:
                yield _Write(call, func.value, value)
