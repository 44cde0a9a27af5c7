"""What is found plainly right in a batch is right by itself, and most of what is right is."""

from __future__ import annotations

import pytest
import torch

from amp_lint.verify.experiments.expressions.experiment import Experiment
from amp_lint.verify.experiments.inputs import InputCase
from amp_lint.verify.experiments.modes import EXACT, Precision
from amp_lint.verify.experiments.prepare import prepare
from amp_lint.verify.experiments.screen import Screen
from amp_lint.verify.proof import ProofSettings
from tests.verify.test_expression import (
    FLOORED,
    KD,
    LOSS,
    PICKED,
    VIEWED,
    WRONG,
    one_thread,  # noqa: F401
    term,
)

SETTINGS = ProofSettings(modes=("eager",), examples=5)
PAIRS = [
    (KD, "F.log_softmax(x / T, dim=1)"),
    (LOSS, "F.nll_loss(torch.log_softmax(x, 1), y)"),
    (PICKED, "x.log_softmax(-1).gather(-1, y)"),
    (FLOORED, "F.log_softmax(x, dim=1)"),
    (VIEWED.format("1e-12"), VIEWED.format("1e-5")),
    ("torch.sqrt((x * x).sum(-1))", "torch.linalg.vector_norm(x, dim=-1)"),
    ("(q @ k.transpose(-1, -2)).softmax(-1)", "torch.softmax(q @ k.transpose(-1, -2), -1)"),
    ("nn.BCELoss()(torch.sigmoid(x), y)", "nn.BCEWithLogitsLoss()(x, y)"),
]


def experiment(before: str, after: str) -> Experiment:
    return Experiment(prepare(term(before), term(after)), SETTINGS)


@pytest.mark.parametrize(("before", "after"), PAIRS)
def test_what_is_plainly_right_is_right_by_itself(before: str, after: str) -> None:
    tried = experiment(before, after)
    some = 0
    for trial in tried.trials[:2]:
        for precision in tried.precisions:
            cases = tried._fixed(trial, precision)[::3]
            plain = {case.key for case, _ in trial.screen.right("after", cases, precision)}
            some += len(plain)
            trial.screen = Screen(trial)  # from here on nothing is known
            alone = [case for case in cases if not tried._after_fails(trial, case, precision)]
            assert plain <= {case.key for case in alone}
    assert some > 40


@pytest.mark.parametrize(
    ("before", "after"), [(old, new) for old, new, check in WRONG if check == "value"][:8:2]
)
def test_what_is_wrong_is_not_plainly_right(before: str, after: str) -> None:
    tried = experiment(before, after)
    found = right = 0
    for trial in tried.trials:
        for precision in tried.precisions[:2]:
            for case in tried._fixed(trial, precision)[::8]:
                problems = tried._after_fails(trial, case, precision)
                plain = [*trial.screen.right("after", [case], precision)]
                found, right = found + bool(problems), right + bool(plain)
                assert not (problems and plain)
    assert found


def test_a_value_is_what_it_is_alone() -> None:
    tried = experiment(*PAIRS[0])
    (trial, *_), precision = tried.trials, Precision("float32")
    cases = tried._fixed(trial, precision)
    batch = trial.screen._at_once("after", cases, precision)
    assert batch is not None
    for at, case in enumerate(cases):
        alone = trial.outcome("after", case, precision)
        for mine, other in zip(batch.values, alone.values, strict=True):
            torch.testing.assert_close(mine[at], other, equal_nan=True)
        for mine, other in zip(batch.gradients, alone.gradients, strict=True):
            torch.testing.assert_close(mine[at], other, equal_nan=True)


@pytest.mark.parametrize(("number", "is_plain"), [(1e200, False), (1e-150, False), (3.0, True)])
def test_where_float64_is_no_reference_nothing_is_plain(number: float, is_plain: bool) -> None:
    trial = experiment("x * x", "x.square()").trials[0]
    found = [*trial.screen.right("after", [InputCase((number,))], EXACT)]
    assert bool(found) is is_plain


def test_dtypes_in_a_region_are_those_of_one_input() -> None:
    tried = experiment("(q @ k).softmax(-1)", "torch.softmax(q @ k, -1)")
    region, trial = Precision("autocast float16"), tried.trials[0]
    cases = tried._fixed(trial, region)
    assert [*trial.screen.right("after", cases, region)]
    assert ("after", region.name) not in trial.screen._never


def test_what_does_not_run_on_several_is_tried_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuses(*_: object, **__: object) -> object:
        raise RuntimeError("no batching rule")

    monkeypatch.setattr(torch.func, "vmap", refuses)
    tried = experiment(*PAIRS[0])
    assert tried.failure_after() is None
    assert not [m for m in tried.trials[0].screen._meant.values() if m is not None]


def test_what_is_plain_is_counted_once() -> None:
    tried = experiment(*PAIRS[0])
    (trial, *_), precision = tried.trials, Precision("float16")
    cases = tried._fixed(trial, precision)
    tried._sift("after", trial, cases, precision)
    (counted,) = tried.record.errors.values()
    tried._sift("after", trial, cases, precision)
    assert [*tried.record.errors.values()] == [counted]
    assert counted.inputs > len(cases) // 2
    assert (counted.value_error or 0) <= 1
