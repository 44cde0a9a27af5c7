"""Which files deserve a parse, and which rules may have something to say about them.

Each sieve is dearer than the one before. The first looks for the identifiers that a rule
``requires`` in the bytes, and for its ``anchors``; the second does the same where prose is taken
out. The third asks ``ast`` which the code uses; it also refuses what would overflow the parser. The
last is ``Rule.may``, on the same tree.
"""

from __future__ import annotations

import functools
import operator
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence, Set

from amp_lint.rule import Rule
from amp_lint.syntax.facts import Facts, facts
from amp_lint.syntax.parse import parse
from amp_lint.text.prose import without_prose
from amp_lint.vocabulary.identifiers import identifiers
from amp_lint.vocabulary.table import FUNCTIONS
from amp_lint.vocabulary.written import Look


class Sieve:
    """The sieves for one selection of rules."""

    def __init__(
        self, rules: Sequence[Rule], *, preview: bool = False, unsure: bool = False
    ) -> None:
        """Prepare; what depends on who trains elsewhere is found in ``preview`` alone.

        ``unsure`` says that what is reported in preview alone is asked for without it, too.
        """
        self.rules = tuple(rules)
        self._preview = preview
        self.unsure = preview or unsure
        needs = {rule: rule.needs(preview=self.unsure) for rule in self.rules}
        groups = dict.fromkeys(group for each in needs.values() for group in each)
        bits = {group: 1 << number for number, group in enumerate(groups)}
        self._needs = {rule: _union(bits[group] for group in needs[rule]) for rule in self.rules}
        self._looks = {rule: rule.looks(preview=self.unsure) for rule in self.rules}
        self._given = {
            rule: _union(bits[g] for g in rule.requires if not rule.elsewhere.isdisjoint(g))
            for rule in self.rules
        }
        self._words = _Words(bits)
        self._asked = frozenset(look for rule in self.rules for look in rule.asks_callers)

    def by_bytes(self, data: bytes, *linked: bytes) -> tuple[Rule, ...]:
        """The rules whose identifiers all occur in the bytes of a file, or of those linked to it.

        One of them in its own, and what anchors the rule.
        """
        if not data:
            return ()
        texts = _Texts(self._words, data, linked)
        rules = self._passing(self.rules, texts)
        return self._passing(rules, texts.without_prose()) if rules else ()

    def by_prose(self, data: bytes) -> bool:
        """Whether a rule's identifiers all occur in a file, be it in its documentation."""
        return bool(self._passing(self.rules, _Texts(self._words, data)))

    def by_own_bytes(self, data: bytes) -> tuple[Rule, ...]:
        """The rules of whose identifiers at least one occurs in the bytes of a file."""
        text = _Texts(self._words, data).without_prose()
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
        found = _said(self._asked, data)
        if not found:
            return ()  # as of most files
        return tuple(rule for rule in rules if not found.isdisjoint(rule.asks_callers))

    def wants_models(self, data: bytes) -> bool:
        """Whether a rule asks what modules of other files give to a file with these bytes."""
        reading = [rule for rule in self.rules if rule.reads_models]
        if self.asking(data, reading):
            return True
        limited = [rule for rule in self.rules if rule.limited_by_models]
        return bool(limited and self._passing(limited, _Texts(self._words, data)))

    def wants_exports(self, data: bytes) -> bool:
        """Whether a rule may take away a name that others import from a file with these bytes."""
        return self._any(data, (rule for rule in self.rules if rule.moves_names))

    def by_syntax(self, data: bytes, rules: Sequence[Rule]) -> tuple[Rule, ...]:
        """The rules among ``rules`` whose identifiers the code really uses, and that may report.

        Raises:
            SyntaxError: the file is not Python.
            TooDeepError: the file nests too deeply to be analysed.
        """
        code = without_prose(data)
        rules = tuple(rule for rule in rules if rule.may_in(code, preview=self.unsure))
        if not rules:
            return ()
        found = facts(parse(data))
        rules = allowed(rules, found, preview=self.unsure)
        if not rules:
            return ()  # most end here
        return wanted(rules, found.words, found.done, preview=self.unsure)

    def _passing(self, rules: Sequence[Rule], texts: _Texts) -> tuple[Rule, ...]:
        """The rules among some of which all is there: what is cheap to ask is asked first."""
        found = [rule for rule in rules if not self._needs[rule] & ~texts.groups]
        found = [rule for rule in found if self._mentions(rule, texts)]
        return tuple(rule for rule in found if all(map(texts.shows, self._looks[rule])))

    def _mentions(self, rule: Rule, texts: _Texts) -> bool:
        """Whether the file itself has one of a rule's identifiers, and what anchors it."""
        is_own = self._needs[rule] & texts.own_groups or (
            rule.called_for is not None and rule.called_for.found_in(texts.own)
        )
        return bool(is_own) and all(
            any(part.encode() in texts.own for part in group) for group in rule.anchors
        )

    def _any(self, data: bytes, rules: Iterable[Rule]) -> bool:
        """Whether the bytes have what one of some rules requires of the file itself."""
        groups = _Texts(self._words, data).groups
        return any(not self._needs[rule] & ~(self._given[rule] | groups) for rule in rules)


class _Words:
    """The identifiers that rules ask for, each with the groups that it is in: a bit for each."""

    def __init__(self, bits: Mapping[frozenset[str], int]) -> None:
        self._groups: dict[bytes, int] = defaultdict(int)
        for group, bit in bits.items():
            for word in group:
                self._groups[word.encode()] |= bit
        self._asked = frozenset(self._groups)

    def groups(self, data: bytes) -> int:
        """The groups of which a text has an identifier."""
        return self._union(_among(self._asked, data))

    def groups_of_linked(self, data: bytes) -> int:
        """The same for a file that many others import."""
        return self._union(_among_linked(self._asked, data))

    def _union(self, words: Iterable[bytes]) -> int:
        return _union(self._groups[word] for word in words)


def _among(asked: frozenset[bytes], data: bytes) -> frozenset[bytes]:
    """Those of some identifiers that are in a text."""
    return asked.intersection(identifiers(data).split())


_among_linked = functools.lru_cache(maxsize=256)(_among)


def _union(bits: Iterable[int]) -> int:
    return functools.reduce(operator.or_, bits, 0)


class _Texts:
    """The bytes of a file and of those linked to it, and the groups of identifiers in them."""

    def __init__(self, words: _Words, own: bytes, linked: Sequence[bytes] = ()) -> None:
        self._words = words
        self.own = own
        self._linked = linked

    def without_prose(self) -> _Texts:
        """The same texts as far as they are code."""
        linked = [*map(without_prose, self._linked)]
        return _Texts(self._words, without_prose(self.own), linked)

    @functools.cached_property
    def own_groups(self) -> int:
        """The groups of which the file itself has an identifier."""
        return self._words.groups(self.own)

    @functools.cached_property
    def groups(self) -> int:
        """The groups of which an identifier is anywhere."""
        linked = map(self._words.groups_of_linked, self._linked)
        return self.own_groups | _union(linked)

    def shows(self, what: Look) -> bool:
        """Whether something is found anywhere."""
        return what.found_in(self.own) or any(_found_in_linked(what, t) for t in self._linked)


@functools.lru_cache(maxsize=1024)
def _found_in_linked(what: Look, text: bytes) -> bool:
    return what.found_in(text)


@functools.lru_cache(maxsize=2)  # of one file it is asked several times in a row
def _said(looks: frozenset[Look], data: bytes) -> frozenset[Look]:
    """What of some looks is in the code of a file."""
    found = [look for look in looks if look.found_in(data)]
    code = without_prose(data) if found else data
    return frozenset(look for look in found if look.found_in(code))


def wanted(
    rules: Sequence[Rule], words: Set[str], done: Set[str], *, preview: bool = True
) -> tuple[Rule, ...]:
    """The rules of which every group of needed identifiers has one in ``words``.

    In ``done``, the words that may be called, if it is that of a function.
    """

    def has(group: frozenset[str]) -> bool:
        return not (done.isdisjoint(group) and words.isdisjoint(group - FUNCTIONS))

    return tuple(rule for rule in rules if all(map(has, rule.needs(preview=preview))))


def allowed(rules: Sequence[Rule], found: Facts, *, preview: bool) -> tuple[Rule, ...]:
    """The rules that may have something to report, as far as one file says."""
    return tuple(
        rule for rule in rules if (rule.may if preview else rule.may_unless_preview)(found)
    )
