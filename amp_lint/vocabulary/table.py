"""All rows, and how they are found."""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Iterable

from amp_lint.vocabulary import amp, frameworks, training
from amp_lint.vocabulary.meaning import Kind, Meaning, Part, Role

ROWS: tuple[Meaning, ...] = (*frameworks.ROWS, *amp.ROWS, *training.ROWS)
"""What a name of the object tells comes before what any object may have."""
BY_NAME = {name: row for row in ROWS for name in row.names}
"""Qualified name -> row."""
BY_METHOD: dict[str, list[Meaning]] = defaultdict(list)
"""Name of a method -> the rows that it may be, the most certain first."""
for _row in ROWS:
    for _method in _row.methods:
        BY_METHOD[_method].append(_row)

FUNCTIONS = frozenset(
    word for row in ROWS if row.does or row.gives is Role.SCALED_LOSS for word in row.words
)
"""What the functions and methods are called that do something in a training step, or scale."""
METHODS = frozenset(word for row in ROWS for word in row.methods) - frozenset(
    name.rpartition(".")[2] for row in ROWS for name in row.names
)
"""What methods are called that are no functions as well."""


def rows(what: Kind | Role, owner: Role | None = None) -> tuple[Meaning, ...]:
    """The rows that do, or give, something; those of one role."""
    found = (row for row in ROWS if what in row.does or row.gives is what)
    return tuple(row for row in found if owner is None or row.owner is owner)


def names(what: Kind | Role) -> frozenset[str]:
    """The qualified names of what does, or gives, something."""
    return frozenset(name for row in rows(what) for name in row.names)


@functools.cache
def words(*what: Kind | Role, part: Part | None = None) -> frozenset[str]:
    """The identifiers of which a file has one that does, or gives, something of that.

    ``part``: only of calls with a parameter for it.
    """
    found = (row for each in what for row in rows(each) if part is None or row.keyword(part))
    return frozenset(word for row in found for word in row.words)


def called(what: Kind | Role) -> frozenset[str]:
    """Identifiers of the objects that are told by their name and do, or give, something.

    And of what makes such objects.
    """
    found = [row for row in rows(what) if row.called]
    made = {word for row in found if row.owner is not None for word in words(row.owner)}
    return frozenset(f"{prefix}{row.called}" for row in found for prefix in ("", "_")) | made


def methods(owner: Role, among: Iterable[Meaning] = ROWS) -> frozenset[str]:
    """The methods of a role that do something in a training step, or scale a loss."""
    return frozenset(
        method
        for row in among
        if row.owner is owner and (row.does or row.gives is Role.SCALED_LOSS)
        for method in row.methods
    )


def place(name: str, part: Part) -> tuple[int | None, str | None]:
    """Position and keyword of an argument of what has a qualified name."""
    row = BY_NAME.get(name)
    return row.place(part) if row is not None else (None, None)
