"""Lines of two texts, and which of them stayed."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amp_lint.text.lines import Change, changes, lines_of, pieces_of, without_end

LINES = st.lists(st.sampled_from(["", "a", "b", "c", "d"]), max_size=12)
TEXT = st.text(alphabet="ab \t\r\n\f\u2028")


def made(old: list[str], new: list[str], found: list[Change]) -> list[str]:
    """The old lines with the new ones where something changed."""
    lines, at = list[str](), 0
    for i, j, k, m in found:
        assert at <= i <= j and (i, k) != (j, m)
        lines += [*old[at:i], *new[k:m]]
        at = j
    return [*lines, *old[at:]]


@given(LINES, LINES)
def test_changes_make_one_of_the_other(old: list[str], new: list[str]) -> None:
    assert made(old, new, [*changes(old, new)]) == new
    assert not [*changes(old, old)]


@pytest.mark.parametrize("line", ["same", "other {}", ""])
def test_what_is_far_from_a_change_stays(line: str) -> None:
    old = [line.format(row) for row in range(2_000)]
    new = [*old[:700], "new", *old[700:1_400], *old[1_401:]]
    assert made(old, new, [*changes(old, new)]) == new
    some = [*old[:1_000], "once", *old[1_000:]]
    both = [*new[:1_001], "once", *new[1_001:]]
    assert sum(m - k + j - i for i, j, k, m in changes(some, both)) < 2_000


def test_changes_take_linear_time() -> None:
    def seconds(count: int) -> float:
        old = ["", "x = 1"] * count
        new = ["first", *old[: count // 2], "x = 2", *old[count // 2 :], "last"]
        started = time.process_time()
        assert made(old, new, [*changes(old, new)]) == new
        return time.process_time() - started

    seconds(10)
    assert seconds(40_000) < 20 * max(seconds(4_000), 0.02)


@given(TEXT)
def test_lines_are_the_text(text: str) -> None:
    assert "".join(lines_of(text)) == "".join(pieces_of(text)) == text
    assert all(lines_of(text)) and len(pieces_of(text)) - len(lines_of(text)) in (0, 1)
    assert len(lines_of(without_end(text))) in (len(lines_of(text)), len(lines_of(text)) - 1)
