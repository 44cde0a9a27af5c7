"""AMP205: a cast to float32 that autocast undoes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from amp_lint.rule import Rule
from amp_lint.text.diagnostic import Diagnostic, Severity
from amp_lint.vocabulary.meaning import Role
from amp_lint.vocabulary.table import words

if TYPE_CHECKING:
    from amp_lint._lazy import cst
    from amp_lint.model import Model

_WIDE = frozenset({"torch.double", "torch.float", "torch.float32", "torch.float64"})
MESSAGE = (
    "autocast casts both factors back: this product is computed in low precision, not in float32"
)
HELP = "compute it under `autocast(enabled=False)`"


class UndoneFloatCast(Rule):
    """A product of float32 casts that runs with autocast on."""

    code = "AMP205"
    name = "undone-float-cast"
    severity = Severity.WARNING
    preview = True
    requires = (words(Role.REGION), frozenset({"float", "float32"}))

    def check(self, model: Model) -> Iterator[Diagnostic]:
        """Report products all of whose factors were cast for it."""
        for product in model.casts.products:
            for chain in model.reach.running(product.node):
                region = chain.entered[0].region
                if region.dtype is not None and model.names.is_any(region.dtype, _WIDE):
                    continue
                related: list[tuple[cst.CSTNode, str]] = [(region.node, "autocast is on here")]
                related += [(cast, "cast to float32") for cast in product.casts]
                related += [(call, "this runs it") for call in chain.calls]
                yield self.report(model, product.node, MESSAGE, related, help=HELP)
                break
