"""From what a user sees, in words or in a log, to the rules that are about it.

Messages of torch come first: they are looked for in the text, and the text in them. Words are
compared as concepts: small tables say which words and phrases mean the same, and a concept counts
the more, the fewer pages have it. Every step is linear in the length of the text, which may be a
log of many megabytes that nobody has looked at.
"""

from __future__ import annotations

import functools
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import TypeAlias

from amp_lint import registry
from amp_lint.handbook import pages
from amp_lint.handbook.concepts import MEANT, SUBJECTS, concepts, folded, plain_words, split
from amp_lint.handbook.pages import Symptom
from amp_lint.handbook.uncovered import CAUSES, Cause
from amp_lint.rule import Rule
from amp_lint.text.diagnostic import Severity

Topic: TypeAlias = Rule | Cause
"""What a symptom leads to."""

MAX_QUERY_WORDS = 60
"""Words from which a text is no question any more; it is read as a log then."""
_GAP = 200
"""Characters that may stand for ``...`` in a message."""
_NEAR = 5
"""Words of a line of a log among which one says what is not finite: "grad norm: nan"."""
_SPAN = 40
"""Words that are looked at together in a line of any length."""
_LEAST = 0.5
"""Share of a question that a symptom has to explain."""
_NEAR_BEST = 0.66
"""Worse results than this share of the best one are left out."""
_SAME_WORDS = 0.1
"""What the same words count more than others for the same thing."""
_ASIDE = 0.2
"""What a circumstance counts, and a word in no table: "enable" in "nan when I enable it"."""
_OTHER_THING = 0.6
"""What a symptom counts that is told of something else."""
_ENOUGH = 0.6
"""Share of a question that a message has to have in one piece."""
_CONTAINED, _PARTIAL = 4.0, 2.0
"""Scores of a message that is in the text, and of a text that is in a message; words have 1."""

_QUOTES = dict.fromkeys(map(ord, "`'\"\u2018\u2019\u201c\u201d"))
_RELATED = (
    frozenset({"nan", "inf", "overflow", "diverge"}),
    frozenset({"slow", "stuck"}),
    frozenset({"huge", "jump", "diverge"}),
)
"""Concepts that are not the same, but follow from each other."""


_CIRCUMSTANCES = frozenset({"autocast", "batch", "epoch", "network", "output", "step", "value"})
"""Where or when something shows, which says little about what it is."""
_THINGS = frozenset({"loss", "gradient", "weight", "scale"})
"""What says nothing about each other: a loss of 0 is no gradient of 0."""


@dataclass(frozen=True, slots=True)
class Match:
    """One symptom that fits, the best of its topic."""

    topic: Topic
    symptom: Symptom
    score: float


@dataclass(frozen=True, slots=True)
class Sight:
    """What stands out in a log: a line of it, counted from 1, and how many are like it."""

    row: int
    line: str
    count: int


@dataclass(frozen=True, slots=True)
class Reading:
    """What a text says: the topics that fit, most likely first, and where a log says it."""

    matches: tuple[Match, ...]
    sights: tuple[Sight, ...] = ()
    lines: int = 1
    last_error: str = ""
    """The last line of a log that names an exception."""


@dataclass(frozen=True)
class _Entry:
    """A symptom, made ready for comparisons."""

    topic: Topic
    symptom: Symptom
    place: int
    """Its place among those of its kind on the page."""
    pieces: tuple[str, ...] = ()
    """Of a message: what stands between its dots."""
    words: tuple[str, ...] = ()
    """Of a message: all of its words."""
    stems: frozenset[str] = frozenset()
    concepts: frozenset[str] = frozenset()

    @property
    def order(self) -> tuple[bool, bool, int, int, str]:
        """What is more likely of two that fit alike: rules, certain ones, severe ones."""
        if isinstance(self.topic, Cause):
            return True, False, self.place, 0, ""
        severity = [*Severity].index(self.topic.severity)
        return False, self.topic.preview, self.place, severity, self.topic.code


@functools.cache
def index() -> Index:
    """The symptoms on all pages, and those that no rule is about."""
    covered = [(rule, pages.parse(registry.page(rule)).symptoms) for rule in registry.every_rule()]
    return Index([*covered, *((cause, cause.symptoms) for cause in CAUSES)])


class Index:
    """Finds symptoms."""

    def __init__(self, topics: Iterable[tuple[Topic, Sequence[Symptom]]]) -> None:
        """Prepare the symptoms of ``topics``, those of each with the most typical first."""
        entries = [entry for topic, symptoms in topics for entry in _entries(topic, symptoms)]
        self._messages = [entry for entry in entries if entry.symptom.message]
        self._words = [entry for entry in entries if not entry.symptom.message]
        self._weights = _weights(self._words)

    def read(self, text: str) -> Reading:
        """The topics that a question or a log fits."""
        lines = text.splitlines()
        if _is_long(text) or sum(map(bool, map(str.strip, lines))) > 1:
            return self._read_log(text, lines)
        words = split(text)
        found = self._contained(text) or self._partial(words) or self._by_words(words)
        return Reading(_ranked(found))

    def _read_log(self, text: str, lines: Sequence[str]) -> Reading:
        """Errors come first, then what is not finite; warnings may be about something else."""
        said = self._contained(text)
        sights = _sights(lines, [entry.pieces[0] for _, entry in said])
        seen = [found for told in sights for found in self._by_words(sorted(told))]
        warnings = [found for found in said if "Warning: " in found[1].symptom.text]
        errors = [found for found in said if found not in warnings]
        best: dict[int, Match] = {}
        for match in (*_ranked(errors), *_ranked(seen), *_ranked(warnings)):
            best.setdefault(id(match.topic), match)
        return Reading(tuple(best.values()), tuple(sights.values()), len(lines), _last_error(lines))

    def _contained(self, text: str) -> list[tuple[float, _Entry]]:
        """The messages that stand in the text; the longer, the more certain."""
        flat = _flat(text)
        return [
            (_CONTAINED + sum(map(len, entry.pieces)) / 1000, entry)
            for entry in self._messages
            if _stands_in(flat, entry.pieces)
        ]

    def _partial(self, words: Sequence[str]) -> list[tuple[float, _Entry]]:
        """The messages of which a question is a part."""
        shares = ((_shared(words, entry.words), entry) for entry in self._messages)
        return [(_PARTIAL + share, entry) for share, entry in shares if share]

    def _by_words(self, words: Sequence[str]) -> list[tuple[float, _Entry]]:
        asked, stems = concepts(words), {stem for stem, _ in folded(words)}
        known = {concept: self._weight(concept) for concept in asked if concept in self._weights}
        total = sum(known.values())
        found = []
        for entry in self._words:
            had = {concept: _likeness(concept, entry.concepts) for concept in known}
            told = any(like for concept, like in had.items() if concept not in SUBJECTS)
            if told:
                score = sum(known[concept] * like for concept, like in had.items()) / total
                score *= _OTHER_THING if _of_another(asked, entry.concepts) else 1
                if score >= _LEAST:
                    same = len(stems & entry.stems) / len(stems)
                    found.append((round(score + _SAME_WORDS * same, 2), entry))
        return found

    def _weight(self, concept: str) -> float:
        """How much of a question a concept is: a mere word, or a time or place, is little of it."""
        matters = concept in MEANT and concept not in _CIRCUMSTANCES
        return self._weights[concept] * (1.0 if matters else _ASIDE)


def _entries(topic: Topic, symptoms: Sequence[Symptom]) -> Iterator[_Entry]:
    places = Counter[bool]()
    for symptom in symptoms:
        place = places[symptom.message]
        places[symptom.message] += 1
        if symptom.message:
            _, _, said = symptom.text.partition(": ")
            pieces = tuple(filter(None, map(str.strip, map(_flat, said.split("...")))))
            yield _Entry(topic, symptom, place, pieces, tuple(split(symptom.text)))
        else:
            words = split(symptom.text)
            stems = frozenset(stem for stem, _ in folded(words))
            yield _Entry(topic, symptom, place, stems=stems, concepts=concepts(words))


def _weights(entries: Iterable[_Entry]) -> dict[str, float]:
    """How much each concept says: the fewer topics have it, the more; subjects half of that."""
    by_topic: dict[int, set[str]] = {}
    for entry in entries:
        by_topic.setdefault(id(entry.topic), set()).update(entry.concepts)
    counts = Counter(concept for each in by_topic.values() for concept in each)
    related = {concept for group in _RELATED for concept in group}
    counts.update(related - counts.keys())
    return {
        concept: math.log(1 + len(by_topic) / count) / (2 if concept in SUBJECTS else 1)
        for concept, count in counts.items()
    }


def _likeness(concept: str, others: AbstractSet[str]) -> float:
    if concept in others:
        return 1.0
    return 0.5 if any(concept in group and group & others for group in _RELATED) else 0.0


def _of_another(asked: AbstractSet[str], told: AbstractSet[str]) -> bool:
    """Whether two texts are about different things."""
    things = asked & _THINGS, told & _THINGS
    return all(things) and things[0].isdisjoint(things[1])


def _ranked(found: Iterable[tuple[float, _Entry]]) -> tuple[Match, ...]:
    """The best of each topic, without what is much worse than the best of all."""
    ordered = sorted(found, key=lambda pair: (-pair[0], pair[1].order))
    best: dict[int, Match] = {}
    for score, entry in ordered:
        if score >= _NEAR_BEST * ordered[0][0]:
            best.setdefault(id(entry.topic), Match(entry.topic, entry.symptom, score))
    return tuple(best.values())


# --- texts ----------------------------------------------------------------------------------------


def _flat(text: str) -> str:
    """In lower case and one line, without quotes."""
    return " ".join(text.translate(_QUOTES).lower().split())


def _is_long(text: str) -> bool:
    return len(text) > 20 * MAX_QUERY_WORDS or len(text.split()) > MAX_QUERY_WORDS


def _stands_in(flat: str, pieces: Sequence[str]) -> bool:
    """Whether the pieces follow each other in the text, with little in between."""
    first, *others = pieces
    start = flat.find(first)
    while start >= 0:
        end = start + len(first)
        for piece in others:
            at = flat.find(piece, end, end + _GAP + len(piece))
            if at < 0:
                break
            end = at + len(piece)
        else:
            return True
        start = flat.find(first, start + len(first))
    return False


def _shared(asked: Sequence[str], said: Sequence[str]) -> float:
    """The share of a question that is one piece of a message; 0 if it is too little."""
    best = 0
    before = [0] * (len(said) + 1)
    for word in asked:
        row = [0]
        for place, other in enumerate(said):
            row.append(before[place] + 1 if word == other else 0)
        best, before = max(best, *row), row
    share = best / len(asked) if asked else 0.0
    enough = best >= 3 and share >= _ENOUGH
    return share if enough or (best == len(asked) >= 2) else 0.0


# --- logs -----------------------------------------------------------------------------------------

_SIGNS = frozenset({"nan", "inf", "overflow", "memory", "outofmemoryerror"})
_FRAME = '  File "'
"""How a traceback names a place; a line of code follows."""
_ABOUT = frozenset({"loss", "gradient", "weight"})
_SCALING = frozenset({"gradient", "scale", "skip", "step"})
"""What an overflow that a scaler sees is told with."""
_NOT_MEANT = frozenset({"best", "improved"})
"""Words of lines in which inf is where a search starts: "val_loss improved from inf to 0.3"."""


def _sights(lines: Iterable[str], messages: Sequence[str]) -> dict[frozenset[str], Sight]:
    """What is not finite or does not fit, each with the first line that says so.

    Lines with one of ``messages`` are none: "No inf checks were recorded".
    """
    found: dict[frozenset[str], Sight] = {}
    above = ""
    for row, line in enumerate(lines, 1):
        low, is_code, above = line.lower(), above.startswith(_FRAME), line
        if is_code or not ("nan" in low or "inf" in low or "overflow" in low or "memory" in low):
            continue
        if any(message in _flat(line) for message in messages):
            continue
        for told in {*_told(plain_words(low))}:
            seen = found.get(told, Sight(row, line, 0))
            found[told] = Sight(seen.row, seen.line, seen.count + 1)
    return found


def _told(words: Sequence[str]) -> Iterator[frozenset[str]]:
    """What each sign in a line is about."""
    for start in range(0, len(words), _SPAN):
        span = words[start : start + _SPAN]
        if _NOT_MEANT.isdisjoint(span):
            for at, word in enumerate(span):
                if word in _SIGNS:
                    around = (span[max(at - _NEAR, 0) : at], span[at + 1 : at + 1 + _NEAR])
                    yield from _meaning(word, *(tuple(filter(str.isalpha, ws)) for ws in around))


@functools.lru_cache(maxsize=1024)
def _meaning(
    sign: str, before: tuple[str, ...], after: tuple[str, ...]
) -> tuple[frozenset[str], ...]:
    """What a sign between other words says, if anything."""
    near = concepts(before) | concepts(after)
    if sign == "memory" and "out" not in before:
        return ()
    if sign == "overflow" and _SCALING.isdisjoint(near):
        return ()
    about = _nearest(before[::-1]) or _nearest(after)
    return (concepts((sign,)) | about | (near & {"skip"} if sign == "overflow" else about),)


def _nearest(words: Iterable[str]) -> frozenset[str]:
    """What words are about that stand together."""
    for word in words:
        if about := concepts((word,)) & _ABOUT:
            return about
    return frozenset()


def _last_error(lines: Sequence[str]) -> str:
    for line in reversed(lines):
        if any(word.endswith(("Error:", "Exception:")) for word in line.split()):
            return line.strip()
    return ""
