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
from amp_lint.report.data import data
from amp_lint.text.files import absolute


def render(findings: Sequence[Finding], style: Style) -> Iterator[str]:
    """One array; rows and columns count from 1, columns in characters, ends are exclusive."""
    yield json.dumps([*map(_finding, findings)], indent=2)
    yield "\n"


def _finding(finding: Finding) -> dict[str, Any]:
    name, rule = finding.source.name, registry.find(finding.diagnostic.code)
    return {
        **data(finding).to_dict(),
        "filename": name if name == "-" else str(absolute(Path(name))),
        "url": registry.address(rule) if rule else None,
    } | ({"run": finding.shown} if finding.shown else {})
