"""The language server: it hears of texts, has them looked at, and says what was found.

All of this runs in one thread, so that nothing about a text that was changed meanwhile is said: a
look that is cancelled never comes to the line that says it.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from lsprotocol import types
from pygls.lsp.server import LanguageServer

from amp_lint import __version__
from amp_lint.edit import edits
from amp_lint.run.job import Action
from amp_lint.run.session import LintOptions
from amp_lint.run.workers import WorkerError
from amp_lint.server import proving
from amp_lint.server.analyst import Analyst
from amp_lint.server.documents import Document, Folders, document
from amp_lint.server.look import Buffer, Seen, Workspace, look
from amp_lint.server.places import Places, overlap
from amp_lint.server.wishes import SECTION, wishes
from amp_lint.text.diagnostic import Diagnostic
from amp_lint.text.files import absolute
from amp_lint.text.source import SourceError

if TYPE_CHECKING:
    from pygls.server import ServerErrors

GONE = 1
"""The exit code if the client went away, or ended the server without having shut it down."""
_LOG = types.MessageType.Log
SHORTEST, LONGEST = 0.02, 0.5
"""Seconds between two changes that are typing, and without one until the text is looked at.

As long as a look takes, in between."""


class Server(LanguageServer):
    """Serves one client."""

    def __init__(self, options: LintOptions) -> None:
        super().__init__("amp-lint", __version__, types.TextDocumentSyncKind.Full)
        self.analyst = Analyst()
        self.folders = Folders(_base(options))
        self.documents: dict[str, Document] = {}
        self._saves = 0
        self._told: set[str] = set()
        self.command(proving.COMMAND)(_prove)

    @property
    def is_shut_down(self) -> bool:
        """Whether the client has said that it is enough."""
        return self.protocol._shutdown

    def report_server_error(self, error: Exception, source: ServerErrors) -> None:
        """Say what a client did wrong, or what went wrong here: in its log, not in its face."""
        self.tell(f"{type(error).__name__}: {error}", types.MessageType.Error)

    def tell(self, text: str, kind: types.MessageType = types.MessageType.Warning) -> None:
        """A line in the client's log; the same only once until something is saved."""
        if text not in self._told:
            self._told.add(text)
            try:
                self.window_log_message(types.LogMessageParams(kind, f"amp-lint: {text}"))
            except OSError:
                self.leave()

    def leave(self) -> None:
        """End at once: nobody reads what is said."""
        self.analyst.close()
        os._exit(GONE)

    # settings

    async def ask_for_settings(self) -> None:
        """Ask the client, if it answers such questions, and look at everything again."""
        workspace = self.client_capabilities.workspace
        if workspace and workspace.configuration:
            uris = self.folders.uris
            items = [types.ConfigurationItem(uri or None, SECTION) for uri in uris]
            answers = await self.workspace_configuration_async(types.ConfigurationParams(items))
            for uri, value in zip(uris, answers, strict=False):
                if value is not None:
                    self.folders.wish(uri, wishes(value, self.tell))
        self.look_again()

    def look_again(self) -> None:
        """Look at all that is open: settings, or other files, are not what they were."""
        self._saves += 1
        self._told.clear()
        for each in self.documents.values():
            self.changed(each)

    # documents

    def opened(self, item: types.TextDocumentItem) -> None:
        """Look at a text from now on, if it is Python."""
        self.closed(item.uri)
        if opened := document(item):
            self._saves += 1
            self.documents[item.uri] = opened
            self.changed(opened)

    def closed(self, uri: str) -> None:
        """Forget a text, and what was found in it."""
        if closed := self.documents.pop(uri, None):
            closed.stop()
            self._publish(closed, [])

    def changed(self, changed: Document) -> None:
        """Look at a text soon, and at none of its former states any more."""
        self._forget()
        changed.stop()
        changed.looking = asyncio.ensure_future(self._look(changed))

    def _forget(self) -> None:
        """Let go of the messages that are dealt with: pygls keeps those that ask for no answer."""
        under_way = self.protocol._request_futures
        for key in [key for key, future in under_way.items() if future.done()]:
            del under_way[key]

    async def _look(self, at: Document) -> None:
        started = time.monotonic()
        pause = min(max(at.seconds, SHORTEST), LONGEST)
        is_typing, at.changed = started - at.changed < pause, started
        if is_typing:
            await asyncio.sleep(pause)
            started = time.monotonic()
        seen = await self._ask(at, Action.FIND)
        at.seconds = time.monotonic() - started
        for error in seen.errors:
            self.tell(error)
        self._publish(at, seen.findings)

    async def _ask(self, at: Document, action: Action) -> Seen:
        try:
            return await self.analyst.ask(look, self._buffer(at), action)
        except WorkerError as error:
            self.tell(f"{at.path}: {error} while it was analysed; exclude it")
            return Seen(text=at.code)

    def _buffer(self, at: Document) -> Buffer:
        return Buffer(str(at.path), at.code, self.folders.around(at.path), self._saves)

    def _publish(self, at: Document, findings: list[Diagnostic]) -> None:
        places = self.places(at) if findings else None
        at.findings = [(each, places.diagnostic(each)) for each in findings] if places else []
        at.shown = at.version
        self.publish(at)

    def publish(self, at: Document) -> None:
        """Have the editor show what is known of a text."""
        shown = [*(each for _, each in at.findings), *at.proofs]
        try:
            self.text_document_publish_diagnostics(
                types.PublishDiagnosticsParams(at.uri, shown, at.version)
            )
        except OSError:
            self.leave()

    def places(self, at: Document) -> Places | None:
        """The places of a text; None if it cannot be what it declares to be."""
        try:
            return Places(at.text, str(at.path), at.uri, self.workspace.position_codec)
        except SourceError:
            return None

    # questions

    async def settled(self, at: Document) -> None:
        """Wait until the findings are those of the text."""
        while at.looking and not at.looking.done():
            await asyncio.wait([at.looking])

    async def offers(self, at: Document) -> list[Diagnostic]:
        """The findings of a text with fixes that hold; they are tried when somebody asks."""
        if at.offered is None:
            at.offered = asyncio.ensure_future(self._offers(at))
        return await asyncio.shield(at.offered)

    async def _offers(self, at: Document) -> list[Diagnostic]:
        return (await self._ask(at, Action.REPORT)).findings

    async def fixed(self, at: Document) -> str:
        """The text with all that ``--fix`` would fix."""
        return (await self._ask(at, Action.PREVIEW)).text

    def at(self, uri: str, place: types.Range) -> Iterator[tuple[Diagnostic, types.Diagnostic]]:
        """The findings that a range touches."""
        known = self.documents.get(uri)
        for finding, shown in known.findings if known else ():
            if overlap(shown.range, place):
                yield finding, shown

    # proofs

    async def prove(self, at: Document, finding: Diagnostic) -> str:
        """Prove the fix of a finding; what came of it is shown beside it until the text changes."""
        places = self.places(at)
        if places is None or finding.fix is None:
            return "nothing to prove"
        before = places.source.text
        after, _ = edits.apply(before, [finding.fix])
        async with self._progress(f"{finding.code}: proving the fix") as tell:
            verdict, said = await proving.proof(before, after, tell)
        self.tell(f"{at.path.name}: {finding.code}: fix {said.strip() or verdict}", _LOG)
        at.proofs = [*at.proofs, places.proof(finding, f"fix {verdict}: {finding.fix.title}")]
        self.publish(at)
        return verdict

    @contextlib.asynccontextmanager
    async def _progress(self, title: str) -> AsyncIterator[Callable[[str], None]]:
        """Show that something is under way, to a client that can; who stops it there, ends it."""
        window = self.client_capabilities.window
        if not (window and window.work_done_progress):
            yield lambda text: None
            return
        token, progress = str(uuid.uuid4()), self.work_done_progress
        await progress.create_async(token)
        progress.begin(token, types.WorkDoneProgressBegin(title, cancellable=True))
        task = asyncio.current_task()
        assert task is not None
        progress.tokens[token].add_done_callback(lambda _: task.cancel())
        try:
            yield lambda text: progress.report(token, types.WorkDoneProgressReport(message=text))
        finally:
            progress.tokens.pop(token, None)
            progress.end(token, types.WorkDoneProgressEnd())


async def _prove(ls: Server, uri: str, version: int, code: str, start: int, end: int) -> str:
    """The command `proving.COMMAND`: the finding of a version of a document that it is about."""
    at = ls.documents.get(uri)
    if at is None or at.version != version:
        return "the text is another one now"
    if at.proving:
        at.proving.cancel()
    offered = await ls.offers(at)
    found = [each for each in offered if (each.code, each.start, each.end) == (code, start, end)]
    if at.version != version or not found:
        return "the text is another one now"
    at.proving = asyncio.ensure_future(ls.prove(at, found[0]))
    return await at.proving


def _base(options: LintOptions) -> Workspace:
    """What the command line says; paths on it are from where the server was started."""
    here = [value if "=" in value else str(absolute(Path(value))) for value in options.config or ()]
    choice = replace(options.choice, root=Path.cwd())
    return Workspace(
        "", choice, tuple(here), not options.ignore_noqa, options.isolated, options.unsafe_fixes
    )
