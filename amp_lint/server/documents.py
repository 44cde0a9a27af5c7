"""What is open in an editor, and what is known of it."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from lsprotocol import types

from amp_lint.server.look import Workspace
from amp_lint.server.places import MARK, path_of
from amp_lint.server.wishes import Wishes
from amp_lint.text.diagnostic import Diagnostic

LANGUAGE = "python"
_UNTITLED = "untitled:"


@dataclass(eq=False, slots=True)
class Document:
    """A text in an editor, and what was found in it."""

    uri: str
    path: Path
    version: int
    text: str
    findings: list[tuple[Diagnostic, types.Diagnostic]] = field(default_factory=list)
    """Those that the editor shows, once as they are and once as it has them."""
    shown: int | None = None
    """The version that they are of."""
    seconds: float = 0.0
    """What the last look took."""
    changed: float = -math.inf
    """When it last changed, in seconds of `time.monotonic`."""
    looking: asyncio.Task[None] | None = None
    offered: asyncio.Task[list[Diagnostic]] | None = None
    """The findings of this version with the fixes that hold, for whoever asks."""
    proving: asyncio.Task[str] | None = None
    proofs: list[types.Diagnostic] = field(default_factory=list)
    """What came of experiments with fixes of this version."""

    @property
    def code(self) -> str:
        """The text without a byte order mark."""
        return self.text.removeprefix(MARK)

    def stop(self) -> None:
        """Give up what is under way: the text is another one now, or closed."""
        for task in (self.looking, self.offered, self.proving):
            if task:
                task.cancel()
        self.looking = self.offered = self.proving = None
        self.proofs = []


def document(item: types.TextDocumentItem) -> Document | None:
    """A document of Python, in a file or not yet in one; None for any other."""
    path = path_of(item.uri)
    if path is None and item.uri.startswith(_UNTITLED):
        path = Path.cwd() / f"{item.uri.removeprefix(_UNTITLED).rpartition('/')[2]}.py"
    is_python = item.language_id == LANGUAGE or (not item.language_id and path_is_python(path))
    return Document(item.uri, path, item.version, item.text) if path and is_python else None


def path_is_python(path: Path | None) -> bool:
    """Whether a file is called as Python is, for a client that does not say what it is."""
    return path is not None and path.suffix == ".py"


class Folders:
    """The folders of a workspace, each with the settings that the editor has for it."""

    def __init__(self, base: Workspace) -> None:
        self._base = base
        self._wishes: dict[str, Wishes] = {"": Wishes()}
        """By URI; "" is for what is in none of them."""

    @property
    def uris(self) -> list[str]:
        """Of all folders, and "" for what is in none."""
        return [*self._wishes]

    def set(self, uris: Sequence[str]) -> None:
        """Say which folders there are."""
        last = self._wishes[""]
        self._wishes = {uri: self._wishes.get(uri, last) for uri in ("", *uris)}

    def wish(self, uri: str, wishes: Wishes) -> None:
        """Set what the editor asks for in a folder."""
        self._wishes[uri] = wishes

    def around(self, path: Path) -> Workspace:
        """What governs a file: the innermost folder counts."""
        folders = [(folder, uri) for uri in self._wishes if (folder := path_of(uri))]
        within = [each for each in folders if path.is_relative_to(each[0])]
        root, uri = max(within, key=lambda each: len(each[0].parts), default=(None, ""))
        wishes, base = self._wishes[uri], self._base
        preview = base.choice.preview if wishes.preview is None else wishes.preview
        return replace(
            base,
            root=str(root) if root else "",
            choice=replace(base.choice, preview=preview),
            unsafe=base.unsafe if wishes.unsafe_fixes is None else wishes.unsafe_fixes,
        )
