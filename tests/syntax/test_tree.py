"""Trees stand for their text, whatever it ends in."""

from __future__ import annotations

import libcst as cst
import pytest

from amp_lint.syntax.spans import ParseError
from amp_lint.syntax.tree import Tree

ENDS = [
    "",
    "\n",
    "\n\n        ",
    "\n\n        \n",
    "\n\n    # said later",
    "\n\n\t# said later\n  \n\n",
    "\r\n\r\n    \r\n",
    '\nx = """\n\n  # in a string """',
    '\nx = """\n\n  # in a string\n  """\n\n    ',
    "\nif x:\n    pass\n\n  # below\n    ",
]


@pytest.mark.parametrize("end", ENDS)
def test_spans_at_the_end(end: str) -> None:
    text = f"def f():\n    return g(1)\n\n\nh(2){end}"
    tree = Tree(text)
    assert [tree.source(call) for call in tree.nodes(cst.Call)] == ["g(1)", "h(2)"]
    assert tree.source(tree.module.body[-1]) in text


@pytest.mark.parametrize("end", ENDS)
def test_spans_of_what_is_attached(end: str) -> None:
    tree = Tree(f"f(1){end}", ("g(2)\n",))
    assert [tree.linked.source(call) for call in tree.linked.nodes(cst.Call)] == ["f(1)", "g(2)"]


TOUCHING = [
    "return(a if b else c)",
    "return not(lambda: a)",
    "x = [(a if b else c)for i in y]",
    "x = a if(lambda: b)else c",
    "while( a if b else c ):\n        pass",
    "return(a if b\n        else c)",
]


@pytest.mark.parametrize("statement", TOUCHING)
def test_python_that_libcst_refuses(statement: str) -> None:
    text = f"é = [(d) if e else f]\n\n\ndef f(a, b, c, y):\n    {statement}\n"
    compile(text, "", "exec")
    with pytest.raises(ParseError, match=r"^line 5: put a space"):
        Tree(text)
    assert Tree("f(1)\n", [text]).texts == ("f(1)\n", "")
