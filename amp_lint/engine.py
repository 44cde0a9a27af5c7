"""Checks and fixes one file with a selection of rules. Knows no rule by name."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypeAlias

from amp_lint import edits, noqa
from amp_lint.rule import SYNTAX_ERROR, Applicability, Diagnostic, Fix, Rule, Severity
from amp_lint.sieve import Sieve, TooDeepError, identifiers, parse, wanted
from amp_lint.source import Source, SourceError

if TYPE_CHECKING:
    from amp_lint.model import Model
    from amp_lint.model.links import Attachments
    from amp_lint.project import Links

MAX_ROUNDS = 10
"""Rounds of fixing before a file is said not to converge."""

_SYNTAX_HELP = (
    f"correct the file or exclude it; it is read as Python {sys.version_info[0]}."
    f"{sys.version_info[1]}"
)

Accept: TypeAlias = Callable[[str, Sequence[Diagnostic]], Sequence[Diagnostic]]
"""Asked in each round: of the findings in a text, those whose fix may be applied."""

Recheck: TypeAlias = Callable[[Source], list[Diagnostic]]


class AnalysisError(Exception):
    """A file cannot be analysed; the message says why in one line."""


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
        object.__setattr__(self, "sieve", Sieve(self.rules))


@dataclass(slots=True)
class FixResult:
    """What fixing one file came to."""

    text: str
    """The text to write; the old one where nothing was fixed."""
    fixed: list[Diagnostic]
    """The findings whose fixes were applied, with offsets into the text of their round."""
    remaining: list[Diagnostic]
    """The findings in ``text``."""
    dropped: list[Diagnostic]
    """The findings whose fix gives invalid code, does not remove them, or leads to one as bad."""
    found: list[Diagnostic]
    """The findings in the old text."""


def check(
    source: Source, selection: Selection, *, named: bool = False, links: Links | None = None
) -> list[Diagnostic]:
    """The findings in one file, in order of place, without those a ``noqa`` comment suppresses.

    A file that the sieves dismiss costs no parse; ``named`` says that the user asked for this
    very file, so that a syntax error in it is worth a report all the same. ``links`` is what it
    imports from other files of its project.

    Raises:
        AnalysisError: the file cannot be analysed.
    """
    told = named or not links or bool(selection.sieve.by_bytes(source.data))
    try:
        rules, attached = _survivors(source, selection, named, links)
    except SyntaxError as error:
        found = [_syntax_error(source, error)] if told else []
        return _suppress(source, found, selection)
    except TooDeepError as error:
        if not told:
            return []
        raise AnalysisError(str(error)) from error
    if not rules:
        return []
    return _suppress(source, _findings(source, rules, selection, attached), selection)


def fix(
    source: Source,
    selection: Selection,
    *,
    unsafe: bool = False,
    named: bool = False,
    accept: Accept | None = None,
    links: Links | None = None,
) -> FixResult:
    """Fix what can be fixed, round by round until nothing more applies.

    Each round is checked before it is kept: the text parses, every fixed finding is gone, and no
    other has come that is as severe. A fix that fails this is dropped and the round made again
    without it, so that the worst outcome is the old text. ``named`` and ``links`` as for `check`;
    what ``accept`` does not let pass stays as it is.

    Raises:
        AnalysisError: the file cannot be analysed.
    """

    def recheck(text: Source) -> list[Diagnostic]:
        return check(text, selection, named=named or text is not source, links=links)

    found = recheck(source)
    result = FixResult(source.text, [], found, [], found)
    allowed = {Applicability.SAFE} | ({Applicability.UNSAFE} if unsafe else set())
    refused: set[tuple[str, str]] = set()
    for _ in range(MAX_ROUNDS):
        todo = [
            finding
            for finding in result.remaining
            if finding.fix is not None
            and finding.fix.applicability in allowed
            and _identity(result.text, finding) not in refused
        ]
        if accept and todo and source.lossless:
            todo = _accepted(accept, result.text, todo, refused)
        if not todo or not source.lossless:
            break
        _fix_round(source, recheck, result, todo, refused)
    return result


def _accepted(
    accept: Accept, text: str, todo: list[Diagnostic], refused: set[tuple[str, str]]
) -> list[Diagnostic]:
    """What ``accept`` lets pass; the rest is refused for good."""
    accepted = [*accept(text, todo)]
    refused.update(_identity(text, finding) for finding in todo if finding not in accepted)
    return accepted


def _fix_round(
    source: Source,
    recheck: Recheck,
    result: FixResult,
    todo: list[Diagnostic],
    refused: set[tuple[str, str]],
) -> None:
    """Apply ``todo`` together; if that goes wrong, one by one, refusing what is to blame."""
    if _apply(source, recheck, result, todo):
        return
    for finding in todo:
        if _apply(source, recheck, result, [finding]):
            return  # offsets of the others are stale now; the next round finds them again
        refused.add(_identity(result.text, finding))
        result.dropped.append(finding)


def _apply(source: Source, recheck: Recheck, result: FixResult, todo: list[Diagnostic]) -> bool:
    by_fix = {id(finding.fix): finding for finding in todo}
    fixes = [finding.fix for finding in todo if finding.fix is not None]
    text, applied = edits.apply(result.text, fixes)
    try:
        fixed = Source(source.encode(text), source.name)
        parse(fixed.data)
        remaining = recheck(fixed)
    except (SourceError, SyntaxError, AnalysisError, TooDeepError):
        return False
    if any(finding.code == SYNTAX_ERROR for finding in remaining):
        return False
    done = [by_fix[id(fix)] for fix in applied]
    if not _improves(result.remaining, done, remaining):
        return False
    result.fixed += done
    result.text, result.remaining = text, remaining
    return True


def _improves(
    before: Sequence[Diagnostic], fixed: Sequence[Diagnostic], after: Sequence[Diagnostic]
) -> bool:
    """Whether what was fixed is gone, and what came for it, if anything did, is less severe.

    Code that raised or was never reached hides what is wrong with it: a fix may bring that out.
    """
    had, has, gone = (Counter(finding.code for finding in each) for each in (before, after, fixed))
    if any(has[code] > had[code] - count for code, count in gone.items()):
        return False
    order = [*Severity]
    worst = min(order.index(finding.severity) for finding in fixed)

    def as_bad(findings: Sequence[Diagnostic]) -> int:
        return sum(order.index(finding.severity) <= worst for finding in findings)

    return as_bad(after) <= as_bad(before) - as_bad(fixed)


def _identity(text: str, finding: Diagnostic) -> tuple[str, str]:
    return finding.code, text[finding.start : finding.end]


def _survivors(
    source: Source, selection: Selection, named: bool, links: Links | None
) -> tuple[tuple[Rule, ...], Attachments | None]:
    """The rules that may find something, and what to attach to the file for them."""
    sieve = selection.sieve
    if links is not None and (rules := sieve.by_own_bytes(source.data)):
        from amp_lint.model.links import attachments

        module = parse(source.data)
        attached = attachments(source.data, links)
        words = {*attached.words, *identifiers(module), *(["autocast"] if links.trainers else [])}
        return wanted(rules, words), attached
    rules = sieve.by_bytes(source.data)
    if rules:
        return sieve.by_syntax(source.data, rules), None
    if named:
        parse(source.data)
    return (), None


def _findings(
    source: Source,
    rules: Sequence[Rule],
    selection: Selection,
    attached: Attachments | None,
) -> list[Diagnostic]:
    import libcst as cst

    from amp_lint.model import Model
    from amp_lint.tree import LossyParseError

    try:
        model = Model(source, selection.target_torch, attached)
        found = [*_dispatch(model, rules)]
        for rule in rules:
            found += rule.check(model)
    except cst.ParserSyntaxError as error:
        raise AnalysisError(f"libcst cannot parse it: {error.message}") from error
    except LossyParseError as error:
        raise AnalysisError(str(error)) from error
    except RecursionError as error:
        raise AnalysisError("nests too deeply to be analysed") from error
    end = len(source.text)
    shown = [finding for finding in found if selection.preview >= finding.preview]
    own = [_within(finding, end) for finding in shown if finding.start <= end]
    unique = {(finding.code, finding.start, finding.end): finding for finding in reversed(own)}
    return sorted(unique.values(), key=lambda finding: (finding.start, finding.code))


def _within(finding: Diagnostic, end: int) -> Diagnostic:
    """A finding without the places, and without the fix, that lie in what is attached to a file."""
    related = tuple(place for place in finding.related if place.start <= end)
    fix = finding.fix
    if fix is not None and any(edit.start > end for edit in fix.edits):
        fix = None
    return replace(finding, related=related, fix=fix)


def _dispatch(model: Model, rules: Sequence[Rule]) -> list[Diagnostic]:
    """Hand every call of a wanted name to the rules that want it: one look-up for each call."""
    import libcst as cst

    by_name: dict[str, list[Rule]] = {}
    for rule in rules:
        for name in rule.calls:
            by_name.setdefault(name, []).append(rule)
    found: list[Diagnostic] = []
    if by_name:
        for call in model.tree.nodes(cst.Call):
            for name in model.names.spelled(call.func):
                for rule in by_name.get(name, ()):
                    found += rule.visit_call(call, name, model)
    return found


def _suppress(source: Source, findings: list[Diagnostic], selection: Selection) -> list[Diagnostic]:
    if not findings or not selection.noqa:
        return findings
    suppressed = noqa.Suppressions(source)

    def row(offset: int) -> int:
        return source.position(offset)[0]

    covered = [suppressed.covers(finding.code, row(finding.start)) for finding in findings]
    kept = [finding for finding, hides in zip(findings, covered, strict=True) if not hides]
    hidden = {row(f.start) for f, hides in zip(findings, covered, strict=True) if hides}
    return [
        replace(finding, fix=None)
        if finding.fix and any(row(edit.start) in hidden for edit in finding.fix.edits)
        else finding
        for finding in kept
    ]


def _syntax_error(source: Source, error: SyntaxError) -> Diagnostic:
    try:
        parse(source.text)
    except SyntaxError as exact:  # of bytes Python sometimes counts bytes, of text characters
        error = exact
    row = min(error.lineno or 1, len(source.line_starts))
    width = len(source.line(row))
    start = source.line_starts[row - 1] + min(max((error.offset or 1) - 1, 0), width)
    message = f"SyntaxError: {error.msg}"
    found = Diagnostic(SYNTAX_ERROR, "syntax-error", Severity.ERROR, message, start, start)
    return replace(found, help=_SYNTAX_HELP)


def applicable(fix: Fix | None, *, unsafe: bool) -> bool:
    """Whether ``--fix`` would apply this fix."""
    if fix is None:
        return False
    return fix.applicability is Applicability.SAFE or (
        unsafe and fix.applicability is Applicability.UNSAFE
    )
