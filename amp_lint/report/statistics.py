"""How often each rule was broken."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from amp_lint.report import Finding, Style


@dataclass(frozen=True, slots=True)
class Count:
    """The findings of one rule."""

    code: str
    name: str
    total: int
    fixable: int


def render(findings: Sequence[Finding], style: Style) -> Iterator[str]:
    """One line for each rule, the most frequent first."""
    counts = _count(findings, style)
    width = max((len(str(count.total)) for count in counts), default=0)
    for count in counts:
        mark = "*" if count.fixable == count.total else "-" if count.fixable else " "
        yield f"{count.total:>{width}}\t{count.code}\t[{mark}] {count.name}\n"


def render_json(findings: Sequence[Finding], style: Style) -> Iterator[str]:
    """The same as ruff's JSON."""
    import json

    counts = [
        {
            "code": count.code,
            "name": count.name,
            "count": count.total,
            "fixable": count.fixable == count.total,
            "fixable_count": count.fixable,
        }
        for count in _count(findings, style)
    ]
    yield json.dumps(counts, indent=2) + "\n"


def _count(findings: Sequence[Finding], style: Style) -> list[Count]:
    by_code: dict[str, list[Finding]] = {}
    for finding in findings:
        by_code.setdefault(finding.diagnostic.code, []).append(finding)
    counts = [
        Count(code, group[0].diagnostic.name, len(group), sum(f.fixable(style) for f in group))
        for code, group in by_code.items()
    ]
    return sorted(counts, key=lambda count: (-count.total, count.code))
