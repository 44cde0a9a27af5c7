"""AMP211: a Function whose tensors autocast makes two dtypes of."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from amp_lint._lazy import cst
from amp_lint.rule import Rule
from amp_lint.text.diagnostic import Diagnostic, Severity, quoted
from amp_lint.vocabulary.amp import CUSTOM_BWD, CUSTOM_FWD
from amp_lint.vocabulary.meaning import Role
from amp_lint.vocabulary.operations import FUNCTION_METHODS
from amp_lint.vocabulary.table import words

if TYPE_CHECKING:
    from amp_lint.model import Model

    from ._functions import Given

_MISPLACED = (
    "`custom_bwd` in the place of `custom_fwd`: `backward` raises AttributeError",
    "`custom_fwd` restores nothing: `backward` runs with autocast as it finds it",
)
"""What a wrong decorator of each of ``FUNCTION_METHODS`` does."""
_HELP = "decorate forward with `torch.amp.custom_fwd` and backward with `custom_bwd`"


_AGAIN = (
    "autocast is off in backward: this is computed again in float32, or raises where the input "
    "is float16"
)
_HELP_AGAIN = "use `torch.utils.checkpoint.checkpoint`, or enter autocast here as well"


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
        from . import _functions

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
                yield self._mixed(model, given)
            elif (again := _functions.recomputed(model, function)) is not None:
                yield from self._recomputed(model, owner, again)

    def _recomputed(
        self, model: Model, owner: cst.ClassDef, again: cst.Call
    ) -> Iterator[Diagnostic]:
        """What runs in backward without the region that it ran in before, if there is one."""
        from ._elsewhere import shown_place
        from ._functions import applied

        calls = [*applied(model, owner)]
        chain = next((c for call in calls for c in model.reach.running(call)), None)
        if chain is not None:
            related = [(chain.entered[0].region.node, "autocast is on here")]
            yield self.report(model, again, _AGAIN, related, help=_HELP_AGAIN)
        elif calls and (trainer := model.trainer) is not None:
            message = f"{_AGAIN}; {shown_place(trainer)} may run it so"
            yield self.report(model, again, message, help=_HELP_AGAIN)

    def _mixed(self, model: Model, given: Given) -> Diagnostic:
        """A call that is given two dtypes, or a cast of some of what it is given."""
        if given.left:
            message = f"{quoted(given.left)} is not cast, as this is that goes with it"
            related = [(given.call, "this is given both")]
            return self.report(model, given.source, message, related, help=_HELP)
        message = "autocast makes float16 of some of these tensors, and not of others"
        related = [(given.source, "this is what it is given")]
        return self.report(model, given.call, message, related, help=_HELP)
