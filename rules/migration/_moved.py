"""Uses of names that moved, each with the fix that moves it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

from amp_lint.edit.import_edits import Move, Moves
from amp_lint.syntax.references import references, without_aliases
from amp_lint.text.diagnostic import Edit

if TYPE_CHECKING:
    from amp_lint.flow.guards import Guards
    from amp_lint.model import Model
    from amp_lint.syntax.references import Reference
    from amp_lint.text.diagnostic import Fix

Around = tuple[tuple[Edit, ...] | None, bool]
"""What changes around a name, None if nothing can be right; and whether that is safe."""


def moved(
    model: Model,
    renames: Mapping[str, str],
    names: frozenset[str],
    guards: Guards,
    around: Callable[[Model, Reference], Around],
    title: str,
) -> Iterator[tuple[Reference, Fix | None]]:
    """Every use of ``names``, but for want of the new ones; ``title`` says what a fix does.

    ``renames`` has the new name of all that may move with them, as of their module.
    """
    found = references(model.tree, model.names, names)
    found = [reference for reference in found if not guards.chooses(reference.node)]
    moves = [Move(reference, *around(model, reference)) for reference in found]
    fixes = Moves(model, moves, renames).fixes(title)
    for reference in without_aliases(model.names, found):
        yield reference, fixes.get(id(reference.node))
