"""Which files deserve a parse, and which rules may have something to say about them.

Each sieve is dearer than the one before. The first looks for the identifiers that a rule
``requires`` in the bytes, and for its ``anchors``; the second does the same where prose is taken
out. The third asks ``ast`` which the code uses; it also refuses what would overflow the parser. The
last is ``Rule.may``, on the same tree.
"""

from __future__ import annotations

import functools
import itertools
import re
from collections import Counter
from collections.abc import Iterable, Sequence, Set

from amp_lint.rule import Rule
from amp_lint.syntax.facts import Facts, facts
from amp_lint.syntax.parse import parse
from amp_lint.text.prose import without_prose
from amp_lint.vocabulary.table import FUNCTIONS
from amp_lint.vocabulary.written import Look

_LEAST_LETTERS = 4
"""Shorter words are everywhere."""


class Sieve:
    """The sieves for one selection of rules."""

    def __init__(self, rules: Sequence[Rule], *, preview: bool = False) -> None:
        """Prepare; what depends on who trains elsewhere is found in ``preview`` alone."""
        self.rules = tuple(rules)
        self._preview = preview
        self._groups = {rule.code: _rare_first(rule.requires) for rule in self.rules}

    def by_bytes(self, data: bytes, *linked: bytes) -> tuple[Rule, ...]:
        """The rules whose identifiers all occur in the bytes of a file, or of those linked to it.

        One of them in its own, and what anchors the rule.
        """
        if not data:
            return ()
        texts = _Texts(data, linked)
        rules = [rule for rule in self.rules if self._passes(rule, texts)]
        code = texts.without_prose() if rules else texts
        return tuple(rule for rule in rules if self._passes(rule, code))

    def by_own_bytes(self, data: bytes) -> tuple[Rule, ...]:
        """The rules of whose identifiers at least one occurs in the bytes of a file."""
        text = _Texts(data).without_prose()
        return tuple(rule for rule in self.rules if self._mentions(rule, text))

    def wants_trainers(self, data: bytes) -> bool:
        """Whether a rule asks who trains elsewhere what a file with these bytes defines."""
        asking = (rule for rule in self.rules if rule.elsewhere)
        return self._preview and self._any(data, asking)

    def wants_callers(self, data: bytes) -> bool:
        """Whether a rule asks who calls what a file with these bytes defines."""
        return bool(self.asking(data, self.rules))

    def asking(self, data: bytes, rules: Sequence[Rule]) -> tuple[Rule, ...]:
        """Those of some rules that ask who calls what a file with these bytes defines."""
        patterns = {rule.called_for for rule in rules if rule.called_for}
        found = {pattern for pattern in patterns if pattern.found_in(data)}
        return tuple(rule for rule in rules if rule.called_for in found)

    def wants_exports(self, data: bytes) -> bool:
        """Whether a rule may take away a name that others import from a file with these bytes."""
        return self._any(data, (rule for rule in self.rules if rule.moves_names))

    def by_syntax(self, data: bytes, rules: Sequence[Rule]) -> tuple[Rule, ...]:
        """The rules among ``rules`` whose identifiers the code really uses, and that may report.

        Raises:
            SyntaxError: the file is not Python.
            TooDeepError: the file nests too deeply to be analysed.
        """
        found = facts(parse(data))
        rules = allowed(rules, found)
        return wanted(rules, found.words, found.done) if rules else ()  # most end here

    def _passes(self, rule: Rule, texts: _Texts) -> bool:
        found = all(map(texts.have, self._groups[rule.code])) and self._mentions(rule, texts)
        return found and texts.show(rule.pattern)

    def _mentions(self, rule: Rule, texts: _Texts) -> bool:
        if not all(any(part.encode() in texts.own for part in group) for group in rule.anchors):
            return False
        return any(map(texts.has, itertools.chain(*self._groups[rule.code])))

    def _any(self, data: bytes, rules: Iterable[Rule]) -> bool:
        """Whether the bytes have what one of some rules requires of the file itself."""
        text = _Texts(data)
        return any(
            all(rule.elsewhere & group or text.have(group) for group in self._groups[rule.code])
            for rule in rules
        )


class _Texts:
    """The bytes of a file and of those linked to it, and which identifiers were found in them."""

    def __init__(self, own: bytes, linked: Sequence[bytes] = ()) -> None:
        self.own = own
        self._linked = linked
        self._own: dict[str, bool] = {}
        self._parts: dict[bytes, bool] = {}
        self._found: dict[frozenset[str], bool] = {}

    def without_prose(self) -> _Texts:
        """The same texts as far as they are code."""
        return _Texts(without_prose(self.own), [*map(without_prose, self._linked)])

    def has(self, word: str) -> bool:
        """Whether the file itself has an identifier."""
        if word not in self._own:
            self._own[word] = _occurs(word, self.own)
        return self._own[word]

    def have(self, group: frozenset[str]) -> bool:
        """Whether one of some identifiers is anywhere."""
        if group not in self._found:
            self._found[group] = (
                any(self._shows(part) for part, _ in _parts(group, 1))
                and any(self._shows(p) and any(map(self.has, ws)) for p, ws in _parts(group, 2))
            ) or any(_occurs_in_linked(word, text) for text in self._linked for word in group)
        return self._found[group]

    def _shows(self, part: bytes) -> bool:
        if part not in self._parts:
            self._parts[part] = part in self.own
        return self._parts[part]

    def show(self, what: Look | None) -> bool:
        """Whether something is found anywhere; nothing is."""
        return what is None or any(map(what.found_in, (self.own, *self._linked)))


@functools.cache
def _parts(group: frozenset[str], length: int) -> tuple[tuple[bytes, tuple[str, ...]], ...]:
    """A few parts of identifiers of which each of a group has one: one look for all its forms.

    Each with the identifiers that it is a part of. ``length`` is how many words of an identifier
    a part has, if the identifier has so many.
    """
    parts = {word: _adjacent(word, length) for word in sorted(group)}
    found: list[tuple[bytes, tuple[str, ...]]] = []
    while parts:
        often = Counter(part for each in parts.values() for part in each)
        part = max(often, key=lambda part: (often[part], part))
        found.append((part.encode(), tuple(word for word in parts if part in parts[word])))
        parts = {word: each for word, each in parts.items() if part not in each}
    return tuple(found)


def _adjacent(word: str, length: int) -> list[str]:
    """So many adjacent words of an identifier; itself where there are none that are long."""
    each = word.split("_")
    parts = ["_".join(each[at : at + length]) for at in range(len(each) - length + 1)]
    return [*dict.fromkeys(part for part in parts if len(part) >= _LEAST_LETTERS)] or [word]


def _rare_first(groups: Iterable[frozenset[str]]) -> tuple[frozenset[str], ...]:
    """The groups in an order in which the first are the least likely to be found: long words."""
    return tuple(sorted(groups, key=lambda group: -min(map(len, group), default=0)))


def _occurs(word: str, data: bytes) -> bool:
    return word.encode() in data and bool(_pattern(word).search(data))


_occurs_in_linked = functools.lru_cache(maxsize=16_384)(_occurs)
"""The same for files that many others import."""


@functools.cache
def _pattern(word: str) -> re.Pattern[bytes]:
    """The identifier; it begins with plain letters, which `re` looks for quickly."""
    text = re.escape(word).encode()
    return re.compile(rb"%b(?<!\w%b)(?!\w)" % (text, text))


def wanted(rules: Sequence[Rule], words: Set[str], done: Set[str]) -> tuple[Rule, ...]:
    """The rules of which every group of required identifiers has one in ``words``.

    In ``done``, the words that may be called, if it is that of a function.
    """

    def has(group: frozenset[str]) -> bool:
        return not (done.isdisjoint(group) and words.isdisjoint(group - FUNCTIONS))

    return tuple(rule for rule in rules if all(map(has, rule.requires)))


def allowed(rules: Sequence[Rule], found: Facts) -> tuple[Rule, ...]:
    """The rules that may have something to report, as far as one file says."""
    return tuple(rule for rule in rules if rule.may(found))
