"""A rule's page for a terminal: fixes, right and wrong, are changes of the example above."""

from __future__ import annotations

import difflib
import re
import textwrap
from collections.abc import Iterator, Sequence

from amp_lint.pages import FENCE, unmarked
from amp_lint.report import Style
from amp_lint.report.color import BOLD, GREEN, RED, paint

CONTEXT = 2
"""Lines shown above and below what changes."""
_WIDEST = 100
"""Columns of text, however wide the screen is."""
_COLORS = {"-": RED, "+": GREEN}
_ITEM = re.compile(r"^(?= *[*-] )", re.MULTILINE)


def render(page: str, style: Style) -> Iterator[str]:
    """The lines of the page: Markdown still, in which the text fits the screen."""
    example, end = "", 0
    for fence in FENCE.finditer(page):
        yield from _prose(page[end : fence.start()], style)
        kind = fence["info"].partition(" target-torch")[0]
        if kind == "py":
            example = fence["text"]
        made = kind in ("py fixed", "py fixed unsafe", "py wrong")
        yield from _change(example, fence["text"], style) if made else _code(fence)
        yield ""
        end = fence.end()
    yield from _prose(page[end:], style)


def _code(fence: re.Match[str]) -> Iterator[str]:
    yield f"```{fence['info'].partition(' ')[0]}"
    yield from fence["text"].splitlines()
    yield "```"


def _change(example: str, made: str, style: Style) -> Iterator[str]:
    """What was made of an example; dots stand for what is left out."""
    old, new = (unmarked(text).splitlines() for text in (example, made))
    _, _, *lines = difflib.unified_diff(old, new, n=CONTEXT, lineterm="")
    yield "```diff"
    for line in lines:
        color = _COLORS.get(line[:1])
        yield "..." if line.startswith("@@") else paint(line, color, style) if color else line
    yield "```"


def _prose(text: str, style: Style) -> Iterator[str]:
    """What stands between two fences, without its pictures, with an empty line after each part."""
    for block in re.split(r"\n\s*\n", text.strip("\n")):
        if block.startswith("#"):
            yield from (paint(block, BOLD, style), "")
        elif block.startswith("|"):
            yield from (*_table(block.splitlines(), style), "")
        elif block and not block.startswith("!["):
            for item in filter(None, _ITEM.split(block)):
                yield from _filled(item, style)
            yield ""


def _table(rows: Sequence[str], style: Style) -> Iterator[str]:
    """The rows with their columns below each other, where the screen is wide enough for that."""
    cells = [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    if sum(widths) + 3 * len(widths) + 1 > style.width:
        yield from rows
        return
    for index, row in enumerate(cells):
        pairs = zip(row, widths, cells[1], strict=True)
        aligned = (_cell(*pair, rule=index == 1) for pair in pairs)
        yield f"| {' | '.join(aligned)} |"


def _cell(text: str, width: int, alignment: str, *, rule: bool) -> str:
    """``alignment`` is how Markdown writes it: ``--:`` stands for numbers, which end together."""
    if rule:
        return text[:1] * (width - len(text)) + text
    return text.rjust(width) if alignment.endswith(":") else text.ljust(width)


def _filled(item: str, style: Style) -> list[str]:
    """A paragraph, or one item of a list."""
    bullet = re.match(r"(?: *[*-] )?", item)
    first = bullet[0] if bullet else ""
    return textwrap.wrap(
        " ".join(item.removeprefix(first).split()),
        min(style.width, _WIDEST),
        initial_indent=first,
        subsequent_indent=" " * len(first),
        break_long_words=False,
        break_on_hyphens=False,
    )
