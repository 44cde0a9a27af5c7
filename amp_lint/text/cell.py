"""A piece of Python in a file that holds other things, too."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Cell:
    """The code of one cell."""

    number: int
    """Among all cells, from 1."""
    text: str
    start: int
    end: int
    """Where it stands in the file: in JSON a string, or a list of strings."""
    indent: str = ""
    """What is before each line of it in a document."""
    newline: str = "\n"
    """How a line ends that is added below the last."""


def spliced(
    whole: str,
    cells: Sequence[Cell],
    texts: Sequence[str],
    respelled: Callable[[Cell, str], str],
) -> str:
    """The file with other code in its cells; one whose code stays is not touched.

    Args:
        whole: The file.
        cells: In their order.
        texts: The code of each afterwards.
        respelled: Makes the text of the file that says a cell's new code.
    """
    parts: list[str] = []
    at = 0
    for cell, text in zip(cells, texts, strict=True):
        if text != cell.text:
            parts += [whole[at : cell.start], respelled(cell, text)]
            at = cell.end
    return "".join([*parts, whole[at:]])
