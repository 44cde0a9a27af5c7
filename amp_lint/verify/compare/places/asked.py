"""What is asked, or entered, by code of the file that changes something when it is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import libcst as cst

from amp_lint.syntax.returns import is_property, returned
from amp_lint.verify.compare.side import Side
from amp_lint.verify.compare.units import name_of


def reasons(before: Side, after: Side) -> Iterator[str]:
    """Properties and contexts that change something, and are asked for more or less often."""
    for name in sorted({*_asked(before), *_asked(after)}):
        old, new = (_times(side, name) for side in (before, after))
        if old != new:
            yield f"`{name}` changes something, and is asked for more or less often"


def _asked(side: Side) -> Iterator[str]:
    """The names of such functions: of a switch, of what gives a region."""
    for function in side.model.tree.nodes(cst.FunctionDef):
        if function.name.value in side.active and (
            is_property(function) or any(map(side.model.regions.of, returned(function)))
        ):
            yield function.name.value


def _times(side: Side, name: str) -> Counter[str]:
    """How often each function has a name."""
    return Counter(name_of(side.model, node) for node in side.model.tree.named(name))
