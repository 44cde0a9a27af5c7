"""AMP505: buffers of rotary embeddings that FSDP or a cast rounds or makes real."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from amp_lint._lazy import cst
from amp_lint.edit import edits
from amp_lint.rule import Rule
from amp_lint.text.diagnostic import Applicability, Diagnostic, Fix, Severity
from amp_lint.vocabulary import written
from amp_lint.vocabulary.frameworks import FSDP_PRECISION, FSDP_WORD

if TYPE_CHECKING:
    from amp_lint.model import Model

    from ._buffers import Rounding


class RoundedBuffers(Rule):
    """``MixedPrecision(buffer_dtype=torch.bfloat16)`` where a model keeps frequencies."""

    code = "AMP505"
    name = "rounded-buffers"
    severity = Severity.WARNING
    preview = True
    fixes = (Applicability.SUGGEST,)
    requires = (
        written.HALVES | {FSDP_WORD, "dtype"},
        frozenset({FSDP_WORD}) | written.KEEPS_BUFFER,
    )
    reads_models = True
    called_for = written.look({FSDP_WORD}, r"\b", r"\(") | written.CASTS_MODEL
    calls = frozenset(FSDP_PRECISION.names)

    def visit_call(self, call: cst.Call, name: str, model: Model) -> Iterator[Diagnostic]:
        """Report a dtype of 16 bits for buffers, where frequencies are among them."""
        from ._buffers import by_fsdp

        if (found := by_fsdp(model, call)) is not None:
            yield self._found(model, found, _fix(model, found.node))

    def check(self, model: Model) -> Iterator[Diagnostic]:
        """Report a cast of a model that keeps frequencies, or complex numbers, in a part of it."""
        from ._buffers import by_casts

        yield from (self._found(model, each) for each in by_casts(model))

    def _found(self, model: Model, found: Rounding, fix: Fix | None = None) -> Diagnostic:
        what, message, help = found.told
        related = [(found.kept, f"{what} kept here")] if model.tree.is_own(found.kept) else []
        return self.report(model, found.node, message, related, fix, help=help)


def _fix(model: Model, given: cst.BaseExpression) -> Fix | None:
    """``buffer_dtype=torch.float32``, where the dtype stands in the call."""
    wide = model.names.spelling_of(given, "torch.float32")
    if wide is None or not isinstance(given, cst.Attribute):
        return None
    change = edits.replace_node(model.tree, given, wide)
    return Fix("Keep buffers in float32", (change,), Applicability.SUGGEST)
