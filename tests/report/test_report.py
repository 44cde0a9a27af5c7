"""What the reader sees."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from amp_lint import report
from amp_lint.report import Finding, Style, statistics
from amp_lint.report.change import change
from amp_lint.report.diff import diff
from amp_lint.report.summary import diff_summary, summary
from amp_lint.text.diagnostic import Applicability, Diagnostic, Edit, Fix, Related, Severity
from amp_lint.text.source import Source

NOTE = "This is an unsafe fix and may change runtime behavior"
CHANGE = "  |\n1 - x\n  + y\n  |\n"
"""How the fix of `diagnostic` is shown in a file that is an ``x``."""
SAFE, UNSAFE, SUGGEST = Applicability.SAFE, Applicability.UNSAFE, Applicability.SUGGEST


def diagnostic(
    start: int = 0,
    end: int = 1,
    related: Sequence[Related] = (),
    applicability: Applicability | None = None,
    severity: Severity = Severity.ERROR,
    message: str = "something is wrong",
    help: str = "",
) -> Diagnostic:
    fix = Fix("make it right", (Edit(start, end, "y"),), applicability) if applicability else None
    found = ("AMP101", "a-rule", severity, message, start, end, tuple(related), fix)
    return Diagnostic(*found, help=help)


def find(text: str, *parts: str, **values: object) -> Finding:
    """A finding on the first of ``parts``, with the others as related places."""
    spans = [(text.index(part), text.index(part) + len(part)) for part in parts]
    related = [Related(*span, f"place {index}") for index, span in enumerate(spans[1:], 1)]
    made = diagnostic(*spans[0], related=related, **values)  # type: ignore[arg-type]
    return Finding(Source(text.encode(), "a.py"), made)


def render(name: str, *findings: Finding, style: Style | None = None) -> str:
    return "".join(report.renderer(name)(findings, style or Style()))


def frame(text: str, *parts: str, style: Style | None = None) -> list[str]:
    """The lines of the code frame."""
    lines = render("full", find(text, *parts), style=style).splitlines()
    return lines[4 : lines.index("") - 1]


def test_full() -> None:
    text = "import a\n\ndef f():\n    first(a)\n    second\n\n    third(a)\n\n    last\n"
    finding = find(text, "third(a)", "first(a)", applicability=SAFE)
    assert render("full", finding) == (
        "AMP101 [*] error: a-rule\n"
        "something is wrong\n"
        " --> a.py:7:5\n"
        "  |\n"
        "4 |     first(a)\n"
        "  |     -------- place 1\n"
        "5 |     second\n"
        "6 |\n"
        "7 |     third(a)\n"
        "  |     ^^^^^^^^\n"
        "8 |\n"
        "9 |     last\n"
        "  |\n"
        "help: make it right\n"
        "\n"
    )


def test_what_to_do_where_nothing_is_fixed() -> None:
    finding = find("x\n", "x", help="do otherwise")
    assert render("full", finding).endswith("\nhelp: Do otherwise\n\n")
    assert render("github", finding).endswith("AMP101 something is wrong%0A  help: Do otherwise\n")


def test_a_fix_says_what_to_do() -> None:
    finding = find("x\n", "x", help="do otherwise", applicability=SAFE)
    assert render("full", finding).endswith("\nhelp: make it right\n\n")


def test_formats_of_one_line_say_what_to_do_in_the_message() -> None:
    text = "something is wrong; do otherwise"
    for fix in (None, SAFE):
        finding = find("x\n", "x", help="do otherwise", applicability=fix)
        assert render("concise", finding).endswith(f"{text}\n")
        assert json.loads(render("json", finding))[0]["message"] == text


def test_related_places_far_away() -> None:
    text = "".join(f"line{number:02}\n" for number in range(1, 31))
    assert frame(text, "line20", "line02", "line27") == [
        " 2 | line02",
        "   | ------ place 1",
        "...",
        "18 | line18",
        "19 | line19",
        "20 | line20",
        "   | ^^^^^^",
        "21 | line21",
        "22 | line22",
        "...",
        "27 | line27",
        "   | ------ place 2",
    ]


def test_several_marks_on_a_line() -> None:
    assert frame("f(a, b)\n", "f(a, b)", "a", "b") == [
        "1 | f(a, b)",
        "  | ^^^^^^^",
        "  |   - place 1",
        "  |      - place 2",
    ]


def test_a_label_that_does_not_fit_gets_a_line() -> None:
    text = f"f({'x' * 60}, last)\n"
    assert frame(text, "f(", "last")[1:] == [
        "  | ^^",
        f"  | {' ' * 64}---- place 1",
    ]
    text = f"f({'x' * 64}, last)\n"
    assert frame(text, "f(", "last")[1:] == [
        "  | ^^",
        f"  | {' ' * 68}----",
        f"  | {' ' * 68}place 1",
    ]


def test_long_messages_are_wrapped_on_a_terminal_only() -> None:
    text = "what is wrong " * 5 + "here"
    finding = find("x\n", "x", message=text, help="do " * 20 + "it")
    assert render("full", finding).splitlines()[1] == text
    for color in (False, True):
        wrapped = render("full", finding, style=Style(color, width=50, wrap=True))
        lines = re.sub(r"\033\[[\d;]*m", "", wrapped).splitlines()
        assert lines[:3] == [
            "AMP101 error: a-rule",
            "what is wrong what is wrong what is wrong what is",
            "wrong what is wrong here",
        ]
        assert lines[-3:-1] == [f"help: Do{' do' * 14}", f"  {'do ' * 5}it"]


def test_blank_lines_around_are_left_out() -> None:
    assert frame("a\n\n\nb\n\n\nc\n", "b") == ["4 | b", "  | ^"]


def test_tabs() -> None:
    assert frame("\tx\ty = 1\n", "y") == ["1 |     x    y = 1", "  |          ^"]


def test_wide_and_combining_characters() -> None:
    assert frame("'日本e\u0301' + y\n", "y") == ["1 | '日本e\u0301' + y", "  |           ^"]
    assert frame("f('日本')\n", "'日本'") == ["1 | f('日本')", "  |   ^^^^^^"]


def test_control_characters_do_not_reach_the_terminal() -> None:
    assert frame("'\x1b[31m\x0c\x7f' + y\n", "y") == ["1 | '␛[31m␌␡' + y", f"  | {' ' * 12}^"]
    turned = "'\x9b31m\u2028\u202e\u2066é\u200d' + y\n"
    (line, _) = frame(turned, "y")
    assert line == "1 | '\ufffd31m\ufffd\ufffd\ufffdé\u200d' + y"


def test_texts_of_others_stay_one_line() -> None:
    finding = find("a\n  x\n", "x", message="`f(\n1)` \x1b[31m", applicability=SAFE)
    for form in ("concise", "full"):
        assert r"`f(\n1)` \x1b[31m" in render(form, finding)


def test_ranges_of_several_lines() -> None:
    text = "x = f(\n    a,\n    b,\n)\ny\n"
    assert frame(text, "f(\n    a,\n    b,\n)") == [
        "1 | x = f(",
        "  |     ^^",
        "2 |     a,",
        "  |     ^^",
        "3 |     b,",
        "  |     ^^",
        "4 | )",
        "  | ^",
        "5 | y",
    ]


def test_long_ranges_are_trimmed() -> None:
    body = "".join(f"    a{number},\n" for number in range(20))
    text = f"f(\n{body})\n"
    assert frame(text, text[:-1]) == [
        " 1 | f(",
        "   | ^^",
        " 2 |     a0,",
        "   |     ^^^",
        "...",
        "22 | )",
        "   | ^",
    ]


def test_a_range_up_to_the_next_line() -> None:
    assert frame("a\nb\n", "a\n") == ["1 | a", "  | ^", "2 | b"]


def test_an_empty_range_at_the_end() -> None:
    finding = Finding(Source(b"a = (", "a.py"), diagnostic(5, 5))
    assert render("full", finding).splitlines()[4:6] == ["1 | a = (", "  |      ^"]


def test_long_lines_are_cut_around_the_finding() -> None:
    text = f"x = [{'a, ' * 50}wrong, {'b, ' * 50}]\n"
    code, carets = frame(text, "wrong")
    assert len(code) <= 80
    assert code.startswith("1 | …")
    assert code.endswith("…")
    start = carets.index("^")
    assert code[start : start + 5] == "wrong"
    assert carets[start:] == "^^^^^"


def test_long_findings_are_cut_at_their_end() -> None:
    code, carets = frame(f"    {'long' * 40}\n", "long" * 40)
    assert code == f"1 |     {'long' * 17}lo…"
    assert carets == f"  |     {'^' * 70}"


def test_short_lines_are_not_cut() -> None:
    text = "x" * 76 + "\n"
    assert frame(text, text[:-1])[0] == f"1 | {'x' * 76}"
    assert frame("x" + text, "x" + text[:-1])[0] == f"1 | {'x' * 74}…"
    assert frame("x" * 90 + "\n", "x" * 90, style=Style(width=100))[0] == f"1 | {'x' * 90}"


CHARACTERS = st.characters(codec="utf-8", exclude_characters="\0")


@settings(deadline=None)
@given(st.text(CHARACTERS, min_size=1), st.data())
def test_any_range_of_any_text(text: str, data: st.DataObject) -> None:
    offsets = st.integers(0, len(text))
    first, second = sorted([data.draw(offsets), data.draw(offsets)])
    width = data.draw(st.integers(20, 100))
    third, fourth = sorted([data.draw(offsets), data.draw(offsets)])
    related = Related(third, fourth, "here")
    source = Source(text.encode(), "a.py") if "coding" not in text else Source(b"x\n" * 99, "a.py")
    finding = Finding(source, diagnostic(first, second, related=[related]))
    lines = render("full", finding, style=Style(width=width)).split("\n")
    assert any("^" in line for line in lines[4:])
    for line in lines[4:]:
        wide = sum(unicodedata.east_asian_width(c) in "WF" for c in line)
        assert len(line) + wide <= max(width, 26) + sum(map(unicodedata.combining, line)) * 99


@pytest.mark.parametrize(
    ("applicability", "unsafe", "mark", "more"),
    [
        (SAFE, False, True, ""),
        (UNSAFE, False, False, f"{CHANGE}note: {NOTE}\n"),
        (UNSAFE, True, True, f"note: {NOTE}\n"),
        (SUGGEST, True, False, f"{CHANGE}note: This fix is only shown, never applied\n"),
    ],
)
def test_marks_and_notes(applicability: Applicability, unsafe: bool, mark: bool, more: str) -> None:
    finding = find("x\n", "x", applicability=applicability)
    style = Style(unsafe=unsafe)
    assert ("[*]" in render("full", finding, style=style)) is mark
    assert ("[*]" in render("concise", finding, style=style)) is mark
    assert render("full", finding, style=style).endswith(f"\nhelp: make it right\n{more}\n")


def changed(text: str, *changes: tuple[str, str], width: int = 80) -> list[str]:
    """The lines that show a fix, which writes the second for the first of each pair."""
    spans = [(text.index(old), text.index(old) + len(old), new) for old, new in changes]
    fix = Fix("make it right", tuple(Edit(*span) for span in spans), UNSAFE)
    return [*change(Source(text.encode(), "a.py"), fix, Style(width=width))]


def test_what_a_fix_changes() -> None:
    text = "a\r\nb\r\nc\r\nd\r\ne\r\n"
    assert changed(text, ("c\r\n", "")) == ["  |", "2 | b", "3 - c", "4 | d", "  |"]
    assert changed(text, ("c", "c\r\nx")) == ["  |", "3 | c", "  + x", "4 | d", "  |"]
    assert changed("a", ("a", "\tb")) == ["  |", "1 - a", "  +     b", "  |"]


def test_changes_in_two_places() -> None:
    text = "".join(f"line{number:02}\n" for number in range(1, 31))
    assert changed(text, ("line09", "one"), ("line14", "two")) == [
        "   |",
        " 8 | line08",
        " 9 - line09",
        "   + one",
        "10 | line10",
        "...",
        "13 | line13",
        "14 - line14",
        "   + two",
        "15 | line15",
        "   |",
    ]


def test_changed_lines_are_cut() -> None:
    lines = changed(f"x = '{'a' * 90}'\n", ("x", "y"))
    assert [len(line) for line in lines[1:3]] == [79, 79]
    assert lines[1].endswith("a…")


def test_lines_are_cut_around_what_changes() -> None:
    _, old, new, _ = changed(f"{'a, ' * 40}x{', a' * 40}\n", ("x", "other"))
    assert " x" in old
    assert " other" in new
    assert max(len(old), len(new)) <= 80


def test_a_fix_that_changes_nothing() -> None:
    assert changed("a\n") == changed("a\n", ("a", "a")) == []


@pytest.mark.parametrize(("code", "preview"), [("AMP101", True), ("AMP110", False)])
def test_preview(code: str, preview: bool) -> None:
    """A finding may be in preview by itself, or with its rule."""
    certain = find("x\n", "x")
    finding = Finding(certain.source, replace(certain.diagnostic, code=code, preview=preview))
    for each, expected in ((certain, False), (finding, True)):
        assert json.loads(render("json", each))[0]["preview"] is expected
        assert ("\nnote: This finding is in preview" in render("full", each)) is expected
        assert (f"({code} in preview)" in render("github", each)) is expected


def test_concise() -> None:
    assert (
        render("concise", find("a\n  x\n", "x")) == "a.py:2:3: AMP101 error: something is wrong\n"
    )
    assert render("concise", find("x\n", "x", severity=Severity.INFO, applicability=SAFE)) == (
        "a.py:1:1: AMP101 [*] info: something is wrong\n"
    )


@pytest.mark.parametrize(
    ("severity", "command"),
    [(Severity.ERROR, "error"), (Severity.WARNING, "warning"), (Severity.INFO, "notice")],
)
def test_github(severity: Severity, command: str) -> None:
    message = "50 %, at\nonce: no"
    finding = find("a\n  x\n", "x", severity=severity, message=message, applicability=SAFE)
    file = str(Path("a.py").absolute()).replace("%", "%25").replace(":", "%3A").replace(",", "%2C")
    assert render("github", finding) == (
        f"::{command} title=amp-lint (AMP101),file={file},line=2,col=3,endLine=2,endColumn=4"
        "::a.py:2:3: AMP101 50 %25, at%0Aonce: no%0A  help: make it right\n"
    )


def shape(value: object) -> object:
    """The keys of all levels, and the types of what is never null."""
    if isinstance(value, dict):
        return {key: shape(item) for key, item in value.items()}
    if isinstance(value, list):
        return [shape(value[0])] if value else []
    return None if value is None else type(value)


def ruff(*arguments: str, stdin: str) -> str:
    command = [sys.executable, "-m", "ruff", "check", "--isolated", "--no-cache", *arguments, "-"]
    return subprocess.run(command, input=stdin, capture_output=True, text=True, check=False).stdout


def test_json_is_that_of_ruff() -> None:
    arguments = ("--output-format=json", "--stdin-filename=a.py")
    (theirs,) = json.loads(ruff("--select=F401", *arguments, stdin="\n  \nimport os\n"))
    (ours,) = json.loads(render("json", find("\n  \nimport os\n", "os", applicability=SAFE)))
    assert ours.pop("preview") is False and ours.pop("related") == []
    assert shape(ours) == shape(theirs)
    assert ours["url"].endswith("rules/protocol/clip_before_unscale.md")
    for key in ("filename", "location", "end_location", "noqa_row", "severity", "cell"):
        assert ours[key] == theirs[key], key
    assert list(ours) == list(theirs)
    (theirs,) = json.loads(ruff("--select=E741", *arguments, stdin="l = '''\n'''\n"))
    (ours,) = json.loads(render("json", find("l = '''\n'''\n", "l")))
    del ours["preview"], ours["related"]
    assert shape(ours) == shape(theirs)
    assert ours["noqa_row"] == theirs["noqa_row"] == 2


def test_json_columns_count_characters() -> None:
    text = "é = '日本'; import os\n"
    (theirs,) = json.loads(ruff("--select=F401", "--output-format=json", stdin=text))
    (ours,) = json.loads(render("json", find(text, "os")))
    assert ours["location"] == theirs["location"]
    assert ours["end_location"] == theirs["end_location"]


def test_json_without_findings() -> None:
    assert json.loads(render("json")) == json.loads(ruff("--output-format=json", stdin="")) == []


@pytest.mark.parametrize(
    ("applicability", "word"), [(SAFE, "safe"), (UNSAFE, "unsafe"), (SUGGEST, "display")]
)
def test_json_says_how_far_to_trust_a_fix(applicability: Applicability, word: str) -> None:
    (found,) = json.loads(render("json", find("x\n", "x", applicability=applicability)))
    assert found["fix"]["applicability"] == word


def safe_and_unsafe(safe: int, unsafe: int, none: int) -> tuple[str, list[Diagnostic]]:
    """A program for ruff, and findings of ours that have as many fixes."""
    program = "import os\n" * bool(safe) + "import re\n" * (safe > 1)
    program += "x = None\n" * bool(unsafe + none) + "x == None\n" * unsafe + "l = 1\n" * none
    found = [diagnostic(applicability=SAFE)] * safe + [diagnostic(applicability=UNSAFE)] * unsafe
    return program, found + [diagnostic()] * none


def plain(lines: Iterable[str]) -> list[str]:
    """A summary without what it says of the run, which ruff does not know."""
    return [re.sub(r": \d+ ruins? the run", "", line) for line in lines]


CASES = [(0, 0, 0), (1, 0, 0), (2, 0, 0), (0, 1, 0), (0, 2, 0), (1, 1, 0), (2, 2, 1), (0, 0, 1)]


@pytest.mark.parametrize(("safe", "unsafe", "none"), CASES)
@pytest.mark.parametrize("allow", [False, True])
def test_summary_in_the_words_of_ruff(safe: int, unsafe: int, none: int, allow: bool) -> None:
    program, found = safe_and_unsafe(safe, unsafe, none)
    options = ["--select=F401,E711,E741", "--output-format=concise", *["--unsafe-fixes"] * allow]
    theirs = [line for line in ruff(*options, stdin=program).splitlines() if ": " not in line]
    assert plain(summary(found, 0, unsafe=allow)) == theirs


def ruff_messages(*arguments: str, stdin: str) -> list[str]:
    command = [sys.executable, "-m", "ruff", "check", "--isolated", "--no-cache", *arguments, "-"]
    done = subprocess.run(command, input=stdin, capture_output=True, text=True, check=False)
    return [line for line in done.stderr.splitlines() if not re.match(r"-:\d", line)]


@pytest.mark.parametrize(("safe", "unsafe", "none"), CASES)
def test_summary_of_fixing_in_the_words_of_ruff(safe: int, unsafe: int, none: int) -> None:
    program, found = safe_and_unsafe(safe, unsafe, none)
    options = ("--select=F401,E711,E741", "--output-format=concise")
    left = found[safe:]
    theirs = ruff_messages(*options, "--fix", stdin=program)
    assert plain(summary(left, safe, unsafe=False)) == theirs
    theirs = ruff_messages(*options, "--diff", stdin=program)
    assert [*diff_summary(left, safe, unsafe=False)] == theirs


WARNING, INFO = Severity.WARNING, Severity.INFO
OLD = replace(diagnostic(severity=WARNING), deprecated="torch.old")


@pytest.mark.parametrize(
    ("found", "fixed", "line"),
    [
        ([diagnostic()], 0, "Found 1 error: 1 ruins the run."),
        (
            [OLD, diagnostic(severity=INFO), diagnostic(severity=WARNING), diagnostic()],
            0,
            "Found 4 errors: 1 ruins the run, 1 loses accuracy or time, 1 deprecation, 1 note.",
        ),
        (
            [*[OLD] * 2, *[diagnostic(severity=INFO)] * 3],
            1,
            "Found 6 errors (1 fixed, 5 remaining: 2 deprecations, 3 notes).",
        ),
        (
            [*[diagnostic(severity=WARNING)] * 2, *[diagnostic()] * 10],
            0,
            "Found 12 errors: 10 ruin the run, 2 lose accuracy or time.",
        ),
        ([], 2, "Found 2 errors (2 fixed, 0 remaining)."),
    ],
)
def test_the_summary_says_what_findings_do_to_the_run(
    found: list[Diagnostic], fixed: int, line: str
) -> None:
    first, *_ = summary(found, fixed, unsafe=False)
    assert first == line


def test_statistics() -> None:
    other = find("x\n", "x", applicability=SAFE)
    findings = [find("x\n", "x", applicability=SAFE), find("x\n", "x"), other]
    assert [*statistics.render(findings, Style())] == ["3\tAMP101\t[-] a-rule\n"]
    assert [*statistics.render([other], Style())] == ["1\tAMP101\t[*] a-rule\n"]


def test_statistics_in_json_are_those_of_ruff() -> None:
    text = "import os\nimport os\n"
    theirs = json.loads(ruff("--select=F", "--statistics", "--output-format=json", stdin=text))
    ours = json.loads("".join(statistics.render_json([find("x\n", "x")], Style())))
    assert shape(ours) == shape([theirs[0]])


def test_colors() -> None:
    finding = find("x\n", "x", applicability=SAFE)
    for name in ("full", "concise"):
        colored = render(name, finding, style=Style(color=True))
        assert "\033[1;31m" in colored
        assert re.sub(r"\033\[[\d;]*m", "", colored) == render(name, finding)


def test_diff_keeps_the_encoding_and_says_where_the_last_line_end_is_missing() -> None:
    head = "# -*- coding: latin-1 -*-\n"
    before = Source(f"{head}x = 'é'".encode("latin-1"), "a.py")
    after = Source(f"{head}y = 'é'".encode("latin-1"), "a.py")
    lines = b"".join(diff(before, after, Style())).split(b"\n")
    assert lines[3:] == [
        b" # -*- coding: latin-1 -*-",
        b"-x = '\xe9'",
        b"\\ No newline at end of file",
        b"+y = '\xe9'",
        b"\\ No newline at end of file",
        b"",
    ]
