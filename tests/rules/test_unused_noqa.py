"""AMP901: what a comment silences is known, or nothing is said."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from pathlib import Path

import pytest

import amp_lint
from amp_lint import engine, fixing, registry
from amp_lint.handbook.pages import SECTIONS, Example, Fence, parse, unmarked
from amp_lint.rule import Rule
from amp_lint.run.choice import Choice, resolve
from amp_lint.selection import Scope, Selection
from amp_lint.text.source import Source
from tests.conftest import CLIP, FIXED, Run

CODE = "AMP901"
RULES = [rule for rule in registry.every_rule() if rule.about_comments]
PAGES = [(rule, parse(registry.page(rule))) for rule in RULES]
EXAMPLES = [(rule, example) for rule, page in PAGES for example in page.examples]
BY_DEFAULT = Selection(resolve([Choice("here", extend_select=(CODE,))]))
ALL = Selection(registry.every_rule(), preview=True)
FOR = f"--extend-select={CODE}"
CLIPPED = "model.parameters(), 1.0)"


def check(text: str, selection: Selection = BY_DEFAULT, scope: Scope = Scope.WHOLE) -> list[str]:
    """The codes that comments name in vain."""
    source = Source.of(text, "a.py")
    found = engine.check(source, selection, named=True, scope=scope)
    return [f.message.split("`")[1] for f in found if f.code == CODE]


def fixed(text: str, selection: Selection = BY_DEFAULT) -> str:
    return fixing.fix(Source.of(text, "a.py"), selection, scope=Scope.WHOLE).text


# --- the page -------------------------------------------------------------------------------------


@pytest.mark.parametrize(("rule", "page"), PAGES)
def test_page(rule: Rule, page: object) -> None:
    read = parse(registry.page(rule))
    assert rule.code in read.title and rule.name in read.title
    assert read.sections == SECTIONS
    assert read.examples and any(fence.kind == "ok" for fence in read.silent)
    assert not rule.requires and not rule.is_static and rule.fixes


def test_fixes_are_told(main: Run) -> None:
    Path("a.py").write_text("x = 1  # noqa: AMP101, E501\ny = 2  # noqa: AMP104\n")
    found = json.loads(main("--isolated", FOR, "--output-format=json", "a.py").out)
    titles = [each["fix"]["message"] for each in found]
    assert titles == ["Remove `AMP101` from the comment", "Remove the comment"]


def test_there_is_nothing_to_prove(main: Run) -> None:
    assert "No fixes to prove or refute" in (done := main("verify", CODE)).out + done.err


def found_in(fence: Fence) -> Counter[tuple[int, str]]:
    source = Source.of(fence.text, "a.py")
    found = engine.check(source, BY_DEFAULT, named=True, scope=Scope.WHOLE)
    return Counter((source.position(f.start)[0], f.code) for f in found)


@pytest.mark.parametrize(("rule", "example"), EXAMPLES)
def test_examples(rule: Rule, example: Example) -> None:
    assert found_in(example.flagged) == example.flagged.expected()
    assert example.fixed
    assert unmarked(fixed(example.flagged.text)) == unmarked(example.fixed.text)
    assert not found_in(example.fixed)


@pytest.mark.parametrize("fence", [fence for _, page in PAGES for fence in page.silent])
def test_silent_examples(fence: Fence) -> None:
    assert not found_in(fence)


# --- what is judged -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("comment", "codes"),
    [
        ("# noqa: AMP101", ["AMP101"]),
        ("# noqa:AMP101,AMP104", ["AMP101, AMP104"]),
        ("# NOQA: E501, AMP101", ["AMP101"]),
        ("# why # noqa: AMP101 because", ["AMP101"]),
        ("# noqa: AMP999", ["AMP999"]),  # no rule is called so
        ("# noqa", []),
        ("# noqa: E501", []),
        ("# noqa: A1", []),  # of another linter, which takes prefixes
        ("# noqa: amp101", []),  # silences nothing, and may be meant for others
        ("# noqa: AMP900", []),  # in flake8, errors
        ("# noqa: AMP601", []),  # in runs
        ("# noqa: AMP112", []),  # in preview
        ("# noqa: AMP1", []),  # some of these in preview
        ("# noqa: AMP101, AMP901", []),  # asked to stay
        ("# noqa: AMP101  # noqa: AMP104", ["AMP101"]),  # the second one does not count
    ],
)
def test_codes(comment: str, codes: list[str]) -> None:
    assert check(f"import torch\nx = 1  {comment}\n") == codes


def test_prefixes_are_judged_where_all_of_them_run() -> None:
    text = "x = 1  # noqa: AMP1\n"
    assert check(text, ALL) == ["AMP1"]
    assert check("x = 1  # noqa: AMP1, AMP9\n", ALL) == []
    some = Selection(tuple(rule for rule in ALL.rules if rule.code != "AMP103"), preview=True)
    assert check(text, some) == []


def test_only_comments_that_count() -> None:
    assert check('x = """\n# noqa: AMP101\n"""\n') == []
    assert check("# flake8: noqa\nx = 1  # noqa: AMP101\n") == []
    assert check("x = (  # noqa: AMP101\n") == []
    assert check("x = '''\n'''  # noqa: AMP101\n# noqa: AMP104\n") == ["AMP101", "AMP104"]


def test_what_silences_something_stays() -> None:
    assert check(CLIP.replace(CLIPPED, f"{CLIPPED}  # noqa: AMP101")) == []
    assert check(CLIP.replace(CLIPPED, f"{CLIPPED}  # noqa: AMP101, AMP104")) == ["AMP104"]
    assert check(CLIP.replace(CLIPPED, f"{CLIPPED}  # noqa: AMP1"), ALL) == []
    assert check(FIXED.replace(CLIPPED, f"{CLIPPED}  # noqa: AMP101")) == ["AMP101"]


READ = """\
import torch
from accelerate import Accelerator


def train(model, optimizer, loader):
    accelerator = Accelerator(mixed_precision="fp16")
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    for x in loader:
        accelerator.backward(model(x).sum())
        print(torch.stack([p.grad.norm() for p in model.parameters()]))  # noqa: AMP102
        optimizer.step()
"""


def test_what_silences_something_in_preview_alone_stays() -> None:
    shown = engine.check(Source.of(READ.replace("noqa", ""), "a.py"), ALL, named=True)
    assert [(found.code, found.preview) for found in shown] == [("AMP102", True)]
    assert check(READ) == []
    assert check(READ.replace("fp16", "bf16")) == ["AMP102"]


def test_not_where_the_oldest_torch_keeps_a_rule_silent() -> None:
    rule = next(rule for rule in BY_DEFAULT.rules if rule.since and not rule.elsewhere)
    text = f"x = 1  # noqa: {rule.code}\n"
    assert check(text) == [rule.code]
    assert check(text, Selection(BY_DEFAULT.rules, (1, 6))) == []


def test_not_where_comments_do_not_count() -> None:
    assert check("x = 1  # noqa: AMP101\n", Selection(BY_DEFAULT.rules, noqa=False)) == []


@pytest.mark.parametrize(
    ("line", "asks"), [("x = 1", False), ("scaler.step(optimizer)", True), ("x.scale(y)", True)]
)
def test_how_much_of_the_project_is_known(line: str, asks: bool) -> None:
    text = f"{line}  # noqa: AMP105, AMP202\n"
    assert check(text, scope=Scope.PART) == []
    assert ("AMP105" not in check(text, scope=Scope.IMPORTS)[0]) is asks
    assert "AMP105" in check(text, scope=Scope.WHOLE)[0]


# --- what is fixed --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "after"),
    [
        ("x = 1  # noqa: AMP101", "x = 1"),
        ("x = 1  # noqa: AMP101 \t", "x = 1 \t"),
        ("x = 1  # noqa: E501, AMP101", "x = 1  # noqa: E501"),
        ("x = 1  # noqa: AMP101, E501", "x = 1  # noqa: E501"),
        ("x = 1  # noqa: AMP101,E501 AMP104, W2,AMP101", "x = 1  # noqa: E501, W2"),
        ("x = 1  # noqa: AMP101 because", "x = 1  # because"),
        ("x = 1  # noqa: AMP101, because", "x = 1  # because"),
        ("x = 1  # noqa: AMP101  # type: ignore", "x = 1  # type: ignore"),
        ("x = 1  # why  # noqa: AMP101", "x = 1  # why"),
        ("x = 1  # noqa: AMP101, E501 because", "x = 1  # noqa: E501 because"),
        ("x = '''\n'''  # noqa: AMP101", "x = '''\n'''"),
    ],
)
def test_lines_are_fixed(line: str, after: str) -> None:
    for end in ("\n", "\r\n"):
        before, then = (f"import a\n{each}\ny = 2\n".replace("\n", end) for each in (line, after))
        assert fixed(before) == then
        assert fixed(then) == then


def test_a_line_of_nothing_else_goes() -> None:
    assert fixed("if x:\n    # noqa: AMP101\n    y = 1\n") == "if x:\n    y = 1\n"
    assert fixed("x = 1\n# noqa: AMP101") == "x = 1\n"


def test_beside_other_fixes() -> None:
    text = CLIP.replace("update()", "update()  # noqa: AMP104")
    assert fixed(text) == FIXED


# --- where people work ----------------------------------------------------------------------------


def test_off_unless_it_is_asked_for(main: Run) -> None:
    Path("a.py").write_text("x = 1  # noqa: AMP101\n")
    for none in ([], ["--preview"], [f"--ignore={CODE}", "--select=ALL"]):
        assert main("--isolated", *none, "a.py").code == 0
    for asked in ([FOR], ["--extend-select=unused-noqa"], ["--select=AMP9,AMP1"], ["--select=ALL"]):
        done = main("--isolated", "--output-format=concise", *asked, "a.py")
        assert done.out.startswith("a.py:1:8: AMP901 [*] info: `AMP101` in the comment"), asked
    done = main("--isolated", f"--select={CODE}", "a.py")
    assert (done.code, f"`{FOR}` runs it beside them" in done.err) == (0, True)


def test_found_shown_and_fixed(main: Run) -> None:
    path = Path("a.py")
    path.write_text("x = 1  # noqa: AMP101\ny = 2\n")
    done = main("--isolated", FOR, "--diff", ".")
    assert (done.code, "-x = 1  # noqa: AMP101\n+x = 1\n" in done.out) == (1, True)
    assert main("--isolated", FOR, "--fix", ".").code == 0
    assert path.read_text() == "x = 1\ny = 2\n"


def test_settings_choose_it(main: Run) -> None:
    Path("a.py").write_text("x = 1  # noqa: AMP101\n")
    settings = f'extend-select = ["{CODE}"]\nper-file-ignores = {{"b.py" = ["AMP101"]}}\n'
    Path("amp-lint.toml").write_text(settings)
    Path("b.py").write_text("x = 1  # noqa: AMP101\n")
    assert [
        each.split(":")[0] for each in main("--output-format=concise", "-q").out.splitlines()
    ] == ["a.py"]


HELPER = "import torch\ndef clip(m):\n    torch.nn.utils.clip_grad_norm_(m.parameters(), 1.0)\n"
CALLING = CLIP.replace("import torch\n", "import torch\nfrom helper import clip\n").replace(
    "torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)", "clip(model)  # noqa: AMP101, AMP202"
)


def test_a_comment_for_what_another_file_shows(main: Run) -> None:
    """The helper clips: without it, nothing is found on the line."""
    Path("train.py").write_text(CALLING)
    Path("helper.py").write_text(HELPER)
    told = "`AMP202` in the comment"
    assert told in main("--isolated", FOR, ".").out
    assert told in main("--isolated", FOR, "train.py", "helper.py").out
    assert main("--isolated", FOR, "train.py").out == "All checks passed!\n"
    Path("helper.py").rename("elsewhere.py")
    assert "`AMP202` in the comment" in main("--isolated", FOR, "train.py").out


def test_a_folder_below_the_top_is_not_all(main: Run) -> None:
    Path("pkg").mkdir()
    Path("pyproject.toml").write_text("")
    Path("pkg/a.py").write_text("x.scale(y)  # noqa: AMP101, AMP202\n")
    assert "`AMP202` in" in main("--isolated", FOR, "pkg").out
    assert "`AMP101, AMP202` in" in main("--isolated", FOR, ".").out
    Path(".git").mkdir()
    assert "`AMP101, AMP202` in" in main("--isolated", FOR, ".").out
    Path("pkg/a.py").write_text("from ..pkg import a\nx = 1  # noqa: AMP101\n")
    Path("pkg/__init__.py").write_text("")
    assert "`AMP101` in" in main("--isolated", FOR, "pkg").out
    Path("pkg/a.py").write_text("from .. import other\nx = 1  # noqa: AMP101\n")
    Path("other.py").write_text("")
    assert "`AMP101`" not in main("--isolated", FOR, "pkg").out


def test_stdin(amp_lint: Run) -> None:
    done = amp_lint("--isolated", FOR, "--fix", "-", stdin="x = 1  # noqa: AMP101\n")
    assert (done.code, done.out) == (0, "x = 1\n")
    done = amp_lint(
        "--isolated", FOR, "--fix", "-", stdin="from b import c\nx = 1  # noqa: AMP101\n"
    )
    assert "noqa" not in done.out
    Path("b.py").write_text("c = 1\n")
    done = amp_lint(
        "--isolated", FOR, "--fix", "-", stdin="from b import c\nx = 1  # noqa: AMP101\n"
    )
    assert "noqa" in done.out


def test_notebooks(main: Run) -> None:
    path = Path("a.ipynb")
    cells = [
        "%time x = 1\n",
        "y = 1  # noqa: AMP101, E501\n",
        "# noqa: AMP104",
        "z = 1 # noqa: AMP101",
    ]
    body = [{"cell_type": "code", "metadata": {}, "source": cell} for cell in cells]
    path.write_text(json.dumps({"cells": body, "nbformat": 4, "nbformat_minor": 5, "metadata": {}}))
    done = main("--isolated", "--output-format=concise", FOR, "-q", path)
    places = [line.split(" ")[0] + line.split(" ")[1] for line in done.out.splitlines()]
    assert places == ["a.ipynb:cell2:1:16:", "a.ipynb:cell3:1:1:", "a.ipynb:cell4:1:7:"]
    assert main("--isolated", FOR, "--fix", path).code == 0
    after = [cell["source"] for cell in json.loads(path.read_text())["cells"]]
    assert after == ["%time x = 1\n", "y = 1  # noqa: E501\n", "", "z = 1"]


def test_documents(main: Run) -> None:
    path = Path("a.md")
    path.write_text("# x\n\n  ```python\n  x = 1  # noqa: AMP101\n  ```\n")
    done = main("--isolated", "--output-format=concise", FOR, "-q", path)
    assert done.out.startswith("a.md:4:10: AMP901")
    assert main("--isolated", FOR, "--fix", path).code == 0
    assert path.read_text() == "# x\n\n  ```python\n  x = 1\n  ```\n"


def test_from_python() -> None:
    settings = amp_lint.Settings(extend_select=(CODE,))
    text = "import torch\nx = 1  # noqa: AMP101\n"
    assert [each.code for each in amp_lint.check(text, settings=settings)] == [CODE]
    assert amp_lint.fix(text, settings=settings).source == "import torch\nx = 1\n"
    unknown = f"import helper\n{text}"
    assert amp_lint.check(unknown, settings=settings) == []
    project = {"a.py": unknown.encode()}
    found = amp_lint.check(unknown, name="a.py", settings=settings, project=project)
    assert [each.code for each in found] == [CODE]


def test_editors_draw_it_pale(tmp_path: Path) -> None:
    pytest.importorskip("pygls")
    from lsp_client import applied, client
    from lsprotocol import types

    async def session() -> None:
        path, text = tmp_path / "a.py", "x = 1  # noqa: AMP101\n"
        (tmp_path / "amp-lint.toml").write_text(f'extend-select = ["{CODE}"]\n')
        async with client() as editor:
            await editor.begin(tmp_path)
            editor.open(path, text)
            (found,) = await editor.found(path)
            assert found.code == CODE and types.DiagnosticTag.Unnecessary in (found.tags or ())
            fix, *_ = (await editor.actions(path, found.range)).values()
            assert applied(text, fix) == "x = 1\n"
            await editor.end()

    asyncio.run(session())


def test_a_symptom_of_it_is_not_looked_for_in_code(main: Run) -> None:
    Path("a.py").write_text("x = 1  # noqa: AMP101\n")
    done = main("why", "an old comment on the line silences it", "a.py")
    assert CODE in main("why", "an old comment on the line silences it").out
    assert "--extend-select" not in done.err and done.code in (0, 1)
