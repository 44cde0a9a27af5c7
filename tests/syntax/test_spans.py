"""Where nodes stand, asked one by one, is where they stand when the whole text is generated."""

from __future__ import annotations

import inspect
from collections.abc import Iterator

import libcst as cst
import pytest

from amp_lint.syntax import spans, tree
from amp_lint.syntax.spans import Recorder, Spans
from amp_lint.syntax.tree import Tree

CLASS = """# about x
import x  # y

class A:
    # before
    @property
    def f(self):
        if self:
            return (1 +
                    self.g)  # after

        # at the end
    a = 1; b = 2

    class B:
        def f(self): return 2

if x:
  def late():
   return [x for x in (y)]
"""
TEXTS = {
    "class": CLASS,
    "tabs": CLASS.replace("    ", "\t"),
    "crlf": CLASS.replace("\n", "\r\n"),
    "open": CLASS.rstrip("\n"),
    "last": "x = 1\ny = 2\nx = 1",
    "last in a comment": "# x = 1\nx = 1",
    "last in a body": "def g():\n    x = 1\nx = 1",
    "lost": "s = '''\n"
    "def f():\n    x = 1\n    return x\n'''\ndef f():\n    x = 1\n\f    return x\n",
    "twice": "x = 1\nx = 1\n\n\ndef f():\n    return 1\n",
    "feeds": "import x\n\f\ndef f():\n    return 1\n\f\ny = f()\n",
    "spans": inspect.getsource(spans),
    "tree": inspect.getsource(tree),
}


@pytest.mark.parametrize("name", TEXTS)
def test_parts_are_where_they_are_in_the_whole(name: str) -> None:
    made = Tree(TEXTS[name])
    whole = Spans(made.module, TEXTS[name]).recorder([made.module])
    for node in _nodes(made.module):
        assert made.span(node) == whole.known(node)
        assert made.outer_span(node) == whole.whole[id(node)]


def test_only_the_function_asked_for_is_generated(monkeypatch: pytest.MonkeyPatch) -> None:
    made = Tree(CLASS)
    seen: list[cst.CSTNode] = []
    before = Recorder.before_codegen

    def note(self: Recorder, node: cst.CSTNode) -> None:
        seen.append(node)
        before(self, node)

    monkeypatch.setattr(Recorder, "before_codegen", note)
    functions = {each.name.value: each for each in made.nodes(cst.FunctionDef)}
    (returned,) = made.below(functions["late"], cst.Return)
    assert made.source(returned) == "return [x for x in (y)]"
    assert functions["late"] in seen and functions["f"] not in seen
    count = len(seen)
    assert made.source(functions["late"].name) == "late"
    assert len(seen) == count


def _nodes(module: cst.Module) -> Iterator[cst.CSTNode]:
    return (node for node in tree.descendants(module) if node is not module)
