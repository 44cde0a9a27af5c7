"""AMP202: an optimizer steps inside an autocast region before another forward."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from amp_lint._lazy import cst
from amp_lint.edit.call_edits import set_keyword
from amp_lint.mistake import Account, At, Mistake
from amp_lint.rule import Rule
from amp_lint.text.diagnostic import Applicability, Diagnostic, Edit, Fix, Severity
from amp_lint.vocabulary.amp import AUTOCAST, LEFT_IN_BACKWARD, RECOMPUTED
from amp_lint.vocabulary.meaning import Kind, Part, Role
from amp_lint.vocabulary.table import words

if TYPE_CHECKING:
    from amp_lint.model import Model
    from amp_lint.walk.caches import StaleCast

_LOOP = (
    "the model stops learning: every round in this region computes with copies of the first "
    "weights",
    "open the region inside the loop, around the forward",
)
_NEXT = (
    "the next forward in this region ignores this step: it computes with copies of the old weights",
    "close the region before the step",
)
"""What happens, and what to do."""
_BEGINS = "the region begins here"
_OWN = "this region keeps casts whatever the one around it says"


class StepInAutocast(Rule):
    """A step after which autocast goes on using casts of the old weights."""

    code = "AMP202"
    name = "step-in-autocast"
    severity = Severity.ERROR
    fixes = (Applicability.SAFE,)
    requires = (words(Role.REGION), words(Kind.STEP), words(Kind.BACKWARD))
    observed = (
        Account(
            Mistake.STEP_IN_REGION,
            *_NEXT,
            {At.REGION: _BEGINS, At.CAUSE: "a forward after the step led here"},
        ),
    )

    def check(self, model: Model) -> Iterator[Diagnostic]:
        """Report every step inside a region in which another forward follows."""
        found = model.caches.stale
        for stale in () if found and _drops_casts(model) else found:
            forward = [] if stale.loops else [(stale.forward, "another forward was run for this")]
            own = [(each.node, _OWN) for each in stale.own if model.tree.is_own(each.node)]
            related = [(stale.region.node, _BEGINS), *forward, *own]
            message, help = _LOOP if stale.loops else _NEXT
            yield self.report(model, stale.step, message, related, _fix(model, stale), help=help)


def _drops_casts(model: Model) -> bool:
    """Whether backward leaves regions of its own, on the thread of a GPU: that drops all casts."""
    if any(map(model.linked.named, LEFT_IN_BACKWARD)):
        return True
    calls = model.linked.nodes(cst.Call)
    return any(model.names.is_any(call.func, RECOMPUTED) for call in calls)


def _fix(model: Model, stale: StaleCast) -> Fix | None:
    """Switch the cache off, where each region is one call with visible arguments."""
    if stale.own:
        return None
    changes: list[Edit] = []
    for region in (stale.region, *stale.inner):
        if not isinstance(region.node, cst.Call) or region.may_say_cache:
            return None
        changes += set_keyword(model.tree, region.node, AUTOCAST.keyword(Part.CACHE), "False")
    return Fix("Do not cache casts in this region", tuple(changes), Applicability.SAFE)
