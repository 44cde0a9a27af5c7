"""AMP314: attention scores that overflow in float16, before they are scaled."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from amp_lint.rule import Rule
from amp_lint.text.diagnostic import Applicability, Diagnostic, Severity, quoted
from amp_lint.vocabulary import written
from amp_lint.vocabulary.operations import PRODUCTS

from ..dtypes._low import LOWERING, REGIONS, certain, elsewhere, first, shown

if TYPE_CHECKING:
    from amp_lint.amp.dtypes import Run
    from amp_lint.amp.scores import Late
    from amp_lint.model import Model

_HELP = "scale a factor, not the product: `(q * scale) @ k`"


class LateAttentionScale(Rule):
    """``(q @ k.transpose(-2, -1)) * scale`` where the product is float16."""

    code = "AMP314"
    name = "late-attention-scale"
    severity = Severity.INFO
    preview = True
    fixes = (Applicability.UNSAFE,)
    requires = (LOWERING | {"forward"}, frozenset({"softmax", "Softmax"}))
    elsewhere = REGIONS
    pattern = written.look(PRODUCTS, r"\b", r"\b") | written.pattern(r"[\w\])] ?@ ?[\w(]", "@")

    def check(self, model: Model) -> Iterator[Diagnostic]:
        """Judge every product that a softmax gets, and that is made smaller on the way."""
        if model.is_loaded:
            return  # too little, where it is not sure who runs it
        for late in model.scores.scaled_late():
            yield from first(model, late.product, self._judge, late)

    def _judge(self, model: Model, run: Run, late: Late) -> Diagnostic | None:
        from ._scaling import fix

        value = run.of(late.product)
        if not value.may_be("float16") or not certain(run, value):
            return None
        message = (
            f"{quoted(model.tree.source(late.product))} is inf in float16 above 65504, before it "
            f"is scaled{elsewhere(run)}"
        )
        related = [(late.node, "scaled here"), *shown(model, run, value)]
        return self.report(model, late.product, message, related, fix(model, late), help=_HELP)
