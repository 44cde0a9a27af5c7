"""`amp-lint rule`: what is on a page reaches the reader."""

from __future__ import annotations

import re

import pytest

from amp_lint import registry
from amp_lint.pages import FENCE, parse, unmarked
from amp_lint.report import Style
from amp_lint.report.page import render
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
