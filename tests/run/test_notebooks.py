"""Notebooks: what is found in their cells, how it is told, and that fixes keep all else."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from typing import Any

import notebooks
import pytest

from amp_lint.syntax.cells import NotebookSource, opened
from amp_lint.text.diagnostic import Edit
from amp_lint.text.source import SourceError
from tests.conftest import CLIP, FIXED, Run

CONCISE = "--output-format=concise"


def cell(source: str | list[str], **more: object) -> dict[str, Any]:
    made: dict[str, Any] = {
        "cell_type": "code",
        "metadata": {},
        "execution_count": None,
        "outputs": [],
    }
    return {**made, "source": source, **more}


def notebook(*cells: dict[str, Any], **more: object) -> str:
    whole = {"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5, **more}
    return json.dumps(whole, indent=1, ensure_ascii=False) + "\n"


def read(*codes: str) -> NotebookSource:
    source = opened(notebook(*map(cell, codes)).encode(), "n.ipynb")
    assert isinstance(source, NotebookSource)
    return source


HEAD, BODY = CLIP.split("\n\n\n")
TITLE = {"cell_type": "markdown", "metadata": {}, "source": ["# é\n", "`scaler.step`"]}
TRAINING = notebook(
    TITLE,
    cell(["%matplotlib inline\n", "!pip install \\\n", "  torch\n", HEAD]),
    cell("%%bash\nls"),
    cell(["def f(:\n", "    pass"]),
    cell(["%%time\n", *BODY.splitlines(keepends=True)], outputs=[{"text": "é \\ /"}]),
)
FIXED_TRAINING = TRAINING.replace(
    '    "        torch.nn.',
    '    "        scaler.unscale_(optimizer)\\n",\n    "        torch.nn.',
)


def test_findings_are_told_by_cell(main: Run) -> None:
    Path("n.ipynb").write_text(TRAINING)
    done = main("--isolated", CONCISE)
    assert [line.split(" ", 3)[:3] for line in done.out.splitlines()[:2]] == [
        ["n.ipynb:cell", "5:6:9:", "AMP101"],
        ["n.ipynb:cell", "4:1:7:", "AMP900"],
    ]
    (clip, _) = json.loads(main("--isolated", "--output-format=json").out)
    assert (clip["cell"], clip["location"]) == (5, {"row": 6, "column": 9})
    assert clip["noqa_row"] == 6
    (edit,) = clip["fix"]["edits"]
    assert (edit["cell"], edit["location"]) == (5, {"row": 6, "column": 9})


def test_formats_of_servers_name_the_line_of_the_file(main: Run) -> None:
    """Which is what they show."""
    Path("n.ipynb").write_text(TRAINING)
    rows = TRAINING.splitlines()
    row = next(n for n, line in enumerate(rows, 1) if "clip_grad_norm_" in line)
    assert f",line={row},col=14," in main("--isolated", "--output-format=github").out
    found = json.loads(main("--isolated", "--output-format=gitlab").out)[0]
    assert found["location"]["lines"]["begin"] == row
    (run,) = json.loads(main("--isolated", "--output-format=sarif").out)["runs"]
    place = run["results"][0]["locations"][0]["physicalLocation"]["region"]
    assert (place["startLine"], place["startColumn"]) == (row, 14)
    assert "fixes" not in run["results"][0]


def test_frames_stay_in_cells(main: Run) -> None:
    loop = "for x in loader:\n    !ls\n    scaler.scale(model(x)).backward()"
    clip = "torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)"
    step = "scaler.step(optimizer)\nscaler.update()"
    head = "import torch\nscaler = torch.amp.GradScaler()"
    Path("n.ipynb").write_text(notebook(*map(cell, (head, loop, clip, step))))
    done = main("--isolated", "--output-format=full")
    assert done.out.splitlines()[2:13] == [
        " --> n.ipynb:cell 3:1:1",
        "  |",
        " ::: cell 2",
        "3 |     scaler.scale(model(x)).backward()",
        "  |     --------------------------------- gradients are scaled here",
        " ::: cell 3",
        "1 | torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)",
        "  | ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^",
        " ::: cell 4",
        "1 | scaler.step(optimizer)",
        "  | ---------------------- and divided by the scale only here",
    ]


def test_fixes_change_the_code_alone(main: Run) -> None:
    Path("n.ipynb").write_text(TRAINING)
    done = main("--isolated", "--diff")
    assert done.out.splitlines()[:3] == [
        "--- n.ipynb:cell 5",
        "+++ n.ipynb:cell 5",
        "@@ -3,6 +3,7 @@",
    ]
    assert "Would fix 1 error." in done.err
    assert "(1 fixed, 1 remaining" in main("--isolated", "--fix").out
    assert Path("n.ipynb").read_text() == FIXED_TRAINING
    assert "fixed" not in main("--isolated", "--fix").out


def test_stdin(amp_lint: Run) -> None:
    named = "--stdin-filename=n.ipynb"
    assert amp_lint("--isolated", named, "--fix", "-", stdin=TRAINING).out == FIXED_TRAINING


def test_comments_and_settings_count(main: Run) -> None:
    line = "1.0)\\n"
    silenced = TRAINING.replace(line, "1.0)  # noqa: AMP101\\n")
    Path("n.ipynb").write_text(silenced)
    assert "AMP101" not in main("--isolated", CONCISE).out
    Path("n.ipynb").write_text(TRAINING)
    main("--isolated", "--add-noqa")
    assert Path("n.ipynb").read_text() == silenced
    Path("n.ipynb").write_text(TRAINING)
    ignored = main("--isolated", CONCISE, "--per-file-ignores=*.ipynb:AMP101")
    assert "AMP101" not in ignored.out
    assert main("--isolated", CONCISE, "--exclude=*.ipynb").out == "All checks passed!\n"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (CLIP, "is no notebook: it is not JSON: "),
        ("[]", "is no notebook: it has no `nbformat`; correct the file or exclude"),
        ('{"nbformat": 4}', "is no notebook: it has no cells"),
        ('{"nbformat": 4, "cells": [1]}', "is no notebook: cell 1 is no object"),
        ('{"nbformat": 4, "cells": [{"cell_type": "code"}]}', "no notebook: cell 1 has no source"),
        (notebook(nbformat=2), "has notebook format 2, and 3 and 4 are read; convert it"),
        (notebook(nbformat=5), "has notebook format 5, and 3 and 4 are read; convert it"),
        ("[" * 100_000, "is no notebook: "),
        ('"\xff"', "is no notebook: it is not UTF-8"),
    ],
)
def test_what_is_no_notebook(main: Run, text: str, problem: str) -> None:
    path = Path("n.ipynb")
    path.write_bytes(text.encode("latin-1"))
    done = main("--isolated", "--fix", path)
    assert done.code == 2
    assert problem in done.err and done.err.count("\n") == 1
    assert path.read_bytes() == text.encode("latin-1")


def test_notebooks_in_other_languages_are_passed_over(main: Run) -> None:
    metadata = {"kernelspec": {"language": "julia", "name": "julia-1.9"}}
    Path("julia.ipynb").write_text(notebook(cell(CLIP), metadata=metadata))
    other = cell(CLIP, metadata={"vscode": {"languageId": "fsharp"}})
    Path("mixed.ipynb").write_text(notebook(other, cell(f"%%writefile a.py\n{CLIP}")))
    assert main("--isolated", ".", "julia.ipynb").out == "All checks passed!\n"


def test_notebooks_import_files(main: Run) -> None:
    Path("helpers.py").write_text(CLIP)
    source = "from helpers import train\ntrain(model, optimizer, loader)"
    Path("n.ipynb").write_text(notebook(cell(source)))
    assert "helpers.py:8:9: AMP101" in main("--isolated", CONCISE).out


@pytest.mark.parametrize(
    ("code", "hidden"),
    [
        ("!ls", "___"),
        ("if x:\n    !ls \\\n    -l\n    y", "if x:\n    _____\n    __\n    y"),
        ("x = !ls\nx", "x = ___\nx"),
        ("a[0], b = %sql x", "a[0], b = ______"),
        ("%time f(x)", "_____;f(x)"),
        ("%time -p f(x)", "_____________"),
        ("f?\n?f\nf.g??", "__\n__\n_____"),
        ("f(a,\n  b\n  %c)\n!x", "f(a,\n  b\n  %c)\n__"),
        ('"""\n!x\n"""\n!x', '"""\n!x\n"""\n__'),
        ("a = 1 \\\n  % b\n%x", "a = 1 \\\n  % b\n__"),
        ("# '(\n%x", "# '(\n__"),
        ("pip install x\ncd a/b", "_____________\n______"),
        ("%%time\nx", "______\nx"),
        ("a %b", "a %b"),
        ("  !ls\n  x", "  ___\n  x"),
        ("await f()", "await f()"),
    ],
)
def test_what_ipython_reads_is_a_name(code: str, hidden: str) -> None:
    source = read(code, "last")
    (letter,) = set(source.text.splitlines()[-2]).difference("# coding: utf-8")
    lines = source.text.replace(letter, "_").splitlines(keepends=True)
    assert "".join(lines[1:-2]) == f"{hidden}\n"
    assert [text for _, text, _ in source.pieces()] == [code, "last"]
    assert not [*source.unread]
    assert [source.line(row) for row in range(*source.block(2))] == code.split("\n")[:-1]


def test_edits_stay_in_one_cell() -> None:
    source = read("a = 1\n!ls\nb", "c")
    a, ls, b, c = (source.text.index(code) for code in ("a = 1", "\n", "\nb", "\nc"))
    assert source.allows(Edit(a, a + 1, "x"))
    assert source.allows(Edit(b + 1, b + 3, ""))
    assert not source.allows(Edit(0, 0, "import x\n"))
    assert not source.allows(Edit(b + 1, c + 2, "x"))
    assert not source.allows(Edit(a, b, "x"))
    assert ls < a
    with pytest.raises(SourceError):
        source.changed("x")
    with pytest.raises(SourceError):
        source.changed(source.text.replace(source.line(1), "", 1))
    made = source.changed(source.text.replace("\nb\n", "\n").replace("\nc\n", "\né\n"))
    assert made.file_data == notebook(cell("a = 1\n!ls"), cell("é")).encode()


@pytest.mark.parametrize("version", [3, 4])
def test_notebooks_of_nbformat(main: Run, version: int) -> None:
    nbformat = pytest.importorskip("nbformat")
    made = importlib.import_module(f"nbformat.v{version}")
    cells = [made.new_code_cell(code) for code in (HEAD, "%%time\n" + BODY)]
    if version == 3:
        whole = made.new_notebook(worksheets=[made.new_worksheet(cells=cells)])
    else:
        whole = made.new_notebook(cells=cells)
    nbformat.write(whole, "n.ipynb", version=version)
    assert "(1 fixed, 0 remaining)" in main("--isolated", "--fix", "n.ipynb").out
    again = nbformat.read("n.ipynb", as_version=version)
    nbformat.validate(again)
    cells[1]["source" if version == 4 else "input"] = "%%time\n" + FIXED.split("\n\n\n")[1]
    assert again == whole


def test_made_notebooks() -> None:
    counts, failures = notebooks.run(range(20))
    assert not failures
    assert counts["fixes"] > 10
