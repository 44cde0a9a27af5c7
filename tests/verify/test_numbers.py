"""What new code takes as a tensor must be one, as far as the old text tells."""

from __future__ import annotations

import pytest

from amp_lint.verify.compare import compare

FUNCTION = """
import torch


def share({}):
    {}
    return {}
"""


def reasons(given: str, known: str, before: str, after: str) -> tuple[str, ...]:
    texts = (FUNCTION.format(given, known, returned) for returned in (before, after))
    return compare(*texts).reasons


@pytest.mark.parametrize(
    ("given", "known", "before", "after", "taken"),
    [
        ("part, whole", "pass", "part / whole", "part.div(whole)", "`part`"),
        ("part, whole", "pass", "part * whole", "torch.mul(part, whole)", "`part`"),
        (
            "part, whole",
            "pass",
            "(part - whole) ** 2",
            "(part - whole).square()",
            "`(part - whole)`",
        ),
        ("part: float", "pass", "part ** 2", "part.double() ** 2", "`part`"),
        ("part", "pass", "part.item() * 2", "part.item().mul(2)", "`part.item()`"),
        ("part", "pass", "part.size(0) * 2", "part.size(0).mul(2)", "`part.size(0)`"),
        ("part, whole", "part.sum()", "part / whole", "part.div(whole)", ""),
        ("part, whole", "pass", "(part / whole).sum()", "part.div(whole).sum()", ""),
        ("part, whole", "pass", "part @ whole", "torch.matmul(part, whole)", ""),
        ("part", "pass", "part[:, 1] * 2", "part.select(1, 1) * 2", ""),
        ("part", "pass", "part ** 2", "part.float() ** 2", ""),
        ("part", "pass", "part.exp() * 2", "part.exp().mul(2)", ""),
    ],
)
def test_a_number_has_no_methods_of_tensors(
    given: str, known: str, before: str, after: str, taken: str
) -> None:
    found = [text for text in reasons(given, known, before, after) if "may be a number" in text]
    assert bool(found) is bool(taken), found
    assert all(taken in text for text in found)
