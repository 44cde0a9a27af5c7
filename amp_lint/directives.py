"""Comments that silence nothing: which codes of them, as far as the run can know."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from amp_lint import registry
from amp_lint.rule import Rule
from amp_lint.selection import Scope, Selection
from amp_lint.syntax.docstrings import MARKS
from amp_lint.text.diagnostic import SYNTAX_ERROR, Diagnostic
from amp_lint.text.noqa import Code, Directive, Suppressions
from amp_lint.text.source import Source

_OURS = SYNTAX_ERROR[:3]
_SHORTEST = f"{_OURS}0"


def idle(
    source: Source, found: Iterable[Diagnostic], selection: Selection, scope: Scope
) -> list[Diagnostic]:
    """What rules about comments say of those whose codes silence nothing, in order of place.

    ``found`` is all that was found, suppressed or not, shown or not. A code is judged only if the
    run would have seen whatever it may silence: all its rules are asked, and what they may have to
    look at in other files is there.
    """
    sieve = selection.sieve
    asking = sieve.asking(source.data, sieve.rules) if scope is Scope.IMPORTS else ()
    sees = (rule for rule in sieve.rules if rule not in asking)
    asked = {rule.code for rule in sees if _sees_all(rule, selection, scope)}
    rows = [(source.position(finding.start)[0], finding.code) for finding in found]
    said: list[Diagnostic] = []
    for directive in Suppressions(source).directives():
        first, last = directive.rows
        if not selection.docstring_code and _has_code(source, first, last):
            continue
        hit = {code for row, code in rows if first <= row <= last}
        if codes := tuple(_idle(directive, hit, asked)):
            for rule in selection.about_comments:
                said += rule.visit_directive(directive, codes, source)
    return said


def _has_code(source: Source, first: int, last: int) -> bool:
    """Whether lines may be documentation with code, which other runs look at."""
    text = "\n".join(map(source.line, range(first, last + 1))).encode("utf-8", "surrogatepass")
    return first < last and any(mark in text for mark in MARKS)


def _idle(directive: Directive, hit: set[str], asked: set[str]) -> Iterator[Code]:
    """The codes of a comment that certainly silence none of what is on its lines."""
    for code in directive.codes:
        if len(code.text) < len(_SHORTEST) or not code.text.startswith(_OURS):
            continue
        silenced = {rule.code for rule in registry.every_rule() if rule.code.startswith(code.text)}
        if SYNTAX_ERROR.startswith(code.text) or silenced - asked:
            continue
        if silenced.isdisjoint(hit):
            yield code


def _sees_all(rule: Rule, selection: Selection, scope: Scope) -> bool:
    """Whether all that a rule can find in a file is found in this run, unless it asks callers."""
    target = selection.target_torch
    if target and any(target < since for since in rule.since.values()):
        return False
    is_whole = scope is Scope.WHOLE
    if rule.elsewhere and not (is_whole and selection.preview):
        return False
    return is_whole or scope is Scope.IMPORTS
