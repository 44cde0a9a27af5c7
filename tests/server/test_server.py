"""The language server, with a real client over stdio."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace

import pytest

pytest.importorskip("pygls")

from lsp_client import Client, applied, client
from lsprotocol import types

from amp_lint.server import actions, proving
from amp_lint.text.diagnostic import Diagnostic, Severity

NOWHERE = types.Range(types.Position(0, 0), types.Position(0, 0))


def test_a_text_is_looked_at_fixed_explained_and_forgotten(
    tmp_path: Path, clip: str, fixed: str
) -> None:
    async def session() -> int:
        path = tmp_path / "train.py"
        async with client() as editor:
            await editor.begin(tmp_path)
            editor.open(path, clip)
            await explained(editor, path)
            await acted_on(editor, path, clip, fixed)
            await changed(editor, path, clip)
            editor.close(path)
            while editor.published[-1].diagnostics:
                await asyncio.sleep(0.01)
            return await editor.end()

    assert asyncio.run(session()) == 0


async def explained(editor: Client, path: Path) -> None:
    (found,) = await editor.found(path)
    assert (found.code, found.severity) == ("AMP101", types.DiagnosticSeverity.Error)
    assert (found.range.start.line, found.range.start.character) == (7, 8)
    assert found.code_description and "clip_before_unscale" in found.code_description.href
    assert found.related_information
    assert "65536" in await editor.hover(path, found.range.start)
    assert not await editor.hover(path, types.Position(0, 0))


async def acted_on(editor: Client, path: Path, clip: str, fixed: str) -> None:
    (found,) = await editor.found(path)
    fix, prove, silence = (await editor.actions(path, found.range)).values()
    assert fix.title == "AMP101: Insert `scaler.unscale_(optimizer)` before the clip"
    assert applied(clip, fix) == fixed
    assert silence.title == "AMP101: silence with # noqa: AMP101"
    assert "# noqa: AMP101" in applied(clip, silence).splitlines()[7]
    assert prove.title not in await editor.actions(path, found.range, ["quickfix"])
    assert not await editor.actions(path, NOWHERE)
    (every,) = (await editor.actions(path, NOWHERE, ["source.fixAll"])).values()
    assert every.title == "amp-lint: apply all safe fixes"
    assert applied(clip, every) == fixed
    assert isinstance(prove, types.Command)
    assert prove.title == "AMP101: prove the fix by experiment"
    assert await editor.do(prove) == "proven"
    assert [each.message for each in await editor.found(path)][1].startswith("fix proven")
    assert editor.progressed


async def changed(editor: Client, path: Path, clip: str) -> None:
    editor.change(path, 2, clip.replace("1.0)", "1.0)  # noqa: AMP101"))
    assert not await editor.found(path, 2)
    editor.change(path, 3, clip + "(\n")
    (found,) = await editor.found(path, 3)
    assert (found.code, found.severity) == ("AMP900", types.DiagnosticSeverity.Information)
    editor.change(path, 4, clip)
    assert len(await editor.found(path, 4)) == 1


STEP = "def step(loss):\n    loss.backward()\n"
CALLER = """\
import torch
from b import step

name = "\U0001f600"; region = torch.cuda.amp.autocast()
with torch.autocast("cuda"):
    step(loss)
"""


def test_why_nothing_can_be_proven_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proving, "is_possible", lambda: False)
    found = Diagnostic("AMP101", "x", Severity.ERROR, "x", 0, 1)

    def offered(*, shown: bool) -> list[actions.Action]:
        able = types.CodeActionClientCapabilities(disabled_support=shown)
        text = types.TextDocumentClientCapabilities(code_action=able)
        editor = SimpleNamespace(client_capabilities=types.ClientCapabilities(text_document=text))
        return [*actions._proof(editor, None, found)]  # type: ignore[arg-type]

    (action,) = offered(shown=True)
    assert isinstance(action, types.CodeAction) and action.disabled
    assert "torch and hypothesis" in action.disabled.reason
    assert not offered(shown=False)


def test_folders_settings_positions_and_languages(tmp_path: Path, clip: str) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    for folder in (first, second):
        folder.mkdir()
    (first / "b.py").write_text(STEP)
    (first / "pyproject.toml").write_text('[tool.amp-lint]\nexclude = ["out.py"]\n')
    (second / "amp-lint.toml").write_text('selekt = ["AMP101"]\n')

    async def session() -> None:
        async with client(settings={"preview": "yes", "unsafeFix": True}) as editor:
            await editor.begin(first, encodings=[types.PositionEncodingKind.Utf16])
            editor.open(first / "a.py", CALLER)
            editor.open(first / "out.py", clip)
            editor.open(second / "a.py", clip)
            editor.open(first / "page.html", clip, "html")
            found = await editor.found(first / "a.py")
            assert "AMP201" in {each.code for each in found}  # as `b.py` is looked into
            (old,) = (each for each in found if each.code == "AMP401")
            assert old.range.start.character == 22 and old.tags
            assert not await editor.found(first / "out.py")
            assert len(await editor.found(second / "a.py")) == 1
            await editor.heard("'unsafeFix' is unknown; there are preview, unsafeFixes")
            await editor.heard("preview is 'yes'; give true or false")
            await editor.heard("selekt")
            assert not any("html" in each.uri for each in editor.published)

            (first / "b.py").write_text("def step(loss):\n    return loss\n")
            name = types.TextDocumentIdentifier((first / "b.py").as_uri())
            editor.text_document_did_save(types.DidSaveTextDocumentParams(name))
            while "AMP201" in {each.code for each in await editor.found(first / "a.py")}:
                await asyncio.sleep(0.02)
            assert await editor.end() == 0

    asyncio.run(session())
