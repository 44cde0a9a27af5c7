"""Checks one file with a selection of rules. Knows no rule by name."""

from __future__ import annotations

import functools
import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from amp_lint.garbage import uncollected
from amp_lint.rule import Rule
from amp_lint.selection import Scope, Selection
from amp_lint.sieve import allowed, wanted
from amp_lint.syntax.facts import Facts, facts
from amp_lint.syntax.parse import TooDeepError, parse
from amp_lint.text import noqa
from amp_lint.text.diagnostic import SYNTAX_ERROR, Diagnostic, Severity
from amp_lint.text.source import Source

if TYPE_CHECKING:
    from amp_lint.model import Model
    from amp_lint.syntax.links import Attachments
    from amp_lint.syntax.project import Links

    Group = tuple[tuple[Rule, ...], Attachments | None]
    """Rules that may find something, and what they see of other files."""

_SYNTAX_HELP = (
    f"correct the file or exclude it; it is read as Python {sys.version_info[0]}."
    f"{sys.version_info[1]}: if it is written for a newer one, run amp-lint with that"
)


class AnalysisError(Exception):
    """A file cannot be analysed; the message says why in one line."""


def check(
    source: Source,
    selection: Selection,
    *,
    named: bool = False,
    links: Links | None = None,
    model: Model | None = None,
    scope: Scope = Scope.PART,
    groups: Sequence[Group] | None = None,
) -> list[Diagnostic]:
    """The findings in one file, in order of place, without those a ``noqa`` comment suppresses.

    A file that the sieves dismiss costs no parse; ``named`` says that the user asked for this
    very file, so that a syntax error in it is worth a report all the same. ``links`` is what it
    imports from other files of its project; ``model`` is that of the file alone, where it is known.
    ``scope`` says how much of the project the run has, for rules about comments; ``groups`` are the
    `survivors`, where they are known.

    Raises:
        AnalysisError: the file cannot be analysed.
    """
    try:
        with uncollected():
            groups = survivors(source, selection, named, links) if groups is None else groups
    except (SyntaxError, TooDeepError) as error:
        if not (named or not links or selection.sieve.by_bytes(source.data)):
            return []
        if isinstance(error, SyntaxError):
            return _suppress(source, [_syntax_error(source, error)], selection)
        raise AnalysisError(str(error)) from error
    found = _found(source, selection, links, groups, model)
    kept = _suppress(source, _in_order(_shown(found, selection)), selection) if found else []
    if selection.judges_comments(source.data):
        from amp_lint import directives

        kept += _suppress(source, directives.idle(source, found, selection, scope), selection)
        kept.sort(key=_order)
    return kept


def _found(
    source: Source,
    selection: Selection,
    links: Links | None,
    groups: Sequence[Group],
    model: Model | None,
) -> list[Diagnostic]:
    """All findings, those in documentation after the others."""
    found: list[Diagnostic] = []
    for group in groups:
        said, asked = _findings(source, selection, *group, model)
        found += (_within(each, source) for each in _own(source, selection, links, said, asked))
        if asked is not model:
            asked.close()
    if selection.reads_docstrings(source.data) and source.is_python:
        from amp_lint.docstrings import findings

        found += findings(source, functools.partial(_inside, selection))
    return found


def _inside(selection: Selection, inner: Source) -> list[Diagnostic]:
    """The findings in what documentation shows; none where it cannot be analysed."""
    try:
        return check(inner, selection.without_docstrings)
    except AnalysisError:
        return []


def unread(source: Source, selection: Selection) -> list[Diagnostic]:
    """The parts of a text that were left out as they are no Python, unless that is suppressed."""
    found = [_unreadable(start, why) for start, why in source.unread]
    return _suppress(source, found, selection)


def survivors(
    source: Source, selection: Selection, named: bool, links: Links | None
) -> list[Group]:
    """The rules that may find something, and what to attach to the file for them."""
    sieve = selection.sieve
    if links is not None and (rules := sieve.by_own_bytes(source.data)):
        found = facts(parse(source.data))
        asked = sieve.asking(source.data, rules)
        defined = tuple(rule for rule in asked if rule.reads_models and links.models)
        asking = tuple(r for r in asked if links.callers and not r.reads_models)
        limited = tuple(rule for rule in rules if rule.limited_by_models and links.models)
        others = tuple(rule for rule in rules if rule not in (*asking, *limited))
        groups = [
            _attached(source, selection, links, asking, found, calling=True),
            _attached(source, selection, links, others, found),
            _attached(source, selection, links, limited, found, models=True),
            # who is not in sight may do more: so they are asked without, too
            _attached(source, selection, links, defined, found, calling=True, models=True),
        ]
        return [group for group in groups if group[0]]
    rules = sieve.by_bytes(source.data)
    if rules and (rules := sieve.by_syntax(source.data, rules)):
        return [(rules, None)]
    if named and not rules:
        parse(source.data)
    return []


def _attached(
    source: Source,
    selection: Selection,
    links: Links,
    rules: tuple[Rule, ...],
    found: Facts,
    *,
    calling: bool = False,
    models: bool = False,
) -> Group:
    """Those of some rules that may find something, and what they see of other files.

    ``found`` is what the file itself says. Who calls it is seen by the rules that ask for it, and
    by no others: what calls give for a parameter is right for them, but not all there is.
    """
    from amp_lint.syntax.links import attachments

    if not rules:
        return (), None
    attached = attachments(source.data, links, calling=calling, models=models)
    elsewhere = {word for rule in rules for word in rule.elsewhere} if links.trainers else set()
    run = {"forward"} if links.run else set()
    others, unsure = {*attached.words, *elsewhere, *run}, selection.sieve.unsure
    rules = allowed(rules, found.seeing(attached.words | run), preview=unsure)
    if rules:
        words, done = others | found.words, others | found.done
        rules = wanted(rules, words, done, preview=unsure)
    return rules, attached


def _findings(
    source: Source,
    selection: Selection,
    rules: Sequence[Rule],
    attached: Attachments | None,
    model: Model | None,
) -> tuple[list[Diagnostic], Model]:
    """What some rules find in a file, with the model that they asked."""
    from amp_lint.model import Model
    from amp_lint.syntax.spans import LossyParseError, ParseError

    try:
        if model is None or attached is not None or model.target_torch != selection.target_torch:
            model = Model(source, selection.target_torch, attached)
        found = [*_dispatch(model, rules)]
        for rule in rules:
            found += rule.check(model)
    except LossyParseError as error:
        raise AnalysisError(str(error)) from error
    except ParseError as error:
        raise AnalysisError(f"libcst cannot parse it: {error}") from error
    except RecursionError as error:
        raise AnalysisError("nests too deeply to be analysed") from error
    end = len(source.text)
    own = [finding for finding in found if finding.start <= end]
    if attached is not None and any(place.start > end for f in own for place in f.related):
        from amp_lint.syntax.elsewhere import Elsewhere

        told = Elsewhere(model.linked, attached.sources)
        own = [replace(finding, elsewhere=told.notes(finding)) for finding in own]
    return own, model


def _own(
    source: Source,
    selection: Selection,
    links: Links | None,
    found: list[Diagnostic],
    model: Model,
) -> list[Diagnostic]:
    """Some findings without those whose cause is in files that import this one.

    It is there where a related place is, or what a call that is reported runs. What is found
    without these files as well is reported as it is found then.
    """
    if links is None or not links.callers:
        return found
    asking = selection.sieve.asking(source.data, selection.rules)
    given = {rule.code: rule for rule in asking if rule.given is not None}
    end = len(source.text)
    theirs = [
        each
        for each in found
        if each.code in given
        and (
            any(place.start > end for place in each.related) or each.start in model.calls_to_others
        )
    ]
    if not theirs:
        return found
    rules = tuple(given[code] for code in dict.fromkeys(each.code for each in theirs))
    group = _attached(source, selection, links, rules, facts(parse(source.data)))
    said, asked = _findings(source, selection, *group, None)
    asked.close()
    alone = {(each.code, each.start): each for each in said}
    left = (alone.get((each.code, each.start)) for each in theirs)
    return [each for each in found if each not in theirs] + [each for each in left if each]


def _shown(found: list[Diagnostic], selection: Selection) -> list[Diagnostic]:
    """Those that are reported in preview alone only there."""
    return [finding for finding in found if selection.preview >= finding.preview]


def _in_order(found: list[Diagnostic]) -> list[Diagnostic]:
    """Findings in order of place, each once."""
    unique = {(finding.code, finding.start, finding.end): finding for finding in reversed(found)}
    return sorted(unique.values(), key=_order)


def _order(finding: Diagnostic) -> tuple[int, str]:
    return finding.start, finding.code


def _within(finding: Diagnostic, source: Source) -> Diagnostic:
    """A finding without the places, and without the fix, that lie in what is attached to a file.

    Nor has it a fix that the file does not allow.
    """
    end = len(source.text)
    related = tuple(place for place in finding.related if place.start <= end)
    fix = finding.fix
    if fix is not None and any(e.start > end or not source.allows(e) for e in fix.edits):
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
    return _unreadable(start, error.msg)


def _unreadable(start: int, why: str) -> Diagnostic:
    message = f"SyntaxError: {why}"
    found = Diagnostic(SYNTAX_ERROR, "syntax-error", Severity.ERROR, message, start, start)
    return replace(found, help=_SYNTAX_HELP)
