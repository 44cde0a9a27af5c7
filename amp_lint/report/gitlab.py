"""GitLab's code quality report, shown in merge requests."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from amp_lint.report import Finding, Style
from amp_lint.report.place import fingerprints, relative
from amp_lint.text.diagnostic import Severity

_SEVERITIES = {Severity.ERROR: "critical", Severity.WARNING: "major", Severity.INFO: "info"}


def render(findings: Sequence[Finding], style: Style) -> Iterator[str]:
    """One array; lines count from 1, paths are those of the repository."""
    yield json.dumps([_issue(*each) for each in fingerprints(findings)], indent=2)
    yield "\n"


def _issue(finding: Finding, fingerprint: str) -> dict[str, object]:
    diagnostic = finding.diagnostic
    row, _ = finding.source.file_position(diagnostic.start)
    end, _ = finding.source.file_position(diagnostic.end)
    return {
        "check_name": diagnostic.code,
        "description": f"{diagnostic.code}: {finding.text}",
        "fingerprint": fingerprint,
        "location": {
            "lines": {"begin": row, "end": end},
            "path": relative(finding.source.name),
        },
        "severity": _SEVERITIES[diagnostic.severity],
    }
