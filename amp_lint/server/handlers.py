"""Which message of a client leads where."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lsprotocol import types

from amp_lint.server import hover
from amp_lint.server.actions import KINDS, Action, actions
from amp_lint.server.wishes import wishes

if TYPE_CHECKING:
    from amp_lint.server.language_server import Server


def connect(server: Server) -> None:
    """Have the server answer."""
    for method, handler in (
        (types.INITIALIZE, _initialize),
        (types.INITIALIZED, _initialized),
        (types.WORKSPACE_DID_CHANGE_CONFIGURATION, _configured),
        (types.WORKSPACE_DID_CHANGE_WORKSPACE_FOLDERS, _folders),
        (types.TEXT_DOCUMENT_DID_OPEN, _opened),
        (types.TEXT_DOCUMENT_DID_CHANGE, _changed),
        (types.TEXT_DOCUMENT_DID_SAVE, _saved),
        (types.TEXT_DOCUMENT_DID_CLOSE, _closed),
        (types.TEXT_DOCUMENT_HOVER, _hover),
    ):
        server.feature(method)(handler)
    options = types.CodeActionOptions(code_action_kinds=[*KINDS])
    server.feature(types.TEXT_DOCUMENT_CODE_ACTION, options)(_actions)


def _initialize(ls: Server, params: types.InitializeParams) -> None:
    ls.folders.set(_uris(ls))
    for uri in ls.folders.uris:
        ls.folders.wish(uri, wishes(params.initialization_options, ls.tell))


async def _initialized(ls: Server, params: types.InitializedParams) -> None:
    await ls.ask_for_settings()


async def _configured(ls: Server, params: types.DidChangeConfigurationParams) -> None:
    if params.settings:
        for uri in ls.folders.uris:
            ls.folders.wish(uri, wishes(params.settings, ls.tell))
    await ls.ask_for_settings()


async def _folders(ls: Server, params: types.DidChangeWorkspaceFoldersParams) -> None:
    ls.folders.set(_uris(ls))
    await ls.ask_for_settings()


def _uris(ls: Server) -> list[str]:
    return [*ls.workspace.folders] or [uri for uri in [ls.workspace.root_uri] if uri]


def _opened(ls: Server, params: types.DidOpenTextDocumentParams) -> None:
    ls.opened(params.text_document)


def _changed(ls: Server, params: types.DidChangeTextDocumentParams) -> None:
    uri = params.text_document.uri
    if known := ls.documents.get(uri):
        known.version = params.text_document.version
        known.text = ls.workspace.get_text_document(uri).source
        ls.changed(known)


def _saved(ls: Server, params: types.DidSaveTextDocumentParams) -> None:
    ls.look_again()


def _closed(ls: Server, params: types.DidCloseTextDocumentParams) -> None:
    ls.closed(params.text_document.uri)


async def _hover(ls: Server, params: types.HoverParams) -> types.Hover | None:
    place = types.Range(params.position, params.position)
    found = [*ls.at(params.text_document.uri, place)]
    if not found:
        return None
    text = "\n\n---\n\n".join(hover.text(finding) for finding, _ in found)
    return types.Hover(types.MarkupContent(types.MarkupKind.Markdown, text), found[0][1].range)


async def _actions(ls: Server, params: types.CodeActionParams) -> list[Action]:
    return await actions(ls, params)
