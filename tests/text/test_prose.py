"""Comments and documentation are taken out of bytes, and nothing else is."""

from __future__ import annotations

import ast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amp_lint.text.prose import without_prose


@pytest.mark.parametrize(
    "program, left",
    [
        ("a = 1  # b\nc", "a = 1  \nc"),
        ("# a\rb", "\rb"),
        ('def f():\n    """a\n\n    b"""\n    c', "def f():\n    \n    c"),
        ("x = r'''\\'''a'''; b", "x = r; b"),
        ('x = "#"; y = \'"""\' # z', 'x = "#"; y = \'"""\' '),
        ('x = "\\"#"; y', 'x = "\\"#"; y'),
        ("x = 'a\\\nb#'; y", "x = 'a\\\nb#'; y"),
        ('x = f"""{a}\n#"""; b', 'x = f"""{a}\n#"""; b'),
        ('x = rF"""{a}"""; b', 'x = rF"""{a}"""; b'),
        ('x = ""; y = "" + "a"', 'x = ""; y = "" + "a"'),
        ('"""a" b""" c', " c"),
        ('"""never closed', '"""never closed'),
    ],
)
def test_prose_is_taken_out(program: str, left: str) -> None:
    assert without_prose(program.encode()).decode() == left


@given(st.text("\"'#\\\nfra{} =", max_size=24))
def test_no_code_is(text: str) -> None:
    try:
        module = ast.parse(text)
    except (SyntaxError, ValueError):
        return
    left = without_prose(text.encode()).decode()
    names = {node.id for node in ast.walk(module) if isinstance(node, ast.Name)}
    assert all(name in left for name in names), left
