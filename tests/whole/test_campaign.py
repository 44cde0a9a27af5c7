"""A short slice of `benchmarks/campaign.py`, and whether a campaign sees what it looks for.

The slice starts from the campaign's own programs: those of the pages change with the pages.
"""

from __future__ import annotations

import ast
import json
import random
import signal
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import ClassVar

import campaign
import pytest
from fuzz import bases, kills, mutants, neutral, oracle, parts
from fuzz.change import Cut, changed, put, swap
from fuzz.code import Program, parsed
from fuzz.shrink import shrunk

from amp_lint import registry
from amp_lint.edit import edits
from amp_lint.model import Model
from amp_lint.report import Style
from amp_lint.report.diff import diff
from amp_lint.rule import Rule
from amp_lint.run import runner
from amp_lint.text.diagnostic import Applicability, Diagnostic, Edit, Fix, Severity
from amp_lint.text.source import Source

NAMES = sorted(bases.OWN)
LEFT = {("temporary file", "left behind by the next run")}
"""What a killed run is known to do."""


def own(number: int) -> bases.Base:
    return bases.own(NAMES[number % len(NAMES)], random.Random(number))


# --- the slice ------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", range(0, 80, 4))
def test_mutants_that_are_programs(number: int) -> None:
    made = mutants.living(own(number), random.Random(f"living {number}"))
    verdict = oracle.judged(made.data)
    assert not verdict.problems, (made.base, made.changes)


@pytest.mark.parametrize("number", range(0, 80, 4))
def test_mutants_that_are_no_programs(number: int) -> None:
    made = mutants.broken(own(number), random.Random(f"broken {number}"))
    assert parsed(made.data) is None
    assert not oracle.judged(made.data).problems, (made.base, made.changes)


@pytest.mark.parametrize("kind", neutral.KINDS)
def test_neutral_edits(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bases, "known", tuple)
    monkeypatch.setattr(bases, "draw", lambda random: bases.own(random.choice(NAMES), random))
    case = neutral.case(kind, random.Random(f"slice 3 {kind}"))
    assert case is not None
    label = neutral.difference(case.base.text, case.after, kind)
    assert not label or label in campaign.ACCEPTED, (case.base.name, case.after.text)


@pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc")
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_a_run_that_is_ended(number: signal.Signals) -> None:
    done = kills.played(random.Random(0), number, "one process", "writing")
    assert not {*done.problems} - LEFT


# --- whether the campaign sees it -----------------------------------------------------------------


SCALED = b"from torch.cuda.amp import GradScaler\nscaler = GradScaler()\n"
"""A program that the rules have to be asked about."""


class Planted(Rule):
    """Finds `GradScaler` and offers to write something in its place."""

    code = "AMP998"
    name = "planted"
    severity = Severity.ERROR
    requires: ClassVar[tuple[frozenset[str], ...]] = (frozenset({"GradScaler"}),)
    content: ClassVar[str] = "x"

    def check(self, model: Model) -> Iterable[Diagnostic]:
        start = model.tree.text.find("GradScaler")
        if start >= 0:
            fix = Fix("do it", (Edit(start, start + 10, self.content),), Applicability.SAFE)
            yield Diagnostic(self.code, self.name, self.severity, "m", start, start + 10, (), fix)


class Crashing(Planted):
    def check(self, model: Model) -> Iterable[Diagnostic]:
        raise KeyError("oops")


class Escaping(Planted):
    def check(self, model: Model) -> Iterable[Diagnostic]:
        raise SystemExit(3)


class Breaking(Planted):
    content = ")"


class Changing(Planted):
    """Finds something else each time."""

    times = 0

    def check(self, model: Model) -> Iterable[Diagnostic]:
        Changing.times += 1
        yield Diagnostic(self.code, self.name, self.severity, f"{self.times}", 0, 1)


@pytest.mark.parametrize(
    ("rule", "problem"),
    [
        (Planted, None),
        (Crashing, ("crash", "KeyError in amp_lint/engine.py, _findings")),
        (Escaping, ("crash", "SystemExit in amp_lint/engine.py, _findings")),
        (Breaking, None),  # not offered
        (Changing, ("unstable", "a second run finds something else")),
    ],
)
def test_what_is_planted_is_seen(
    rule: type[Rule], problem: oracle.Problem | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    rules = (rule(),)
    monkeypatch.setattr(registry, "every_rule", lambda: rules)
    found = oracle.judged(SCALED).problems
    assert problem in found if problem else not found


CLIP = (
    b"scaler.scale(loss).backward()\nimport torch\n"
    b"torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)\nscaler.step(optimizer)\n"
)


def test_what_is_written_wrongly_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    assert oracle.judged(CLIP).fixed

    def write(path: Path, old: bytes, new: bytes) -> list[str]:
        path.write_bytes(b"# not so\n" + old)
        return []

    def write_half(path: Path, old: bytes, new: bytes) -> list[str]:
        path.write_bytes(b"(")
        return []

    monkeypatch.setattr(runner, "replace", write)
    assert {kind for kind, _ in oracle.judged(CLIP).problems} == {"diff", "not idempotent"}
    monkeypatch.setattr(runner, "replace", write_half)
    assert {kind for kind, _ in oracle.judged(CLIP).problems} == {"diff", "no Python"}


def test_what_is_torn_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    apply = edits.apply

    def careless(text: str, fixes: list[Fix]) -> tuple[str, list[Fix]]:
        after, applied = apply(text, fixes)
        return after.replace("1.0", "1."), applied

    monkeypatch.setattr(edits, "apply", careless)
    found = oracle.judged(CLIP).problems
    assert ("torn", "a character outside of the edits changes") in found


def test_what_is_slow_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(oracle, "MOST_SECONDS", 0.0)
    assert ("slow", "more than 0 s of CPU time") in oracle.judged(b"x\n").problems


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("a\nb\nc\n", "a\nB\nc\n"),
        ("a\n", ""),
        ("", "a\n"),
        ("a\nb", "a\nb\n"),
        ("a\r\nb\x0cc\n", "a\r\nb\x0cd"),
        ("\n".join("abcdefghijklmnop"), "\n".join("abCdefghijklmnOp")),
    ],
)
def test_a_diff_is_applied(before: str, after: str) -> None:
    old, new = Source(before.encode(), "a.py"), Source(after.encode(), "a.py")
    assert oracle.patched(old.data, b"".join(diff(old, new, Style()))) == new.data


PROGRAM = Program("if a:\n    f(1)\nelse:\n    g(2)\nh(3)\n")


def test_a_change_knows_where_its_text_comes_from() -> None:
    (edit,) = neutral.CUTS["branches swapped"](PROGRAM)
    after = changed(PROGRAM, edit)
    assert after.text == "if not a:\n    g(2)\nelse:\n    f(1)\nh(3)\n"
    numbers = {name: after.statement(after.text.index(name)) for name in ("if", "f(", "g(", "h(")}
    assert numbers == {"if": 0, "f(": 1, "g(": 2, "h(": 3}


def test_what_is_put_before_a_statement_belongs_to_it() -> None:
    after = changed(PROGRAM, (put(PROGRAM.text.index("h("), "x = 3\n"),))
    assert after.statement(after.text.index("x = 3")) == 3


@pytest.mark.parametrize("kind", ["guards", "no guards"])
def test_a_jump_belongs_to_its_test(kind: str) -> None:
    text = {
        "guards": "for x in y:\n    if a:\n        g(2)\n",
        "no guards": "for x in y:\n    if a:\n        continue\n    g(2)\n",
    }[kind]
    program = Program(text)
    (edit,) = neutral.CUTS[kind](program)
    after = changed(program, edit)
    places = [after.statement(after.text.index(word)) for word in ("for", "if", "g(")]
    assert places == [0, 1, 2]
    if "continue" in after.text:
        assert after.statement(after.text.index("continue")) == 1


def test_cuts_must_not_overlap() -> None:
    with pytest.raises(ValueError, match="overlap"):
        changed(PROGRAM, (swap((0, 4), ""), Cut(2, 6, ())))


@pytest.mark.parametrize("name", NAMES)
def test_every_choice_is_a_program(name: str) -> None:
    """Each alternative of each choice, with the first ones of the others."""
    template = bases.OWN[name].lstrip("\n")
    most = max((len(m[1].split("|")) for m in bases._CHOICE.finditer(template)), default=1)
    for number in range(most):

        def choose(some: list[str], number: int = number) -> str:
            return some[min(number, len(some) - 1)]

        ast.parse(bases.expanded(template, choose))


@pytest.mark.parametrize("kind", sorted(neutral.CUTS))
def test_an_edit_is_made_of_what_is_there(kind: str) -> None:
    """Few of the edits of a kind are no programs, which a campaign leaves out."""
    edits = [
        changed(program, edit)
        for program in map(Program, (own(number).text for number in range(0, 81, 16)))
        for edit in neutral.CUTS[kind](program)
    ]
    broken = [after.text for after in edits if parsed(after.text) is None]
    assert len(broken) <= len(edits) / 20, broken[0]


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("def f(optimizer): optimizer.step()\n", True),
        ("optimizer = make()\n", True),
        ("optimizer = torch.optim.SGD(p)\n", False),
        ("optimizer = torch.optim.SGD(p)\ndef f(optimizer): pass\n", True),
        ("for optimizer in all: pass\n", True),
    ],
)
def test_a_role_that_only_a_name_tells_is_kept(text: str, kept: bool) -> None:
    program = Program(text)
    edits = [changed(program, edit).text for edit in neutral.CUTS["renamed variables"](program)]
    assert edits
    assert any("optimizer" in each for each in edits) is kept


def test_a_difference_is_said() -> None:
    text = "import torch\ns = torch.cuda.amp.GradScaler()\n"
    program = Program(text)
    for cut, words in (
        (swap((text.index("torch.cuda"), len(text) - 1), "1"), "x: AMP401 lost"),
        (put(len(text), "t = torch.cuda.amp.autocast()\n"), "x: AMP401 gained"),
        (put(0, "# nothing\n"), ""),
    ):
        after = changed(program, (cut,))
        assert neutral.difference(text, after, "x") == words or "t =" in after.text


def test_a_program_is_made_small() -> None:
    text = "import a\nif b:\n    for c in d:\n        x = g(1) + bug(2)\n    y\nz\n"
    assert shrunk(text, lambda text: parsed(text) is not None and "bug(" in text) == "x = bug(2)\n"


# --- going on -------------------------------------------------------------------------------------


@pytest.fixture
def played(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The numbers of the cases that are played, in place of kills."""
    numbers, ended = list[int](), list[int]()

    def case(seed: int, index: int) -> parts.Record:
        numbers.append(index)
        if index == 3 and not ended:
            ended.append(index)
            raise KeyboardInterrupt
        return {"labels": ["bad"] * (index == 1), "late": False, "written": 1, "temporaries": 0}

    monkeypatch.setitem(parts.PARTS, "kills", case)
    monkeypatch.setitem(parts.PARTS, "interrupts", case)
    return numbers


def run(monkeypatch: pytest.MonkeyPatch, *options: str) -> int:
    monkeypatch.setattr(sys, "argv", ["campaign.py", *options])
    return campaign.main()


def test_a_campaign_goes_on(
    tmp_path: Path, played: list[int], monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    options = ("--kills", "6", f"--folder={tmp_path / 'c'}")
    assert run(monkeypatch, *options) == 130
    assert played == [0, 1, 2, 3]
    journal = tmp_path / "c/kills.jsonl"
    journal.write_text(f'{journal.read_text()}\n{{"index": 2, "la')  # killed while it wrote
    played.clear()
    assert run(monkeypatch, *options, "--resume") == 1
    assert played == [3, 4, 5, 0]  # the last is of the interrupts
    out = capsys.readouterr().out
    assert "6 runs killed" in out
    assert "| kills | bad | 1 |  |" in out
    assert [json.loads(line)["index"] for line in journal.read_text().splitlines() if "}" in line]
    with pytest.raises(SystemExit, match="give --resume"):
        run(monkeypatch, *options)
    with pytest.raises(SystemExit, match="of another seed"):
        run(monkeypatch, *options, "--resume", "--seed=1")
