"""Python in Markdown and reStructuredText: found and fixed where it stands."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from amp_lint import fixing, registry
from amp_lint.selection import Selection
from amp_lint.syntax.cells import opened
from tests.conftest import CLIP, FIXED, Run

CONCISE = "--output-format=concise"


def indented(code: str, indent: str) -> str:
    return "".join(f"{indent}{line}" if line.strip() else line for line in code.splitlines(True))


def markdown(code: str, indent: str = "") -> str:
    fence = f"```python title='a'\n{code}```\n"
    return f"# é\n\n{indented(fence, indent)}\n~~~py\ndef f(...\n~~~\n\n```sh\n{CLIP}```\n"


def restructured(code: str, indent: str = "") -> str:
    block = f".. code-block:: python\n   :linenos:\n\n{indented(code, '   ')}\nText.\n"
    return f"é\n=\n\n{indented(block, indent)}\n.. code-block:: sh\n\n{indented(CLIP, '  ')}"


def fixed(text: str, name: str) -> str:
    """What all safe fixes make of a file."""
    source = opened(text.encode(), name)
    selection = Selection(registry.all_rules(), docstring_code=True)
    return source.changed(fixing.fix(source, selection).text).file_data.decode()


CASES = [
    ("a.md", markdown, "", (11, 9)),
    ("a.md", markdown, "   ", (11, 12)),
    ("a.rst", restructured, "", (14, 12)),
    ("a.rst", restructured, "  ", (14, 14)),
]


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize(("name", "made", "indent", "place"), CASES)
def test_found_and_fixed(
    main: Run,
    name: str,
    made: Callable[[str, str], str],
    indent: str,
    place: tuple[int, int],
    end: str,
) -> None:
    row, column = place
    path = Path(name)
    path.write_bytes(made(CLIP, indent).replace("\n", end).encode())
    done = main("--isolated", CONCISE, path)
    assert done.out.startswith(f"{name}:{row}:{column}: AMP101 [*]"), done
    (found,) = json.loads(main("--isolated", "--output-format=json", path).out)
    assert found["cell"] is None and found["fix"]["edits"] == []
    assert main("--isolated", "--diff", path).out.startswith(f"--- {name}")
    assert main("--isolated", "--fix", path).code == 0
    assert path.read_bytes() == made(FIXED, indent).replace("\n", end).encode()


def test_documents_are_read_where_they_are_named(main: Run) -> None:
    Path("a.md").write_text(markdown(CLIP))
    assert main("--isolated", ".").err == "warning: No Python files found under the given path(s)\n"
    Path("b.md").write_bytes(b"\xff")
    assert "b.md: cannot be read: it is not UTF-8; " in main("--isolated", "b.md").err


def test_fences_go_on_where_others_end(main: Run) -> None:
    head, body = CLIP.split("\n\n\n")
    Path("a.md").write_text(f"```py\n{head}\n```\n>\n```{{.python}}\n{body}```\n")
    assert "a.md:10:9: AMP101" in main("--isolated", CONCISE, "a.md").out


@pytest.mark.parametrize(
    ("name", "text", "code"),
    [
        ("a.md", "````py\n```py\nx\n```\n````\n", ["     \n \n   "]),
        ("a.md", "````text\n```py\nx\n```\n````\n", []),
        ("a.md", "```py\nx", ["x"]),
        ("a.md", "```pycon\n>>> x\n```\n```python-repl\nx\n```\n", []),
        ("a.md", "```py\n```\n", [""]),
        ("a.rst", ".. code:: python\n", []),
        ("a.rst", ".. testcode::\n\n  x\n\n  y\n\nz", ["x\n\ny"]),
        ("a.rst", ".. code:: python\n\nx", []),
    ],
)
def test_blocks(name: str, text: str, code: list[str]) -> None:
    source = opened(text.encode(), name)
    lines = source.text.split("\n# ") if source.text else []
    assert [each.partition("\n")[2].rstrip("\n") for each in lines] == code
    assert source.file_data == text.encode()


def test_documents_are_looked_for_where_somebody_wants_that(main: Run, tmp_path: Path) -> None:
    """By option or setting; what is excluded stays out, and other files are none."""
    text = "```python\nfrom torch.cuda.amp import GradScaler\n\nscaler = GradScaler()\n```\n"
    for name in ("a.md", "sub/b.md", "old/c.md", "sub/notes.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)

    def shown(*options: str) -> list[str]:
        return [Path(line).name for line in main("--show-files", *options, ".").out.split()]

    assert shown() == []
    assert shown("--isolated", "--extend-include=*.md,!a.md", "--exclude=old") == ["b.md"]
    (tmp_path / "amp-lint.toml").write_text('extend-include = ["/*.md"]\n')
    assert shown() == ["a.md"]
    assert main("--fix", "--extend-include=sub/*.md", ".").code == 0
    assert "torch.amp" in (tmp_path / "sub/b.md").read_text()
    assert (tmp_path / "old/c.md").read_text() == text


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("around", ["{}", '"""About.\n\n{}"""\n'])
@pytest.mark.parametrize("blank", ["    ", "\t", ""])
def test_lines_that_stay_are_spelled_as_they_were(end: str, around: str, blank: str) -> None:
    """Blank ones, too, of which some have blanks and others none, and the last one."""
    name = "a.py" if around != "{}" else "a.md"

    def text(code: str) -> str:
        rows = f"x = 1\n{blank}\ny = 2\n\nz = 3\n  \n{code}\n{blank}\n"
        return around.format(f"```python\n{rows}```\n").replace("\n", end)

    assert fixed(text(CLIP), name) == text(FIXED)


def test_line_ends_of_each_kind() -> None:
    r"""A line that ends with ``\r``, and a blank one that ends with ``\n``, are two."""
    text = "```python\nx = 1\r  \ny = 2\n```\n"
    source = opened(text.encode(), "a.md")
    made = source.changed(source.text.replace("y = 2", "y = 3"))
    assert made.file_data.decode() == text.replace("y = 2", "y = 3")


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_what_is_added_at_the_end_ends_as_the_others(end: str) -> None:
    update = "        scaler.update()\n"
    step = "        scaler.step(optimizer)\n"
    early = f"```python\n{FIXED.replace(step + update, update + step)}```\n".replace("\n", end)
    assert fixed(early, "a.md") == f"```python\n{FIXED}```\n".replace("\n", end)


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_where_the_last_line_is_removed_the_others_end_as_they_did(end: str) -> None:
    text = f"```python{end}x = 1{end}y = 2{end}```{end}"
    source = opened(text.encode(), "a.md")
    left = source.changed(source.text.replace(f"y = 2{end}", ""))
    assert left.file_data.decode() == text.replace(f"y = 2{end}", "")
