"""AMP209: an autocast object is entered while it is active."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from amp_lint._lazy import cst
from amp_lint.amp.plain_regions import are_entered
from amp_lint.mistake import Account, At, Mistake
from amp_lint.rule import Rule
from amp_lint.text.diagnostic import Diagnostic, Severity
from amp_lint.vocabulary.meaning import Role
from amp_lint.vocabulary.table import words

if TYPE_CHECKING:
    from amp_lint.model import Model
    from amp_lint.syntax.facts import Facts

    from ._instances import Reentry
_STAYS = "autocast stays on for good: this object is entered again while it is active"
_HELP = "make a new object for each region"


class ReenteredAutocast(Rule):
    """One object remembers one state: that of the inner region replaces that of the outer."""

    code = "AMP209"
    name = "reentered-autocast"
    severity = Severity.WARNING
    requires = (words(Role.REGION),)
    observed = (
        Account(Mistake.REENTERED_REGION, _STAYS, _HELP, {At.REGION: "it is entered here"}),
    )

    def may(self, facts: Facts) -> bool:
        """Whether a region may be an object that is kept."""
        return not facts.asked(are_entered)

    def check(self, model: Model) -> Iterator[Diagnostic]:
        """Report the inner of two regions that are one object."""
        from ._instances import Instances

        for reentry in model.part(Instances).reentries:
            inner, outer = reentry.inner.context, reentry.outer.context
            related: list[tuple[cst.CSTNode, str]] = []
            if outer is not inner:
                related.append((outer, "it is entered here"))
            related += [(call, "this enters it again") for call in reentry.chain.calls]
            yield self.report(model, inner, _message(reentry), related, help=_HELP)


def _message(reentry: Reentry) -> str:
    if isinstance(reentry.inner.holder, cst.FunctionDef):
        return (
            "autocast stays on for good: this decorator's one object is entered again from inside"
        )
    return _STAYS
