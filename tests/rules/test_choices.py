"""Whether an element of a distribution was picked by what the distribution chose."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst
import pytest

from tests.programs import model_of

if TYPE_CHECKING:  # where mypy finds what is installed below `amp_lint.rules`
    from rules.numerics._choices import Choices
else:
    from amp_lint.rules.numerics._choices import Choices

HEADER = "import torch\nprobs = torch.softmax(logits, dim=-1)\n"


def picks_likely(text: str) -> bool:
    """For the only call of ``log`` in a program."""
    model = model_of(HEADER + text)
    (log,) = (
        call
        for call in model.tree.nodes(cst.Call)
        if isinstance(call.func, cst.Attribute) and call.func.attr.value == "log"
    )
    steps = list(model.operations.chain(log))
    distribution = next(index for index, step in enumerate(steps) if step.name == "softmax")
    return model.part(Choices).picks_likely(steps[1:distribution], steps[distribution])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("i = torch.multinomial(probs, 1)\nprobs[i].log()", True),
        ("i = probs.argmax()\nprobs[i].log()", True),
        ("same = probs\ni = torch.multinomial(same, 1)\nprobs[i].log()", True),
        ("last = probs[:, -1]\ni = torch.multinomial(last, 1)\nprobs[i].log()", True),
        ("pick = torch.multinomial\ni = pick(probs, 1)\nprobs[i].log()", True),
        ("same = other\ni = torch.multinomial(same, 1)\nprobs[i].log()", False),
        ("i = torch.multinomial(other, 1)\nprobs[i].log()", False),
        ("probs[i].log()", False),
    ],
)
def test_picks_likely(text: str, expected: bool) -> None:
    assert picks_likely(text) is expected
