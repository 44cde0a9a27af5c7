"""The language server, with a real client over stdio."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

pytest.importorskip("pygls")

from lsp_client import applied, client
from lsprotocol import types

NOWHERE = types.Range(types.Position(0, 0), types.Position(0, 0))


def test_a_text_is_looked_at_fixed_explained_and_forgotten(
    tmp_path: Path, clip: str, fixed: str
) -> None:
    async def session() -> int:
        path = tmp_path / "train.py"
        async with client() as editor:
            await editor.begin(tmp_path)
            editor.open(path, clip)
            (found,) = await editor.found(path)
            assert (found.code, found.severity) == ("AMP101", types.DiagnosticSeverity.Error)
            assert (found.range.start.line, found.range.start.character) == (7, 8)
            assert found.code_description and "clip_before_unscale" in found.code_description.href
            assert found.related_information
            assert "65536" in await editor.hover(path, found.range.start)
            assert not await editor.hover(path, types.Position(0, 0))

            actions = await editor.actions(path, found.range)
            fix, silence = actions.values()
            assert fix.title.startswith("AMP101: Insert") and fix.is_preferred
            assert applied(clip, fix.edit) == fixed
            assert silence.title == "AMP101: silence with # noqa: AMP101"
            assert "# noqa: AMP101" in applied(clip, silence.edit).splitlines()[7]
            assert not await editor.actions(path, NOWHERE)
            (every,) = (await editor.actions(path, NOWHERE, ["source.fixAll"])).values()
            assert every.kind == "source.fixAll.amp-lint" and applied(clip, every.edit) == fixed

            editor.change(path, 2, clip.replace("1.0)", "1.0)  # noqa: AMP101"))
            assert not await editor.found(path, 2)
            editor.change(path, 3, clip + "(\n")
            (syntax,) = await editor.found(path, 3)
            assert (syntax.code, syntax.severity) == (
                "AMP900",
                types.DiagnosticSeverity.Information,
            )
            editor.change(path, 4, clip)
            assert len(await editor.found(path, 4)) == 1
            editor.close(path)
            while editor.published[-1].diagnostics:
                await asyncio.sleep(0.01)
            return await editor.end()

    assert asyncio.run(session()) == 0
