"""AMP115: code uses what a GradScaler keeps to itself."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from amp_lint.edit import edits
from amp_lint.rule import Rule
from amp_lint.text.diagnostic import Applicability, Diagnostic, Fix, Severity

if TYPE_CHECKING:
    from amp_lint.model import Model

    from ._scaler_state import PrivateUse

MISSING = "it is missing in a disabled scaler"
UNSET = "it is None before the first `scale` and missing in a disabled scaler"
RAISES = "it raises in a disabled scaler"
CHANGES = "another torch may not have it"
SKIPPED = "to see a skipped step, compare `get_scale()` before and after `update()`"
TRACKER = 'read `state_dict()["_growth_tracker"]`'
OTHERWISE = (
    CHANGES,
    "use `scale`, `unscale_`, `step`, `update`, `get_scale`, `state_dict`",
)
OVERRIDDEN = "another torch may call it with other arguments, or not at all"
IN_PUBLIC = "override `unscale_`, `step` or `update`, and call that of the base"
READ = {
    "_scale": (UNSET, "read `get_scale()`"),
    "_get_scale_async": (RAISES, "read `get_scale()`"),
    "_init_scale": (MISSING, "`get_scale()` is the same before the first `scale`"),
    "_growth_factor": (MISSING, "read `get_growth_factor()`"),
    "_backoff_factor": (MISSING, "read `get_backoff_factor()`"),
    "_growth_interval": (MISSING, "read `get_growth_interval()`"),
    "_growth_tracker": (UNSET, TRACKER),
    "_get_growth_tracker": (MISSING, TRACKER),
    "_per_optimizer_states": (MISSING, SKIPPED),
    "_found_inf_per_device": (RAISES, SKIPPED),
}
"""Member -> what is wrong with reading it, and what says the same in public."""
WRITTEN = {
    "_scale": (
        "a new value between `scale` and `step` multiplies the update by old / new",
        "set it with `update(new_scale)`",
    ),
    "_growth_factor": (CHANGES, "set it with `set_growth_factor(...)`"),
    "_backoff_factor": (CHANGES, "set it with `set_backoff_factor(...)`"),
    "_growth_interval": (CHANGES, "set it with `set_growth_interval(...)`"),
    "_init_scale": (
        "it has no effect after the first `scale`",
        "set the scale with `update(new_scale)`",
    ),
    "_growth_tracker": (CHANGES, "`load_state_dict` sets it"),
    "_per_optimizer_states": (CHANGES, "`update()` resets it after `unscale_` or `step`"),
}
"""Member -> what is wrong with writing it, and what does the same in public."""


class PrivateScalerState(Rule):
    """A private member of a scaler, used from outside."""

    code = "AMP115"
    name = "private-scaler-state"
    severity = Severity.INFO
    fixes = (Applicability.SUGGEST,)
    requires = (
        frozenset(
            {
                "_scale", "_growth_tracker", "_init_scale", "_init_growth_tracker",
                "_growth_factor", "_backoff_factor", "_growth_interval", "_per_optimizer_states",
                "_found_inf_per_device", "_check_inf_per_device", "_check_scale_growth_tracker",
                "_lazy_init_scale_growth_tracker", "_get_scale_async", "_get_growth_tracker",
                "_unscale_grads_", "_maybe_opt_step",
            }
        ),
    )  # fmt: skip

    def check(self, model: Model) -> Iterator[Diagnostic]:
        """Report every such use."""
        from ._scaler_state import ScalerState

        for use in model.part(ScalerState).private_uses():
            effect, help = (WRITTEN if use.written else READ).get(use.member, OTHERWISE)
            message = f"`{use.member}` is private: {effect}"
            found = self.report(model, use.whole, message, fix=_fix(model, use), help=help)
            yield replace(found, severity=Severity.WARNING) if _steps_wrong(use) else found
        for name in model.part(ScalerState).overridden():
            message = f"`{name.value}` is private: {OVERRIDDEN}"
            yield replace(self.report(model, name, message, help=IN_PUBLIC), preview=True)


def _steps_wrong(use: PrivateUse) -> bool:
    """Whether the use may change the length of an update; others are a note."""
    return use.written and use.member == "_scale"


def _fix(model: Model, use: PrivateUse) -> Fix | None:
    """The scale as a number, where a number will do."""
    if use.member != "_scale" or not use.plain:
        return None
    scaler = model.tree.text[slice(*model.tree.outer_span(use.node.value))]
    return Fix(
        "Read the scale with `get_scale()`",
        (edits.replace_node(model.tree, use.whole, f"{scaler}.get_scale()"),),
        Applicability.SUGGEST,
    )
