"""ruff's JSON, so that whatever reads ruff's reads ours.

Two keys are ours: ``preview`` says whether a finding is reported with ``--preview`` only, because
it is less certain than others, ``related`` which places explain it. In notebooks an edit, or such a
place, has a ``cell`` of its own. What a run has shown of a finding stands in ``run``.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from amp_lint import registry
from amp_lint.report import Finding, Style
from amp_lint.text.diagnostic import Fix
from amp_lint.text.files import absolute
from amp_lint.text.noqa import Suppressions
from amp_lint.text.source import Source


def render(findings: Sequence[Finding], style: Style) -> Iterator[str]:
    """One array; rows and columns count from 1, columns in characters, ends are exclusive."""
    yield json.dumps([*map(_finding, findings)], indent=2)
    yield "\n"


def _finding(finding: Finding) -> dict[str, Any]:
    source, diagnostic = finding.source, finding.diagnostic
    row, _ = source.position(diagnostic.start)
    run = {"run": finding.shown} if finding.shown else {}
    return {
        "cell": source.in_cell(row)[0],
        "code": diagnostic.code,
        "end_location": _location(source, diagnostic.end),
        "filename": source.name if source.name == "-" else str(absolute(Path(source.name))),
        "fix": _fix(source, diagnostic.fix) if diagnostic.fix else None,
        "location": _location(source, diagnostic.start),
        "message": diagnostic.text,
        "name": diagnostic.name,
        "noqa_row": source.in_cell(Suppressions(source).comment_row(row))[1],
        "preview": finding.preview,
        "related": [
            {
                "end_location": _location(source, place.end),
                "location": _location(source, place.start),
                "message": place.label,
            }
            | _cell(source, place.start)
            for place in diagnostic.related
        ],
        "severity": diagnostic.severity.value,
        "url": registry.address(rule) if (rule := registry.find(diagnostic.code)) else None,
    } | run


def _fix(source: Source, fix: Fix) -> dict[str, Any]:
    return {
        "applicability": fix.applicability.value,
        "edits": [
            {
                "content": edit.content,
                "end_location": _location(source, edit.end),
                "location": _location(source, edit.start),
            }
            | _cell(source, edit.start)
            for edit in sorted(fix.edits, key=lambda edit: (edit.start, edit.end))
            if source.has_edits
        ],
        "message": fix.title,
    }


def _cell(source: Source, offset: int) -> dict[str, int | None]:
    """The cell that an edit is in, which need not be that of the finding."""
    cell, _ = source.in_cell(source.position(offset)[0])
    return {} if cell is None else {"cell": cell}


def _location(source: Source, offset: int) -> dict[str, int]:
    row, column = source.told(offset)
    return {"column": column, "row": row}
