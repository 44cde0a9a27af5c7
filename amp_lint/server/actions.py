"""What can be done about findings: their fixes, all safe fixes at once, a comment that silences."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, TypeAlias

from lsprotocol import types

from amp_lint.edit.edits import difference
from amp_lint.run.add_noqa import silenced
from amp_lint.server import proving
from amp_lint.server.places import Places
from amp_lint.text.diagnostic import Applicability, Diagnostic, Edit, applicable

if TYPE_CHECKING:
    from amp_lint.server.documents import Document
    from amp_lint.server.language_server import Server

FIX_ALL = "source.fixAll.amp-lint"
Action: TypeAlias = types.CodeAction | types.Command
KINDS: tuple[str, ...] = (types.CodeActionKind.QuickFix, FIX_ALL)
_Found = tuple[Diagnostic, types.Diagnostic]


async def actions(ls: Server, params: types.CodeActionParams) -> list[Action]:
    """What a client may offer for a range; nothing, if the text changes meanwhile."""
    known, only = ls.documents.get(params.text_document.uri), params.context.only
    if known is None:
        return []
    version, made = known.version, list[Action]()
    if _wants(only, types.CodeActionKind.QuickFix):
        made += await _quick_fixes(ls, known, params.range)
    if only and _wants(only, FIX_ALL):
        made += await _fix_all(ls, known)
    if only:  # a command has no kind, and so is none of those that are asked for
        made = [each for each in made if isinstance(each, types.CodeAction)]
    return made if known.version == version else []


def _wants(only: Sequence[str] | None, kind: str) -> bool:
    """Whether a client asks for a kind of actions: for itself, for one above it, or for all."""
    return only is None or any(kind == each or kind.startswith(f"{each}.") for each in only)


async def _quick_fixes(ls: Server, known: Document, at: types.Range) -> list[Action]:
    await ls.settled(known)
    found, places = [*ls.at(known.uri, at)], ls.places(known)
    if not found or places is None:
        return []
    fixed: list[Action] = []
    if any(applicable(finding.fix, unsafe=True) for finding, _ in found):
        fixed = [*_fixes(ls, known, places, found, await ls.offers(known))]
    silent = [await _silence(ls, known, places, each) for each in found]
    return [*fixed, *filter(None, silent)]


def _fixes(
    ls: Server,
    known: Document,
    places: Places,
    found: Iterable[_Found],
    offered: Iterable[Diagnostic],
) -> Iterator[Action]:
    by_place = {(each.code, each.start, each.end): each.fix for each in offered}
    for finding, shown in found:
        fix = by_place.get((finding.code, finding.start, finding.end))
        if fix and applicable(fix, unsafe=True):
            is_safe = fix.applicability is Applicability.SAFE
            yield types.CodeAction(
                f"{finding.code}: {fix.title}{'' if is_safe else ' (unsafe)'}",
                kind=types.CodeActionKind.QuickFix,
                diagnostics=[shown],
                is_preferred=is_safe or None,
                edit=edit(ls, known, places.edits(fix.edits)),
            )
            yield from _proof(ls, known, finding)


def _proof(ls: Server, known: Document, finding: Diagnostic) -> Iterator[Action]:
    """The command that proves; where it cannot, the reason, for a client that shows such."""
    title = f"{finding.code}: prove the fix by experiment"
    document = ls.client_capabilities.text_document
    if proving.is_possible():
        about = [known.uri, known.version, finding.code, finding.start, finding.end]
        yield types.Command(title, command=proving.COMMAND, arguments=about)
    elif document and document.code_action and document.code_action.disabled_support:
        why = types.CodeActionDisabled(proving.NEEDED)
        yield types.CodeAction(title, kind=types.CodeActionKind.QuickFix, disabled=why)


async def _silence(
    ls: Server, known: Document, places: Places, found: _Found
) -> types.CodeAction | None:
    finding, shown = found
    changed, count = await asyncio.to_thread(silenced, places.source, [finding])
    if not count:
        return None
    edits = places.edits(difference(places.source.text, changed.text))
    return types.CodeAction(
        f"{finding.code}: silence with # noqa: {finding.code}",
        kind=types.CodeActionKind.QuickFix,
        diagnostics=[shown],
        edit=edit(ls, known, edits),
    )


async def _fix_all(ls: Server, known: Document) -> list[types.CodeAction]:
    edits = await _all_edits(ls, known)
    if not edits:
        return []
    title = "amp-lint: apply all safe fixes"
    return [types.CodeAction(title, kind=FIX_ALL, edit=edit(ls, known, edits))]


async def _all_edits(ls: Server, known: Document) -> list[types.TextEdit]:
    text = await ls.fixed(known)
    places = ls.places(known)
    if places is None or text == places.source.text:
        return []
    changes: list[Edit] = await asyncio.to_thread(difference, places.source.text, text)
    return places.edits(changes)


def edit(ls: Server, known: Document, edits: Sequence[types.TextEdit]) -> types.WorkspaceEdit:
    """Edits of one version of a document; without the version, for a client that knows none."""
    workspace = ls.client_capabilities.workspace
    can = workspace and workspace.workspace_edit and workspace.workspace_edit.document_changes
    if not can:
        return types.WorkspaceEdit(changes={known.uri: edits})
    identifier = types.OptionalVersionedTextDocumentIdentifier(uri=known.uri, version=known.version)
    return types.WorkspaceEdit(document_changes=[types.TextDocumentEdit(identifier, [*edits])])
