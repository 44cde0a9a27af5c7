"""The columns of what a census writes, as Arrow has them."""

from __future__ import annotations

import pyarrow as pa

VERSION = 1
"""A column that goes, or means something else, makes it another one; a new one does not."""
_METADATA = {b"amp-lint.census": str(VERSION).encode()}

_PLACE = (
    ("row", pa.int32()),
    ("column", pa.int32()),
    ("end_row", pa.int32()),
    ("end_column", pa.int32()),
    ("cell", pa.int32()),
)
RELATED = pa.struct([("message", pa.string()), *_PLACE])
EDIT = pa.struct([("content", pa.string()), *_PLACE])

FILES = pa.schema(
    [
        ("repository", pa.string()),
        ("path", pa.string()),
        ("size", pa.int64()),
        ("sha256", pa.string()),
        ("stage", pa.string()),
        ("amp", pa.bool_()),
        ("findings", pa.int32()),
        ("cpu_seconds", pa.float64()),
        ("error", pa.string()),
        ("commit", pa.string()),
        ("year", pa.int32()),
    ],
    metadata=_METADATA,
)
"""A row for each file, and one with an ``error`` for what should have been files."""
FINDINGS = pa.schema(
    [
        ("repository", pa.string()),
        ("path", pa.string()),
        ("code", pa.string()),
        ("name", pa.string()),
        ("severity", pa.string()),
        ("message", pa.string()),
        *_PLACE,
        ("noqa_row", pa.int32()),
        ("preview", pa.bool_()),
        ("fix", pa.string()),
        ("applicability", pa.string()),
        ("edits", pa.list_(EDIT)),
        ("related", pa.list_(RELATED)),
    ],
    metadata=_METADATA,
)
"""A row for each finding, with the fields of `amp_lint.Diagnostic`."""


def table(schema: pa.Schema, rows: list[tuple[object, ...]]) -> pa.Table:
    """Rows, each in the order of the columns, as a table."""
    columns = zip(*rows, strict=True) if rows else ([] for _ in schema)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)]
    return pa.Table.from_arrays(arrays, schema=schema)
