"""What a rule is, what it reports, and what a fix consists of.

Nothing here imports libcst: the registry is loaded on every run, a parser only when a file
deserves one.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    import libcst as cst

    from amp_lint.model import Model

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

    @property
    def effect(self) -> Effect:
        """What it does to a run."""
        return Effect.DEPRECATION if self.deprecated else _EFFECTS[self.severity]

    @property
    def text(self) -> str:
        """What is wrong and what to do, for formats that give a finding one line."""
        return f"{self.message}; {self.help}" if self.help else self.message


class Rule:
    """A mistake that amp-lint knows. The page of the same name beside the module documents it.

    A rule says what it needs (``requires``, ``calls``) and is asked only about files that have
    it: ``visit_call`` once for every call of one of ``calls``, ``check`` once per file.
    """

    code: ClassVar[str]
    name: ClassVar[str]
    severity: ClassVar[Severity]
    preview: ClassVar[bool] = False
    """Off unless ``--preview``: the labelled code has not yet shown the rule to be precise."""
    fixes: ClassVar[tuple[Applicability, ...]] = ()
    """The kinds of fix that it may offer, the most trusted first."""
    requires: ClassVar[tuple[frozenset[str], ...]]
    """A file is looked at when it has at least one identifier of every set."""
    since: ClassVar[Mapping[str, tuple[int, int]]] = {}
    """For words that it looks for, the torch that brought what it recommends in their place.

    Uses of a word are not reported in code that must run on an older torch.
    """
    calls: ClassVar[frozenset[str]] = frozenset()
    """Qualified names; a call of one of them is handed to `visit_call`."""

    def visit_call(self, call: cst.Call, name: str, model: Model) -> Iterable[Diagnostic]:
        """Report on one call of ``name``, one of `calls`."""
        return ()

    def check(self, model: Model) -> Iterable[Diagnostic]:
        """Report on the whole file."""
        return ()

    def report(
        self,
        model: Model,
        node: cst.CSTNode,
        message: str,
        related: Sequence[tuple[cst.CSTNode, str]] = (),
        fix: Fix | None = None,
        *,
        help: str,
    ) -> Diagnostic:
        """A finding of this rule on ``node``; ``related`` pairs nodes with what they show.

        ``message`` says what happens to the run and ``help`` what to do about it, whether there is
        a fix or not. Both begin in lower case, so that they can be read as one sentence, and take
        up to 100 characters, with `quoted` code at most 200; the rest is on the rule's page.
        """
        start, end = model.tree.span(node)
        places = tuple(Related(*model.tree.span(other), label) for other, label in related)
        found = (self.code, self.name, self.severity, message, start, end, places, fix)
        return Diagnostic(*found, help=help)
