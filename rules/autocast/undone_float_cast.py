"""AMP205: a cast to float32 that autocast undoes."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

from amp_lint._lazy import cst
from amp_lint.rule import Rule
from amp_lint.text.diagnostic import Diagnostic, Severity
from amp_lint.vocabulary import written
from amp_lint.vocabulary.meaning import Role
from amp_lint.vocabulary.table import words

if TYPE_CHECKING:
    from amp_lint.amp.reach import Chain
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
    elsewhere = words(Role.REGION)
    reads_models = True
    called_for = written.look({"bmm", "einsum", "matmul"}, r"\b", r"\(")

    def check(self, model: Model) -> Iterator[Diagnostic]:
        """Report products all of whose factors were cast for it, or are parameters.

        Those too that another file of the project may run in a region. And casts that are dropped.
        """
        from ._dropped import dropped

        for call, message, help in dropped(model):
            yield self.report(model, call, message, help=help)
        for product in model.casts.products:
            casts: list[tuple[cst.CSTNode, str]] = [(c, "cast to float32") for c in product.casts]
            chain = next(filter(partial(_is_low, model), model.reach.running(product.node)), None)
            if chain is not None:
                related = [(chain.entered[0].region.node, "autocast is on here"), *casts]
                related += [(call, "this runs it") for call in chain.calls]
                yield self.report(model, product.node, MESSAGE, related, help=HELP)
            elif place := _elsewhere(model, product.node):
                message = f"{MESSAGE}; {place} may run it so"
                yield self.report(model, product.node, message, casts, help=HELP)


def _is_low(model: Model, chain: Chain) -> bool:
    dtype = chain.entered[0].region.dtype
    return dtype is None or not model.names.is_any(dtype, _WIDE)


def _elsewhere(model: Model, node: cst.CSTNode) -> str:
    """Where else it may run under autocast, if no decorator of its function may turn that off."""
    from ._elsewhere import is_decorated, runs_elsewhere

    return "" if is_decorated(model, node) else runs_elsewhere(model, node)
