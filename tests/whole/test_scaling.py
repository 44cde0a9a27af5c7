"""Work grows with the size of a program and no faster; where a bound bites, nothing is made up."""

from __future__ import annotations

import functools
import textwrap
from collections.abc import Iterable, Iterator

import pytest
import scaling
from scaling import FAMILIES

from amp_lint import registry
from amp_lint.engine import check
from amp_lint.handbook import pages
from amp_lint.rule import Rule
from amp_lint.selection import Selection
from amp_lint.syntax.tree import Tree
from amp_lint.text.source import Source
from amp_lint.walk.run import MAX_STATEMENTS
from amp_lint.walk.steps import MAX_FILE_STATEMENTS, MAX_ROUNDS
from tests.programs import model_of

ALL = Selection(registry.all_rules())
PROTOCOL = Selection(tuple(rule for rule in ALL.rules if rule.code.startswith(("AMP1", "AMP20"))))
MANY_TESTS = (5, 20, 40, 80)


def lines(block: Iterable[str]) -> str:
    return "".join(f"    {line}\n" for line in block)


def program(*body: str) -> str:
    """A function with this body, the parts of which may be indented as a whole."""
    text = "".join(textwrap.indent(textwrap.dedent(part), "    ") for part in body)
    head = "import torch\nfrom torch.nn.utils import clip_grad_norm_\n"
    return f"{head}def train(model, loss, scaler, optimizer, args):\n{text}"


def found(text: str, selection: Selection = PROTOCOL) -> set[tuple[str, str]]:
    """Code and text of every finding."""
    result = check(Source(text.encode(), "program.py"), selection)
    return {(finding.code, text[finding.start : finding.end]) for finding in result}


def statements(text: str) -> int:
    return sum(root.statements for root in model_of(text).steps.roots)


def after_tests(count: int, then: str) -> str:
    """Tests that are independent of each other, each with an event under it."""
    return "".join(f"if args.option_{i}:\n    {then}\n" for i in range(count))


# --- work -----------------------------------------------------------------------------------------

SMALL = {
    "independent tests": 20, "tests of one setting": 20, "if-elif chain": 60, "nested tests": 10,
    "nested loops": 9, "nested regions": 9, "try": 20, "match": 20, "with": 20,
    "long function": 250, "long script": 1000, "one name": 250, "optimizers": 20, "helpers": 20,
    "chain of helpers": 12, "web of helpers": 12, "methods": 50, "modules": 20, "trainers": 8,
}  # fmt: skip


def test_every_family_has_a_size() -> None:
    assert SMALL.keys() == FAMILIES.keys()


@pytest.mark.parametrize("family", SMALL)
def test_every_family_is_python(family: str) -> None:
    """``compile`` raises where blocks nest deeper than Python allows, which no parser minds."""
    compile(FAMILIES[family].text(max(FAMILIES[family].sizes)), family, "exec")


@pytest.mark.parametrize("family", SMALL)
def test_twice_the_size_takes_twice_the_work(family: str) -> None:
    text, size = FAMILIES[family].text, SMALL[family]
    scaling.lint(text(1), ALL)  # imports and tables that the first file fills
    half, whole = (scaling.counted(text(n), ALL) for n in (size, 2 * size))
    assert whole[0] <= 2.2 * half[0], "statements"
    grown = len(text(2 * size)) / len(
        text(size)
    )  # more than twice where what is nested is indented
    assert whole[1] <= 1.15 * grown * half[1], "calls"


def test_a_file_has_a_bound_of_its_own() -> None:
    text = FAMILIES["web of helpers"].text(300)
    size = 2 * text.count("\n")  # the module's script counts the bodies of functions once more
    assert statements(text) <= MAX_FILE_STATEMENTS + MAX_STATEMENTS + MAX_ROUNDS * size


# --- what is found where paths are merged -----------------------------------------------

SCALED = "scaler.scale(loss).backward()\n"
CLIP = "clip_grad_norm_(model.parameters(), 1.0)\n"
END = "scaler.step(optimizer)\nscaler.update()\n"


@pytest.mark.parametrize("count", MANY_TESTS)
def test_a_bug_behind_many_tests_is_found(count: int) -> None:
    text = program(SCALED, after_tests(count, "optimizer.zero_grad()"), CLIP, END)
    assert found(text) == {("AMP101", CLIP.strip())}


@pytest.mark.parametrize("count", MANY_TESTS)
@pytest.mark.parametrize("event", ["optimizer.zero_grad()", "loss = loss / 2", "log(scaler)"])
def test_right_code_behind_many_tests_is_not_reported(count: int, event: str) -> None:
    between = after_tests(count, event)
    unscale = "scaler.unscale_(optimizer)\n"
    assert not found(program(between, SCALED, unscale, CLIP, END))
    assert not found(program(SCALED, unscale, between, CLIP, END))
    assert not found(program(SCALED, between, unscale, CLIP, between, END))


@pytest.mark.parametrize("count", MANY_TESTS)
def test_settings_that_were_tested_before_many_tests(count: int) -> None:
    """A path that is merged with others may forget the setting; then it must not go wrong."""
    text = program(
        "if args.amp:\n    scaler.scale(loss).backward()\nelse:\n    loss.backward()\n",
        after_tests(count, "note(scaler.get_scale(), optimizer.zero_grad)"),
        after_tests(count, "log.append(loss / 2)"),
        "if args.amp:\n    scaler.unscale_(optimizer)\n",
        after_tests(count, "total = loss / 2"),
        CLIP,
        "if args.amp:\n    scaler.step(optimizer)\n    scaler.update()\n",
        "else:\n    optimizer.step()\n",
    )
    assert not found(text)


def test_a_bug_at_the_end_of_a_long_function_is_found() -> None:
    right = SCALED + "scaler.unscale_(optimizer)\n" + CLIP + END
    busy = "if args.log:\n    loss = loss / 2\n" * 4
    body = (right + busy).splitlines() * (MAX_STATEMENTS // 50)
    text = program("\n".join([*body, SCALED + "clip_grad_norm_(args.last, 1.0)\n" + END]))
    assert found(text) == {("AMP101", "clip_grad_norm_(args.last, 1.0)")}


# --- what is said where a bound ends a run ------------------------------------------------


def chain(depth: int) -> str:
    """A clip after a call that unscales some calls further down."""
    helpers = "".join(
        f"def f{i}(scaler, optimizer):\n    f{i + 1}(scaler, optimizer)\n" for i in range(depth)
    )
    last = f"def f{depth}(scaler, optimizer):\n    scaler.unscale_(optimizer)\n"
    return helpers + last + program(SCALED, "f0(scaler, optimizer)\n", CLIP, END)


@pytest.mark.parametrize("depth", [0, 2, 4, 8, 20])
def test_unscaled_in_a_call_that_is_too_far_away(depth: int) -> None:
    assert not found(chain(depth))


def test_a_call_after_the_bound_may_do_anything(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("amp_lint.walk.steps.MAX_ROUNDS", 2)
    for most in range(1, 40):
        monkeypatch.setattr("amp_lint.walk.run.MAX_STATEMENTS", most)
        assert not found(chain(3))


def test_a_step_after_the_bound_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """A direct step makes it another mistake than that of the clip."""
    text = program(SCALED, CLIP, "optimizer.step()\n")
    everything = found(text)
    monkeypatch.setattr("amp_lint.walk.steps.MAX_ROUNDS", 0)
    for most in range(1, 10):
        monkeypatch.setattr("amp_lint.walk.run.MAX_STATEMENTS", most)
        assert found(text) <= everything


def fences() -> list[tuple[Rule, pages.Fence]]:
    """All code on the pages of the rules that follow training steps, right and wrong."""
    found = []
    for rule in PROTOCOL.rules:
        page = pages.parse(registry.page(rule))
        all_of_them = [*page.silent, *(example.flagged for example in page.examples)]
        found += [(rule, fence) for fence in all_of_them]
    return found


@pytest.fixture(scope="module")
def parsed_once() -> Iterator[None]:
    """One tree for each text: a tree knows of no bound."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("amp_lint.model.Tree", functools.cache(Tree))
        patch.setattr("amp_lint.model.Model.close", lambda model: None)
        yield


@pytest.fixture(scope="module")
def everything(parsed_once: None) -> list[set[tuple[str, str]]]:
    """What is found in each of them without a bound that bites."""
    return [found(fence.text, selection) for selection, fence in selections()]


def selections() -> list[tuple[Selection, pages.Fence]]:
    return [(Selection((rule,), fence.target_torch), fence) for rule, fence in fences()]


@pytest.mark.parametrize(("most", "paths"), [(1, 64), (6, 64), (25, 64), (20_000, 2)])
def test_a_bound_adds_no_finding(
    most: int, paths: int, everything: list[set[tuple[str, str]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("amp_lint.walk.steps.MAX_ROUNDS", 0)
    monkeypatch.setattr("amp_lint.walk.run.MAX_STATEMENTS", most)
    monkeypatch.setattr("amp_lint.walk.run.MAX_PATHS", paths)
    monkeypatch.setattr("amp_lint.walk.run.FEW_PATHS", min(paths, 4))
    bounded = [found(fence.text, selection) for selection, fence in selections()]
    assert all(few <= full for few, full in zip(bounded, everything, strict=True))
    assert bounded != everything or paths < 64 or most > 12
