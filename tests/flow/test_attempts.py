"""Which code is there to see whether it raises, and which runs where it has."""

from __future__ import annotations

import textwrap

import libcst as cst
import pytest

from amp_lint.flow.attempts import is_attempt, is_recovery
from tests.programs import model_of


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("f()", False),
        ("try:\n    f()\nexcept TypeError:\n    pass", True),
        ("try:\n    f()\nexcept (OSError, ValueError):\n    pass", True),
        ("try:\n    if x:\n        f()\nexcept Exception as error:\n    pass", True),
        ("try:\n    f()\nexcept:\n    pass", True),
        ("try:\n    f()\nexcept KeyboardInterrupt:\n    pass", False),
        ("try:\n    f()\nexcept Exception as error:\n    log(error)\n    raise", False),
        ("try:\n    f()\nexcept TypeError: pass", True),
        ("try:\n    f()\nfinally:\n    pass", False),
        ("try:\n    pass\nexcept TypeError:\n    f()", False),
        ("try:\n    pass\nexcept TypeError:\n    pass\nelse:\n    f()", False),
        ("try:\n    def g():\n        f()\nexcept TypeError:\n    pass", False),
        ("with pytest.raises(ValueError):\n    f()", True),
        ("with self.assertRaisesRegex(TypeError, 'x'), g():\n    f()", True),
        ("with suppress(TypeError):\n    f()", True),
        ("with open(path) as file:\n    f()", False),
        ("with lock:\n    f()", False),
    ],
)
def test_attempts(text: str, expected: bool) -> None:
    tree = model_of(textwrap.dedent(text)).tree
    names = (n for n in tree.nodes(cst.Name) if n.value == "f")
    assert is_attempt(tree, next(names)) is expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("f()", False),
        ("try:\n    f()\nexcept TypeError:\n    pass", False),
        ("try:\n    pass\nexcept TypeError:\n    f()", True),
        ("try:\n    pass\nexcept* TypeError:\n    if x:\n        f()", True),
        ("try:\n    pass\nexcept TypeError:\n    pass\nelse:\n    f()", False),
        ("try:\n    pass\nexcept TypeError:\n    pass\nfinally:\n    f()", False),
        ("try:\n    pass\nexcept TypeError:\n    def g():\n        f()", False),
        ("try:\n    pass\nexcept TypeError:\n    for x in y:\n        f()", False),
    ],
)
def test_recoveries(text: str, expected: bool) -> None:
    tree = model_of(textwrap.dedent(text)).tree
    name = next(n for n in tree.nodes(cst.Name) if n.value == "f")
    assert is_recovery(tree, name, tree.ancestor(name, cst.For)) is expected
