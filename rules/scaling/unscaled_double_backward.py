"""AMP321: gradients of gradients in float16, of outputs that nothing scales."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from amp_lint.rule import Rule
from amp_lint.text.diagnostic import Applicability, Diagnostic, Severity
from amp_lint.vocabulary.meaning import Part, Role
from amp_lint.vocabulary.table import words
from amp_lint.vocabulary.training import AUTOGRAD_GRAD

if TYPE_CHECKING:
    import libcst as cst

    from amp_lint.model import Model

_MESSAGE = "this gradient is taken in float16, of what nothing scales: what is below 6e-8 is 0"
_HELP = "take it of `scaler.scale(outputs)`, and divide it by `scaler.get_scale()`"


class UnscaledDoubleBackward(Rule):
    """``torch.autograd.grad(outputs, x, create_graph=True)`` of a float16 region."""

    code = "AMP321"
    name = "unscaled-double-backward"
    severity = Severity.INFO
    preview = True
    fixes = (Applicability.SUGGEST,)
    requires = (words(Role.REGION), frozenset({AUTOGRAD_GRAD.keyword(Part.GRAPH)}))
    elsewhere = words(Role.REGION)
    calls = frozenset(AUTOGRAD_GRAD.names)

    def visit_call(self, call: cst.Call, name: str, model: Model) -> Iterator[Diagnostic]:
        """Judge one gradient of which gradients can be taken."""
        from ._penalties import fix, in_float16

        forward = in_float16(model, call)
        if forward is not None:
            node, state = forward
            related = [(node, "computed in float16")]
            if state.region is not None and model.tree.is_own(state.region):
                related.append((state.region, "autocast is on here"))
            where = f"; {state.elsewhere} so" if state.elsewhere else ""
            message = f"{_MESSAGE}{where}"
            yield self.report(model, call, message, related, fix(model, call), help=_HELP)
