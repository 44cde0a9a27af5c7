"""AMP503: a clip unscales in every round of an accumulation, not only in the last."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from amp_lint.rule import Rule
from amp_lint.text.diagnostic import Diagnostic, Severity, quoted
from amp_lint.vocabulary import written
from amp_lint.vocabulary.frameworks import SYNC_GRADIENTS
from amp_lint.vocabulary.meaning import Kind, Role
from amp_lint.vocabulary.table import words

if TYPE_CHECKING:
    from amp_lint.model import Model

_MESSAGE = "this unscales in rounds without a step: in fp16 the second one raises RuntimeError"


class UnsyncedClip(Rule):
    """A clip of Accelerate's below ``accumulate`` that is not left to the round that steps."""

    code = "AMP503"
    name = "unsynced-clip"
    severity = Severity.ERROR
    preview = True
    given = written.RUN_BACK
    requires = (words(Kind.UNSCALE), words(Role.ROUND))

    def check(self, model: Model) -> Iterator[Diagnostic]:
        """Report what unscales in every round, where there may be more than one for a step."""
        from ._rounds import unsynced

        for call, owner, around in unsynced(model):
            related = [(around.items[0].item, "a round begins here")]
            help = f"clip under {quoted(f'if {owner}.{SYNC_GRADIENTS}:')}"
            yield self.report(model, call, _MESSAGE, related, help=help)
