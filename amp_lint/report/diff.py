"""Unified diffs, in the file's own encoding, so that they can be applied."""

from __future__ import annotations

import difflib
import io
import re
from collections.abc import Iterator

from amp_lint.report import Style
from amp_lint.report.color import CYAN, paint
from amp_lint.text.source import Source

_CONTROL = re.compile(rb"[\0-\x1f\x7f]")
_QUOTED = re.compile(rb'[\0-\x1f\x7f"\\]')
_COLORS = {b"-": "31", b"+": "32", b"@": CYAN}


def diff(before: Source, after: Source, style: Style) -> Iterator[bytes]:
    """The lines that turn the one into the other."""
    for (path, _, was), (_, _, now) in zip(before.pieces(), after.pieces(), strict=True):
        yield from _piece(_name(path), was, now, style)


def _piece(name: bytes, before: bytes, after: bytes, style: Style) -> Iterator[bytes]:
    old, new = (io.BytesIO(data).readlines() for data in (before, after))
    for line in difflib.diff_bytes(difflib.unified_diff, old, new, fromfile=name, tofile=name):
        body = line.rstrip(b"\n")
        yield _paint(body, style)
        yield b"\n" if line.endswith(b"\n") else b"\n\\ No newline at end of file\n"


def _name(path: str) -> bytes:
    """A path as it stands in a diff: as git quotes it, if it would begin a new line."""
    name = path.encode(errors="surrogateescape")
    if not _CONTROL.search(name):
        return name
    return b'"%s"' % _QUOTED.sub(lambda match: b"\\%03o" % match[0][0], name)


def _paint(line: bytes, style: Style) -> bytes:
    if not style.color or line[:1] not in _COLORS:
        return line
    start, end = paint("\0", _COLORS[line[:1]], style).encode().split(b"\0")
    return start + line + end
