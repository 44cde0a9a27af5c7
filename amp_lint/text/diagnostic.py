"""What a rule reports, and what a fix consists of: data without a parser behind it."""

from __future__ import annotations

import enum
from dataclasses import dataclass

SYNTAX_ERROR = "AMP900"
"""The code under which a file that is not Python is reported; no rule may take it."""


class Applicability(enum.Enum):
    """How far a fix may be trusted, in the words of ruff's JSON."""

    SAFE = "safe"
    """Always right; applied by ``--fix``."""
    UNSAFE = "unsafe"
    """Right for most, changes behaviour for some; applied with ``--unsafe-fixes``."""
    SUGGEST = "display"
    """Shown, never applied."""


class Severity(enum.Enum):
    """How bad the finding is for a run."""

    ERROR = "error"
    """Wrong numbers, or a crash."""
    WARNING = "warning"
    """Wrong numbers for some models, lost time, or a call that will be removed."""
    INFO = "info"
    """No effect on numbers that matter, or only in rare inputs."""


class Effect(enum.Enum):
    """What a finding does to a run, the worst first, in the words for one and for several."""

    RUINS = ("ruins the run", "ruin the run")
    LOSES = ("loses accuracy or time", "lose accuracy or time")
    DEPRECATION = ("deprecation", "deprecations")
    NOTE = ("note", "notes")

    def count(self, number: int) -> str:
        """So many findings with this effect: ``2 deprecations``."""
        one, several = self.value
        return f"{number} {one if number == 1 else several}"


_EFFECTS = {
    Severity.ERROR: Effect.RUINS,
    Severity.WARNING: Effect.LOSES,
    Severity.INFO: Effect.NOTE,
}


LONGEST_CODE = 48
"""Characters of the user's code that a message quotes; of longer code it quotes the beginning."""


def quoted(code: str) -> str:
    """The user's code as messages show it: in backquotes, on one line, cut where it is long."""
    line = " ".join(code.split())
    return f"`{line if len(line) <= LONGEST_CODE else line[: LONGEST_CODE - 1] + '…'}`"


@dataclass(frozen=True, slots=True)
class Edit:
    """Replace the characters ``[start, end)`` of the decoded text with ``content``."""

    start: int
    end: int
    content: str


@dataclass(frozen=True, slots=True)
class Fix:
    """Edits that belong together: all are applied, or none."""

    title: str
    edits: tuple[Edit, ...]
    applicability: Applicability


def applicable(fix: Fix | None, *, unsafe: bool) -> bool:
    """Whether ``--fix`` would apply this fix."""
    if fix is None:
        return False
    return fix.applicability is Applicability.SAFE or (
        unsafe and fix.applicability is Applicability.UNSAFE
    )


@dataclass(frozen=True, slots=True)
class Related:
    """Another place that explains a finding, such as where the gradients were scaled."""

    start: int
    end: int
    label: str


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One finding. Offsets count characters of the decoded text, without a byte order mark."""

    code: str
    name: str
    severity: Severity
    message: str
    start: int
    end: int
    related: tuple[Related, ...] = ()
    fix: Fix | None = None
    preview: bool = False
    """Reported with ``--preview`` only, whatever the rule is."""
    help: str = ""
    """What to do, in a few words; a fix says it more exactly."""
    deprecated: str = ""
    """The module whose API is all that is wrong: it works, and is going to be removed."""
    elsewhere: tuple[str, ...] = ()
    """What explains it in other files, each in one line that begins with its place."""

    @property
    def effect(self) -> Effect:
        """What it does to a run."""
        return Effect.DEPRECATION if self.deprecated else _EFFECTS[self.severity]

    @property
    def text(self) -> str:
        """What is wrong and what to do, for formats that give a finding one line."""
        return f"{self.message}; {self.help}" if self.help else self.message
