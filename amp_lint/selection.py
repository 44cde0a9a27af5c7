"""Which rules run, and what they may take for granted."""

from __future__ import annotations

from dataclasses import dataclass, field

from amp_lint.rule import Rule
from amp_lint.sieve import Sieve


@dataclass(frozen=True)
class Selection:
    """Which rules run, the oldest torch that fixed code must run on, and whether noqa counts."""

    rules: tuple[Rule, ...]
    target_torch: tuple[int, int] | None = None
    noqa: bool = True
    preview: bool = False
    """Whether rules may report what they report in preview only."""
    sieve: Sieve = field(init=False, compare=False)

    def __post_init__(self) -> None:
        static = tuple(rule for rule in self.rules if not rule.run_only)
        object.__setattr__(self, "sieve", Sieve(static, preview=self.preview))
