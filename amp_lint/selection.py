"""Which rules run, and what they may take for granted."""

from __future__ import annotations

import enum
import functools
from dataclasses import dataclass, field, replace

from amp_lint.rule import Rule
from amp_lint.sieve import Sieve
from amp_lint.text import noqa


class Scope(enum.Enum):
    """How much of a file's project is in the run, and so whether a finding that lacks is none."""

    PART = enum.auto()
    """What it imports may lie outside, or nobody knows."""
    IMPORTS = enum.auto()
    """What it imports, but perhaps not what imports it."""
    WHOLE = enum.auto()


@dataclass(frozen=True)
class Selection:
    """Which rules run, the oldest torch that fixed code must run on, and whether noqa counts."""

    rules: tuple[Rule, ...]
    target_torch: tuple[int, int] | None = None
    noqa: bool = True
    preview: bool = False
    """Whether rules may report what they report in preview only."""
    docstring_code: bool = False
    """Whether the code in documentation strings is looked at, too."""
    sieve: Sieve = field(init=False, compare=False)

    def __post_init__(self) -> None:
        static = tuple(rule for rule in self.rules if rule.is_static)
        judged = bool(self.about_comments)  # what they silence may be reported in preview alone
        object.__setattr__(self, "sieve", Sieve(static, preview=self.preview, unsure=judged))

    @property
    def about_comments(self) -> tuple[Rule, ...]:
        """The rules that judge comments; none, where comments do not count."""
        return tuple(rule for rule in self.rules if rule.about_comments and self.noqa)

    def judges_comments(self, data: bytes) -> bool:
        """Whether a file may have comments that are to be judged."""
        return bool(self.about_comments) and noqa.may_name(data)

    def reads_docstrings(self, data: bytes) -> bool:
        """Whether a file may have documentation with code in which rules find something."""
        if not self.docstring_code:
            return False
        from amp_lint.syntax.docstrings import MARKS

        return any(mark in data for mark in MARKS) and self.sieve.by_prose(data)

    @functools.cached_property
    def respelling(self) -> Selection:
        """The rules alone whose safe fixes mean the same to all others."""
        return replace(self, rules=tuple(rule for rule in self.rules if rule.respells))

    @functools.cached_property
    def without_docstrings(self) -> Selection:
        """The same rules for what is no module, but for those about comments."""
        rules = tuple(rule for rule in self.rules if not rule.about_comments)
        return replace(self, rules=rules, docstring_code=False)
