"""Where a file refers to a name under which it may be reached in several ways."""

from __future__ import annotations

import pytest

from amp_lint.syntax.references import references, without_aliases
from tests.programs import model_of

AUTOCAST = frozenset({"torch.cuda.amp.autocast"})
HEADER = "from torch.cuda.amp import autocast\n"


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("with autocast(): pass", [2]),
        ("a = autocast\nwith a(): pass", [3]),
        ("a = autocast\nuse(a)", [2]),
        ("a = autocast if amp else other\nwith a(): pass", [2]),
        ("a = x if amp else (y if b else autocast)\nwith a(): pass", [2]),
        ("a = autocast if amp else other\nuse(a)", [2]),
        ("if amp:\n    a = autocast\nelse:\n    a = other\nwith a(): pass", [3]),
    ],
)
def test_each_alias_counts_once(text: str, lines: list[int]) -> None:
    model = model_of(HEADER + text)
    found = without_aliases(model.names, references(model.tree, model.names, AUTOCAST))
    starts = [model.tree.span(reference.node)[0] for reference in found]
    assert [model.tree.text.count("\n", 0, start) + 1 for start in starts] == lines
