"""Each hunk of a change has its own verdict."""

from __future__ import annotations

import textwrap

import pytest

from amp_lint.verify.compare import compare
from amp_lint.verify.hunks import hunks
from amp_lint.verify.obligations import Covered, Place
from amp_lint.verify.proof import Failure, Judgement, Proof, Shown, Verdict

BEFORE = textwrap.dedent("""
    import torch


    def train(model, optimizer, rows):
        scaler = torch.amp.GradScaler("cuda")
        for x in rows:
            scaler.scale(model(x).sum()).backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            scaler.step(optimizer)
            scaler.update()


    def rate(epoch):
        # half of it
        return 0.1 / epoch
""")
FIX = "        scaler.unscale_(optimizer)\n"
CLIP = "        torch.nn.utils.clip"
FIXED = BEFORE.replace(CLIP, FIX + CLIP)
STEP = Judgement(Verdict.PROVEN, "weights are equal")
WRONG = Judgement(Verdict.REFUTED, "not equal", after=Failure("steps", "weights differ"))


def verdicts(after: str, *judgements: Judgement, unjudged: int = 0) -> list[tuple[str, str]]:
    """Verdict and code of each hunk, if the steps of ``train`` are judged so."""
    found = compare(BEFORE, after)
    shown = tuple(Shown("step", "train", 8, 8, "", "", each) for each in judgements)
    whole = Proof(Verdict.PROVEN, shown, found.reasons, None, "", "", found.codes, found.coverage)
    places = [Place(16, 17, "rate")] * unjudged
    return [(each.verdict.value, each.code) for each in hunks(BEFORE, after, whole, places)]


@pytest.mark.parametrize(
    ("after", "judgements", "wanted"),
    [
        (FIXED, [STEP], [("proven", "shown")]),
        (FIXED, [WRONG], [("refuted", "refuted")]),
        (
            FIXED.replace("0.1 / epoch", "0.2 / epoch"),
            [STEP],
            [("proven", "shown"), ("not comparable", "not-judged")],
        ),
        (
            FIXED.replace("rate(epoch)", "rate(epoch=1)"),
            [STEP],
            [("proven", "shown"), ("not comparable", "unowned")],
        ),
        (
            FIXED.replace("# half of it", "# a third"),
            [WRONG],
            [("refuted", "refuted"), ("proven", "layout")],
        ),
    ],
)
def test_each_hunk_is_judged(
    after: str, judgements: list[Judgement], wanted: list[tuple[str, str]]
) -> None:
    assert verdicts(after, *judgements) == wanted


def test_what_was_not_looked_at_is_not_proven() -> None:
    after = FIXED.replace("0.1 / epoch", "0.1 / float(epoch)")
    found = verdicts(after, WRONG, unjudged=1)
    assert found[0] == ("refuted", "refuted")
    assert found[1][0] == "not comparable"


def test_a_reason_without_a_line_is_one_of_every_hunk() -> None:
    whole = Proof(Verdict.NOT_COMPARABLE, (), ("too many",), None, "", "", ("too-many",))
    (found,) = hunks(BEFORE, FIXED, whole, [])
    assert (found.verdict, found.code) == (Verdict.NOT_COMPARABLE, "too-many")
    assert (found.line_before, found.lines_before, found.line_after, found.lines_after) == (
        9,
        0,
        9,
        1,
    )


def test_what_nobody_answers_for_is_said() -> None:
    covered = Covered(Place(9, 9, "train"), "", "log(x)", "")
    whole = Proof(Verdict.PROVEN, (), (), None, "", "", (), (covered,))
    (found,) = hunks(BEFORE, FIXED, whole, [])
    assert (found.code, found.reason) == ("unowned", "`log(x)`")
