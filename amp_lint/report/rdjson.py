"""Reviewdog's diagnostics, which it writes into pull requests as comments with suggestions."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from amp_lint.edit import edits
from amp_lint.report import Finding, Style
from amp_lint.report.place import relative
from amp_lint.text.diagnostic import Edit, Fix, Severity, applicable
from amp_lint.text.source import Source

_SEVERITIES = {Severity.ERROR: "ERROR", Severity.WARNING: "WARNING", Severity.INFO: "INFO"}


def render(findings: Sequence[Finding], style: Style) -> Iterator[str]:
    """One object; rows count from 1, columns in bytes of UTF-8 from 1, ends are exclusive."""
    result = {
        "source": {"name": "amp-lint"},
        "diagnostics": [_diagnostic(each, style) for each in findings],
    }
    yield json.dumps(result, indent=2)
    yield "\n"


def _diagnostic(finding: Finding, style: Style) -> dict[str, Any]:
    source, diagnostic = finding.source, finding.diagnostic
    path = relative(source.name)
    found: dict[str, Any] = {
        "message": finding.text,
        "location": {"path": path, "range": _range(source, diagnostic.start, diagnostic.end)},
        "severity": _SEVERITIES[diagnostic.severity],
        "code": {"value": diagnostic.code},
    }
    fix = diagnostic.fix
    if fix is not None and source.is_python and applicable(fix, unsafe=style.unsafe):
        found["suggestions"] = [_suggestion(source, fix)]
    related = [
        {
            "message": place.label,
            "location": {"path": path, "range": _range(source, place.start, place.end)},
        }
        for place in diagnostic.related
    ]
    return found | ({"relatedLocations": related} if related else {})


def _suggestion(source: Source, fix: Fix) -> dict[str, Any]:
    """A whole fix, as each suggestion may be taken by itself; between its edits all is kept."""
    start, end = min(edit.start for edit in fix.edits), max(edit.end for edit in fix.edits)
    moved = [Edit(edit.start - start, edit.end - start, edit.content) for edit in fix.edits]
    return {
        "range": _range(source, start, end),
        "text": edits.splice(source.text[start:end], moved),
    }


def _range(source: Source, start: int, end: int) -> dict[str, Any]:
    return {"start": _position(source, start), "end": _position(source, end)}


def _position(source: Source, offset: int) -> dict[str, int]:
    row, column = source.file_position(offset)
    if not source.is_python:
        return {"line": row}
    before = source.line(row)[: column - 1]
    return {"line": row, "column": len(before.encode("utf-8", "surrogatepass")) + 1}
