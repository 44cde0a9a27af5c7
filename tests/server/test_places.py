"""Positions in the client's units, and edits that make one text of another."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

pytest.importorskip("pygls")

from lsprotocol import types
from pygls.workspace import PositionCodec

from amp_lint.edit import edits
from amp_lint.run.config import Choice
from amp_lint.server.documents import Folders, document
from amp_lint.server.look import Workspace
from amp_lint.server.places import Places
from amp_lint.server.wishes import Wishes, wishes
from amp_lint.text.diagnostic import Applicability, Fix


@pytest.mark.parametrize(
    ("text", "found", "encoding", "place"),
    [
        ("a\nb = 1", "1", "utf-16", (1, 4)),
        ("'\U0001f600' + x", "x", "utf-16", (0, 7)),
        ("'\U0001f600' + x", "x", "utf-8", (0, 9)),
        ("'\U0001f600' + x", "x", "utf-32", (0, 6)),
        ("a\r\n'é'\r\nx", "x", "utf-8", (2, 0)),
        ("a\rx", "x", "utf-16", (1, 0)),
        ("a\x0c\u2028\x1cx\n", "x", "utf-16", (0, 4)),  # ends no line, as Python's splitlines says
        ("\ufeffx = 1\ny", "x", "utf-16", (0, 1)),
        ("\ufeffx = 1\ny", "y", "utf-8", (1, 0)),
    ],
)
def test_positions(text: str, found: str, encoding: str, place: tuple[int, int]) -> None:
    places = Places(text, "a.py", "file:///a.py", PositionCodec(encoding))
    at = places.position(places.source.text.index(found))
    assert (at.line, at.character) == place


def test_a_difference_makes_the_new_text() -> None:
    choose = random.Random(0)
    lines = ["a\n", "b\n", "\n", "    c\r\n", "d", "e\x0cf\n"]
    for _ in range(300):
        old, new = ("".join(choose.choices(lines, k=choose.randrange(8))) for _ in "12")
        fix = Fix("", tuple(edits.difference(old, new)), Applicability.SAFE)
        assert edits.apply(old, [fix] if fix.edits else [])[0] == new


def test_settings_that_cannot_be_used_are_told() -> None:
    told: list[str] = []
    assert wishes({"amp-lint": {"preview": True}}, told.append) == Wishes(preview=True)
    assert wishes({"unsafeFixes": False}, told.append) == Wishes(unsafe_fixes=False)
    assert wishes(None, told.append) == Wishes() and not told
    assert wishes([1], told.append) == wishes({"preview": 1, "x": 2}, told.append) == Wishes()
    assert len(told) == 3


def test_the_innermost_folder_counts(tmp_path: Path) -> None:
    folders = Folders(Workspace("", Choice("command line", preview=True)))
    outer, inner = tmp_path.as_uri(), (tmp_path / "in").as_uri()
    folders.set([outer, inner])
    folders.wish(inner, Wishes(preview=False, unsafe_fixes=True))
    below = folders.around(tmp_path / "in" / "a.py")
    assert (below.root, below.choice.preview, below.unsafe) == (str(tmp_path / "in"), False, True)
    beside = folders.around(tmp_path / "a.py")
    assert (beside.root, beside.choice.preview, beside.unsafe) == (str(tmp_path), True, False)
    assert folders.around(Path("/elsewhere/a.py")).root == ""


@pytest.mark.parametrize(
    ("uri", "language", "is_python"),
    [
        ("file:///a.py", "python", True),
        ("file:///a", "python", True),
        ("file:///a.py", "", True),
        ("file:///a.py", "django-html", False),
        ("untitled:Untitled-1", "python", True),
        ("vscode-notebook-cell:/a.ipynb#1", "python", False),
        ("git:/a.py", "python", False),
    ],
)
def test_documents_of_python(uri: str, language: str, is_python: bool) -> None:
    item = types.TextDocumentItem(uri=uri, language_id=language, version=1, text="")
    assert (document(item) is not None) == is_python
