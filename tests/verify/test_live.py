"""What is said while proofs are under way: what is done, then a line for each that is there."""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from importlib import metadata
from pathlib import Path

import pytest

from amp_lint.run.progress import Progress
from amp_lint.text.source import Source
from amp_lint.verify import Change, Prover, Verdict, VerifyError, live, prover, record
from amp_lint.verify.live import Live
from amp_lint.verify.proof import Failure, Judgement, Proof, Shown
from amp_lint.verify.sites import Site, sites
from tests.conftest import Result

Run = Callable[..., Result]

ENGINE = f"torch {metadata.version('torch')} on cpu"
TWO = """\
import torch
import torch.nn.functional as F


def one(x):
    return torch.log(F.softmax(x, dim=1))


def two(x):
    return torch.log(F.softmax(x, dim=0))
"""
GOOD = Judgement(Verdict.PROVEN, "fine", before=Failure("finite", "-inf instead of -18"))
LACKING = replace(GOOD, not_run=("compiled", "emulated"), notes=("compiled: not run, no room",))
BAD = Judgement(Verdict.REFUTED, "no", after=Failure("value", "0 instead of 1", "x = 2"))
OPEN = Judgement(Verdict.NOT_COMPARABLE, "too large")


def proof(judgement: Judgement, change: Change) -> Proof:
    shown = Shown("expression", "f", 1, 1, "a", "b", judgement)
    hashes = prover.sha256(change.before), prover.sha256(change.after)
    reasons = ("too large", "too deep") if judgement is OPEN else ()
    return Proof(judgement.verdict, (shown,), reasons, None, *hashes)


@pytest.fixture
def proves(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Gives the verdicts on changes, in their order, without any worker."""

    def prepare(*judgements: Judgement) -> None:
        left: Iterator[Judgement] = iter(judgements)
        lock = threading.Lock()

        def prove(self: Prover, change: Change) -> Proof:
            with lock:
                return proof(next(left), change)

        monkeypatch.setattr(Prover, "prove", prove)
        monkeypatch.setattr("amp_lint.run.workers.count", lambda: 1)

    return prepare


@pytest.fixture
def two(tmp_path: Path) -> None:
    (tmp_path / "two.py").write_text(TWO)


@pytest.mark.parametrize(
    ("arguments", "first"),
    [
        (["verify", "two.py"], "proving 2 fixes in 1 file with "),
        (["--fix", "--prove", "two.py"], "fixes are proven before they are applied, with "),
        (["verify", "AMP301"], "trying 13 fixes, right and wrong, on the pages of AMP301 with "),
        (["verify", "--before=two.py", "--after=two.py"], "proving two.py against two.py with "),
    ],
)
def test_the_first_line_comes_before_any_proof(
    arguments: list[str], first: str, main: Run, two: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(*_: object) -> None:
        raise VerifyError("stopped here")

    monkeypatch.setattr(Prover, "prove_all", stop)
    monkeypatch.setattr(live, "_SLOW", 60.0)
    done = main(*arguments)
    assert done.code == 2
    line, *_, last = done.err.splitlines()
    assert line == f"{first}{ENGINE}; the first compile takes about a minute"
    assert last.endswith("stopped here")


def test_each_proof_is_told_as_soon_as_it_is_done(
    main: Run, two: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second one is not done before the line about the first is there."""
    told, begun = threading.Event(), threading.Lock()
    say = Live.say

    def saying(self: Live, text: str) -> None:
        say(self, text)
        if text.startswith("1/2 "):
            told.set()

    def prove(self: Prover, change: Change) -> Proof:
        first = begun.acquire(blocking=False)
        assert first or told.wait(20), "nothing was said"
        return proof(GOOD, change)

    monkeypatch.setattr(Live, "say", saying)
    monkeypatch.setattr(Prover, "prove", prove)
    done = main("verify", "two.py")
    assert done.code == 0, done
    lines = [line for line in done.err.splitlines() if " AMP301: " in line]
    assert [line.partition(" ")[0] for line in lines] == ["1/2", "2/2"]
    assert sorted(line.split()[1] for line in lines) == ["two.py:10:12", "two.py:6:12"]
    assert all(" AMP301: proven, " in line for line in lines)


def test_json_stands_alone_on_stdout(main: Run, two: None, proves: Callable[..., None]) -> None:
    proves(GOOD, BAD)
    done = main("verify", "two.py", "--output-format=json")
    assert done.code == 1
    assert [each["rule"] for each in json.loads(done.out)["entries"]] == ["AMP301"] * 2
    assert "2/2 two.py:10:12 AMP301: refuted: 0 instead of 1, at x = 2, " in done.err


def test_quiet_says_nothing_on_the_way(main: Run, two: None, proves: Callable[..., None]) -> None:
    proves(GOOD, GOOD)
    assert main("verify", "two.py", "-q").err == ""
    proves(GOOD, BAD)
    done = main("--diff", "--prove", "-q", "two.py")
    assert done.err == "two.py:10:12: AMP301 fix refuted, not applied: 0 instead of 1, at x = 2\n"
    assert "+    return F.log_softmax(x, dim=1)" in done.out


def test_what_is_not_comparable_says_why_at_once(
    main: Run, two: None, proves: Callable[..., None]
) -> None:
    proves(GOOD, OPEN, *[GOOD] * 13)
    done = main("verify", "two.py")
    assert "2/2 two.py:10:12 AMP301: not comparable: too large (and 1 more), 0 s" in done.err
    pages = "trying 13 fixes, right and wrong, on the pages of AMP301, on which such sites rest, "
    assert pages in done.err
    wrong = r"^12/13 line \d+ AMP301 wrong fix: proven, but it is a wrong fix, 0 s$"
    assert re.search(wrong, done.err, re.M)


# --- modes that could not be run ------------------------------------------------------------------

MISSING = "proven, but not in compiled and emulated mode, which could not be run"


def test_a_mode_that_could_not_be_run_is_no_success(
    main: Run, two: None, proves: Callable[..., None]
) -> None:
    proves(GOOD, LACKING)
    done = main("verify", "two.py")
    assert done.code == 2
    assert "two.py:6:12 AMP301: proven\n" in done.out
    assert f"two.py:10:12 AMP301: {MISSING}\n" in done.out
    assert f"2/2 two.py:10:12 AMP301: {MISSING}, 0 s\n" in done.err
    assert "  note         compiled: not run, no room\n" in done.out


def test_nor_of_two_files(main: Run, two: None, proves: Callable[..., None]) -> None:
    Path("new.py").write_text(TWO.replace("0", "1"))
    proves(LACKING)
    assert main("verify", "--before=two.py", "--after=new.py").code == 2
    proves(replace(LACKING, verdict=Verdict.REFUTED, after=BAD.after))
    assert main("verify", "--before=two.py", "--after=new.py").code == 1


def test_a_fix_proven_in_the_modes_that_run_is_applied(
    main: Run, two: None, proves: Callable[..., None]
) -> None:
    proves(LACKING, LACKING)
    done = main("--fix", "--prove", "two.py")
    assert done.code == 0
    assert f"two.py:6:12: AMP301 fix {MISSING}, 0 s\n" in done.err
    assert "softmax(x, dim=0)" in Path("two.py").read_text()
    assert "torch.log(" not in Path("two.py").read_text()


def test_a_proof_without_experiments_says_what_it_rests_on(
    main: Run, two: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def prove(self: Prover, change: Change) -> Proof:
        found = proof(Judgement(Verdict.PROVEN, "findings of AMP301: 2 before, 1 after"), change)
        return replace(found, shown=(replace(found.shown[0], subject="finding"),))

    monkeypatch.setattr(Prover, "prove", prove)
    assert main("verify", "two.py").out.startswith(
        "two.py:6:12 AMP301: proven\n"
        "  nothing differs that computes anything\n"
        "  finding      findings of AMP301: 2 before, 1 after\n"
    )


# --- limits, places -------------------------------------------------------------------------------


def test_the_limit_of_a_file_is_said(main: Run, two: None, monkeypatch: pytest.MonkeyPatch) -> None:
    def prove(self: Prover, change: Change) -> Proof:
        time.sleep(1.1 * ("two.py" in change.name))
        return proof(GOOD, change)

    monkeypatch.setattr(Prover, "prove", prove)
    monkeypatch.setattr("amp_lint.run.workers.count", lambda: 1)
    done = main("verify", "two.py", "--file-limit=1")
    assert "two.py:6:12 AMP301: proven\n" in done.out
    why = "not tried: the fixes before it took more than 1 s"
    assert f"two.py:10:12 AMP301: not comparable\n  because      {why}\n" in done.out
    assert f"2/2 two.py:10:12 AMP301: not comparable: {why}, 0 s\n" in done.err


def test_a_rule_that_fails_costs_one_file(
    main: Run, two: None, proves: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("one.py").write_text(TWO)

    def fail(source: Source, *_: object, **__: object) -> Iterator[Site]:
        if source.name == "one.py":
            raise KeyError("odd")
        return sites(source, *_, **__)  # type: ignore[arg-type]

    monkeypatch.setattr("amp_lint.verify.cli.sites", fail)
    proves(GOOD, GOOD)
    done = main("verify", ".")
    assert done.code == 2
    assert "error: one.py: internal error, please report it: KeyError: 'odd'\n" in done.err
    assert "two.py:6:12 AMP301: proven\n" in done.out


@pytest.mark.parametrize("option", ["--record", "--plot"])
def test_what_cannot_be_written_costs_no_result(
    option: str, main: Run, two: None, proves: Callable[..., None]
) -> None:
    Path("file").touch()
    proves(GOOD, GOOD)
    done = main("verify", "two.py", f"{option}=file/inside")
    assert done.code == 2
    assert "error: file" in done.err
    assert ": cannot be written: Not a directory; name another file\n" in done.err
    assert "two.py:6:12 AMP301: proven\n" in done.out


def test_lone_surrogates_are_written(main: Run, two: None, proves: Callable[..., None]) -> None:
    odd = replace(BAD, after=Failure("raises", "no device '\ud800'"))
    proves(odd, odd)
    done = main("verify", "two.py", "--record=record.json")
    assert done.code == 1
    assert "no device '\\ud800'" in done.out
    (first, _) = record.read(Path("record.json")).entries
    assert first.proof.counterexample == odd.after


# --- Live itself ----------------------------------------------------------------------------------


def test_what_is_slow_is_said(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(live, "_SLOW", 0.05)
    speaks, silent = Live(Progress()), Live(Progress(enabled=False))
    for each in (speaks, silent):
        with each.slow("looking"):
            time.sleep(0.5)
    with speaks.slow("nothing"):
        pass
    time.sleep(0.1)
    assert capsys.readouterr().err == "looking\n"


def test_a_log_that_is_silent_for_long_gets_a_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    speaks = Live(Progress())
    speaks.show("1 of 3")
    monkeypatch.setattr(live, "_SILENCE", 0.0)
    speaks.show("2 of 3")
    assert capsys.readouterr().err == "2 of 3, 0 s\n"
