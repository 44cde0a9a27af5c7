"""AMP320: values of another dtype are written by index."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from amp_lint._lazy import cst
from amp_lint.rule import Rule
from amp_lint.text.diagnostic import Applicability, Diagnostic, Fix, Severity, quoted
from amp_lint.vocabulary import written
from amp_lint.vocabulary.operations import INDEXED_WRITES, LIKE, NEW

from ._low import LOWERING, REGIONS, cast, certain, elsewhere, first, shown

if TYPE_CHECKING:
    from amp_lint.amp.dtypes import Run, Value
    from amp_lint.model import Model
    from amp_lint.syntax.facts import Facts

_INDICES = frozenset({"bool", "int64", "int32", "uint8"})


_BY_NAME = r"\[[^\]\"'\n]*[A-Za-z_][^\]\"'\n]*\]+\s*=[^=]"
"""A subscript of something that may be a tensor, assigned."""


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
    fixes = (Applicability.SUGGEST,)
    requires = (LOWERING.union(INDEXED_WRITES, {"forward"}),)
    elsewhere = REGIONS
    reads_models = True
    pattern = written.pattern(_BY_NAME, "]") | written.look(INDEXED_WRITES)
    called_for = written.look(INDEXED_WRITES, r"\b", r"\(") | written.pattern(
        r"(?:mask|idx|ind|indices|index|keep|valid)\w{0,20}\]\s*=(?!=)", "]"
    )

    def may(self, facts: Facts) -> bool:
        """Whether there may be anything low, or what is made or written as modules do it."""
        words = facts.words | facts.linked
        if not LOWERING.isdisjoint(words):
            return True
        indexed = not facts.calls.keys().isdisjoint(INDEXED_WRITES)
        return "forward" in words and (indexed or not facts.calls.keys().isdisjoint(NEW | LIKE))

    def check(self, model: Model) -> Iterator[Diagnostic]:
        """Judge every write by a mask, or by a tensor of indices."""
        for write in _writes(model):
            yield from first(model, write.node, self._judge, write, supposing=True)

    def _judge(self, model: Model, run: Run, write: _Write) -> Diagnostic | None:
        target, value = run.of(write.tensor), run.of(write.value)
        into, given = _only(run, target), _only(run, value)
        if value.follows and value.dtypes == {"?"} and not target.follows:
            return self._kept(model, run, write, value.follows)
        if given is None or into == given or value.dims.name == "NONE":
            return None
        if isinstance(write.node, cst.Subscript) and not _is_by_tensor(run, write.node):
            return None
        if into is None:
            return self._follows(model, run, write, given)
        if not (target.low or value.low):
            return None
        message = (
            f"writing {given} values by index into a {into} tensor raises RuntimeError"
            f"{elsewhere(run)}"
        )
        low = value if value.low else target
        help = f"write `.to(torch.{into})` of them, or make the tensor {given}"
        fix = _fix(model, write)
        return self.report(model, write.value, message, shown(model, run, low), fix, help=help)

    def _kept(self, model: Model, run: Run, write: _Write, follows: str) -> Diagnostic | None:
        """What a module is given, written into a buffer that was made before, as a cache."""
        state, tensor = run.state(write.node), write.tensor
        if not isinstance(tensor, cst.Attribute) or not model.dtypes.is_buffer(tensor):
            return None
        if state is None or not state.is_on or not isinstance(write.node, cst.Call):
            return None
        buffer = quoted(model.tree.source(tensor))
        message = (
            f"this raises where autocast gave {quoted(follows)} another dtype than {buffer} was "
            f"made in{elsewhere(run)}"
        )
        help = f"write `.to({buffer[1:-1]}.dtype)` of it"
        found = self.report(model, write.value, message, fix=_fix(model, write), help=help)
        return replace(found, severity=Severity.WARNING)

    def _follows(self, model: Model, run: Run, write: _Write, given: str) -> Diagnostic | None:
        """Values of one dtype, written into a tensor that has the dtype of a parameter."""
        from amp_lint.syntax.names import dotted

        target, value = run.of(write.tensor), run.of(write.value)
        written = write.value.func if isinstance(write.value, cst.Call) else None
        made = isinstance(written, cst.Attribute) and written.attr.value == "float"
        if dotted(write.tensor) == target.follows or not (target.follows and value.is_known):
            return None
        read = {name.value for name in model.tree.below(write.value, cst.Name)}
        if not (made or (value.low and target.follows in read)):
            return None
        other = f"not {given}" if value.low else "float16"
        message = (
            f"{given} values written by index raise where {quoted(target.follows)} "
            f"is {other}{elsewhere(run)}"
        )
        help = f"write `.to({quoted(model.tree.source(write.tensor))[1:-1]}.dtype)` of them"
        related, fix = shown(model, run, value), _fix(model, write)
        found = self.report(model, write.value, message, related, fix, help=help)
        return replace(found, severity=Severity.WARNING)


def _fix(model: Model, write: _Write) -> Fix | None:
    """Give the values the dtype of the tensor, where that has a name."""
    from amp_lint.syntax.names import dotted

    name = dotted(write.tensor)
    if name is None:
        return None
    edits = cast(model, write.value, f"to({name}.dtype)")
    return Fix("Cast what is written", edits, Applicability.SUGGEST)


def _only(run: Run, value: Value) -> str | None:
    """The one dtype that a tensor is known to have, where it is floating point."""
    if not certain(run, value):
        return None
    known = sorted(value.dtypes - {"?"}) if value.is_tensor else []
    return known[0] if len(known) == 1 and "float" in known[0] else None


def _is_by_tensor(run: Run, node: cst.Subscript) -> bool:
    """Whether an index is certainly a mask or a tensor of indices."""
    indices = [each.slice.value for each in node.slice if isinstance(each.slice, cst.Index)]
    values = [run.of(index) for index in indices]
    return any(isinstance(index, cst.Comparison) for index in indices) or any(
        value.may_be("bool") or (value.is_known and value.dtypes <= _INDICES) for value in values
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
