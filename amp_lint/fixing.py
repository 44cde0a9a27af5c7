"""Fixes a text round by round, and keeps only what makes it better."""

from __future__ import annotations

import bisect
import functools
import itertools
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias

from amp_lint import engine
from amp_lint.edit import edits
from amp_lint.engine import AnalysisError
from amp_lint.selection import Scope, Selection
from amp_lint.syntax.parse import TooDeepError, parse
from amp_lint.text.diagnostic import SYNTAX_ERROR, Applicability, Diagnostic, Edit, Severity
from amp_lint.text.source import Source, SourceError

if TYPE_CHECKING:
    from amp_lint.syntax.project import Links

MAX_ROUNDS = 100
"""Rounds of fixing before a file is said not to converge."""
MAX_CHARACTERS = 3_000_000
"""Characters that are read again; what is not tried then is refused."""
MAX_CHAIN = 4
"""Fixes one after the other, each of what the one before brought out."""

_SAFE, _UNSAFE = Applicability.SAFE, Applicability.UNSAFE
Accept: TypeAlias = Callable[[str, Sequence[Diagnostic]], Sequence[Diagnostic]]
"""Asked in each round: of the findings in a text, those whose fix may be applied."""
Recheck: TypeAlias = Callable[[Source], list[Diagnostic]]
_Place: TypeAlias = tuple[str, int, int]
"""A code and the offsets of its finding."""


@dataclass(slots=True)
class FixResult:
    """What fixing one file came to."""

    text: str
    """The text to write; the old one where nothing was fixed."""
    fixed: list[Diagnostic]
    """The findings whose fixes were applied, with offsets into the text of their round."""
    remaining: list[Diagnostic]
    """The findings in ``text``; without a fix where that was refused."""
    found: list[Diagnostic]
    """The findings in the old text."""
    refused: list[Diagnostic]
    """Those of ``remaining``, with the fix that gives invalid code, does not remove them, or ends
    as badly."""
    vain: list[Diagnostic]
    """Those of ``found`` that are among them."""
    unencodable: bool = False
    """Whether something was refused because the file's encoding cannot hold it."""


@dataclass(slots=True)
class _State:
    """A text and the findings in it, on the way."""

    text: str
    remaining: list[Diagnostic]
    fixed: tuple[Diagnostic, ...] = ()
    edits: tuple[tuple[Edit, ...], ...] = ()
    """What has led to the text, one round after the other."""


def fix(
    source: Source,
    selection: Selection,
    *,
    unsafe: bool = False,
    named: bool = False,
    accept: Accept | None = None,
    links: Links | None = None,
    scope: Scope = Scope.PART,
    found: list[Diagnostic] | None = None,
) -> FixResult:
    """Fix what can be fixed, round by round until nothing more applies.

    Each round is checked before it is kept: the text parses, every fixed finding is gone, and no
    other is left for it that is as severe. Where a fix brings one out that can be fixed, both are
    applied or none. What fails this is refused, until something else has changed the text, so that
    the worst outcome is the old text and a second run finds nothing to do. ``named``, ``links``
    and ``scope`` as for `engine.check`; what ``accept`` does not let pass stays as it is. ``found``
    is what that gives for the source, where it is known.

    Raises:
        AnalysisError: the file cannot be analysed.
    """

    def recheck(text: Source) -> list[Diagnostic]:
        asked = named or text is not source
        return engine.check(text, selection, named=asked, links=links, scope=scope)

    found = recheck(source) if found is None else found
    allowed = {Applicability.SAFE} | ({Applicability.UNSAFE} if unsafe else set())
    if not source.lossless:
        return FixResult(source.text, [], found, found, [], [])
    return _Fixing(source, found, recheck, allowed, accept).result()


def offered(
    source: Source,
    selection: Selection,
    found: list[Diagnostic],
    *,
    unsafe: bool = False,
    named: bool = False,
    links: Links | None = None,
    scope: Scope = Scope.PART,
) -> list[Diagnostic]:
    """The findings that `engine.check` gives, without the fixes that `fix` would refuse.

    Where all fixes mean the same to the other rules, what these find is known.
    """
    asked, known = _concerned(selection, found)
    tried = functools.partial(
        fix, source, asked, named=named, links=links, scope=scope, found=known
    )
    kinds = {finding.fix.applicability for finding in found if finding.fix is not None}
    refused: set[_Place] = set()
    for more in (False, True):
        kind = Applicability.UNSAFE if more else Applicability.SAFE
        if kind in kinds and source.lossless:
            vain = tried(unsafe=unsafe or more).vain
            refused |= {_place(finding) for finding in vain if _is(finding, kind)}
    return [_without_fix(finding) if _place(finding) in refused else finding for finding in found]


def _concerned(selection: Selection, found: list[Diagnostic]) -> tuple[Selection, list[Diagnostic]]:
    """The rules that have to be asked again after fixes, and what they have found."""
    asked = selection.respelling
    codes = {rule.code for rule in asked.rules}
    tried = (each for each in found if any(_is(each, kind) for kind in (_SAFE, _UNSAFE)))
    if selection.about_comments or not all(f.code in codes and _is(f, _SAFE) for f in tried):
        return selection, found
    return asked, [finding for finding in found if finding.code in codes]


class _Fixing:
    """Fixes one text."""

    def __init__(
        self,
        source: Source,
        found: list[Diagnostic],
        recheck: Recheck,
        allowed: Collection[Applicability],
        accept: Accept | None,
    ) -> None:
        self._source = source
        self._found = found
        self._recheck = recheck
        self._allowed = allowed
        self._accept = accept
        self._state = _State(source.text, found)
        self._origins = {_place(finding): finding for finding in found}
        self._refused: set[_Place] = set()
        self._unproven: set[_Place] = set()
        self._left = max(MAX_CHARACTERS, 4 * len(source.text))
        self._unencodable = False
        self._changed = False
        """Whether the text is another one than that for which fixes were refused."""

    def result(self) -> FixResult:
        """Fix, and say what it came to."""
        for _ in range(MAX_ROUNDS):
            todo = self._todo()
            if todo and self._left > 0:
                self._round(todo)
            elif self._refused and self._changed and self._left > 0:
                self._refused.clear()
                self._changed = False
            else:
                self._refused |= set(map(_place, todo))
                break
        state, places = self._state, self._refused
        refused = [finding for finding in state.remaining if _place(finding) in places]
        remaining = [_without_fix(f) if _place(f) in places else f for f in state.remaining]
        vain = [self._origins[place] for place in places if place in self._origins]
        lost = self._unencodable and bool(refused)
        return FixResult(state.text, [*state.fixed], remaining, self._found, refused, vain, lost)

    def _todo(self) -> list[Diagnostic]:
        """The findings whose fix is to be tried, and may be."""
        todo = [
            finding
            for finding in self._state.remaining
            if self._may_be_fixed(finding)
            and _place(finding) not in self._refused
            and _place(finding) not in self._unproven
        ]
        if not self._accept or not todo:
            return todo
        accepted = [*self._accept(self._state.text, todo)]
        self._unproven |= {_place(finding) for finding in todo if finding not in accepted}
        return accepted

    def _may_be_fixed(self, finding: Diagnostic) -> bool:
        return finding.fix is not None and finding.fix.applicability in self._allowed

    def _round(self, todo: Sequence[Diagnostic]) -> None:
        """Apply ``todo`` together; if that goes wrong, a half of it, down to what is to blame."""
        if self._apply(todo) or (len(todo) == 1 and self._follow(todo[0])):
            return
        if len(todo) == 1:
            self._refused.add(_place(todo[0]))
            return
        self._round(todo[: len(todo) // 2])  # offsets of the others may be stale now

    def _apply(self, todo: Sequence[Diagnostic]) -> bool:
        state = self._edited(self._state, todo)
        if state is None or not _improves(self._state.remaining, state.fixed, state.remaining):
            return False
        self._keep(state)
        return True

    def _follow(self, first: Diagnostic) -> bool:
        """Apply a fix and those of what it brings out, if that ends well."""
        before = self._state.remaining
        state, todo = _State(self._state.text, before), [first]
        for _ in range(MAX_CHAIN):
            after = self._edited(state, todo)
            if after is None:
                return False
            state = after
            if _improves(before, [first], state.remaining):
                self._keep(state)
                return True
            fresh = _counts(state.remaining) - _counts(before)
            todo = [f for f in state.remaining if f.code in fresh and self._may_be_fixed(f)]
            if self._accept and todo:
                todo = [*self._accept(state.text, todo)]
            if not todo:
                return False
        return False

    def _edited(self, state: _State, todo: Sequence[Diagnostic]) -> _State | None:
        """What a text becomes by some fixes; None if it is no Python, or cannot be analysed."""
        by_fix = {id(finding.fix): finding for finding in todo}
        fixes = [finding.fix for finding in todo if finding.fix is not None]
        text, applied = edits.apply(state.text, fixes)
        self._left -= len(text)
        try:
            fixed = self._source.changed(text)
        except SourceError:
            self._unencodable = True
            return None
        try:
            parse(fixed.data)
            remaining = self._recheck(fixed)
        except (SyntaxError, AnalysisError, TooDeepError):
            return None
        if any(finding.code == SYNTAX_ERROR for finding in remaining):
            return None
        done = [by_fix[id(fix)] for fix in applied]
        made = tuple(edit for fix in applied for edit in fix.edits)
        return _State(text, remaining, (*state.fixed, *done), (*state.edits, made))

    def _keep(self, state: _State) -> None:
        for made in state.edits:
            move = _Shift(made).place
            self._refused = set(map(move, self._refused))
            self._unproven = set(map(move, self._unproven))
            self._origins = {move(place): found for place, found in self._origins.items()}
        fixed = (*self._state.fixed, *state.fixed)
        self._state = _State(state.text, state.remaining, fixed)
        self._changed = True


class _Shift:
    """Where places go when a text is edited."""

    def __init__(self, made: Iterable[Edit]) -> None:
        self._made = sorted(made, key=lambda edit: (edit.start, edit.end))
        sizes = (len(edit.content) - (edit.end - edit.start) for edit in self._made)
        self._sums = [0, *itertools.accumulate(sizes)]

    def place(self, place: _Place) -> _Place:
        """The new offsets, of what is added at the beginning or the end not a part."""
        code, start, end = place
        before = bisect.bisect_right(self._made, start, key=lambda edit: edit.end)
        within = bisect.bisect_left(self._made, end, key=lambda edit: edit.start)
        return code, start + self._sums[before], end + self._sums[max(before, within)]


def _place(finding: Diagnostic) -> _Place:
    return finding.code, finding.start, finding.end


def _is(finding: Diagnostic, kind: Applicability) -> bool:
    return finding.fix is not None and finding.fix.applicability is kind


def _without_fix(finding: Diagnostic) -> Diagnostic:
    return replace(finding, fix=None)


def _counts(findings: Iterable[Diagnostic]) -> Counter[str]:
    return Counter(finding.code for finding in findings)


def _improves(
    before: Sequence[Diagnostic], fixed: Sequence[Diagnostic], after: Sequence[Diagnostic]
) -> bool:
    """Whether what was fixed is gone, and what came for it, if anything did, is less severe.

    Code that raised or was never reached hides what is wrong with it: a fix may bring that out.
    """
    had, has, gone = map(_counts, (before, after, fixed))
    if any(has[code] > had[code] - count for code, count in gone.items()):
        return False
    order = [*Severity]
    worst = min(order.index(finding.severity) for finding in fixed)

    def as_bad(findings: Sequence[Diagnostic]) -> int:
        return sum(order.index(finding.severity) <= worst for finding in findings)

    return as_bad(after) <= as_bad(before) - as_bad(fixed)
