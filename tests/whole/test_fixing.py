"""Rounds of fixing: what is offered is applied, what is refused leaves the rest alone."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from amp_lint import engine, fixing, registry
from amp_lint.handbook.pages import FENCE
from amp_lint.rule import Rule
from amp_lint.selection import Selection
from amp_lint.text.diagnostic import Applicability, Diagnostic, Edit, Fix, Severity
from amp_lint.text.source import Source
from amp_lint.walk.steps import Steps

ALL = Selection(registry.all_rules())
SAFE, UNSAFE = Applicability.SAFE, Applicability.UNSAFE
ERROR, WARNING = Severity.ERROR, Severity.WARNING


def source(text: str) -> Source:
    return Source(text.encode(), "train.py")


def places(text: str, word: str) -> list[int]:
    return [i for i in range(len(text)) if text.startswith(word, i)]


class Toy(Rule):
    """Finds each ``word``, and offers to write something else in its place."""

    requires = (frozenset({"x"}),)

    def __init__(
        self,
        word: str,
        content: str | None,
        kind: Applicability = SAFE,
        severity: Severity = ERROR,
        only: Callable[[str], bool] = bool,
    ) -> None:
        """``only`` says in which texts there is something to find."""
        self.word, self.content, self.kind = word, content, kind
        self.only, self.found = only, severity
        self.code, self.name = f"AMP9{len(word)}{ord(word[0]) % 10}", word  # type: ignore[misc]

    def check(self, model: object) -> list[Diagnostic]:
        text = model.tree.text  # type: ignore[attr-defined]
        return [self.at(start) for start in places(text, self.word) if self.only(text)]

    def at(self, start: int) -> Diagnostic:
        end, fix = start + len(self.word), None
        if self.content is not None:
            fix = Fix("toy", (Edit(start, end, self.content),), self.kind)
        return Diagnostic(self.code, self.name, self.found, "toy", start, end, fix=fix)


def fix(text: str, *rules: Rule, unsafe: bool = False) -> fixing.FixResult:
    return fixing.fix(source(text), Selection(rules), unsafe=unsafe)


def offers(text: str, *rules: Rule, unsafe: bool = False) -> list[str]:
    """The words for which a fix is offered."""
    selection = Selection(rules)
    found = engine.check(source(text), selection)
    found = fixing.offered(source(text), selection, found, unsafe=unsafe)
    return [finding.name for finding in found if finding.fix is not None]


def test_rounds_go_on_until_nothing_is_left() -> None:
    result = fix("x = old\ny = old\n", Toy("old", "new"))
    assert result.text == "x = new\ny = new\n"
    assert len(result.fixed) == 2
    assert result.remaining == []


@pytest.mark.parametrize("content", ["(", "old", "'", "old + old"])
def test_a_fix_that_fails_is_refused_and_the_text_stays(content: str) -> None:
    text = "x = old\ny = old\n"
    result = fix(text, Toy("old", content))
    assert (result.text, result.fixed) == (text, [])
    assert len(result.refused) == len(result.vain) == len(result.remaining) == 2
    assert not any(finding.fix for finding in result.remaining)
    assert offers(text, Toy("old", content)) == []


@pytest.mark.parametrize("severity", Severity)
def test_what_a_fix_brings_out_must_be_less_severe(severity: Severity) -> None:
    rules = (Toy("old", "new"), Toy("new", None, severity=severity))
    result = fix("x = old\n", *rules)
    less = severity is not ERROR
    assert result.text == ("x = new\n" if less else "x = old\n")
    assert [finding.name for finding in result.remaining] == ["new" if less else "old"]
    assert bool(result.refused) is not less
    assert offers("x = old\n", *rules) == ["old"] * less


def test_a_fix_and_that_of_what_it_brings_out_are_applied_together() -> None:
    chain = (Toy("a1", "b22"), Toy("b22", "c333"), Toy("c333", "d"))
    result = fix("x = a1\ny = a1\n", *chain)
    assert result.text == "x = d\ny = d\n"
    assert [finding.name for finding in result.fixed].count("a1") == 2
    assert offers("x = a1\n", *chain) == ["a1"]


def test_a_chain_that_ends_badly_is_not_begun() -> None:
    chain = (Toy("a1", "b22"), Toy("b22", "c333"), Toy("c333", None))
    assert fix("x = a1\n", *chain).text == "x = a1\n"
    assert offers("x = a1\n", *chain) == []
    endless = (Toy("a1", "b22"), Toy("b22", "a1"))
    assert fix("x = a1\n", *endless).text == "x = a1\n"


def test_a_chain_needs_the_permission_of_each_of_its_fixes() -> None:
    chain = (Toy("a1", "b22"), Toy("b22", "c", kind=UNSAFE))
    assert fix("x = a1\n", *chain).text == "x = a1\n"
    assert offers("x = a1\n", *chain) == []
    assert fix("x = a1\n", *chain, unsafe=True).text == "x = c\n"
    assert offers("x = a1\n", *chain, unsafe=True) == ["a1"]


def test_unsafe_fixes_are_tried_before_they_are_offered() -> None:
    good, bad = Toy("good", "x", kind=UNSAFE), Toy("bad", "(", kind=UNSAFE)
    assert offers("x = good + bad\n", good, bad) == ["good"]


class Partly(Toy):
    """Its fix is no good on lines that say so."""

    def check(self, model: object) -> list[Diagnostic]:
        text = model.tree.text  # type: ignore[attr-defined]
        found = []
        for start in places(text, self.word):
            line = text[start:].partition("\n")[0]
            self.content = "(" if "bad" in line else "new"
            found.append(self.at(start))
        return found


@pytest.mark.parametrize("bad", [[0], [3], [9], [2, 3, 7], [*range(10)]])
def test_bad_fixes_among_good_ones(bad: Sequence[int]) -> None:
    text = "".join(f"x = old  # {'bad' if n in bad else 'good'}\n" for n in range(10))
    result = fix(text, Partly("old", "new"))
    assert result.text == text.replace("old  # good", "new  # good")
    assert [text[f.end :].partition("\n")[0] for f in result.vain] == ["  # bad"] * len(bad)
    again = fix(result.text, Partly("old", "new"))
    assert (again.text, again.remaining) == (result.text, result.remaining)


def test_a_refused_fix_is_tried_again_when_the_text_has_changed() -> None:
    """So that a second run has nothing to do."""
    rules = (
        Toy("bbb", "cccc"),
        Toy("cccc", None, only=lambda text: "a2" in text or "z" in text),
        Toy("z", "a2"),
        Toy("a2", "d", severity=WARNING),
    )
    result = fix("x = bbb + z\n", *rules)
    assert result.text == "x = cccc + d\n"
    assert not result.refused


def test_a_place_is_known_when_a_fix_has_changed_something_in_it() -> None:
    inner, outer = Toy("i1", "i"), Toy("(i1)", "(", kind=UNSAFE)
    later = Toy("(i)", "(", kind=UNSAFE)
    later.code = outer.code  # type: ignore[misc]
    for text in ("x = (i1)\n", "x = i1, (i1), i1\n"):
        assert set(offers(text, inner, outer, later, unsafe=True)) == {"i1"}


def test_work_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "".join(f"x = old  # {'bad' if n % 2 else 'good'}\n" for n in range(400))
    checked: list[int] = []
    check = engine.check

    def counted(source: Source, *args: object, **options: object) -> list[Diagnostic]:
        checked.append(len(source.text))
        return check(source, *args, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(engine, "check", counted)
    monkeypatch.setattr(fixing, "MAX_CHARACTERS", 100_000)
    result = fix(text, Partly("old", "new"))
    assert sum(checked) < 100_000 + 3 * len(text)
    assert not any(finding.fix for finding in result.remaining)
    assert result.text.count("new") == 0 or "new  # bad" not in result.text


OLD_NAMES = """import torch
from torch.cuda.amp import GradScaler, autocast

def train(model, optimizer, loader, scaler: GradScaler):
    for x in loader:
        with autocast():
            loss = model(x)
        scaler.scale(loss).backward()
        {clip}
        scaler.step(optimizer)
        scaler.update()
"""
CLIP = "torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)"


@pytest.mark.parametrize("clip", ["pass", CLIP])
def test_what_means_the_same_is_not_gone_through_again(
    clip: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Names that moved are the same to all other rules; a fix that changes a step is not."""
    text, again = source(OLD_NAMES.format(clip=clip)), clip == CLIP
    found = engine.check(text, ALL)
    fixed = {each.code for each in found if each.fix}
    assert fixed == ({"AMP101", "AMP401"} if again else {"AMP401"})
    walks: list[Steps] = []
    roots = vars(Steps)["roots"].func

    def counted(steps: Steps) -> object:
        walks.append(steps)
        return roots(steps)

    counting = functools.cached_property(counted)
    counting.__set_name__(Steps, "roots")
    monkeypatch.setattr(Steps, "roots", counting)
    assert fixing.offered(text, ALL, found) == found
    assert bool(walks) is again


def test_names_that_moved_give_the_other_rules_nothing_to_report() -> None:
    """In all that the pages show, as fixes of such names are tried without the other rules."""
    pages = map(registry.page, registry.every_rule())
    texts = {found["text"] for page in pages for found in FENCE.finditer(page)}
    changed = 0
    for text in sorted(texts):
        after = fixing.fix(source(text), ALL.respelling).text
        if after != text:
            changed += 1
            assert not others(source(after)) - others(source(text)), text
    assert changed > 20


def others(text: Source) -> Counter[str]:
    codes = {rule.code for rule in ALL.respelling.rules}
    found = engine.check(text, replace(ALL, preview=True))
    return Counter(each.code for each in found if each.code not in codes)


def test_a_fix_may_bring_out_what_an_error_hid() -> None:
    text = (
        "import torch\n"
        "with torch.cuda.amp.autocast:\n"
        "    loss = model(x).sum()\n"
        "    loss.backward()\n"
    )
    result = fixing.fix(source(text), ALL)
    assert [finding.code for finding in result.fixed] == ["AMP207", "AMP401", "AMP201"]
    assert not result.remaining and not result.refused
