"""Settings that are changed on purpose, and what of a scaler is kept."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

import pytest

from amp_lint.verify import Change, Prover, Verdict
from amp_lint.verify.experiments.training import state, steps
from amp_lint.verify.obligations import Clip, Event, Place, Program, State, Step
from amp_lint.verify.proof import ProofSettings
from amp_lint.vocabulary.meaning import Kind

TRAIN = """
    import torch


    def train(model, loss_of, optimizer, rows, args):
        scaler = torch.amp.GradScaler("cuda")
        for x, y in rows:
            optimizer.zero_grad()
            with torch.autocast("cuda", dtype=torch.float16):
                loss = loss_of(model(x), y)
            scaler.scale(loss).backward()
            scaler.unscale_(optimizer)
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            scaler.step(optimizer)
            scaler.update()
"""
BF16 = ("float16)", "bfloat16)")
WITHOUT = (
    ('        scaler = torch.amp.GradScaler("cuda")\n', ""),
    ("scaler.scale(loss).backward()", "loss.backward()"),
    ("            scaler.unscale_(optimizer)\n", ""),
    ("scaler.step(optimizer)", "optimizer.step()"),
    ("            scaler.update()\n", ""),
)
OPTION = (
    ('GradScaler("cuda")', 'GradScaler("cuda", enabled=args.amp)'),
    ("dtype=torch.float16", "dtype=torch.float16, enabled=args.amp"),
)


def changed(*edits: tuple[str, str]) -> tuple[str, str]:
    before = after = TRAIN
    for old, new in edits:
        assert old in after
        after = after.replace(old, new)
    return textwrap.dedent(before), textwrap.dedent(after)


@pytest.mark.parametrize(
    ("edits", "words"),
    [
        (((", 1.0)", ", 5.0)"),), ["the limit 1", "the limit 5"]),
        ((BF16, *WITHOUT), ["a GradScaler", "no GradScaler", "bfloat16"]),
        (OPTION, ["on by an option"]),
        ((('GradScaler("cuda")', 'GradScaler("cuda", init_scale=1024.0)'),), ["init_scale=1024.0"]),
    ],
)
def test_a_setting_is_another(
    proving: Prover, edits: Sequence[tuple[str, str]], words: list[str]
) -> None:
    proof = proving.prove(Change(*changed(*edits)))
    assert proof.verdict is Verdict.CHANGES, (proof.counterexample, proof.reasons)
    assert proof.exit_code == 3
    told = " ".join(f"{one.before} {one.after}" for one in proof.changes)
    assert [word for word in words if word not in told] == []


@pytest.mark.parametrize(
    "edits",
    [
        ((", 1.0)", ", 5.0)"), ("            scaler.unscale_(optimizer)\n", "")),
        (BF16, *WITHOUT[:-1], ("scaler.update()", "optimizer.step()")),
        WITHOUT,
    ],
)
def test_a_setting_explains_only_itself(proving: Prover, edits: Sequence[tuple[str, str]]) -> None:
    assert proving.prove(Change(*changed(*edits))).verdict is Verdict.REFUTED


def test_a_fix_of_a_finding_changes_no_setting(proving: Prover) -> None:
    unclipped = ("            scaler.unscale_(optimizer)\n", "")
    _, before = changed(unclipped)
    _, after = changed((", 1.0)", ", 5.0)"))
    assert proving.prove(Change(before, after, code="AMP101")).verdict is Verdict.REFUTED


def test_a_clip_that_is_not_known_is_not_replayed() -> None:
    clip = Event(Kind.CLIP, 1, "squeeze(model)", clip=Clip("squeeze", 1.0))
    step = Event(Kind.STEP, 2, "optimizer.step()", optimizer="optimizer")
    back = Event(Kind.BACKWARD, 0, "loss.backward()", loss="loss")
    programs = Program(((back, clip, step),)), Program(((back, step),))
    judged = steps.judge(Step(Place(1, 1), *programs), ProofSettings(modes=("eager",)))
    assert judged.verdict is Verdict.NOT_COMPARABLE
    assert "squeeze" in judged.statement


@pytest.mark.parametrize(
    ("save", "load", "verdict"),
    [
        ("state_dict", "load_state_dict", Verdict.PROVEN),
        ("get_scale", "update", Verdict.REFUTED),
        ("state_dict", "update", Verdict.REFUTED),
        ("scale", "load_state_dict", Verdict.NOT_COMPARABLE),
    ],
)
def test_a_run_that_is_continued(save: str, load: str, verdict: Verdict) -> None:
    judged = state.judge(State(Place(1, 1), save, load), ProofSettings())
    assert judged.verdict is verdict
    if verdict is not Verdict.NOT_COMPARABLE:
        assert judged.before is not None


def test_every_place_is_listed_with_its_owner(proving: Prover) -> None:
    before = "import torch\n\ndef f(x):\n    return torch.log(torch.softmax(x, -1))\n"
    after = before.replace("torch.log(torch.softmax(x, -1))", "torch.log_softmax(x, -1)")
    proof = proving.prove(Change(before, f"{after}\nSEED = 1\n"))
    assert proof.verdict is Verdict.NOT_COMPARABLE
    assert [place.owner for place in proof.coverage] == ["expression", ""]
    assert proof.codes == ("unowned",)
