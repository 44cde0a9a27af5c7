"""AMP211: a Function whose tensors autocast makes two dtypes of."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from amp_lint._lazy import cst
from amp_lint.rule import Rule
from amp_lint.text.diagnostic import Diagnostic, Severity
from amp_lint.vocabulary.amp import CUSTOM_BWD, CUSTOM_FWD
from amp_lint.vocabulary.meaning import Role
from amp_lint.vocabulary.operations import FUNCTION_METHODS
from amp_lint.vocabulary.table import words

if TYPE_CHECKING:
    from amp_lint.model import Model

_MISPLACED = (
    "`custom_bwd` in the place of `custom_fwd`: `backward` raises AttributeError",
    "`custom_fwd` restores nothing: `backward` runs with autocast as it finds it",
)
"""What a wrong decorator of each of ``FUNCTION_METHODS`` does."""
_HELP = "decorate forward with `torch.amp.custom_fwd` and backward with `custom_bwd`"


class FunctionWithoutCustomFwd(Rule):
    """``class Product(Function)`` whose backward multiplies two dtypes."""

    code = "AMP211"
    name = "function-without-custom-fwd"
    severity = Severity.WARNING
    preview = True
    requires = (
        frozenset({"Function"}),
        frozenset({"save_for_backward", "apply"}) | CUSTOM_FWD.words | CUSTOM_BWD.words,
    )
    elsewhere = words(Role.REGION)

    def check(self, model: Model) -> Iterator[Diagnostic]:
        """Judge each Function that is not decorated, and casts nothing."""
        from . import _functions, _recomputed

        for owner in model.tree.nodes(cst.ClassDef):
            for method, decorator in _functions.misplaced(model, owner):
                message = _MISPLACED[FUNCTION_METHODS.index(method)]
                yield self.report(model, decorator.decorator, message, help=_HELP)
            function = _functions.function_of(model, owner)
            if function is None:
                continue
            mixed = _functions.mixed_product(model, function)
            if mixed is not None:
                message = (
                    "under autocast this multiplies a gradient in float16 by what was saved in "
                    "float32, and raises"
                )
                applied = [(mixed.applied, "this gives it both")] if mixed.applied else []
                yield self.report(model, mixed.product, message, applied, help=_HELP)
            elif (given := _functions.mixed_call(model, owner, function)) is not None:
                yield self.report(model, *_functions.said(given), help=_HELP)
            elif (again := _recomputed.found(model, owner, function)) is not None:
                yield self.report(model, *again, help=_recomputed.HELP)
