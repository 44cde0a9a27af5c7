"""What a call runs that goes through something that holds a function."""

from __future__ import annotations

import libcst as cst
import pytest

from amp_lint.flow.forwarding import direct
from tests.programs import model_of


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("g = f\ng(1)", ["f(1)"]),
        ("g = f if x else h\ng(1)", ["f(1)", "h(1)"]),
        ("g = functools.partial(f, 0, k=2)\ng(1)", ["f(0, 1, k = 2)"]),
        ("g = lambda a: f(a, 2)\ng(1)", ["f(a, 2)"]),
        ("g = {'a': f, 'b': functools.partial(h, 2)}\ng[x](1)", ["f(1)", "h(2, 1)"]),
        ("class C:\n    g = f\n    def m(self):\n        self.g(1)", ["f(1)"]),
        ("g(1)", []),
        ("def g(a):\n    f(a)\ng(1)", []),
        ("g = [f]\ng[0](1)", []),
        ("x.y()(1)", []),
    ],
)
def test_direct(body: str, expected: list[str]) -> None:
    model = model_of(f"import functools\n{body}\n")
    calls = [*model.tree.nodes(cst.Call)]
    call = next(c for c in calls if [model.tree.source(arg.value) for arg in c.args] == ["1"])
    written = [cst.Module([]).code_for_node(each) for each in direct(call, model.program)]
    assert written == expected
