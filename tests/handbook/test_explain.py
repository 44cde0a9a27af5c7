"""`amp-lint rule`: what is on a page reaches the reader, on one screen or in full."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys

import pytest

from amp_lint import registry
from amp_lint.handbook.pages import FENCE, parse, unmarked
from amp_lint.report import Style
from amp_lint.report.page import NOT_FOUND, render, screen
from amp_lint.rule import Rule

LABELS = {
    "fixed": ("Fixed:",),
    "fixed unsafe": ("Fixed with `--unsafe-fixes`:",),
    "wrong": ("A wrong fix, refuted by the verifier", "Wrong fixes, each refuted by the verifier"),
}
"""What the text right above a fence, or above several ``wrong`` ones, begins with."""
PAGE = """\
# AMP999 toy

## Why it is a bug

Sentences are filled up to the width of the screen
although the page has lines of another length.
| not | a table |

| n | what it does |
|--:|---|
| 10 | this |
| 9 | that |

* An item that has more than one line
  keeps its margin.
* Another one.

![A picture](../a.svg)

```py target-torch=2.0
import torch
a()
b()
c()
x = bad()  # error: AMP999
```
Fixed:
```py fixed
import torch
a()
b()
c()
x = good()
```
A wrong fix, refuted by the verifier:
```py wrong
import numpy
a()
b()
c()
x = bad()
```

```py ok
x = 1
```
"""
SHOWN = """\
# AMP999 toy

## Why it is a bug

Sentences are filled up to the width of
the screen although the page has lines
of another length. | not | a table |

|   n | what it does |
| --: | ------------ |
|  10 | this         |
|   9 | that         |

* An item that has more than one line
  keeps its margin.
* Another one.

```py
import torch
a()
b()
c()
x = bad()  # error: AMP999
```

Fixed:

```diff
...
 b()
 c()
-x = bad()
+x = good()
```

A wrong fix, refuted by the verifier:

```diff
...
-import torch
+import numpy
 a()
 b()
```

```py
x = 1
```
"""


def test_a_page() -> None:
    assert "\n".join(render(PAGE, Style(width=40))) == SHOWN


def test_wide_tables_stay_as_they_are() -> None:
    table = f"| a | b |\n|---|---|\n| {'a' * 50} | {'b' * 50} |\n"
    assert "\n".join(render(table, Style(width=80))) == table


def test_a_long_word_stays_with_its_bullet() -> None:
    assert next(render(f"* {'a' * 90}\n", Style(width=80))) == f"* {'a' * 90}"


def test_colors() -> None:
    plain, colored = ("\n".join(render(PAGE, Style(color=color))) for color in (False, True))
    assert re.sub(r"\033\[[\d;]*m", "", colored) == plain
    assert "\033[1m## Why it is a bug\033[0m" in colored
    assert "\033[32m+x = good()\033[0m" in colored


@pytest.mark.parametrize("rule", registry.all_rules(), ids=lambda rule: rule.code)
def test_pages_say_what_their_fences_are(rule: Rule) -> None:
    """On the web a fence shows nothing of its kind."""
    page, end, before = registry.page(rule), 0, ""
    for fence in FENCE.finditer(page):
        _, _, kind = fence["info"].partition(" ")
        labels, text = LABELS.get(kind, ("",)), page[end : fence.start()].strip()
        goes_on = kind == before == "wrong"
        assert goes_on or text.startswith(labels), page[end : fence.end()]
        end, before = fence.end(), kind


@pytest.mark.parametrize("rule", registry.all_rules(), ids=lambda rule: rule.code)
def test_nothing_of_a_page_is_lost(rule: Rule) -> None:
    page = registry.page(rule)
    shown = "\n".join(render(page, Style()))
    pictures = re.compile(r"^!\[.*$", re.MULTILINE)
    prose, text = (pictures.sub("", FENCE.sub("", each)) for each in (page, shown))
    assert _words(text) == _words(prose)
    wide = [line for line in text.splitlines() if len(line) > 80]
    assert all(line.startswith("|") or "](http" in line for line in wide)


def _words(text: str) -> list[str]:
    """All but the line below the head of a table."""
    return [word for word in text.split() if not re.fullmatch(r"\|?[-:|]+\|?", word)]


@pytest.mark.parametrize("rule", registry.all_rules(), ids=lambda rule: rule.code)
def test_changes_are_those_of_the_page(rule: Rule) -> None:
    shown = FENCE.finditer("\n".join(render(registry.page(rule), Style())))
    changes = [fence["text"].splitlines() for fence in shown if fence["info"] == "diff"]
    made = [
        (example.flagged.text, fence.text)
        for example in parse(registry.page(rule)).examples
        for fence in (example.fixed, example.unsafe, *example.wrong)
        if fence
    ]
    for lines, (old, new) in zip(changes, made, strict=True):
        gone, come = ({line[1:] for line in lines if line[0] == sign} for sign in "-+")
        before, after = ({*unmarked(text).splitlines()} for text in (old, new))
        assert gone <= before and before - after <= gone
        assert come <= after and after - before <= come


# --- one screen -----------------------------------------------------------------------------------

SMALL = """\
# AMP301 log-softmax

## What it does

Finds toys. This is
one paragraph.

This is another.

## Why it is a bug

They break:

* often

## Example

```py
import torch
a()

x = bad()  # error: AMP301
```
Fixed:
```py fixed
import torch
a()

x = good()
```

## Fix and its safety

Safe.

## Known problems

Silent: all else.

Not found: bricks,
and dolls:

```py ok
brick()
```

## References

* [Here](https://example.org/toys), [there](https://example.org/others)
"""
SMALL_SCREEN = """\
AMP301 log-softmax (error, fix: safe, unsafe)

Finds toys. This is one paragraph.

Why: They break.

   a()
  -x = bad()
  +x = good()

Fix: Safe.

Not found: bricks, and dolls.

Silence it: `# noqa: AMP301` at the end of the line, `ignore = ["AMP301"]` or
`per-file-ignores = {"tests/*" = ["AMP301"]}` under `[tool.amp-lint]`.

Read on: `amp-lint rule AMP301 --full`, https://example.org/toys"""


def shown(page: str, code: str = "AMP301", style: Style | None = None) -> list[str]:
    rule = registry.find(code)
    assert rule is not None
    return [*screen(rule, parse(page), style or Style())]


def test_a_screen() -> None:
    assert "\n".join(shown(SMALL)) == SMALL_SCREEN


def test_a_screen_without_a_fix() -> None:
    lines = "".join(f"line{row}\n" for row in range(30))
    example = f"```py\n{lines}x = bad()  # error: AMP114\n{lines}```\n"
    before, _, rest = SMALL.partition("```py\n")
    page = before + example + rest[rest.index("\n## Fix") :]
    first, *_ = shown(page, "AMP114")
    assert first.endswith(" (error, no fix)")
    code = [line for line in shown(page, "AMP114") if line.startswith("  ")]
    assert code[5] == "  x = bad()  # error: AMP114"
    assert code[0] == "  line25" and code[-1] == "  line4"


def test_a_long_example_is_cut() -> None:
    lines = "".join(f"x = bad({row})\n" for row in range(30))
    page = SMALL.replace("x = bad()  # error: AMP301\n", f"{lines}y = 1  # error: AMP301\n")
    code = [line for line in shown(page) if line.startswith("  ")]
    assert len(code) == 13 and code[-1] == "  ..."


@pytest.mark.parametrize("rule", registry.every_rule(), ids=lambda rule: rule.code)
def test_every_rule_has_a_screen(rule: Rule) -> None:
    """Also one that says nothing of known problems, or refers to no page."""
    lines = [*screen(rule, parse(registry.page(rule)), Style(width=80))]
    assert lines[0].startswith(f"{rule.code} {rule.name} (")
    assert not lines[-1].endswith(",")


def test_colors_of_a_screen() -> None:
    colored = "\n".join(shown(SMALL, style=Style(color=True)))
    assert re.sub(r"\033\[[\d;]*m", "", colored) == SMALL_SCREEN
    assert "\033[1mWhy:\033[0m They break." in colored
    assert "\033[32m+x = good()\033[0m" in colored


@pytest.mark.parametrize("rule", registry.all_rules(), ids=lambda rule: rule.code)
def test_a_rule_is_one_screen(rule: Rule) -> None:
    """At 80 columns, but for code and links; each section says something."""
    page = parse(registry.page(rule))
    lines = [*screen(rule, page, Style(width=80))]
    assert len(lines) <= 40
    wide = [line for line in lines if len(line) > 80]
    assert all(line.startswith(("  ", "https://")) for line in wide)
    for section in ("What it does", "Why it is a bug", "Fix and its safety"):
        assert re.fullmatch(r"[A-Z`\"].+\.", page.paragraph(section)), section
    assert page.paragraph("Known problems", NOT_FOUND).endswith((".", ":"))
    assert re.search(r"\d|None|RuntimeError|TypeError", page.paragraph("Why it is a bug"))
    assert lines[-1].startswith(("https://", "Read on: "))


# --- pager ----------------------------------------------------------------------------------------

on_a_terminal = pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo-terminal")


def on_terminal(*arguments: str, **environment: str) -> str:
    """What a terminal shows of a command."""
    import pty

    ours, theirs = pty.openpty()
    given = {**os.environ, "TERM": "xterm", "NO_COLOR": "1", **environment}
    command = [sys.executable, "-m", "amp_lint", *arguments]
    with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=given):
        os.close(theirs)
        chunks = []
        with contextlib.suppress(OSError):  # Linux says so that the other side is closed
            while chunk := os.read(ours, 65536):
                chunks.append(chunk)
    os.close(ours)
    return b"".join(chunks).decode().replace("\r\n", "\n")


PAGED = ("rule", "AMP114", "--full")


@on_a_terminal
def test_a_page_goes_through_the_pager() -> None:
    lines = on_terminal(*PAGED, PAGER="sed 's/^/| /'").splitlines()
    assert lines[0] == "| # AMP114 scaler-mismatch"
    assert all(line.startswith("| ") for line in lines)


@on_a_terminal
@pytest.mark.parametrize(
    "environment",
    [
        {"PAGER": "sed 's/^/| /'", "NO_PAGER": "1"},
        {"PAGER": "sed 's/^/| /'", "TERM": "dumb"},
        {"PAGER": ""},
        {"PAGER": "cat"},
    ],
)
def test_without_a_pager(environment: dict[str, str]) -> None:
    assert on_terminal(*PAGED, **environment).startswith("# AMP114 scaler-mismatch\n")


@on_a_terminal
@pytest.mark.parametrize("pager", ["/no/such/pager", "amp-lint-no-such-pager -x", "'"])
def test_a_broken_pager(pager: str) -> None:
    shown = on_terminal(*PAGED, PAGER=pager)
    assert "Traceback" not in shown
    assert "# AMP114 scaler-mismatch\n" in shown


@on_a_terminal
def test_a_reader_who_leaves() -> None:
    assert on_terminal(*PAGED, PAGER="head -n 1") == "# AMP114 scaler-mismatch\n"


@on_a_terminal
def test_one_screen_needs_no_pager() -> None:
    assert on_terminal("rule", "AMP114", PAGER="false").startswith("AMP114 scaler-mismatch (")
