"""How findings are shown: one small module for each format, with a function ``render``."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from amp_lint import registry
from amp_lint.text.diagnostic import Diagnostic, applicable
from amp_lint.text.printable import printable
from amp_lint.text.source import Source

FORMATS = ("full", "concise", "json", "github", "gitlab", "junit", "rdjson", "sarif")
"""The names for ``--output-format``."""
FOR_PEOPLE = ("full", "concise")
"""The formats whose findings are ordered by harm and folded, and followed by a summary."""


@dataclass(frozen=True, slots=True)
class Style:
    """What the reader's screen and command line ask for."""

    color: bool = False
    width: int = 80
    """Columns of the screen; code frames are cut to it."""
    unsafe: bool = False
    """Whether unsafe fixes count as fixable."""
    wrap: bool = False
    """Whether long texts are broken between words: on a terminal, which breaks within them."""


@dataclass(frozen=True, slots=True)
class Finding:
    """A diagnostic and the text that it is about."""

    source: Source
    diagnostic: Diagnostic
    folded: tuple[Diagnostic, ...] = ()
    """The findings that it stands for in one line; () if it is shown in full."""
    notes: tuple[str, ...] = ()
    """What else is known of it, as of a run, each in one line."""
    shown: Mapping[str, object] = field(default_factory=dict)
    """What a run has shown of it, as JSON has it; empty without a run."""

    @property
    def place(self) -> str:
        """``path:line:column``, as editors and terminals make it a link; with its cell."""
        return self.source.place(self.diagnostic.start)

    @property
    def preview(self) -> bool:
        """Whether it is reported with ``--preview`` only."""
        rule = registry.find(self.diagnostic.code)
        return self.diagnostic.preview or (rule is not None and rule.preview)

    @property
    def help(self) -> str:
        """What to do: what the fix does, or in general where there is none."""
        fix, advice = self.diagnostic.fix, self.diagnostic.help
        return printable(fix.title if fix else advice[:1].upper() + advice[1:])

    @property
    def message(self) -> str:
        """What is wrong, in one line."""
        return printable(self.diagnostic.message)

    @property
    def text(self) -> str:
        """What is wrong and what to do, in one line."""
        return printable(self.diagnostic.text)

    def fixable(self, style: Style) -> bool:
        """Whether ``--fix`` would apply the fix; one of them, if it stands for several findings."""
        findings = self.folded or (self.diagnostic,)
        return any(applicable(finding.fix, unsafe=style.unsafe) for finding in findings)


def wrapped(text: str, style: Style, start: str = "") -> list[str]:
    """The lines of a text that stands behind ``start``: one, unless a terminal is too narrow."""
    if not style.wrap:
        return [text]
    from textwrap import wrap

    first, *rest = wrap(
        text,
        style.width,
        initial_indent=start,
        subsequent_indent="  " if start else "",
        break_long_words=False,
        break_on_hyphens=False,
    )
    return [first.removeprefix(start), *rest]


Render: TypeAlias = Callable[[Sequence[Finding], Style], Iterator[str]]
"""Turns findings into pieces of text that end their own lines."""


def renderer(name: str) -> Render:
    """The ``render`` of a format, one of `FORMATS`."""
    render: Render = importlib.import_module(f"amp_lint.report.{name}").render
    return render
