"""A rule that says since when its advice can be followed is silent before, and not after."""

from __future__ import annotations

import pytest

from amp_lint import engine, registry
from amp_lint.run.silence import Silence
from amp_lint.run.target import Target
from amp_lint.selection import Selection
from amp_lint.text.source import Source

RULE = registry.find("AMP401")
assert RULE is not None


def test_which_rules_depend_on_torch() -> None:
    dependent = [rule for rule in registry.all_rules() if rule.since]
    assert [rule.code for rule in dependent] == ["AMP401", "AMP402", "AMP406"]
    for rule in registry.all_rules():
        assert any(rule.since.keys() <= group for group in rule.requires)


@pytest.mark.parametrize(("word", "since"), RULE.since.items(), ids=[*RULE.since])
def test_a_word_is_reported_from_its_torch_on(word: str, since: tuple[int, int]) -> None:
    source = Source(f"import torch\nx = torch.cuda.amp.{word}\n".encode(), "a.py")
    assert RULE is not None
    major, minor = since
    for target, silent in ((since, False), ((major, minor - 1), True), ((major + 1, 0), False)):
        found = engine.check(source, Selection((RULE,), target))
        silence = Silence(RULE, Target(target, "somebody asks"))
        assert bool(found) is not silent
        assert (word in silence.words) is silent
        assert silence.heard_in(source.data) == ({word} if silent else set())
        assert silence.heard_in(b"torch.amp." + word.encode()) == set()
