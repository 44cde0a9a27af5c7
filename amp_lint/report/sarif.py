"""SARIF 2.1.0, the format of code scanning: findings, fixes, rules, and what tells them apart."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from amp_lint import __version__, registry
from amp_lint.handbook import pages
from amp_lint.report import Finding, Style
from amp_lint.report.place import fingerprints, relative, root
from amp_lint.text.diagnostic import Applicability, Diagnostic, Fix, Severity
from amp_lint.text.source import Source

_SCHEMA = (
    "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
)
_LEVELS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "note"}
_ROOT = "SRCROOT"


def render(findings: Sequence[Finding], style: Style) -> Iterator[str]:
    """One run; rows and columns count from 1, columns in characters, ends are exclusive."""
    first = {finding.diagnostic.code: finding.diagnostic for finding in reversed(findings)}
    codes = sorted(first)
    run = {
        "tool": {
            "driver": {
                "name": "amp-lint",
                "semanticVersion": _semantic(__version__),
                **({"informationUri": home} if (home := registry.repository()) else {}),
                "rules": [_rule(first[code]) for code in codes],
            }
        },
        "columnKind": "unicodeCodePoints",
        "originalUriBaseIds": {_ROOT: {"uri": f"{root().as_uri().rstrip('/')}/"}},
        "results": [_result(*each, codes) for each in fingerprints(findings)],
    }
    yield json.dumps({"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2)
    yield "\n"


def _semantic(version: str) -> str:
    """Three numbers, as the format asks for."""
    numbers = [part for part in version.split(".")[:3] if part.isdecimal()]
    return ".".join([*numbers, "0", "0", "0"][:3])


def _rule(found: Diagnostic) -> dict[str, Any]:
    described: dict[str, Any] = {
        "id": found.code,
        "name": "".join(part.capitalize() for part in found.name.split("-")),
        "defaultConfiguration": {"level": _LEVELS[found.severity]},
    }
    rule = registry.find(found.code)
    if rule is not None:
        summary, text = registry.summary(rule), registry.page(rule)
        page, full = text.partition("\n## Example")[0], pages.parse(text).paragraph("What it does")
        described["shortDescription"] = {"text": f"{summary[:1].upper()}{summary[1:]}."}
        described["fullDescription"] = {"text": full}
        described["help"] = {"text": page, "markdown": page}
        if registry.repository():
            described["helpUri"] = registry.address(rule)
        described["properties"] = {"tags": ["mixed-precision", "pytorch"]}
    return described


def _result(finding: Finding, fingerprint: str, codes: Sequence[str]) -> dict[str, Any]:
    source, diagnostic = finding.source, finding.diagnostic
    found: dict[str, Any] = {
        "ruleId": diagnostic.code,
        "ruleIndex": codes.index(diagnostic.code),
        "level": _LEVELS[diagnostic.severity],
        "message": {"text": finding.text},
        "locations": [{"physicalLocation": _place(source, diagnostic.start, diagnostic.end)}],
        "partialFingerprints": {"statement/v1": fingerprint},
        "properties": {"preview": finding.preview},
    }
    if diagnostic.related:
        found["relatedLocations"] = [
            {
                "id": number,
                "message": {"text": place.label},
                "physicalLocation": _place(source, place.start, place.end),
            }
            for number, place in enumerate(diagnostic.related, 1)
        ]
    is_shown = diagnostic.fix and diagnostic.fix.applicability is Applicability.SUGGEST
    if diagnostic.fix and not is_shown and source.is_python:
        found["fixes"] = [_fix(source, diagnostic.fix)]
    return found


def _fix(source: Source, fix: Fix) -> dict[str, Any]:
    replacements = [
        {
            "deletedRegion": _region(source, edit.start, edit.end),
            "insertedContent": {"text": edit.content},
        }
        for edit in fix.edits
    ]
    changed = {"artifactLocation": _artifact(source), "replacements": replacements}
    kind = "safe" if fix.applicability is Applicability.SAFE else "unsafe"
    return {"description": {"text": f"{fix.title} ({kind})"}, "artifactChanges": [changed]}


def _place(source: Source, start: int, end: int) -> dict[str, Any]:
    return {"artifactLocation": _artifact(source), "region": _region(source, start, end)}


def _artifact(source: Source) -> dict[str, str]:
    path = relative(source.name)
    if Path(path).is_absolute():
        return {"uri": Path(path).as_uri()}
    return {"uri": quote(os.fsencode(path)), "uriBaseId": _ROOT}


def _region(source: Source, start: int, end: int) -> dict[str, int]:
    (row, column), (end_row, end_column) = map(source.file_position, (start, end))
    return {
        "startLine": row,
        "startColumn": column,
        "endLine": end_row,
        "endColumn": end_column,
    }
