"""``--add-noqa`` silences what it can and changes nothing else."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from amp_lint.run.add_noqa import silenced
from amp_lint.text.diagnostic import SYNTAX_ERROR, Diagnostic, Severity
from amp_lint.text.noqa import Suppressions
from amp_lint.text.source import Source, SourceError
from tests.conftest import Result
from tests.text.test_noqa import CODES, PROGRAMS, SOUP

Run = Callable[..., Result]


def finding(source: Source, row: int, code: str) -> Diagnostic:
    start = source.line_starts[row - 1]
    return Diagnostic(code, "name", Severity.ERROR, "message", start, start)


def add(text: str, *places: tuple[int, str]) -> tuple[str, int]:
    """A text with comments for codes on lines (from 1), and how many comments are new."""
    source = Source(text.encode(), "a.py")
    changed, count = silenced(source, [finding(source, *place) for place in places])
    return changed.text, count


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x\n", "x  # noqa: AMP101\n"),
        ("x", "x  # noqa: AMP101"),
        ("x\r\ny\r\n", "x  # noqa: AMP101\r\ny\r\n"),
        ("x \t\n", "x  # noqa: AMP101 \t\n"),
        ("x  # why\n", "x  # why  # noqa: AMP101\n"),
        ("x  # type: ignore\n", "x  # type: ignore  # noqa: AMP101\n"),
        ("x  # noqa: E501\n", "x  # noqa: E501, AMP101\n"),
        ("x  # NoQA:E501,W2 , why\n", "x  # NoQA:E501,W2, AMP101 , why\n"),
        ("x  # noqa: E501 # pylint\n", "x  # noqa: E501, AMP101 # pylint\n"),
        ("x  # noqa: amp101\n", "x  # noqa: amp101, AMP101\n"),
        ("x = '''\n  ''' + \\\n  y\n", "x = '''\n  ''' + \\\n  y  # noqa: AMP101\n"),
        ("x = (\n  y)\n", "x = (  # noqa: AMP101\n  y)\n"),
    ],
)
def test_where_the_comment_goes(text: str, expected: str) -> None:
    assert add(text, (1, "AMP101")) == (expected, 1)


@pytest.mark.parametrize(
    "text",
    [
        "x  # noqa\n",
        "x  # noqa: AMP\n",
        "# flake8: noqa\nx\n",
        "x = '# noqa: E501'\n",
        "x = '''\n# noqa: E501\n'''\n",
        "x = '''\n",
        "x = \\\n",
        "# coding: latin-1\nx = 1\n",
    ],
)
def test_what_is_left_alone(text: str) -> None:
    """Silenced already; where the words in a string count; where Python cannot read the file."""
    code = SYNTAX_ERROR if "latin" in text else "AMP101"
    assert add(text, (1, code)) == (text, 0)


def test_codes_of_one_line_share_a_comment() -> None:
    text = "x = '''\n''' + y\n"
    changed = add(text, (1, "AMP301"), (2, "AMP101"), (2, "AMP301"))
    assert changed == ("x = '''\n''' + y  # noqa: AMP101, AMP301\n", 1)


def test_a_line_that_cannot_be_silenced_costs_no_other() -> None:
    text = "x = '# noqa: E501'\ny\n"
    assert add(text, (1, "AMP101"), (2, "AMP101")) == ("x = '# noqa: E501'\ny  # noqa: AMP101\n", 1)


@settings(deadline=None, max_examples=300)
@given(st.one_of(SOUP, PROGRAMS, PROGRAMS.map(str.rstrip)), st.data())
@example("x = 1 + \\\n  2  # noqa: E5\n", None)
def test_nothing_else_changes(text: str, data: st.DataObject | None) -> None:
    try:
        source = Source(text.encode(), "a.py")
    except SourceError:
        assume(False)
    rows = st.integers(1, len(source.line_starts))
    places = st.lists(st.tuples(rows, st.sampled_from(CODES)), max_size=5)
    found = data.draw(places) if data else [(1, "AMP101")]
    changed, count = silenced(source, [finding(source, *place) for place in found])
    before, after = Suppressions(source), Suppressions(changed)
    if count:
        assert before.code() == after.code()
    rows_of = range(1, len(source.line_starts) + 1)
    pairs = [(source.line(row), changed.line(row)) for row in rows_of]
    assert len(source.line_starts) == len(changed.line_starts)
    assert sum(old != new for old, new in pairs) == count
    assert all(_is_inserted(old, new) for old, new in pairs)
    for row, code in found:
        old, new = pairs[before.comment_row(row) - 1]
        assert after.covers(code, row) or old == new
    again = silenced(changed, [finding(changed, *place) for place in found])
    assert again == (changed, 0)


def _is_inserted(old: str, new: str) -> bool:
    """Whether a line came from another by an insertion."""
    more = len(new) - len(old)
    return any(new[:at] + new[at + more :] == old for at in range(len(old) + 1))


def test_a_run_is_silent_afterwards(main: Run, clip: str) -> None:
    Path("a.py").write_bytes(clip.replace("\n", "\r\n").encode("utf-8-sig"))
    Path("b.py").write_text("# coding: latin-1\n" + clip.replace(" 1.0)", " 1.0)  # é"), "latin-1")
    Path("c.py").write_text(clip.replace(" 1.0)", " \\\n      1.0)"))
    Path("d.py").write_text("x = 1\n")
    assert main().code == 1
    done = main("--add-noqa")
    assert done == Result(0, "", "Added 3 noqa directives.\n")
    assert main() == Result(0, "All checks passed!\n", "")
    assert main("--add-noqa") == Result(0, "", "Added 0 noqa directives.\n")
    assert main("--add-noqa", "-q", "--ignore-noqa") == Result(0, "", "")
    assert b" 1.0)  # noqa: AMP101\r\n" in Path("a.py").read_bytes()
    assert b" 1.0)  # \xe9  # noqa: AMP101\n" in Path("b.py").read_bytes()
    assert b" \\\n      1.0)  # noqa: AMP101\n" in Path("c.py").read_bytes()


def test_what_cannot_be_silenced_is_told(main: Run, clip: str) -> None:
    Path("a.py").write_text("x = (\n")
    Path("b.py").write_text(clip.replace(" 1.0)", ' len("# noqa: E501"))'))
    Path("c.py").write_text(clip)
    before = Path("b.py").read_text()
    done = main("--add-noqa", "a.py", "b.py", "c.py")
    assert done.code == 2
    what = "cannot be silenced by a comment; correct it or exclude the file"
    assert done.err.splitlines() == [
        f"error: a.py: AMP900 on line 1 {what}",
        f"error: b.py: AMP101 on line 8 {what}",
        "Added 1 noqa directive.",
    ]
    assert Path("b.py").read_text() == before


@pytest.mark.parametrize("other", ["--fix", "--diff", "-"])
def test_alone(main: Run, other: str) -> None:
    done = main("--add-noqa", other)
    assert done.err == "error: command line: --add-noqa works on files, without --fix or --diff\n"
    assert done.code == 2


def test_a_file_that_cannot_be_written(
    main: Run, clip: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("a.py").write_text(clip)
    monkeypatch.setattr("os.access", lambda *_: False)
    done = main("--add-noqa")
    assert done.code == 2
    assert done.err.startswith("error: a.py: is read-only")
    assert done.err.endswith("\nAdded 0 noqa directives.\n")
