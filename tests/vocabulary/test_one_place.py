"""What torch calls things stands in the vocabulary, and nowhere else but in what people read."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from amp_lint.vocabulary.table import ROWS

ROOT = Path(__file__).parents[2]
TEXTS = ROOT / "amp_lint" / "handbook"
"""What users search for, and what they are told."""
WORDS = {word for row in ROWS for word in row.words} | {
    name for row in ROWS for name in row.order if "_" in name
}
"""The last parts of what is called, and the names of parameters that are no common words."""
_PROSE = re.compile(r"\s|^[a-z0-9]+(-[a-z0-9]+)+$|^\w+\.(cfg|py)$")
"""Sentences, and the names of rules and of files."""


def literals(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Row and text of the literals of some code that have a word of the API; not of messages."""
    nodes = [*ast.walk(tree)]
    inside = {id(part) for node in nodes if isinstance(node, ast.JoinedStr) for part in node.values}
    inside |= {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    inside |= {id(noun) for node in nodes if isinstance(node, ast.Call) for noun in _counted(node)}
    for node in nodes:
        if isinstance(node, ast.Constant) and id(node) not in inside:
            text = node.value.decode("latin1") if isinstance(node.value, bytes) else node.value
            if isinstance(text, str) and not _PROSE.search(text) and WORDS & {*_words(text)}:
                yield node.lineno, text


def _counted(call: ast.Call) -> list[ast.expr]:
    """What ``counted(3, "step")`` counts."""
    return call.args[1:] if ast.unparse(call.func) == "counted" else []


def _words(text: str) -> list[str]:
    return re.findall(r"\w+", text)


def everywhere() -> Iterator[str]:
    for folder in (ROOT / "amp_lint", ROOT / "rules"):
        for path in sorted(folder.rglob("*.py")):
            place = path.relative_to(ROOT)
            if place.parts[1] != "vocabulary" and TEXTS not in path.parents:
                for row, text in literals(ast.parse(path.read_text("utf-8"))):
                    yield f"{place}:{row}: {text}"


def test_what_the_api_is_called_stands_in_the_vocabulary() -> None:
    assert [*everywhere()] == []


def test_literals_are_told_from_messages() -> None:
    code = 'def f():\n    """step"""\n    x = "step", "call step", f"step {x}", "a.b"\n'
    code += '    y = counted(x, "step")\n'
    assert [*literals(ast.parse(code))] == [(3, "step")]
    assert [*literals(ast.parse('name = "uncalled-autocast"; y = rb"autocast|x"'))] == [
        (1, "autocast|x")
    ]
