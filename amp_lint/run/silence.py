"""What rules do not report because the project's oldest torch lacks what they would recommend."""

from __future__ import annotations

import functools
import re

from amp_lint.rule import Rule
from amp_lint.run.target import OPTION, Target
from amp_lint.sieve import Sieve


class Silence:
    """A rule, and the torch for which it has nothing to recommend for some words."""

    def __init__(self, rule: Rule, target: Target) -> None:
        self.rule, self.target = rule, target

    @functools.cached_property
    def words(self) -> frozenset[str]:
        """The words that are passed over."""
        since = self.rule.since.items()
        return frozenset(word for word, version in since if self.target.version < version)

    @property
    def whole(self) -> bool:
        """Whether nothing is left that the rule could report."""
        return self.words.issuperset(self.rule.since)

    def heard_in(self, data: bytes) -> frozenset[str]:
        """The words in a file that the rule would have looked at."""
        found = self.words.intersection(word.decode() for word in self._pattern.findall(data))
        return found if found and self._sieve.by_bytes(data) else frozenset()

    def note(self, words: frozenset[str]) -> str:
        """The line for a run in which these words were passed over."""
        change = "" if self.target.reason.startswith(OPTION) else f" ({OPTION} to change)"
        return f"{self.rule.code} is {self.why(words)}{change}"

    def why(self, words: frozenset[str]) -> str:
        """What to say of the rule where these words were passed over."""
        on = "" if self.whole else f" for {', '.join(sorted(words))}"
        needed = "{}.{}".format(*max(self.rule.since[word] for word in words))
        return f"off{on}: {self.target.reason}, its fixes need {needed}"

    @functools.cached_property
    def _sieve(self) -> Sieve:
        return Sieve([self.rule])

    @functools.cached_property
    def _pattern(self) -> re.Pattern[bytes]:
        return re.compile(rb"\b(?:%s)\b" % "|".join(sorted(self.words)).encode())
