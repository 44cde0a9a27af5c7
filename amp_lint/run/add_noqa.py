"""``--add-noqa``: a comment on the line of every finding, where the comment counts."""

from __future__ import annotations

import contextlib
import tokenize
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from amp_lint.run.job import Outcome
from amp_lint.text import noqa, writer
from amp_lint.text.diagnostic import SYNTAX_ERROR, Diagnostic
from amp_lint.text.source import Source, SourceError

Tell = Callable[[str, str], None]
"""Called with a path and what is wrong with it."""


def add(outcomes: Iterable[Outcome], on_error: Tell, on_warning: Tell) -> int:
    """Silence the findings of many files, and write these; how many comments were written."""
    found = [(each.source, each.findings) for each in outcomes if each.source and each.findings]
    writer.clean(Path(source.name) for source, _ in found)
    return sum(_write(*each, on_error, on_warning) for each in found)


def silenced(source: Source, findings: Sequence[Diagnostic]) -> tuple[Source, int]:
    """A file with comments that silence the findings in it, and how many comments are new.

    Left as it is what no comment can silence: a syntax error, and where the comment would be part
    of a string or would not be the one that counts.
    """
    suppressions = noqa.Suppressions(source)
    by_row: dict[int, set[str]] = {}
    for finding in findings:
        row = source.position(finding.start)[0]
        if finding.code != SYNTAX_ERROR and not suppressions.covers(finding.code, row):
            by_row.setdefault(suppressions.comment_row(row), set()).add(finding.code)
    changed, count = source, 0
    for row, codes in sorted(by_row.items()):
        if better := _commented(changed, row, sorted(codes)):
            changed, count = better, count + 1
    return changed, count


def _write(source: Source, findings: Sequence[Diagnostic], on_error: Tell, on_warning: Tell) -> int:
    changed, count = silenced(source, findings)
    suppressions = noqa.Suppressions(changed)
    for finding in findings:
        row = source.position(finding.start)[0]
        if not suppressions.covers(finding.code, row):
            what = f"{finding.code} on line {row} cannot be silenced by a comment"
            on_error(source.name, f"{what}; correct it or exclude the file")
    try:
        if count:
            for warning in writer.replace(Path(source.name), source.file_data, changed.file_data):
                on_warning(source.name, warning)
    except writer.WriteError as error:
        on_error(source.name, str(error))
        return 0
    return count


def _commented(source: Source, row: int, codes: Sequence[str]) -> Source | None:
    """The file with these codes in a comment on a line; None if they would not be one."""
    column, comment = noqa.comment(source.line(row), codes)
    at = source.line_starts[row - 1] + column
    with contextlib.suppress(SourceError, SyntaxError, tokenize.TokenError):
        text = f"{source.text[:at]}{comment}{source.text[at:]}"
        changed = source.changed(text)
        before, after = noqa.Suppressions(source), noqa.Suppressions(changed)
        counts = all(after.covers(code, row) for code in codes)
        if counts and source.lossless and before.code() == after.code():
            return changed
    return None
