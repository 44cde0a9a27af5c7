"""The finding, the code it is about, what explains it, and the fix."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from textwrap import wrap

from amp_lint.report import Finding, Style
from amp_lint.report.color import BLUE, BOLD, CYAN, RED, YELLOW, paint
from amp_lint.report.frame import Mark, frame
from amp_lint.rule import Applicability, Severity

_COLORS = {Severity.ERROR: RED, Severity.WARNING: YELLOW, Severity.INFO: BLUE}
_NOTES = {
    Applicability.UNSAFE: "This is an unsafe fix and may change runtime behavior",
    Applicability.SUGGEST: "This fix is only shown, never applied",
}
_PREVIEW = "This finding is in preview, and less certain than others"


def render(findings: Sequence[Finding], style: Style) -> Iterator[str]:
    """A block for each finding, with an empty line after it."""
    for finding in findings:
        yield from (f"{line}\n" for line in _block(finding, style))
        yield "\n"


def _block(finding: Finding, style: Style) -> Iterator[str]:
    diagnostic = finding.diagnostic
    color = _COLORS[diagnostic.severity]
    yield from _head(finding, color, style)
    main = Mark(diagnostic.start, diagnostic.end, "^", "", color)
    related = [Mark(place.start, place.end, "-", place.label, BLUE) for place in diagnostic.related]
    yield from frame(finding.source, finding.place, [main, *related], style)
    yield from _help(finding, style)


def _head(finding: Finding, color: str, style: Style) -> Iterator[str]:
    """Code, name and message: one line, unless a terminal is too narrow for it."""
    diagnostic, mark = finding.diagnostic, "[*] " if finding.fixable(style) else ""
    start = f"{diagnostic.code} {mark}{diagnostic.name}: "
    lines = [start + diagnostic.message]
    if style.wrap:
        lines = wrap(
            diagnostic.message,
            style.width,
            initial_indent=start,
            subsequent_indent="  ",
            break_long_words=False,
            break_on_hyphens=False,
        )
    code = f"{paint(diagnostic.code, color, style)} {paint(mark, CYAN, style)}{diagnostic.name}: "
    yield code + paint(lines[0].removeprefix(start), BOLD, style)
    yield from (paint(line, BOLD, style) for line in lines[1:])


def _help(finding: Finding, style: Style) -> Iterator[str]:
    """What to do; in detail, where it is up to the reader."""
    fix = finding.diagnostic.fix
    if finding.help:
        yield f"{paint('help', CYAN, style)}: {finding.help}"
    if fix and not finding.fixable(style):
        from amp_lint.report.change import change

        yield from change(finding.source, fix, style)
    if fix and fix.applicability in _NOTES:
        yield f"{paint('note', BOLD, style)}: {_NOTES[fix.applicability]}"
    if finding.preview:
        yield f"{paint('note', BOLD, style)}: {_PREVIEW}"
