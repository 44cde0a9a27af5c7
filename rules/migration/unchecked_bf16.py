"""AMP406: a check for bfloat16 that says yes where it is emulated."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from amp_lint.edit import call_edits
from amp_lint.rule import Rule
from amp_lint.text.diagnostic import Applicability, Diagnostic, Fix, Severity
from amp_lint.vocabulary.settings import (
    BF16_CHECK,
    BF16_EMULATION,
    BF16_EMULATION_SINCE,
    CAPABILITIES,
)

if TYPE_CHECKING:
    import libcst as cst

    from amp_lint.model import Model

_MESSAGE = "this is True on GPUs that only emulate bfloat16, before compute capability 8.0"
_ARGUMENT = f"{BF16_EMULATION}=False"
_WORD = BF16_CHECK.rpartition(".")[2]


class UncheckedBf16(Rule):
    """``torch.cuda.is_bf16_supported()``."""

    code = "AMP406"
    name = "unchecked-bf16"
    severity = Severity.INFO
    fixes = (Applicability.SUGGEST,)
    requires = (frozenset({_WORD}),)
    since = dict.fromkeys([_WORD], BF16_EMULATION_SINCE)
    calls = frozenset({BF16_CHECK})

    def visit_call(self, call: cst.Call, name: str, model: Model) -> Iterator[Diagnostic]:
        """Report each call that does not say what it means."""
        if model.target_torch is not None and model.target_torch < BF16_EMULATION_SINCE:
            return
        if not (call.args or _knows_capability(model, call)):
            edits = call_edits.add_keyword(model.tree, call, _ARGUMENT)
            fix = Fix("Ask for the hardware", edits, Applicability.SUGGEST)
            help = f"ask with `{_ARGUMENT}`"
            yield self.report(model, call, _MESSAGE, fix=fix, help=help)


def _knows_capability(model: Model, call: cst.Call) -> bool:
    """Whether a test of the GPU's capability decides about a place."""
    from amp_lint._lazy import cst
    from amp_lint.flow.branches import deciding

    tests = (test for test, _ in deciding(model.tree, call))
    kinds = cst.Name, cst.Call
    named = (each for test in tests for kind in kinds for each in model.tree.below(test, kind))
    values = (value for each in named for value in model.values.alternatives(each))
    return any(
        isinstance(value, cst.Call) and model.names.is_any(value.func, CAPABILITIES)
        for value in values
    )
