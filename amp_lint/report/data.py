"""A finding as plain data: what the Python API gives, and what JSON is made of.

The fields have the names of ruff's JSON. Rows and columns count from 1, columns in characters, ends
are exclusive; in a notebook rows are those of the cell.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from amp_lint.report import Finding
from amp_lint.text.diagnostic import Fix as _Fix
from amp_lint.text.noqa import Suppressions
from amp_lint.text.printable import printable
from amp_lint.text.source import Source

VERSION = 1
"""Of `SCHEMA`: a field that goes, or means something else, makes it another one; a new one does
not."""


@dataclass(frozen=True, slots=True)
class Location:
    """A place in a text."""

    row: int
    column: int


@dataclass(frozen=True, slots=True)
class Edit:
    """Replace what stands between two places with ``content``."""

    content: str
    location: Location
    end_location: Location
    cell: int | None = None
    """The cell of a notebook that it is in, from 1."""


@dataclass(frozen=True, slots=True)
class Fix:
    """Edits that belong together."""

    message: str
    applicability: str
    """"safe", "unsafe", or "display", which is shown and never applied."""
    edits: tuple[Edit, ...]


@dataclass(frozen=True, slots=True)
class Related:
    """Another place that explains a finding."""

    message: str
    location: Location
    end_location: Location
    cell: int | None = None


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One finding."""

    filename: str
    code: str
    name: str
    severity: str
    """"error", "warning" or "info"."""
    message: str
    """What is wrong and what to do, in one line."""
    location: Location
    end_location: Location
    cell: int | None = None
    """The cell of a notebook that it is in, from 1."""
    noqa_row: int = 1
    """The row at whose end a ``noqa`` comment silences it."""
    preview: bool = False
    """Whether it is reported in preview only."""
    fix: Fix | None = None
    related: tuple[Related, ...] = ()
    elsewhere: tuple[str, ...] = ()
    """What explains it in other files: ``path:row: why: line``, or no row where that is open."""

    def to_dict(self) -> dict[str, Any]:
        """As JSON that `SCHEMA` describes, in its order."""
        return {
            "cell": self.cell,
            "code": self.code,
            "end_location": _place(self.end_location),
            "filename": self.filename,
            "fix": _fix_dict(self.fix) if self.fix else None,
            "location": _place(self.location),
            "message": self.message,
            "name": self.name,
            "noqa_row": self.noqa_row,
            "preview": self.preview,
            "related": [
                {
                    "end_location": _place(place.end_location),
                    "location": _place(place.location),
                    "message": place.message,
                }
                | _cell_dict(place.cell)
                for place in self.related
            ],
            "severity": self.severity,
        } | ({"elsewhere": [*self.elsewhere]} if self.elsewhere else {})


def _place(location: Location) -> dict[str, int]:
    return {"column": location.column, "row": location.row}


def _cell_dict(cell: int | None) -> dict[str, int]:
    return {} if cell is None else {"cell": cell}


def _fix_dict(fix: Fix) -> dict[str, Any]:
    return {
        "applicability": fix.applicability,
        "edits": [
            {
                "content": edit.content,
                "end_location": _place(edit.end_location),
                "location": _place(edit.location),
            }
            | _cell_dict(edit.cell)
            for edit in fix.edits
        ],
        "message": fix.message,
    }


def data(finding: Finding) -> Diagnostic:
    """A finding as plain data, its file called as its source is."""
    source, found = finding.source, finding.diagnostic
    row, _ = source.position(found.start)
    return Diagnostic(
        source.name,
        found.code,
        found.name,
        found.severity.value,
        found.text,
        _location(source, found.start),
        _location(source, found.end),
        source.in_cell(row)[0],
        source.in_cell(Suppressions(source).comment_row(row))[1],
        finding.preview,
        _fix(source, found.fix) if found.fix else None,
        tuple(
            Related(
                place.label,
                _location(source, place.start),
                _location(source, place.end),
                _cell(source, place.start),
            )
            for place in found.related
        ),
        tuple(map(printable, found.elsewhere)),
    )


def _fix(source: Source, fix: _Fix) -> Fix:
    ordered = sorted(fix.edits, key=lambda edit: (edit.start, edit.end))
    edits = (
        Edit(
            edit.content,
            _location(source, edit.start),
            _location(source, edit.end),
            _cell(source, edit.start),
        )
        for edit in ordered
        if source.has_edits
    )
    return Fix(fix.title, fix.applicability.value, tuple(edits))


def _cell(source: Source, offset: int) -> int | None:
    """The cell that a place is in, which need not be that of the finding."""
    return source.in_cell(source.position(offset)[0])[0]


def _location(source: Source, offset: int) -> Location:
    row, column = source.told(offset)
    return Location(row, column)


_TEXT, _ROW = {"type": "string"}, {"type": "integer", "minimum": 1}
_CELL = {"type": ["integer", "null"], "minimum": 1}


def _object(properties: dict[str, Any], *optional: str) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": [name for name in properties if name not in optional],
    }


_LOCATION = _object({"column": _ROW, "row": _ROW})
_SPAN = {"end_location": _LOCATION, "location": _LOCATION, "cell": _CELL}
_EDIT = _object({"content": _TEXT, **_SPAN}, "cell")
SCHEMA: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "$id": f"urn:amp-lint:diagnostic:{VERSION}",
    "title": "A finding of amp-lint",
    **_object(
        {
            "cell": _CELL,
            "code": {"type": "string", "pattern": "^AMP[0-9]{3}$"},
            "end_location": _LOCATION,
            "filename": _TEXT,
            "fix": {
                "anyOf": [
                    {"type": "null"},
                    _object(
                        {
                            "applicability": {"enum": ["safe", "unsafe", "display"]},
                            "edits": {"type": "array", "items": _EDIT},
                            "message": _TEXT,
                        }
                    ),
                ]
            },
            "location": _LOCATION,
            "message": _TEXT,
            "name": _TEXT,
            "noqa_row": _ROW,
            "preview": {"type": "boolean"},
            "related": {
                "type": "array",
                "items": _object({"message": _TEXT, **_SPAN}, "cell"),
            },
            "severity": {"enum": ["error", "warning", "info"]},
            "elsewhere": {"type": "array", "items": _TEXT},
        },
        "elsewhere",
    ),
}
"""The JSON Schema of what `Diagnostic.to_dict` gives."""
