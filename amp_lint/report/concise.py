"""One line for each finding."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from amp_lint.report import Finding, Style
from amp_lint.report.color import BOLD, CYAN, RED, paint


def render(findings: Sequence[Finding], style: Style) -> Iterator[str]:
    """``path:line:column: CODE [*] message``."""
    for finding in findings:
        code = paint(finding.diagnostic.code, RED, style)
        mark = paint("[*] ", CYAN, style) if finding.fixable(style) else ""
        place = paint(finding.place, BOLD, style)
        yield f"{place}: {code} {mark}{finding.diagnostic.text}\n"
