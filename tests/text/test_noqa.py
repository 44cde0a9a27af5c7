"""``noqa`` comments suppress what flake8 would suppress, and nothing else."""

from __future__ import annotations

import argparse
import io

import pytest
from flake8.processor import FileProcessor  # type: ignore[import-untyped]
from flake8.violation import Violation  # type: ignore[import-untyped]
from hypothesis import example, given, settings
from hypothesis import strategies as st

from amp_lint.engine import check
from amp_lint.registry import all_rules
from amp_lint.selection import Selection
from amp_lint.text.noqa import Suppressions
from amp_lint.text.source import Source

CODES = ("AMP101", "AMP201", "E501")


def ours(text: str) -> list[tuple[int, str]]:
    """The rows and codes that we suppress."""
    suppressed = Suppressions(Source(text.encode(), "a.py"))
    return [(row, code) for row in rows(text) for code in CODES if suppressed.covers(code, row)]


def flake8s(text: str) -> list[tuple[int, str]]:
    """The rows and codes that flake8 suppresses."""
    lines = io.StringIO(text, newline=None).readlines()
    options = argparse.Namespace(
        hang_closing=False, indent_size=4, max_line_length=79, max_doc_length=None, verbose=0,
        disable_noqa=False,
    )  # fmt: skip
    processor = FileProcessor("a.py", options, lines)
    if processor.should_ignore_file():
        return [(row, code) for row in rows(text) for code in CODES]
    return [
        (row, code)
        for row in rows(text)
        for code in CODES
        if _violation(processor, lines, row, code).is_inline_ignored(False)
    ]


def _violation(processor: FileProcessor, lines: list[str], row: int, code: str) -> Violation:
    line = processor.noqa_line_for(row)
    if line is None:  # where flake8 reads the line from the file
        line = lines[row - 1] if row <= len(lines) else ""
    return Violation(code, "a.py", row, 1, "text", line)


def rows(text: str) -> range:
    return range(1, text.replace("\r\n", "\n").replace("\r", "\n").count("\n") + 2)


COMMENTS = (
    "# noqa",
    "# NoQA",
    "#noqa",
    "# noqa:AMP101",
    "# noqa: AMP101,E501",
    "# noqa: AMP",
    "# noqa: A1",
    "# noqa: amp101",
    "# noqa : AMP201",
    "# noqa: AMP2 why",
    "# noqa: AMP2 AMP1",
    "# x # noqa: E5",
    "# flake8: noqa",
    "# flake8: noqa: E501",
    "#flake8:noqa",
    "# noqa:  AMP101",
    "# noqa:,AMP101",
)
PIECES = (
    "x", " = ", "(", ")", "[", "]", "1", "\n", "\r\n", "\r", "\\\n", "\f", "\t", "    ", "  ", " ",
    '"""', "'''", '"', "f'{x", "}'", ",", ";", "if x:\n    ", "def f(a,\n  b):\n  ", "é", *COMMENTS,
)  # fmt: skip
SOUP = st.lists(st.sampled_from(PIECES), max_size=25).map("".join)

EXPRESSIONS = st.recursive(
    st.sampled_from(["x", "1", "'s'", "'''a\n# noqa: AMP1\n'''", "f'''\n{x}\n'''", "x \\\n + 1"]),
    lambda inner: st.one_of(
        st.builds("f({}, {}\n, {})".format, inner, inner, inner),
        st.builds("[{},\n  {}]".format, inner, inner),
        st.builds("({}  {}\n)".format, inner, st.sampled_from(COMMENTS)),
    ),
    max_leaves=5,
)
STATEMENTS = st.one_of(
    st.builds("x = {}  {}\n".format, EXPRESSIONS, st.sampled_from(("", *COMMENTS))),
    st.builds("if x:\n    y = {}  {}\n".format, EXPRESSIONS, st.sampled_from(("", *COMMENTS))),
    st.builds("{}\n".format, st.sampled_from(COMMENTS)),
    st.just("\n"),
)
PROGRAMS = st.lists(STATEMENTS, max_size=6).map("".join)


@settings(deadline=None, max_examples=300)
@given(st.one_of(SOUP, PROGRAMS, PROGRAMS.map(str.rstrip)))
@example("x = '''\n'''  # noqa: AMP101\ny = 1\n")
@example("x = (  # noqa\n  1\n)\n")
@example("x = 1 + \\\n  2  # noqa\n")
@example("def f(:\n  x  # noqa\n")
def test_the_same_as_flake8(text: str) -> None:
    if "\0" not in text:
        assert ours(text) == flake8s(text)


@pytest.mark.parametrize(
    ("text", "suppressed"),
    [
        ("x  # noqa\n", {"AMP101", "AMP201", "E501"}),
        ("x  # noqa: AMP101\n", {"AMP101"}),
        ("x  # noqa: AMP\n", {"AMP101", "AMP201", "E501"}),
        ("x  # noqa: AMP1, E5\n", {"AMP101", "E501"}),
        ("x  # noqa:AMP2 because\n", {"AMP201"}),
        ("x  # NOQA\n", {"AMP101", "AMP201", "E501"}),
        ("x  # no qa\n", set()),
        ("x = '''\n# noqa: AMP2'''\n", {"AMP201"}),
        ("x = f(\n  y)  # noqa\n", set()),
        ("x\n# flake8: noqa\n", {"AMP101", "AMP201", "E501"}),
    ],
)
def test_first_line(text: str, suppressed: set[str]) -> None:
    assert {code for row, code in ours(text) if row == 1} == suppressed


@pytest.mark.parametrize(
    ("text", "row", "comment_row"),
    [("x\ny\n", 2, 2), ("x = '''\n\n'''\n", 1, 3), ("x = f(\n1)\n", 1, 1), ("def (:\n", 1, 1)],
)
def test_where_a_comment_has_to_stand(text: str, row: int, comment_row: int) -> None:
    assert Suppressions(Source(text.encode(), "a.py")).comment_row(row) == comment_row


@pytest.mark.parametrize(("head", "codes"), [("", ["AMP900"]), ("# flake8: noqa\n", [])])
def test_a_comment_hides_no_syntax_error(head: str, codes: list[str]) -> None:
    source = Source(f"{head}import torch.amp\nautocast = (  # noqa\n".encode(), "a.py")
    found = check(source, Selection(all_rules()), named=True)
    assert [finding.code for finding in found] == codes
