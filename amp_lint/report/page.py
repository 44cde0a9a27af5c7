"""A rule's page for a terminal, whole or as one screen of what matters most.

Fixes, right and wrong, are shown as changes of the example above them.
"""

from __future__ import annotations

import difflib
import re
import textwrap
from collections.abc import Iterator, Sequence

from amp_lint.handbook.pages import FENCE, Example, Page, unmarked
from amp_lint.report import Style
from amp_lint.report.color import BOLD, GREEN, RED, paint
from amp_lint.rule import Rule
from amp_lint.text.diagnostic import Applicability

CONTEXT = 2
"""Lines shown above and below what changes."""
FIXES = {
    Applicability.SAFE: "safe",
    Applicability.UNSAFE: "unsafe",
    Applicability.SUGGEST: "shown",
}
"""The kinds of fix, as lists of rules call them."""
NOT_FOUND = "Not found"
"""How the paragraph of the known problems starts that says what the rule misses."""
_MOST_CODE = 12
"""Lines of an example on one screen."""
_AROUND = 5
"""Lines shown above and below a finding that has no fix."""
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


def screen(rule: Rule, page: Page, style: Style) -> Iterator[str]:
    """What the page says first in each section: lines for one screen."""
    yield paint(page.title, BOLD, style) + f" ({', '.join(_kinds(rule))})"
    yield from _labelled("", page.paragraph("What it does"), style)
    yield from _labelled("Why: ", page.paragraph("Why it is a bug"), style)
    yield ""
    yield from _shortened(page.examples[0], style)
    yield from _labelled("Fix: ", page.paragraph("Fix and its safety"), style)
    yield from _labelled("", page.paragraph("Known problems", NOT_FOUND), style)
    yield from _labelled("Silence it: ", _silencing(rule), style)
    whole = f"`amp-lint rule {rule.code} --full`"
    yield from _labelled("Read on: ", ", ".join(filter(None, (whole, _link(page)))), style)


def hover(rule: Rule, page: Page) -> str:
    """The same as Markdown, for the window that an editor opens over a finding."""
    code = [*_shortened(page.examples[0], Style())]
    kind = "diff" if any(line.lstrip()[:1] in _COLORS for line in code) else "python"
    blocks = [
        f"**{page.title}** ({', '.join(_kinds(rule))})",
        page.paragraph("What it does"),
        f"**Why:** {page.paragraph('Why it is a bug')}",
        "\n".join([f"```{kind}", *(line.removeprefix("  ") for line in code), "```"]),
        f"**Fix:** {page.paragraph('Fix and its safety')}",
        page.paragraph("Known problems", NOT_FOUND),
        f"**Silence it:** {_silencing(rule)}",
    ]
    return "\n\n".join(filter(None, blocks))


def _kinds(rule: Rule) -> Iterator[str]:
    yield rule.severity.value
    yield f"fix: {', '.join(FIXES[kind] for kind in rule.fixes)}" if rule.fixes else "no fix"
    if rule.preview:
        yield "preview"


def _labelled(label: str, text: str, style: Style) -> Iterator[str]:
    """A paragraph after an empty line, without what it announces; nothing, if there is none."""
    if not text:
        return
    text = text[:-1] + "." if text.endswith(":") else text
    first, *others = _filled(label + text, style)
    yield ""
    yield paint(label.rstrip(), BOLD, style) + first[len(label.rstrip()) :]
    yield from others


def _silencing(rule: Rule) -> str:
    return (
        f'`# noqa: {rule.code}` at the end of the line, `ignore = ["{rule.code}"]` or '
        f'`per-file-ignores = {{"tests/*" = ["{rule.code}"]}}` under `[tool.amp-lint]`.'
    )


def _link(page: Page) -> str:
    """The first of the references."""
    link = re.search(r"\]\((https?://[^)\s]+)\)", page.prose["References"])
    return link[1] if link else ""


def _shortened(example: Example, style: Style) -> Iterator[str]:
    """An example as what its fix changes; where there is no fix, the lines around the finding."""
    if fixed := example.fixed or example.unsafe:
        _, *lines, _ = _change(example.flagged.text, fixed.text, style)
        lines = lines[lines[0] == "..." :]
    else:
        row = min(row for row, _ in example.flagged.expected())
        lines = example.flagged.text.splitlines()[max(row - 1 - _AROUND, 0) : row + _AROUND]
    filled = [line for line in lines if line.strip()]
    yield from (f"  {line}" for line in filled[:_MOST_CODE])
    if len(filled) > _MOST_CODE:
        yield "  ..."


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
