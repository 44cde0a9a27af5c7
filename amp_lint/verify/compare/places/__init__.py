"""What is erased from both texts and still depends on where, how often or by whom it is run.

Each module asks one question and gives ``reasons``: what differs, and no obligation is about it.
"""

from __future__ import annotations

from collections.abc import Iterator

from amp_lint.verify.compare.places import (
    asked,
    bound,
    callers,
    checkpoints,
    decorators,
    derived,
    gradient_hooks,
    hooks,
    identity,
    keys,
    loops,
    made,
    names,
    order,
    reentered,
    scalers,
    state_reads,
    twice,
    wholes,
)
from amp_lint.verify.compare.side import Side

_QUESTIONS = {
    "region": (asked, decorators, hooks, reentered, state_reads),
    "place": (made, loops, order, derived, twice, gradient_hooks),
    "elsewhere": (callers, scalers),
    "checkpoint": (keys, checkpoints),
    "named": (names, identity, bound, wholes),
}
"""By the code of their reasons."""
CODES = ("place", "elsewhere", "checkpoint", "named")
"""The codes that only these questions have."""


def reasons(code: str, before: Side, after: Side) -> Iterator[str]:
    """What differs, of the questions with that code."""
    for question in _QUESTIONS[code]:
        yield from question.reasons(before, after)
