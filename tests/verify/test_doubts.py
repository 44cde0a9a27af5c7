"""Changes of ``benchmarks/changes.jsonl`` that once had a wrong verdict, one of each class."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from amp_lint.verify import Change, Prover, Verdict

CHANGES = {
    case["id"]: case
    for line in (Path(__file__).parents[2] / "benchmarks" / "changes.jsonl").open("rb")
    for case in [json.loads(line)]
}
ONCE_PROVEN = {
    "deep-global-augassign": "replay_cached(cache, model, optimizer, scaler)` was removed",
    "deep-nonlocal-augassign": "`outliers = train_epoch()` was removed",
    "deep-rebound-list-head": "`marker = self.flush(epoch)` was removed",
    "deep-weakref-temporary": "`teacher = build_teacher",
    "deep-watchdog-unnamed": "`guard = start_watchdog(timeout=600)` was removed",
    "deep-saved-values-unpacked": "all that is loaded is asked for",
    "deep-load-guard-dropped": "a checkpoint without the scaler is not loaded any more",
    "deep-update-behind-save": "changed places",
    "deep-update-behind-callbacks": "changed places",
    "deep-unscale-before-own-division": "reads the scale where the gradients are unscaled now",
    "deep-step-behind-weight-reads": "changed places",
    "deep-amp-import-above-environ": "`import torch` was removed or moved",
    "deep-local-torch-in-branch": "was added",
    "deep-print-guarded-item": 'batch["teacher"])` was added',
    "deep-print-after-del": "was added",
    "deep-print-loss-after-loop": "was added",
    "deep-print-loss-vector": "was added",
    "deep-sharded-scaler-lost": "ShardedGradScaler",
    "deep-comma-in-list-index": "`history[-1,]`",
    "deep-clize-annotations": "`epochs` became `epochs`",
    "deep-list-order-of-transforms": "lists are not the same in another order",
    "deep-numpy-mean-dim": "an array of NumPy",
    "deep-nan-not-below-cap": "a test is not the opposite",
    "deep-non-blocking-to-host": "is not waited for",
    "deep-complex-power": "of a complex number",
    "deep-reshape-to-view": "whose memory is in another order",
    "deep-clip-limit-raised": "are not clipped at 5000",
    "deep-metric-update-in-region": "gives float16",
    "deep-matmul-assign-into-region": "gives float16",
    "deep-eps-is-a-bound": "not the function",
    "look-known-clamp": "not the function",
    "look-known-nan": "not the function",
    "look-log-nan": "not the function",
    "look-masked-row": "where a whole row of `scores` is -inf",
    "look-padding-times": "a NaN in `hidden` is seen where it was masked before",
    "look-teacher-detached": "whether `teacher` gets gradients",
    "look-arange-device": "`torch.arange` makes a tensor on another device",
    "look-clone-lost": "`weights` is a tensor of its own no more",
    "look-contiguous-lost": "may be laid out in another way",
    "look-read-late": "`at` became `self.count`",
    "look-query-renamed": "`limit` became `bound`",
    "look-scaler-each-epoch": "`self.scaler` is made in another function",
    "look-load-late": 'load_state_dict(saved["scaler"])` was moved',
    "look-print-index": "`print(self.losses[100])` was added",
    "look-print-divide": "`print(1.0 / self.seen)` was added",
    "look-scalers-of-a-list": "_scale is None",
    "moved-h": "what `Hooks.after_batch` trained is in `Hooks.after_epoch` now",
    "moved-m3": "is in `finish` now",
    "moved-p": "what `each` trained is in `finish` now",
    "moved-u": "what `Hooks.after_backward` trained is in `Hooks.after_clip` now",
    "main-in-two-without-update": "step() has already been called since the last update()",
    "step-in-two-without-update": "step() has already been called since the last update()",
    "look-scalers-of-two-objects": "_scale is None",
    "look-floor-that-is-given": "instead of",
    "look-rate-late": "`self.scaler.step(self.optimizer)` was added or moved",
    "look-unknown-gets-logs": "instead of",
    "third-ddp-sync": "`scaler.scale(loss).backward()` was removed or moved",
    "third-loss-dice-smooth": "`eps` is no guard everywhere",
    "third-ppo-squeeze": "of an axis of one element",
    "third-seq-temperature": "not the function",
    "third-siam-queue-clone": "`self.queue` is a tensor of its own no more",
    "cond-annotation-text-or-none": "`steps` became `steps`",
    "cond-annotation-only-checked": "`losses` became `losses`",
    "cond-annotation-class-var": "`float` became `ClassVar[float]`",
    "cond-import-member-missing": "there is no `torch.cuda_amp`",
    "cond-import-module-missing": "there is no `torch.ampp`",
    "cond-import-future": "`annotations` was added or moved",
    "cond-region-choice-other-arm": "else torch.no_grad(): return",
    "cond-region-choice-other-test": "depends on something else",
    "cond-region-joined": "`profiler.started` became `profiler.stopped`",
    "cond-region-named": "(net := torch.autocast",
    "cond-region-of-helper": '`context("none")` depends on something else',
    "cond-state-made-if-there": 'if "scaler" in saved: scaler = ',
    "cond-state-else-other": "GradScaler` was added",
    "cond-walrus-other-name": "(high := batch.float())",
    "cond-walrus-gone": "torch.log_softmax(batch.float(), 1)",
    "cond-order-of-unknown-calls": "became `2.0 * aux(batch)`",
    "cond-import-tried": "`winreg` was added or moved",
    "switch-unscale-if-other": "runs under other conditions",
    "switch-step-if-on": "as the scaler is on or off there",
    "switch-scaler-other-test": "instead of 1",
    "cond-arms-that-return": "step() has already been called since the last update()",
    "cond-clip-changed-after-record": "nn.utils.clip_grad_norm_(net.parameters(), 1.0)` was added",
    "cond-unscale-after-record": "`scaler.unscale_(optimizer)` was moved",
    "cond-update-before-scale": "`scaler.update()` was moved",
    "cond-scale-asked-after-update": "`scaler.update()` was moved",
    "cond-none-by-equality": "is asked the other way round",
    "cond-none-first": "is asked the other way round",
    "cond-temporary-augmented": "`seen` became `net.seen`",
    "cond-temporary-of-loop": "`last` became `net.last`",
    "cond-temporary-of-two-calls": "`first` became `two`",
    "cond-eval-of-switch": "`flag` became `low`",
    "review-two-one-off": "`scaler_g.step(g)` was removed or moved",
    "review-reassigned": "else: loss.backward()` was added or moved",
    "deep-sdpa-double-backward": "has no second derivative",
    "random-functional-has-no-class": "LogSoftmax(dim=-1)(x)` gives is not known",
    "random-unscale-of-another-object": "is given what nothing steps",
    "kept-gradients-scaled-now": "was removed before what may see gradients",
    "kept-gradients-divided-again": "`g.norm() / scale` is of gradients that may be unscaled now",
    "kept-norm-divided-again": "is of gradients that may be unscaled now",
    "kept-lambda-steps-late": "`scaler.update()` of `train` and `finish()` changed places",
    "kept-update-twice": "what a scaler does in a lambda, or a method that others run",
    "kept-update-of-exit": "what a scaler does in a lambda, or a method that others run",
    "kept-method-like-tensors": "gives float16 instead of",
    "kept-states-walked": "what holds it may be no checkpoint",
    "kept-states-yielded": "what holds it may be no checkpoint",
    "kept-module-asked-for-this": "`autocast` is another name, and may be asked for by its text",
    "kept-state-before-more-now": "may not be what is saved",
    "kept-template-asked": "a checkpoint without the scaler is not loaded any more",
}
ONCE_REFUTED = (
    "fair-floor-by-default",
    "fair-fused",
    "fair-scaler-in-attack",
    "fair-norm-torch",
    "guard-bce-by-hand",
    "switch-unscale-if-on",
    "switch-step-by-hand-if-off",
    "switch-update-if-on",
    "cond-update-of-helper",
    "kept-average-in-region",
    "kept-loop-without-temporary",
    "kept-module-asked-for-another",
    "kept-state-before-more",
)
CANNOT_BE_TOLD = {
    "fair-unknown-between": "makes of another value is not known",
    "cond-left-before-backward": "goes backward in one of the texts only",
    "commit-field-declared": "was added or moved",
    "commit-own-check-leaves-region": "what its operations are cast to there is not followed",
    "commit-plain-branch-beside": "runs under other conditions",
    "commit-region-arguments": "arguments are not known",
    "commit-context-of-object": "a region was added or removed",
    "commit-checkpoint-of-more": "what is indexed by a text is no tensor",
    "commit-guard-of-dtype": "says nothing of other dtypes",
    "commit-update-of-small-scale": "was removed or moved",
    "commit-loss-of-called-main": "became `torch.randn(images.shape, dtype=args.dtype",
    "update-in-the-caller": "line 21: `self.scaler.scale(loss).backward()`: whether the loss",
    "step-in-two": "line 5: `scaler.scale(loss).backward()`: whether the loss",
}
ON_PURPOSE = {
    "commit-decorator-gone": "from autocast always on in float16 to no autocast",
    "commit-region-added": "from no autocast to autocast always on in float16",
    "commit-device-of-region": "to device_type=torch.device(self.device).type",
    "commit-region-off": "to enabled=False",
    "commit-class-and-device": "from device_type='cuda' to",
    "commit-step-if-gradients": "from a step in each round to a step in some rounds alone",
    "commit-other-optimizer": "from a step of `third` to a step of `second`",
    "commit-scaler-by-device-too": "from enabled=use_amp to",
    "commit-fails-as-before": "from device='cuda' to device=self.device",
    "commit-cast-by-option-gone": "a result in float32",
    "commit-region-of-option": "from no autocast to autocast on by an option in bfloat16",
    "commit-amp-begun": "from no autocast to autocast always on in float16",
    "commit-amp-ended": "from autocast always on in float16, a GradScaler to no autocast",
}


@pytest.mark.parametrize("name", ONCE_PROVEN)
def test_what_is_wrong_is_told(proving_quickly: Prover, name: str) -> None:
    case = CHANGES[name]
    proof = proving_quickly.prove(Change(case["before"], case["after"]))
    said = [str(each) for each in proof.shown]
    assert proof.verdict in (Verdict.REFUTED, Verdict.NOT_COMPARABLE)
    assert any(ONCE_PROVEN[name] in text for text in (*proof.reasons, *said))


@pytest.mark.parametrize("name", ONCE_REFUTED)
def test_what_is_right_is_proven(proving_quickly: Prover, name: str) -> None:
    case = CHANGES[name]
    assert proving_quickly.prove(Change(case["before"], case["after"])).verdict is Verdict.PROVEN


@pytest.mark.parametrize("name", CANNOT_BE_TOLD)
def test_what_cannot_be_told_is_not_refuted(proving_quickly: Prover, name: str) -> None:
    case = CHANGES[name]
    proof = proving_quickly.prove(Change(case["before"], case["after"]))
    assert proof.verdict is Verdict.NOT_COMPARABLE
    assert any(CANNOT_BE_TOLD[name] in text for text in proof.reasons)


@pytest.mark.parametrize("name", ON_PURPOSE)
def test_what_is_on_purpose_is_told_from_what_to_what(proving_quickly: Prover, name: str) -> None:
    case = CHANGES[name]
    proof = proving_quickly.prove(Change(case["before"], case["after"]))
    changes = [f"from {each.before} to {each.after}" for each in proof.changes]
    assert proof.verdict in (Verdict.CHANGES, Verdict.NOT_COMPARABLE)
    assert any(ON_PURPOSE[name] in text for text in changes)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("commit-amp-begun-without-scaler", "runs in float16 instead of float32"),
        ("commit-amp-begun-without-update", "step() has already been called"),
        ("commit-amp-begun-clips-scaled", "the weights move by"),
        ("commit-amp-begun-backward-inside", "a gradient that is off by"),
        ("commit-amp-ended-plain-step", "the weights move by"),
    ],
)
def test_what_fails_besides_amp_that_comes_or_goes_is_refuted(
    proving_quickly: Prover, name: str, text: str
) -> None:
    case = CHANGES[name]
    proof = proving_quickly.prove(Change(case["before"], case["after"]))
    assert proof.verdict is Verdict.REFUTED
    assert any(text in str(each) for each in proof.shown)


@pytest.mark.parametrize("name", ["commit-moved-into-other-region", "commit-helper-leaves-region"])
def test_what_leaves_a_region_that_is_still_there_is_refuted(
    proving_quickly: Prover, name: str
) -> None:
    case = CHANGES[name]
    assert proving_quickly.prove(Change(case["before"], case["after"])).verdict is Verdict.REFUTED
