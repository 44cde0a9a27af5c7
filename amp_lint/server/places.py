"""Findings and edits as the protocol has them: lines from 0, columns in the client's units."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from pathlib import Path

from lsprotocol import types
from pygls.workspace import PositionCodec

from amp_lint import registry
from amp_lint.text.diagnostic import SYNTAX_ERROR, Diagnostic, Edit, Severity
from amp_lint.text.source import Source

SOURCE = "amp-lint"
_SEVERITIES = {
    Severity.ERROR: types.DiagnosticSeverity.Error,
    Severity.WARNING: types.DiagnosticSeverity.Warning,
    Severity.INFO: types.DiagnosticSeverity.Information,
}
MARK = "\ufeff"
"""A byte order mark: some editors have it in the text, and it is no part of `Source.text`."""


class Places:
    """The places of one text."""

    def __init__(self, text: str, name: str, uri: str, codec: PositionCodec) -> None:
        """Raises `SourceError` if the text cannot be in the encoding that it declares."""
        self.source = Source.of(text.removeprefix(MARK), name)
        self._uri = uri
        self._codec = codec
        self._shift = codec.client_num_units(MARK) if text.startswith(MARK) else 0

    def position(self, offset: int) -> types.Position:
        """Where an offset, in characters, is."""
        row, column = self.source.position(offset)
        units = self._codec.client_num_units(self.source.text[offset - column + 1 : offset])
        return types.Position(row - 1, units + (self._shift if row == 1 else 0))

    def range(self, start: int, end: int) -> types.Range:
        """Where the characters ``[start, end)`` are."""
        return types.Range(self.position(start), self.position(end))

    def edits(self, edits: Iterable[Edit]) -> list[types.TextEdit]:
        """What to change, in order."""
        ordered = sorted(edits, key=lambda edit: (edit.start, edit.end))
        return [types.TextEdit(self.range(each.start, each.end), each.content) for each in ordered]

    def diagnostic(self, finding: Diagnostic) -> types.Diagnostic:
        """A finding as editors show it."""
        severity = _SEVERITIES[finding.severity]
        if finding.code == SYNTAX_ERROR:  # every editor of Python says so by itself
            severity = types.DiagnosticSeverity.Information
        url = _url(finding.code)
        return types.Diagnostic(
            self.range(finding.start, finding.end),
            finding.text,
            severity=severity,
            code=finding.code,
            code_description=types.CodeDescription(url) if url else None,
            source=SOURCE,
            tags=_tags(finding),
            related_information=[
                types.DiagnosticRelatedInformation(
                    types.Location(self._uri, self.range(place.start, place.end)), place.label
                )
                for place in finding.related
            ],
        )

    def proof(self, finding: Diagnostic, text: str) -> types.Diagnostic:
        """What an experiment said of the fix of a finding."""
        return types.Diagnostic(
            self.range(finding.start, finding.end),
            text,
            severity=types.DiagnosticSeverity.Information,
            code=finding.code,
            source=SOURCE,
        )


def _tags(finding: Diagnostic) -> list[types.DiagnosticTag] | None:
    """How an editor draws it: struck out, or pale."""
    rule = registry.find(finding.code)
    if rule and rule.about_comments:
        return [types.DiagnosticTag.Unnecessary]
    return [types.DiagnosticTag.Deprecated] if finding.deprecated else None


@functools.cache
def _url(code: str) -> str | None:
    rule = registry.find(code)
    return registry.address(rule) if rule else None


def overlap(one: types.Range, other: types.Range) -> bool:
    """Whether two ranges have a place in common, be it their ends."""
    return one.start <= other.end and other.start <= one.end


def path_of(uri: str) -> Path | None:
    """The file that a URI names; None for what is no file."""
    from pygls.uris import to_fs_path

    name = to_fs_path(uri) if uri.startswith("file:") else None
    return Path(name) if name else None
