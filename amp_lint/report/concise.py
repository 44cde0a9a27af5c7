"""One line for each finding."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from amp_lint.report import Finding, Style
from amp_lint.report.color import BOLD, CYAN, OF_SEVERITY, paint


def render(findings: Sequence[Finding], style: Style) -> Iterator[str]:
    """``path:line:column: CODE [*] severity: message; what to do``."""
    for finding in findings:
        yield f"{head(finding, style)}{finding.text}\n"


def head(finding: Finding, style: Style) -> str:
    """What stands before the message."""
    return f"{paint(finding.place, BOLD, style)}: {title(finding, style)}: "


def title(finding: Finding, style: Style) -> str:
    """``CODE [*] severity``, where the mark says that ``--fix`` has something to do."""
    diagnostic = finding.diagnostic
    color, severity = OF_SEVERITY[diagnostic.severity], diagnostic.severity.value
    mark = paint("[*] ", CYAN, style) if finding.fixable(style) else ""
    return f"{paint(diagnostic.code, color, style)} {mark}{paint(severity, color, style)}"
