"""Which files deserve a parse, and which rules may have something to say about them.

Two sieves ask the same question, ``Rule.requires``, at two prices. The first looks for the
identifiers anywhere in the bytes. The second asks ``ast`` which identifiers the code uses, so
that words in comments and prose do not count; it also refuses what would overflow the parser.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Sequence, Set

from amp_lint.rule import Rule
from amp_lint.syntax.parse import identifiers, parse


class Sieve:
    """The two sieves for one selection of rules."""

    def __init__(self, rules: Sequence[Rule]) -> None:
        self.rules = tuple(rules)
        words = {word for rule in rules for group in rule.requires for word in group}
        alternatives = "|".join(sorted(map(re.escape, words), key=len, reverse=True))
        self._pattern = re.compile(rb"\b(?:%s)\b" % alternatives.encode()) if words else None

    def by_bytes(self, data: bytes, *linked: bytes) -> tuple[Rule, ...]:
        """The rules whose identifiers all occur in the bytes of a file, or of those linked to it.

        One of them in its own.
        """
        if self._pattern is None:
            return ()
        own = {word.decode() for word in set(self._pattern.findall(data))}
        words = own.union(*(_words(self._pattern, other) for other in linked))
        return tuple(rule for rule in wanted(self.rules, words) if _mentions(own, rule))

    def by_own_bytes(self, data: bytes) -> tuple[Rule, ...]:
        """The rules of whose identifiers at least one occurs in the bytes of a file."""
        words = _words(self._pattern, data) if self._pattern else frozenset[str]()
        return tuple(rule for rule in self.rules if _mentions(words, rule))

    def wants_trainers(self, data: bytes) -> bool:
        """Whether a rule asks who trains elsewhere what a file with these bytes defines."""
        return self._any(data, (rule for rule in self.rules if rule.elsewhere))

    def wants_callers(self, data: bytes) -> bool:
        """Whether a rule asks who calls what a file with these bytes defines."""
        patterns = {rule.called_for for rule in self.rules if rule.called_for}
        return any(re.search(pattern.encode(), data) for pattern in patterns)

    def wants_exports(self, data: bytes) -> bool:
        """Whether a rule may take away a name that others import from a file with these bytes."""
        return self._any(data, (rule for rule in self.rules if rule.moves_names))

    def _any(self, data: bytes, rules: Iterable[Rule]) -> bool:
        """Whether the bytes have what one of some rules requires of the file itself."""
        words = _words(self._pattern, data) if self._pattern else frozenset[str]()
        return any(wanted([rule], words | rule.elsewhere) for rule in rules)

    def by_syntax(self, data: bytes, rules: Sequence[Rule]) -> tuple[Rule, ...]:
        """The rules among ``rules`` whose identifiers the code really uses.

        Raises:
            SyntaxError: the file is not Python.
            TooDeepError: the file nests too deeply to be analysed.
        """
        return wanted(rules, set(identifiers(parse(data))))


@functools.lru_cache(maxsize=512)
def _words(pattern: re.Pattern[bytes], data: bytes) -> frozenset[str]:
    """The identifiers in the bytes of a file that many others import."""
    return frozenset(word.decode() for word in set(pattern.findall(data)))


def _mentions(words: Set[str], rule: Rule) -> bool:
    return any(not words.isdisjoint(group) for group in rule.requires)


def wanted(rules: Sequence[Rule], words: Set[str]) -> tuple[Rule, ...]:
    """The rules of which every group of required identifiers has one in ``words``."""
    return tuple(
        rule for rule in rules if all(not words.isdisjoint(group) for group in rule.requires)
    )
