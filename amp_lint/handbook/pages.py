"""Rule pages as data: the Python fences of a page, and what they promise.

Python fences, told apart by the words after ``py``:

* none: an example. ``# error: CODE`` ends exactly the lines on which the rule reports something
  (``# error: CODE, CODE`` where it reports twice);
* ``fixed`` right after an example: the exact text that safe fixes make of it; ``fixed unsafe``:
  what unsafe fixes make of it. Findings that remain are marked there in the same way;
* ``ok``: silent; ``todo``: a stated false negative, silent today;
* ``wrong``: a tempting wrong fix of the example above it, which the verifier must refute.

Readers do not see these words, so the text above a fence says it: "Fixed:", "Fixed with
`--unsafe-fixes`:", and above one or more wrong fixes that the verifier refutes them.

``target-torch=2.0`` after the words sets the oldest torch that the code must run on.

The linter sees the text as it stands on the page, marks included. Fixed texts are compared
without marks; a line that consists of nothing but a mark goes with it.

"Symptoms" is a list of what a user meets, the most typical first. An item that is one piece of code
which names an exception or a warning is what torch prints, ``...`` for what differs from run to run
and at the end for what is left out; every other item is in words. Python fences stand in
"Example" and "Known problems"; the first paragraph of each section is also read alone.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

SECTIONS = (
    "What it does",
    "Symptoms",
    "Why it is a bug",
    "Example",
    "Fix and its safety",
    "Known problems",
    "References",
)
KINDS = {"", "fixed", "fixed unsafe", "ok", "todo", "wrong"}

FENCE = re.compile(r"^```(?P<info>[^\n`]*)\n(?P<text>.*?)^```[ \t]*$", re.MULTILINE | re.DOTALL)
_MARK = re.compile(r"[ \t]*# error: *(?P<codes>AMP\d+(?:, *AMP\d+)*)[ \t]*$")
_TARGET = re.compile(r"target-torch=(\d+)\.(\d+)")
_SECTION = re.compile(r"^## (.+)\n", re.MULTILINE)
_ITEM = re.compile(r"^\* ", re.MULTILINE)
_MESSAGE = re.compile(r"(?P<ticks>`+) ?(?P<text>\w+(?:Error|Warning): .+?) ?(?P=ticks)")


class PageError(Exception):
    """A page does not follow the format."""


@dataclass(frozen=True)
class Fence:
    """One Python block of a page."""

    kind: str
    text: str
    line: int
    """The line of the page on which the text starts."""
    target_torch: tuple[int, int] | None = None

    def expected(self) -> Counter[tuple[int, str]]:
        """(line, code) of every finding that the marks promise."""
        found: Counter[tuple[int, str]] = Counter()
        for row, line in enumerate(self.text.split("\n"), 1):
            if mark := _MARK.search(line):
                found.update((row, code.strip()) for code in mark["codes"].split(","))
        return found


@dataclass
class Example:
    """Code with findings, and what is said about fixing it."""

    flagged: Fence
    fixed: Fence | None = None
    unsafe: Fence | None = None
    wrong: list[Fence] = field(default_factory=list)

    def outcome(self, *, unsafe: bool) -> Fence | None:
        """What fixing must give; None where nothing is promised, so nothing may change."""
        return (self.unsafe or self.fixed) if unsafe else self.fixed


@dataclass(frozen=True)
class Symptom:
    """One thing that a user meets."""

    text: str
    """In one line; Markdown, but for a message."""
    message: bool
    """Whether torch prints it; ``...`` then stands for any text."""


@dataclass
class Page:
    """The sections and Python fences of one page."""

    title: str
    prose: dict[str, str]
    """What stands below each heading, without fences."""
    symptoms: tuple[Symptom, ...] = ()
    examples: list[Example] = field(default_factory=list)
    silent: list[Fence] = field(default_factory=list)
    """The ``ok`` and ``todo`` fences."""

    @property
    def sections(self) -> tuple[str, ...]:
        """The headings, in order."""
        return tuple(self.prose)

    def paragraph(self, section: str, start: str = "") -> str:
        """The first paragraph of a section that starts so, in one line; "" if there is none."""
        blocks = (" ".join(block.split()) for block in self.prose.get(section, "").split("\n\n"))
        return next((block for block in blocks if block and block.startswith(start)), "")


def parse(text: str) -> Page:
    """Read a page.

    Raises:
        PageError: a fence is of no known kind or not where it belongs, or a message of torch
            is not all there is to an item.
    """
    prose = FENCE.sub("", text)
    if prose.count("```"):
        raise PageError("a fence is not closed")
    title = re.search(r"^# (.+)$", prose, re.MULTILINE)
    parts = _sections(prose)
    symptoms = tuple(_symptoms(parts.get("Symptoms", "")))
    page = Page(title[1] if title else "", parts, symptoms)
    for fence in _fences(text):
        _place(page, fence)
    return page


def _sections(text: str) -> dict[str, str]:
    """What stands below each heading of the second level, in order.

    Raises:
        PageError: a heading comes twice.
    """
    _, *parts = _SECTION.split(text)
    heads = [head.strip() for head in parts[::2]]
    if len(set(heads)) < len(heads):
        raise PageError(f"a heading comes twice: {', '.join(heads)}")
    return dict(zip(heads, parts[1::2], strict=True))


def _symptoms(section: str) -> Iterator[Symptom]:
    _, *items = _ITEM.split(section)
    for item in items:
        text = " ".join(item.partition("\n\n")[0].split())
        message = _MESSAGE.match(text)
        if message and message[0] != text:
            raise PageError(f"more than a message in one symptom: {text!r}")
        yield Symptom(message["text"] if message else text, bool(message))


def _fences(text: str) -> Iterator[Fence]:
    for match in FENCE.finditer(text):
        language, _, info = match["info"].strip().partition(" ")
        if language not in ("py", "python"):
            continue
        line = text.count("\n", 0, match.start("text")) + 1
        target = _TARGET.search(info)
        kind = " ".join(_TARGET.sub("", info).split())
        if language == "python" or kind not in KINDS:
            raise PageError(f"line {line - 1}: no such fence: {match['info']!r}")
        version = (int(target[1]), int(target[2])) if target else None
        yield Fence(kind, match["text"], line, version)


def _place(page: Page, fence: Fence) -> None:
    if fence.kind == "":
        page.examples.append(Example(fence))
        return
    if fence.kind in ("ok", "todo"):
        page.silent.append(fence)
        return
    if not page.examples:
        raise PageError(f"line {fence.line}: no example above")
    example = page.examples[-1]
    if fence.kind == "wrong":
        example.wrong.append(fence)
    elif fence.kind == "fixed" and example.fixed is None:
        example.fixed = fence
    elif fence.kind == "fixed unsafe" and example.unsafe is None:
        example.unsafe = fence
    else:
        raise PageError(f"line {fence.line}: the example has a {fence.kind!r} fence already")


def unmarked(text: str) -> str:
    """``text`` without its ``# error`` marks."""
    lines = []
    for line in text.split("\n"):
        bare = _MARK.sub("", line)
        if bare == line or bare.strip():
            lines.append(bare)
    return "\n".join(lines)
