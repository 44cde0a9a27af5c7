"""Workflow commands of GitHub Actions, shown as annotations on the lines of a pull request."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from amp_lint.report import Finding, Style
from amp_lint.text.diagnostic import Severity
from amp_lint.text.files import absolute
from amp_lint.text.printable import printable

_COMMANDS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "notice"}


def render(findings: Sequence[Finding], style: Style) -> Iterator[str]:
    """One command for each finding."""
    for finding in findings:
        diagnostic = finding.diagnostic
        row, column = finding.source.file_position(diagnostic.start)
        end_row, end_column = finding.source.file_position(diagnostic.end)
        properties = {
            "title": f"amp-lint ({diagnostic.code}{' in preview' if finding.preview else ''})",
            "file": printable(str(absolute(Path(finding.source.name)))),
            "line": str(row),
            "col": str(column),
            "endLine": str(end_row),
            "endColumn": str(end_column),
        }
        text = f"{finding.place}: {diagnostic.code} {diagnostic.message}"
        if finding.help:
            text += f"\n  help: {finding.help}"
        listed = ",".join(f"{key}={_property(value)}" for key, value in properties.items())
        yield f"::{_COMMANDS[diagnostic.severity]} {listed}::{_data(text)}\n"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
