"""Proofs are summed up, and torch stays out of this process."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from importlib import metadata
from pathlib import Path

import pytest

from amp_lint.model import Model
from amp_lint.run.workers import Worker
from amp_lint.text.source import Source
from amp_lint.verify import Change, Proof, ProofSettings, Prover, Verdict, VerifyError
from amp_lint.verify.obligations import Comparison, Expression, Obligation, Place, Unbound
from amp_lint.verify.proof import Environment, Failure, Judgement
from amp_lint.verify.prover import Done, require, sha256
from amp_lint.verify.terms import Input
from amp_lint.verify.worker import Findings, findings, lift

HERE = Environment("2.13.0", "3.11", "cpu", False, 0)


# --- from judgements to a verdict -----------------------------------------------------------------

WRONG = Judgement(Verdict.REFUTED, "no", after=Failure("value", "0 instead of 1", "x = [2.0]"))
TASKS: dict[str, tuple[Callable[..., object], tuple[object, ...]]] = {
    "right": (Judgement, (Verdict.PROVEN, "fine")),
    "wrong": (replace, (WRONG,)),
    "open": (Judgement, (Verdict.NOT_COMPARABLE, "knows no fold")),
    "hangs": (time.sleep, (60,)),
    "dies": (os.abort, ()),
    "raises": (int, ("x",)),
}


class Fake(Prover):
    """Lifts what it is told to, and judges an expression by the task that its text names."""

    def __init__(
        self,
        *obligations: Obligation,
        reasons: tuple[str, ...] = (),
        file_limit: float | None = None,
    ) -> None:
        super().__init__(workers=2, limit=2, file_limit=file_limit)
        self._comparison = Comparison(obligations, reasons)

    def _lift(self, change: Change) -> tuple[Comparison, Findings]:
        findings = super()._lift(change)[1] if change.code else ""
        return self._comparison, findings

    def environment(self) -> Environment:
        return HERE

    def _prepare(self, worker: Worker) -> None:
        pass

    def _task(self, obligation: Obligation) -> tuple[Callable[..., Judgement], tuple[object, ...]]:
        assert isinstance(obligation, Expression)
        assert isinstance(obligation.after, Input)
        return TASKS[obligation.after.key]  # type: ignore[return-value]


def expression(after: str, line: int = 1) -> Expression:
    return Expression(Place(line, line, "f"), Input("x"), Input(after))


CHANGE = Change("a = 1\n", "a = 2\n")
UNBOUND = Unbound(Place(1, 2), "F")


def judge(*after: str, reasons: tuple[str, ...] = ()) -> Proof:
    with Fake(*map(expression, after), reasons=reasons) as fake:
        return fake.prove(CHANGE)


@pytest.mark.parametrize(
    ("after", "reasons", "verdict"),
    [
        ([], (), Verdict.PROVEN),
        (["right", "right"], (), Verdict.PROVEN),
        (["right", "wrong"], (), Verdict.REFUTED),
        (["right", "open"], (), Verdict.NOT_COMPARABLE),
        (["open", "wrong"], (), Verdict.REFUTED),
        (["right"], ("line 3: a loop became another one",), Verdict.NOT_COMPARABLE),
        (["wrong"], ("line 3: a loop became another one",), Verdict.REFUTED),
    ],
)
def test_verdict(after: list[str], reasons: tuple[str, ...], verdict: Verdict) -> None:
    proof = judge(*after, reasons=reasons)
    assert proof.verdict is verdict
    assert set(reasons) <= set(proof.reasons)
    assert (proof.counterexample is not None) == (verdict is Verdict.REFUTED)


def test_judgements_after_a_refutation_are_not_waited_for() -> None:
    started = time.monotonic()
    proof = judge("right", "wrong", "hangs", "right")
    assert [one.after for one in proof.shown] == ["right", "wrong"]
    assert time.monotonic() - started < 10


@pytest.mark.parametrize(
    ("task", "cause"), [("hangs", "took longer than 2 s"), ("dies", "SIGABRT"), ("raises", "'x'")]
)
def test_an_experiment_without_a_result_makes_its_site_not_comparable(
    task: str, cause: str
) -> None:
    proof = judge("right", task, "right")
    verdicts = [one.judgement.verdict for one in proof.shown]
    assert verdicts == [Verdict.PROVEN, Verdict.NOT_COMPARABLE, Verdict.PROVEN]
    (reason,) = proof.reasons
    assert reason.startswith("line 1: ")
    assert cause in reason


def test_an_unbound_name_refutes_before_anything_runs() -> None:
    with Fake(expression("hangs"), UNBOUND) as fake:
        proof = fake.prove(CHANGE)
        assert not fake._pool._all
    assert proof.verdict is Verdict.REFUTED
    assert proof.counterexample is not None
    assert proof.counterexample.text == "NameError: nothing binds 'F' any more"
    assert [one.subject for one in proof.shown] == ["name"]


def test_many_changes_keep_their_order() -> None:
    done: list[Done] = []
    with Fake(expression("right")) as fake:
        changes = [Change(f"{number}\n", "x\n") for number in range(6)]
        proofs = fake.prove_all(changes, done.append)
    assert [proof.sha256_before for proof in proofs] == [sha256(c.before) for c in changes]
    assert sorted(one.index for one in done) == [*range(6)]
    assert all(one.proof is proofs[one.index] for one in done)


def test_who_waits_hears_that_it_goes_on() -> None:
    ticks: list[float] = []
    with Fake(expression("hangs")) as fake:
        fake.prove_all([CHANGE], on_wait=lambda: ticks.append(time.monotonic()))
    assert ticks, "it took two seconds"


def test_a_file_has_its_time() -> None:
    """What of a file is not begun in time is not tried; what is of other files, is."""
    changes = [Change("a = 1\n", "a = 2\n", name) for name in ("a", "a", "a", "b")]
    with Fake(expression("hangs"), file_limit=1) as fake:
        proofs = fake.prove_all(changes)
    reasons = [proof.reasons[0] for proof in proofs]
    assert [reason.startswith("not tried") for reason in reasons] == [False, False, True, False]
    assert reasons[2] == "not tried: the fixes before it took more than 1 s"
    assert proofs[2].verdict is Verdict.NOT_COMPARABLE
    assert proofs[2].sha256_after == sha256("a = 2\n")


def test_what_was_proven_is_named_by_hash_and_place() -> None:
    with Fake(expression("right", 7)) as fake:
        proof = fake.prove(CHANGE)
    (shown,) = proof.shown
    assert (shown.subject, shown.function, shown.line_before) == ("expression", "f", 7)
    assert (shown.before, shown.after) == ("x", "right")
    assert proof.sha256_after == hashlib.sha256(b"a = 2\n").hexdigest()
    assert proof.environment == HERE


def test_nothing_is_run_where_nothing_changes() -> None:
    proof = judge()
    assert proof.environment is None


# --- the finding itself ---------------------------------------------------------------------------


def test_a_fix_must_remove_the_finding(clip: str, fixed: str) -> None:
    with Fake() as fake:
        right = fake.prove(Change(clip, fixed, code="AMP101"))
        same = fake.prove(Change(clip, clip + "# fixed\n", code="AMP101"))
        other = fake.prove(Change(clip, clip))
    assert right.verdict is Verdict.PROVEN
    assert other.verdict is Verdict.PROVEN
    assert same.verdict is Verdict.REFUTED
    assert same.counterexample is not None
    assert same.counterexample.check == "finding"
    assert "1 before, 1 after" in same.counterexample.text


def test_a_text_that_cannot_be_linted_is_not_comparable(clip: str) -> None:
    with Fake() as fake:
        proof = fake.prove(Change(clip, "\0", code="AMP101"))
    assert proof.verdict is Verdict.NOT_COMPARABLE


def test_what_was_compared_is_not_parsed_again(
    clip: str, fixed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[Source] = []

    class Counting(Model):
        def __init__(self, source: Source, *args: object) -> None:
            made.append(source)
            super().__init__(source, *args)  # type: ignore[arg-type]

    for module in ("amp_lint.model", "amp_lint.verify.compare"):
        monkeypatch.setattr(f"{module}.Model", Counting)
    _, counted = lift(clip, fixed, "clip.py", "AMP101", None)
    assert [*map(len, counted)] == [1, 0]
    assert [source.text for source in made] == [clip, fixed]


# --- what is missing ------------------------------------------------------------------------------


def test_a_missing_package_is_named() -> None:
    with pytest.raises(VerifyError) as caught:
        require("sys", "no_such_package")
    assert str(caught.value) == (
        'amp-lint verify needs no_such_package: pip install "amp-lint[verify]"'
    )


def test_a_device_that_is_not_there_is_named() -> None:
    nowhere = Prover(ProofSettings(device="cuda:99"), workers=1)
    with nowhere, pytest.raises(VerifyError, match="device cuda:99: "):
        nowhere.environment()


def test_the_environment_is_that_of_the_worker() -> None:
    with Prover(ProofSettings(seed=5), workers=1) as proving:
        here = proving.environment()
    public, _, _ = here.torch.partition("+")  # whatever it was built for
    assert public == metadata.version("torch").partition("+")[0]
    assert (here.device, here.cuda, here.seed) == ("cpu", False, 5)


def test_torch_is_not_imported_here(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("import torch\ny = torch.log(torch.softmax(x, 1))\n")
    (tmp_path / "b.py").write_text("import torch\ny = torch.log_softmax(x, 1)\n")
    program = (
        "import sys, amp_lint.verify, amp_lint.verify.cli, amp_lint.verify.catalogue\n"
        "from amp_lint.verify.cli import main\n"
        "assert main(['--before=a.py', '--after=b.py', '--mode=eager', '--examples=1']) == 0\n"
        "heavy = {'torch', 'hypothesis', 'numpy', 'matplotlib'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_linting_does_not_import_the_verifier(clip: str, tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(clip)
    program = (
        "import sys\nfrom amp_lint import cli\n"
        f"assert cli.main([{str(tmp_path)!r}, '-q', '--fix']) == 0\n"
        "assert not [name for name in sys.modules if name.startswith('amp_lint.verify')]\n"
        "assert 'torch' not in sys.modules\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_a_finding_of_the_preview_is_one_that_a_fix_may_take_away() -> None:
    text = "import torch\nx = torch.log(torch.sigmoid(torch.ones(3)) + 1e-6)\n"
    before, after = text, text.replace("torch.sigmoid(torch.ones(3))", "torch.rand(3)")
    found = [findings(each, "a.py", "AMP302", None) for each in (before, after)]
    assert found == [[2], []]
