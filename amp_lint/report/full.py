"""The finding, the code it is about, what explains it, and the fix."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

from amp_lint.report import Finding, Style, wrapped
from amp_lint.report.color import BLUE, BOLD, CYAN, OF_SEVERITY, paint
from amp_lint.report.concise import head, title
from amp_lint.report.frame import Mark, frame
from amp_lint.text.diagnostic import Applicability
from amp_lint.text.printable import printable

_NOTES = {
    Applicability.UNSAFE: "This is an unsafe fix and may change runtime behavior",
    Applicability.SUGGEST: "This fix is only shown, never applied",
}
_PREVIEW = "This finding is in preview, and less certain than others"


def render(findings: Sequence[Finding], style: Style) -> Iterator[str]:
    """A block for each finding, with an empty line after it; a line for what is folded."""
    for finding, following in itertools.zip_longest(findings, findings[1:]):
        lines = _fold(finding, style) if finding.folded else _block(finding, style)
        yield from (f"{line}\n" for line in lines)
        if not (finding.folded and following and following.folded):
            yield "\n"


def _fold(finding: Finding, style: Style) -> Iterator[str]:
    """The line of the concise format."""
    plain = head(finding, Style(unsafe=style.unsafe))
    first, *rest = wrapped(finding.text, style, plain)
    yield head(finding, style) + first
    yield from rest


def _block(finding: Finding, style: Style) -> Iterator[str]:
    diagnostic, color = finding.diagnostic, OF_SEVERITY[finding.diagnostic.severity]
    yield f"{title(finding, style)}: {diagnostic.name}"
    yield from (paint(line, BOLD, style) for line in wrapped(finding.message, style))
    main = Mark(diagnostic.start, diagnostic.end, "^", "", color)
    related = [Mark(place.start, place.end, "-", place.label, BLUE) for place in diagnostic.related]
    yield from frame(finding.source, finding.place, [main, *related], style)
    yield from _help(finding, style)


def _help(finding: Finding, style: Style) -> Iterator[str]:
    """What to do; in detail, where it is up to the reader."""
    fix = finding.diagnostic.fix
    if finding.help:
        first, *rest = wrapped(finding.help, style, "help: ")
        yield f"{paint('help', CYAN, style)}: {first}"
        yield from rest
    if fix and not finding.fixable(style):
        from amp_lint.report.change import change

        yield from change(finding.source, fix, style)
    if fix and fix.applicability in _NOTES:
        yield f"{paint('note', BOLD, style)}: {_NOTES[fix.applicability]}"
    for note in (*finding.diagnostic.elsewhere, *finding.notes):
        first, *rest = wrapped(printable(note), style, "note: ")
        yield f"{paint('note', BOLD, style)}: {first}"
        yield from rest
    if finding.preview:
        yield f"{paint('note', BOLD, style)}: {_PREVIEW}"
