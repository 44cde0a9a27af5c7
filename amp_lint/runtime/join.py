"""The linter's findings in files that ran, held against what the run has shown. None is deleted."""

from __future__ import annotations

import enum
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from amp_lint import registry
from amp_lint.report import Finding
from amp_lint.runtime.frames import Place
from amp_lint.runtime.record import Record
from amp_lint.runtime.sources import Sources
from amp_lint.runtime.tell import Said, evidence, finding
from amp_lint.text.files import from_here
from amp_lint.text.printable import counted
from amp_lint.text.source import Source
from amp_lint.vocabulary.meaning import Role
from amp_lint.vocabulary.table import FUNCTIONS, words


class Status(enum.Enum):
    """What a run says of a finding."""

    CONFIRMED = "confirmed"
    IN_ORDER = "in order"
    AMP_OFF = "reached with AMP off"
    NOT_REACHED = "not reached"
    ENDED = "the run ended here"
    RUN_ONLY = "run time only"


_WATCHED = FUNCTIONS | words(Role.REGION, Role.SCALER)
"""What calls are called that a run takes note of."""
_CALLED = re.compile(r"\b(\w+)\s*\(")


@dataclass(frozen=True, slots=True)
class _Rows:
    """Lines of a file."""

    first: int
    last: int

    def meet(self, place: Place) -> bool:
        """Whether a place is on some of them."""
        return place.row <= self.last and (place.end_row or place.row) >= self.first


class Join:
    """Holds findings of the linter against a record."""

    def __init__(self, record: Record, sources: Sources) -> None:
        self._record = record
        self._sources = sources

    def joined(self, static: Iterable[Finding], seen: Sequence[Said]) -> Iterator[Finding]:
        """Every finding of both, once, with what is known of it."""
        left = {id(each): each for each in seen}
        for found in static:
            confirming = [each for each in seen if self._confirms(each, found)]
            for each in confirming:
                left.pop(id(each), None)
            yield _confirmed(found, confirming[0]) if confirming else self._judged(found)
        for each in left.values():
            made = finding(each, self._sources)
            yield replace(made, shown={"status": Status.RUN_ONLY.value, **made.shown})

    def _confirms(self, each: Said, found: Finding) -> bool:
        """Whether both are the same mistake: any place of the run, or its main one, is there.

        The linter may report the call of a helper, in which the run sees what happens.
        """
        if each.rule.code != found.diagnostic.code:
            return False
        main, *related = _rows(found)
        seen = each.observation
        places = [p for p in (*seen.places.values(), *seen.callers) if _is_in(p, found.source)]
        at_related = _is_in(each.place, found.source) and any(r.meet(each.place) for r in related)
        return at_related or any(main.meet(place) for place in places)

    def _is_at(self, place: Place, found: Finding) -> bool:
        """Whether a finding is of what stands at a place."""
        if not _is_in(place, found.source):
            return False
        start, end = self._sources.span(place)
        return start < found.diagnostic.end and found.diagnostic.start < end

    def _judged(self, found: Finding) -> Finding:
        """A finding that the run has not confirmed, with what it saw of the place."""
        if any(self._is_at(place, found) for place in self._record.raised):
            note = f"the run ended here by a {self._record.summary.error}"
            shown: dict[str, object] = {"status": Status.ENDED.value}
            return replace(found, notes=(*found.notes, note), shown=shown)
        status = self._status(found)
        if status is None:
            return found
        kind, count = status
        often = f" {counted(count, 'time')}" if count else ""
        note = f"{kind.value}{often} in this run"
        shown = {"status": kind.value} | ({"count": count} if count else {})
        return replace(found, notes=(*found.notes, note), shown=shown)

    def _status(self, found: Finding) -> tuple[Status, int] | None:
        rule = registry.find(found.diagnostic.code)
        if rule is None or not rule.observed:
            return None
        main, *_ = _rows(found)
        count = _most(self._record.reached, main, found.source)
        if count is not None:
            return (Status.IN_ORDER, count) if count else None
        if count := _most(self._record.passed, main, found.source):
            return Status.AMP_OFF, count
        if not self._record.summary.counted:
            return None  # it may have been reached since the counts were written down
        code = found.source.text[found.diagnostic.start : found.diagnostic.end]
        calls = {*_CALLED.findall(code)}
        return (Status.NOT_REACHED, 0) if calls & _WATCHED else None


def _confirmed(found: Finding, each: Said) -> Finding:
    """The linter's finding, which may have a fix, with the numbers of the run."""
    diagnostic = replace(found.diagnostic, message=each.message, severity=each.severity)
    note = f"confirmed by the run: {each.often}"
    shown = {"status": Status.CONFIRMED.value, **evidence(each)}
    return replace(found, diagnostic=diagnostic, notes=(note,), shown=shown)


def _most(counts: Counter[Place], rows: _Rows, source: Source) -> int | None:
    """How often a place on some lines was reached; None if none was, 0 if no call has ended."""
    there = (n for place, n in counts.items() if rows.meet(place) and _is_in(place, source))
    return max(there, default=None)


def _is_in(place: Place, source: Source) -> bool:
    return str(from_here(Path(place.file))) == source.name


def _rows(found: Finding) -> list[_Rows]:
    """Those of the finding itself, and of each related place."""
    spans = [(found.diagnostic.start, found.diagnostic.end)]
    spans += [(each.start, each.end) for each in found.diagnostic.related]
    position = found.source.position
    return [_Rows(position(start)[0], position(max(end - 1, start))[0]) for start, end in spans]
