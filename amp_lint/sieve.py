"""Which files deserve a parse, and which rules may have something to say about them.

Each sieve is dearer than the one before. The first looks for the identifiers that a rule
``requires`` in the bytes, and for its ``anchors``; the second does the same where prose is taken
out. The third asks ``ast`` which the code uses; it also refuses what would overflow the parser. The
last is ``Rule.may``, on the same tree.
"""

from __future__ import annotations

import functools
import string
from collections.abc import Iterable, Sequence, Set

from amp_lint.rule import Rule
from amp_lint.syntax.facts import Facts, facts
from amp_lint.syntax.parse import parse
from amp_lint.text.prose import without_prose
from amp_lint.vocabulary.table import FUNCTIONS
from amp_lint.vocabulary.written import Look


class Sieve:
    """The sieves for one selection of rules."""

    def __init__(self, rules: Sequence[Rule], *, preview: bool = False) -> None:
        """Prepare; what depends on who trains elsewhere is found in ``preview`` alone."""
        self.rules = tuple(rules)
        self._preview = preview
        self._groups = {
            rule.code: tuple(frozenset(map(str.encode, group)) for group in rule.requires)
            for rule in self.rules
        }
        self._elsewhere = {
            rule.code: frozenset(map(str.encode, rule.elsewhere)) for rule in self.rules
        }

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

    def by_prose(self, data: bytes) -> bool:
        """Whether a rule's identifiers all occur in a file, be it in its documentation."""
        texts = _Texts(data)
        return any(self._passes(rule, texts) for rule in self.rules)

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
        return not all(map(texts.words.isdisjoint, self._groups[rule.code]))

    def _any(self, data: bytes, rules: Iterable[Rule]) -> bool:
        """Whether the bytes have what one of some rules requires of the file itself."""
        text = _Texts(data)
        return any(
            all(not asked.isdisjoint(group) or text.have(group) for group in self._groups[code])
            for code, asked in ((rule.code, self._elsewhere[rule.code]) for rule in rules)
        )


class _Texts:
    """The bytes of a file and of those linked to it, and the identifiers in them."""

    def __init__(self, own: bytes, linked: Sequence[bytes] = ()) -> None:
        self.own = own
        self._linked = linked

    def without_prose(self) -> _Texts:
        """The same texts as far as they are code."""
        return _Texts(without_prose(self.own), [*map(without_prose, self._linked)])

    @functools.cached_property
    def words(self) -> Set[bytes]:
        """The identifiers in the file itself."""
        return _words(self.own)

    def have(self, group: Set[bytes]) -> bool:
        """Whether one of some identifiers is anywhere."""
        return not self.words.isdisjoint(group) or any(
            not _words_of_linked(text).isdisjoint(group) for text in self._linked
        )

    def show(self, what: Look | None) -> bool:
        """Whether something is found anywhere; nothing is."""
        return what is None or any(map(what.found_in, (self.own, *self._linked)))


_LETTERS = f"{string.ascii_letters}{string.digits}_".encode()
_APART = bytes(byte if byte in _LETTERS else ord(" ") for byte in range(256))


def _words(data: bytes) -> frozenset[bytes]:
    """The identifiers in a text, and all else that is made of their letters."""
    return frozenset(data.translate(_APART).split())


_words_of_linked = functools.lru_cache(maxsize=256)(_words)
"""The same for files that many others import."""


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
