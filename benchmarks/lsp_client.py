"""A real client of the language server, over stdio."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from lsprotocol import types
from pygls.lsp.client import LanguageClient

SECONDS = 60.0
"""For an answer, on a busy machine."""


class Client(LanguageClient):
    """Keeps what the server says."""

    def __init__(self, settings: dict[str, Any] | None = None) -> None:
        super().__init__("test", "1")
        self.settings = settings
        self.said: list[str] = []
        self.published: list[types.PublishDiagnosticsParams] = []
        self.news = asyncio.Condition()
        self.feature(types.WINDOW_LOG_MESSAGE)(functools.partial(self._log))
        self.feature(types.WINDOW_SHOW_MESSAGE)(functools.partial(self._log))
        self.feature(types.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)(functools.partial(self._publish))
        self.progressed: list[object] = []
        self.feature(types.PROGRESS)(functools.partial(self._progress))
        self.feature(types.WINDOW_WORK_DONE_PROGRESS_CREATE)(functools.partial(self._allow))
        self.feature(types.WORKSPACE_CONFIGURATION)(functools.partial(self._configuration))

    async def _log(self, params: types.LogMessageParams) -> None:
        async with self.news:
            self.said.append(params.message)
            self.news.notify_all()

    async def _publish(self, params: types.PublishDiagnosticsParams) -> None:
        async with self.news:
            self.published.append(params)
            self.news.notify_all()

    def _progress(self, params: types.ProgressParams) -> None:
        self.progressed.append(params.value)

    def _allow(self, params: types.WorkDoneProgressCreateParams) -> None:
        """A server may show how far it is."""

    def _configuration(self, params: types.ConfigurationParams) -> list[Any]:
        return [self.settings for _ in params.items]

    async def begin(
        self,
        folder: Path,
        options: dict[str, Any] | None = None,
        encodings: list[types.PositionEncodingKind | str] | None = None,
    ) -> None:
        general = types.GeneralClientCapabilities(position_encodings=encodings)
        workspace = types.WorkspaceClientCapabilities(
            configuration=self.settings is not None,
            workspace_edit=types.WorkspaceEditClientCapabilities(document_changes=True),
        )
        window = types.WindowClientCapabilities(work_done_progress=True)
        capabilities = types.ClientCapabilities(workspace=workspace, general=general, window=window)
        folders = [types.WorkspaceFolder(folder.as_uri(), folder.name)]
        self.answer = await self.initialize_async(
            types.InitializeParams(
                capabilities, workspace_folders=folders, initialization_options=options
            )
        )
        self.initialized(types.InitializedParams())

    def open(self, path: Path, text: str, language: str = "python") -> None:
        item = types.TextDocumentItem(path.as_uri(), language, 1, text)
        self.text_document_did_open(types.DidOpenTextDocumentParams(item))

    def change(self, path: Path, version: int, text: str) -> None:
        self.text_document_did_change(
            types.DidChangeTextDocumentParams(
                types.VersionedTextDocumentIdentifier(uri=path.as_uri(), version=version),
                [types.TextDocumentContentChangeWholeDocument(text)],
            )
        )

    def close(self, path: Path) -> None:
        name = types.TextDocumentIdentifier(path.as_uri())
        self.text_document_did_close(types.DidCloseTextDocumentParams(name))

    async def found(self, path: Path, version: int = 1) -> list[types.Diagnostic]:
        """The diagnostics of a version, as soon as they are there."""
        params = await asyncio.wait_for(self._wait(path.as_uri(), version), SECONDS)
        return [*params.diagnostics]

    async def _wait(self, uri: str, version: int) -> types.PublishDiagnosticsParams:
        async with self.news:
            while True:
                mine = [each for each in self.published if each.uri == uri]
                if mine and mine[-1].version == version:
                    return mine[-1]
                await self.news.wait()

    async def heard(self, words: str) -> str:
        """What the server has said with these words, as soon as it has."""

        async def listen() -> str:
            async with self.news:
                while not (found := [each for each in self.said if words in each]):
                    await self.news.wait()
                return found[0]

        return await asyncio.wait_for(listen(), SECONDS)

    async def actions(
        self, path: Path, at: types.Range, only: list[str] | None = None
    ) -> dict[str, types.CodeAction | types.Command]:
        """What can be done, by title."""
        made = await self.text_document_code_action_async(
            types.CodeActionParams(
                types.TextDocumentIdentifier(path.as_uri()),
                at,
                types.CodeActionContext([], only=only),
            )
        )
        return {each.title: each for each in made or ()}

    async def do(self, command: types.Command) -> object:
        """What a command of the server gives."""
        return await self.workspace_execute_command_async(
            types.ExecuteCommandParams(command=command.command, arguments=command.arguments)
        )

    async def hover(self, path: Path, at: types.Position) -> str:
        name = types.TextDocumentIdentifier(path.as_uri())
        shown = await self.text_document_hover_async(types.HoverParams(name, at))
        if shown is None:
            return ""
        assert isinstance(shown.contents, types.MarkupContent)
        return shown.contents.value

    @property
    def pid(self) -> int:
        """Of the server."""
        assert self._server is not None
        return self._server.pid

    async def end(self) -> int:
        """Shut the server down as it should be; its exit code."""
        await asyncio.wait_for(self.shutdown_async(None), SECONDS)
        self.exit(None)
        assert self._server is not None
        return await asyncio.wait_for(self._server.wait(), SECONDS)


@contextlib.asynccontextmanager
async def client(*arguments: str, settings: dict[str, Any] | None = None) -> AsyncIterator[Client]:
    """A client whose server runs; it ends with it."""
    made = Client(settings)
    await made.start_io(sys.executable, "-m", "amp_lint", "server", *arguments)
    try:
        yield made
    finally:
        assert made._server is not None
        with contextlib.suppress(ProcessLookupError):
            made._server.kill()
        await made._server.wait()
        for task in made._async_tasks:
            task.cancel()


def applied(text: str, action: types.CodeAction | types.Command) -> str:
    """A text of one encoding unit a character after an action that edits it."""
    assert isinstance(action, types.CodeAction) and action.edit and action.edit.document_changes
    (change,) = action.edit.document_changes
    assert isinstance(change, types.TextDocumentEdit)
    lines = text.splitlines(keepends=True)

    def offset(at: types.Position) -> int:
        return sum(map(len, lines[: at.line])) + at.character

    for each in reversed(change.edits):
        assert isinstance(each, types.TextEdit)
        text = text[: offset(each.range.start)] + each.new_text + text[offset(each.range.end) :]
    return text
