"""What a symptom may come from, for a terminal."""

from __future__ import annotations

import collections
import textwrap
from collections.abc import Iterator

from amp_lint.handbook.symptoms import Match, Reading, Sight
from amp_lint.handbook.uncovered import Cause
from amp_lint.report import Style
from amp_lint.report.color import BOLD, paint
from amp_lint.rule import Rule

MAX_RULES, MAX_CAUSES, MAX_SIGHTS = 8, 3, 3
"""How many of each are shown."""
_TRY = (
    'Say what the run does, such as "loss is nan", "loss does not go down" or "gradient norm is '
    'huge", or give the last line of its error. `amp-lint PATHS` looks for all mistakes.'
)


def sights(reading: Reading, style: Style) -> Iterator[str]:
    """What stands out in a log."""
    yield from (_sight(sight, style) for sight in reading.sights[:MAX_SIGHTS])


def causes(reading: Reading, style: Style) -> Iterator[str]:
    """What fits and is no rule's business."""
    matches = [match for match in reading.matches if isinstance(match.topic, Cause)]
    for match in matches[:MAX_CAUSES]:
        yield from _described(match, style)


def answer(reading: Reading, style: Style) -> Iterator[str]:
    """The lines that say what fits a symptom, or that nothing does."""
    if not reading.matches:
        yield from _nothing(reading, style)
    shown = collections.Counter[bool]()
    left = []
    for match in reading.matches:
        is_rule = isinstance(match.topic, Rule)
        shown[is_rule] += 1
        if shown[is_rule] <= (MAX_RULES if is_rule else MAX_CAUSES):
            yield from _described(match, style)
        elif isinstance(match.topic, Rule):
            left.append(match.topic.code)
    if left:
        yield from _wrapped(f"and {', '.join(left)}", style)


def _described(match: Match, style: Style) -> Iterator[str]:
    """A rule in one line; what no rule is about with its cause and what to do."""
    if isinstance(match.topic, Rule):
        head = f"{match.topic.code} {match.topic.name}: "
        yield from _line(head, match.symptom.text, style)
    else:
        yield from _unexplained(match.topic, match.symptom.text, style)


def _unexplained(cause: Cause, symptom: str, style: Style) -> Iterator[str]:
    """What usually is behind a symptom that amp-lint does not look for."""
    yield ""
    yield from _line("no rule finds this yet: ", symptom, style)
    for label, text in (("cause", cause.cause), ("fix", cause.fix)):
        yield from _wrapped(f"  {label}: {text}", style)


def _line(head: str, text: str, style: Style) -> Iterator[str]:
    """One line, unless a terminal is too narrow for it."""
    first, *others = _wrapped(head + text, style) if style.wrap else [head + text]
    yield paint(head.rstrip(), BOLD, style) + first[len(head.rstrip()) :]
    yield from others


def _wrapped(text: str, style: Style) -> list[str]:
    return textwrap.wrap(
        text, style.width, subsequent_indent="    ", break_long_words=False, break_on_hyphens=False
    )


def _sight(sight: Sight, style: Style) -> str:
    more = f" (and {sight.count - 1:,} more like it)" if sight.count > 1 else ""
    head = f"line {sight.row:,}: "
    room = max(style.width - len(head) - len(more), 20)
    return head + _shortened(sight.line, room) + more


def _nothing(reading: Reading, style: Style) -> Iterator[str]:
    if reading.last_error:
        error = _shortened(reading.last_error, 200)
        yield from _wrapped(
            f"Nothing fits. The last error is none that amp-lint knows: {error}", style
        )
    elif reading.lines > 1:
        yield f"Nothing fits in these {reading.lines:,} lines."
    else:
        yield "Nothing fits."
    yield from textwrap.wrap(_TRY, style.width)


def _shortened(text: str, width: int) -> str:
    """The beginning of a text of others, without what would control a terminal."""
    start = " ".join(text[: 10 * width].split())
    printable = "".join(
        char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in start
    )
    return textwrap.shorten(printable, width, placeholder=" ...")
