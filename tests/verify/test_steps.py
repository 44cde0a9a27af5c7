"""Training steps: what is proven of a right fix, what refutes each tempting wrong one."""

from __future__ import annotations

import math
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace

import pytest
import torch

from amp_lint.verify.experiments.training import checks, replay, steps
from amp_lint.verify.experiments.training import pairs as protocol
from amp_lint.verify.obligations import (
    Autocast,
    Clip,
    Construct,
    Event,
    Place,
    Program,
    Step,
    Trace,
)
from amp_lint.verify.proof import Judgement, ProofSettings, Verdict
from amp_lint.verify.terms import Const, Input, Term
from amp_lint.vocabulary.meaning import Kind

PROVEN, REFUTED = Verdict.PROVEN, Verdict.REFUTED
FP16, BF16 = Autocast("cuda", "float16"), Autocast("cuda", "bfloat16")
UNKNOWN = Autocast("cuda", None)

ZERO = Event(Kind.ZERO_GRAD, 1, "optimizer.zero_grad()", optimizer="optimizer")
UPDATE = Event(Kind.UPDATE, 6, "scaler.update()", scaler="scaler")
UNSCALE = Event(
    Kind.UNSCALE, 3, "scaler.unscale_(optimizer)", scaler="scaler", optimizer="optimizer"
)
STEP = Event(Kind.STEP, 5, "scaler.step(optimizer)", scaler="scaler", optimizer="optimizer")
DIRECT = Event(Kind.STEP, 5, "optimizer.step()", optimizer="optimizer")
BY_HAND = Event(Kind.GRADIENT_WRITE, 4, "p.grad /= scaler.get_scale()", factor="1/scale")


def backward(
    forward: Autocast | None = FP16,
    active: Autocast | None = None,
    scaler: str | None = "scaler",
    loss: str = "loss",
) -> Event:
    text = f"{loss}.backward()" if scaler is None else f"{scaler}.scale({loss}).backward()"
    return Event(Kind.BACKWARD, 2, text, scaler=scaler, loss=loss, forward=forward, active=active)


def clip(
    limit: float | None = 1.0, function: str = "clip_grad_norm_", times_scale: bool = False
) -> Event:
    limits = Clip(function, limit, times_scale)
    return Event(
        Kind.CLIP, 4, f"{function}(model.parameters(), {limit or 'args.clip'})", clip=limits
    )


def scaler(*args: Term, **keywords: Term) -> tuple[tuple[str, Construct], ...]:
    made = Construct("torch.amp.GradScaler", (Const("cuda"), *args), tuple(keywords.items()))
    return (("scaler", made),)


def optimizer(name: str = "", **keywords: Term) -> tuple[tuple[str, Construct], ...]:
    return (("optimizer", Construct(name, (), tuple(sorted(keywords.items())))),)


def program(
    *traces: Trace,
    scalers: tuple[tuple[str, Construct], ...] | None = None,
    optimizers: tuple[tuple[str, Construct], ...] | None = None,
    half: tuple[str, ...] = (),
) -> Program:
    made = scaler() if scalers is None else scalers
    return Program(traces, made, optimizers or optimizer(), half)


def judged(before: Program, after: Program, *disabled: str, seed: int = 0) -> Judgement:
    settings = ProofSettings(seed=seed, disabled=frozenset(disabled), modes=("eager",))
    return steps.judge(Step(Place(1, 1), before, after), settings)


CLIPPED = program((ZERO, backward(), clip(), STEP, UPDATE))
UNSCALED = program((ZERO, backward(), UNSCALE, clip(), STEP, UPDATE))


@pytest.fixture(autouse=True, scope="module")
def _one_thread() -> Iterator[None]:
    """As in a worker: the problems are too small for more."""
    count = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(count)


# --- clipping -----------------------------------------------------------------------------------


def test_what_is_put_right_on_one_path_may_be_as_wrong_on_another() -> None:
    left = (ZERO, backward(), clip(), STEP, UPDATE)
    settings = ProofSettings(modes=("eager",))
    asked = Step(Place(1, 1), CLIPPED, UNSCALED)
    found = steps.judge(replace(asked, kept=(left,)), settings)
    assert found.verdict is Verdict.NOT_COMPARABLE
    assert "on another path it still fails as before: the weights move by" in found.statement
    right = (ZERO, backward(scaler=None), clip(), DIRECT)
    assert steps.judge(replace(asked, kept=(right,)), settings).verdict is PROVEN


@pytest.mark.parametrize("seed", range(3))
def test_unscale_before_the_clip_is_proven(seed: int) -> None:
    found = judged(CLIPPED, UNSCALED, seed=seed)
    assert found.verdict is PROVEN
    assert found.before is not None and found.before.check == "value"
    assert "1.526e-05 instead of 1" in found.before.text
    assert found.before.input == "a gradient of norm 1, initial scale 65536"


def test_points_follow_the_law_of_the_limit() -> None:
    found = judged(CLIPPED, UNSCALED)
    assert found.axis == "true gradient norm"
    for point in found.points:
        lost = 1 - (1 / 65536) / min(point.magnitude, 1)
        assert point.before == pytest.approx(max(lost, 0), abs=1e-5)
        assert point.after < 1e-5


WRONG_CLIPS = {
    "unscale_ after the clip": (ZERO, backward(), clip(), UNSCALE, STEP, UPDATE),
    "a limit times 65536": (ZERO, backward(), clip(65536.0), STEP, UPDATE),
    "unscale_ twice": (ZERO, backward(), UNSCALE, clip(), UNSCALE, STEP, UPDATE),
    "no update": (ZERO, backward(), UNSCALE, clip(), STEP),
    "update before the step": (ZERO, backward(), UNSCALE, clip(), UPDATE, STEP),
    "clip after the step": (ZERO, backward(), STEP, clip(), UPDATE),
    "unscaled by hand and by step": (ZERO, backward(), BY_HAND, clip(), STEP, UPDATE),
    "loss not scaled": (ZERO, backward(scaler=None), clip(), STEP, UPDATE),
    "no clip": (ZERO, backward(), STEP, UPDATE),
    "by value": (ZERO, backward(), UNSCALE, clip(1.0, "clip_grad_value_"), STEP, UPDATE),
    "no scaler": (ZERO, backward(scaler=None), clip(), DIRECT),
    "backward twice": (ZERO, backward(), backward(), UNSCALE, clip(), STEP, UPDATE),
    "nothing": (ZERO, backward(), clip(), STEP, UPDATE),
}


@pytest.mark.parametrize("trace", WRONG_CLIPS.values(), ids=WRONG_CLIPS)
def test_wrong_clips_are_refuted(trace: Trace) -> None:
    found = judged(CLIPPED, program(trace))
    assert found.verdict is REFUTED
    assert found.after is not None and found.after.text


def raising() -> Event:
    """A clip that raises an error for a norm that is not finite."""
    made = clip()
    assert made.clip is not None
    return replace(made, clip=replace(made.clip, error_if_nonfinite=True))


UNGUARDED = {
    "clip before unscale_": (ZERO, backward(), clip(), STEP, UPDATE),
    "clip that raises": (ZERO, backward(), UNSCALE, raising(), STEP, UPDATE),
    "step of scaled gradients": (ZERO, backward(), DIRECT, UPDATE),
    "a right step": (ZERO, backward(), UNSCALE, clip(), STEP, UPDATE),
}


@pytest.mark.parametrize("forward", [FP16, BF16, None], ids=["float16", "bfloat16", "no region"])
@pytest.mark.parametrize("trace", UNGUARDED.values(), ids=UNGUARDED)
def test_a_step_that_no_scaler_can_skip_is_refuted(trace: Trace, forward: Autocast | None) -> None:
    """``unscale_``, clip, ``optimizer.step()``: an overflow reaches the weights."""
    limit = () if clip() not in trace and raising() not in trace else (clip(),)
    direct = (ZERO, backward(), UNSCALE, *limit, DIRECT, UPDATE)
    before, after = (_within(forward, each) for each in (trace, direct))
    found = judged(program(before), program(after))
    assert found.verdict is REFUTED
    assert found.after is not None and found.after.check == "range"
    assert "at a step that a scaler would skip" in found.after.text


def test_a_step_that_the_scaler_skips_again_is_shown_to_have_failed() -> None:
    found = judged(
        program((ZERO, backward(), UNSCALE, clip(), DIRECT, UPDATE)),
        program((ZERO, backward(), UNSCALE, clip(), STEP, UPDATE)),
    )
    assert found.verdict is PROVEN
    assert found.before is not None and "become inf or nan" in found.before.text
    assert "a gradient that is not finite is skipped" in found.statement


def _within(forward: Autocast | None, trace: Trace) -> Trace:
    return tuple(replace(e, forward=forward) if e.kind is Kind.BACKWARD else e for e in trace)


@pytest.mark.parametrize("unscaled", [False, True])
def test_a_clip_by_value_does_not_hide_an_overflow(unscaled: bool) -> None:
    """It makes infinite gradients finite: without ``scaler.step`` they move the weights."""
    by_value = clip(1.0, "clip_grad_value_")
    right = program((ZERO, backward(), UNSCALE, by_value, STEP, UPDATE))
    before = right if unscaled else program((ZERO, backward(), by_value, STEP, UPDATE))
    found = judged(before, program((ZERO, backward(), UNSCALE, by_value, DIRECT, UPDATE)))
    assert judged(before, right).verdict is PROVEN
    assert found.verdict is REFUTED
    assert found.after is not None and found.after.text.startswith("weights move at a step")


def test_a_limit_times_the_current_scale_is_right() -> None:
    after = program((ZERO, backward(), clip(times_scale=True), STEP, UPDATE))
    assert judged(CLIPPED, after).verdict is PROVEN


def test_errors_name_the_call() -> None:
    found = judged(CLIPPED, program(WRONG_CLIPS["unscale_ twice"]))
    assert found.after is not None and found.after.check == "raises"
    assert "unscale_() has already been called" in found.after.text
    assert found.after.input == "scaler.unscale_(optimizer)"


def test_the_norm_must_be_taken_of_true_gradients() -> None:
    total, limited = clip(None, "get_total_norm"), clip(1.0, "clip_grads_with_norm_")
    before = program((ZERO, backward(), total, limited, STEP, UPDATE))
    right = program((ZERO, backward(), UNSCALE, total, limited, STEP, UPDATE))
    between = program((ZERO, backward(), total, UNSCALE, limited, STEP, UPDATE))
    assert judged(before, right).verdict is PROVEN
    assert judged(before, between).verdict is REFUTED


def test_unscale_once_per_step_not_per_micro_batch() -> None:
    end = (clip(), STEP, UPDATE)
    before = program((ZERO, backward(), backward(), *end))
    right = program((ZERO, backward(), backward(), UNSCALE, *end))
    each = program((ZERO, backward(), UNSCALE, backward(), UNSCALE, *end))
    first = program((ZERO, backward(), UNSCALE, backward(), *end))
    assert judged(before, right).verdict is PROVEN
    assert judged(before, each).verdict is REFUTED
    assert judged(before, first).verdict is REFUTED


def _both(name: str, *between: Event) -> Trace:
    keys = (replace(event, optimizer=name) for event in (UNSCALE, clip(), STEP))
    unscale, limit, step = keys
    return (unscale, limit, step, *between)


def test_one_update_for_two_optimizers() -> None:
    def only_steps(trace: Trace) -> Trace:
        return tuple(event for event in trace if event.kind is not Kind.UNSCALE)

    right = (backward(), *_both("one"), *_both("other"), UPDATE)
    wrong = (backward(), *_both("one", UPDATE), *_both("other", UPDATE))
    before = program(only_steps(right))
    assert judged(before, program(right)).verdict is PROVEN
    found = judged(before, program(wrong))
    assert found.verdict is REFUTED
    assert found.after is not None and "0.5 instead of 1" in found.after.text


def test_a_scaler_that_is_none() -> None:
    before = program((backward(), clip(), STEP, UPDATE), (backward(scaler=None), clip(), DIRECT))
    amp = (backward(), UNSCALE, clip(), STEP, UPDATE)
    plain = (backward(scaler=None), clip(), DIRECT)
    missing = replace(UNSCALE, scaler_is_none=True)
    always = (backward(scaler=None), missing, clip(), DIRECT)
    assert judged(before, program(amp, plain)).verdict is PROVEN
    found = judged(before, program(amp, always))
    assert found.verdict is REFUTED
    assert found.after is not None and "'NoneType' object has no attribute" in found.after.text


def test_a_path_that_stays_wrong_refutes_a_fix_of_the_other() -> None:
    by_value = clip(1.0, "clip_grad_value_")
    before = program((backward(), clip(), STEP, UPDATE), (backward(), by_value, STEP, UPDATE))
    after = program((backward(), UNSCALE, clip(), STEP, UPDATE), before.traces[1])
    assert judged(before, after).verdict is REFUTED


@pytest.mark.parametrize("trace", [(clip(), STEP, UPDATE), (backward(), clip())])
def test_what_a_caller_does_is_added(trace: Trace) -> None:
    at = trace.index(clip())
    found = judged(program(trace), program((*trace[:at], UNSCALE, *trace[at:])))
    assert found.verdict is PROVEN
    assert any("caller" in note for note in found.notes)


def test_gradients_that_were_cleared_must_be_cleared() -> None:
    after = program((backward(), UNSCALE, clip(), STEP, UPDATE))
    assert judged(CLIPPED, after).verdict is REFUTED


def test_what_is_no_literal_must_stay() -> None:
    unknown = program((ZERO, backward(), clip(None), STEP, UPDATE))
    literal = program((ZERO, backward(), UNSCALE, clip(), STEP, UPDATE))
    assert judged(unknown, literal).verdict is Verdict.NOT_COMPARABLE
    written = replace(BY_HAND, factor=None)
    by_hand = program((ZERO, backward(), written, STEP, UPDATE))
    assert judged(by_hand, literal).verdict is Verdict.NOT_COMPARABLE


def _strict(event: Event) -> Event:
    assert event.clip is not None
    return replace(event, clip=replace(event.clip, error_if_nonfinite=True))


def test_a_clip_that_raises_where_the_scaler_would_skip() -> None:
    start = (ZERO, backward(), UNSCALE)
    before = program((*start, _strict(clip()), STEP, UPDATE))
    found = judged(before, program((*start, clip(), STEP, UPDATE)))
    assert found.verdict is PROVEN
    assert found.before is not None and "non-finite" in found.before.text
    assert judged(before, program((*start, clip(), DIRECT, UPDATE))).verdict is REFUTED
    assert judged(replace(before, traces=UNSCALED.traces), before).verdict is REFUTED


def test_an_error_that_is_lost_without_scaler() -> None:
    start = (ZERO, backward(), UNSCALE)
    before = program((*start, _strict(clip()), STEP, UPDATE), scalers=scaler(enabled=Input("amp")))
    found = judged(before, replace(before, traces=((*start, clip(), STEP, UPDATE),)))
    assert found.verdict is PROVEN
    assert any(note.startswith("without scaler, a non-finite") for note in found.notes)
    unscaled = (ZERO, backward(None, scaler=None), _strict(clip()), DIRECT)
    lenient = (ZERO, backward(None, scaler=None), clip(), DIRECT)
    assert judged(program(unscaled), program(lenient)).verdict is REFUTED


def test_a_scaler_that_is_made_again_never_calibrates() -> None:
    made = Event(Kind.CONSTRUCT, 2, 'torch.amp.GradScaler("cuda")', scaler="scaler")
    once = (ZERO, backward(), STEP, UPDATE)
    found = judged(program((made, *once)), program(once))
    assert found.verdict is PROVEN
    assert found.before is not None and found.before.check == "calibration"
    assert judged(program(once), program((made, *once))).verdict is REFUTED


# --- scalers with bfloat16 ----------------------------------------------------------------------

WITH_BF16 = program((ZERO, backward(BF16), STEP, UPDATE))
OFF = scaler(enabled=Const(False))


def test_a_scaler_has_no_effect_with_bfloat16() -> None:
    found = judged(WITH_BF16, replace(WITH_BF16, scalers=OFF))
    assert found.verdict is PROVEN and found.before is None
    assert found.statement == "no numeric effect: bitwise equal parameters"
    assert any("non-finite gradient was skipped" in note for note in found.notes)


WRONG_SCALERS = {
    "loss not scaled": program((ZERO, backward(BF16, scaler=None), STEP, UPDATE)),
    "stepped without it": program((ZERO, backward(BF16), DIRECT, UPDATE)),
    "no backward": program((ZERO, STEP, UPDATE), scalers=OFF),
    "float16": program((ZERO, backward(FP16), STEP, UPDATE), scalers=OFF),
    "no update": program((ZERO, backward(BF16), STEP)),
    "backoff_factor": replace(WITH_BF16, scalers=scaler(backoff_factor=Const(0.75))),
    "False in the place of init_scale": replace(WITH_BF16, scalers=scaler(Const(False))),
}


@pytest.mark.parametrize("after", WRONG_SCALERS.values(), ids=WRONG_SCALERS)
def test_wrong_scalers_are_refuted(after: Program) -> None:
    assert judged(WITH_BF16, after).verdict is REFUTED


@pytest.mark.parametrize("enabled", [Const(False), Input("args.bf16")], ids=["False", "args.bf16"])
def test_a_scaler_must_stay_where_the_region_may_be_float16(enabled: Term) -> None:
    trace = (ZERO, backward(UNKNOWN), STEP, UPDATE)
    before = program(trace, scalers=scaler(enabled=Input("args.amp")))
    found = judged(before, program(trace, scalers=scaler(enabled=enabled)))
    assert found.verdict is REFUTED
    assert found.after is not None and found.after.check == "range"


def test_small_gradients_must_stay_scaled() -> None:
    trace = (ZERO, backward(FP16), STEP, UPDATE)
    skips = scaler(init_scale=Const(1.0))
    found = judged(program(trace), program(trace, scalers=skips), "scaler arguments")
    assert found.verdict is REFUTED
    assert found.after is not None and "the gradient underflows" in found.after.text


# --- backward in a region -----------------------------------------------------------------------


def plain(*events: Event) -> Program:
    return program(events, scalers=())


def inside(forward: Autocast | None, active: Autocast | None) -> Program:
    return plain(ZERO, backward(forward, active, scaler=None), DIRECT)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("region", [BF16, FP16], ids=["bfloat16", "float16"])
def test_backward_after_the_region_is_proven(region: Autocast, seed: int) -> None:
    found = judged(inside(region, region), inside(region, None), seed=seed)
    assert found.verdict is PROVEN
    assert found.before is not None and found.before.check == "backward precision"
    assert found.measured[0].gradient_error is not None and found.measured[0].gradient_error < 1


def test_errors_of_gradients_are_those_of_the_page() -> None:
    found = judged(inside(BF16, BF16), inside(BF16, None))
    first = found.points[1]
    assert first.magnitude == pytest.approx(10)
    assert 1e-3 < first.before < 1e-2 and first.after < 1e-6


def test_backward_after_the_region_compiles() -> None:
    obligation = Step(Place(1, 1), inside(BF16, BF16), inside(BF16, None))
    found = steps.judge(obligation, ProofSettings(modes=("eager", "compiled")))
    assert found.verdict is PROVEN
    (error,) = [each.gradient_error for each in found.measured if each.mode == "compiled"]
    assert error is not None and error < 1
    assert any("backward_pass_autocast" in note for note in found.notes)


def test_a_compiler_that_fails_weakens_the_proof(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(checks, "compiled_error", fail)
    obligation = Step(Place(1, 1), inside(BF16, BF16), inside(BF16, None))
    found = steps.judge(obligation, ProofSettings())
    assert (found.verdict, found.not_run) == (PROVEN, ("compiled",))
    assert "compiled" not in {each.mode for each in found.measured}
    assert any("compiled: not run" in note and "No space left" in note for note in found.notes)
    assert steps.judge(obligation, ProofSettings(modes=("eager",))).not_run == ()


def test_an_operation_that_stands_for_others_is_said_to() -> None:
    found = judged(inside(BF16, BF16), inside(BF16, None))
    assert any("verifier's own" in note and "torch.linalg.inv" in note for note in found.notes)


def test_an_island_overflows_in_float16() -> None:
    found = judged(inside(FP16, FP16), inside(FP16, None))
    assert found.before is not None and "an infinite gradient" in found.before.text


OFF_REGION = replace(BF16, enabled=False)
UNCACHED = replace(BF16, cache_enabled=False)
WRONG_BACKWARDS = {
    "twice": plain(ZERO, backward(BF16, BF16, scaler=None), backward(BF16, scaler=None), DIRECT),
    "region off": inside(OFF_REGION, OFF_REGION),
    "no cache": inside(UNCACHED, UNCACHED),
    "another region": inside(BF16, FP16),
    "loss outside": inside(None, None),
    "step first": plain(ZERO, DIRECT, backward(BF16, scaler=None)),
}


@pytest.mark.parametrize("after", WRONG_BACKWARDS.values(), ids=WRONG_BACKWARDS)
def test_wrong_backwards_are_refuted(after: Program) -> None:
    assert judged(inside(BF16, BF16), after).verdict is REFUTED


def test_backward_that_comes_once_for_a_loop() -> None:
    one = (ZERO, backward(BF16, BF16, scaler=None), DIRECT)
    before = program(one, (*one, *one), scalers=())
    late = (backward(BF16, scaler=None), DIRECT)
    after = program((ZERO, *late), (ZERO, ZERO, *late), scalers=())
    assert judged(before, after).verdict is REFUTED


def test_a_path_without_a_partner_refutes() -> None:
    scaled, unscaled = (backward(FP16, FP16),), (backward(FP16, FP16, scaler=None),)
    before = program(scaled, unscaled)
    right = program((backward(FP16),), (backward(FP16, scaler=None),))
    both = program((backward(FP16), backward(FP16, scaler=None)), right.traces[1])
    assert judged(before, right).verdict is PROVEN
    assert judged(before, both).verdict is REFUTED


def test_another_bug_that_stays_is_a_note() -> None:
    before = program((ZERO, backward(FP16, FP16), clip(), STEP, UPDATE))
    after = program((ZERO, backward(FP16, FP16), UNSCALE, clip(), STEP, UPDATE))
    found = judged(before, after)
    assert found.verdict is PROVEN
    assert any(note.startswith("as before: ") for note in found.notes)


def test_the_same_bug_in_another_event_is_a_note() -> None:
    other = backward(FP16, FP16, loss="other")
    before = program((ZERO, backward(FP16, FP16), STEP, UPDATE, other, STEP, UPDATE))
    after = program((ZERO, backward(FP16), STEP, UPDATE, other, STEP, UPDATE))
    found = judged(before, after)
    assert found.verdict is PROVEN
    assert any(note.startswith("as before: ") for note in found.notes)
    moved = replace(before, traces=((*before.traces[0][:-2], DIRECT, UPDATE),))
    assert judged(before, moved).verdict is REFUTED


def test_a_bug_that_a_fix_is_not_about_is_a_note() -> None:
    """A scaler is switched off that bfloat16 does not need."""
    before = program((ZERO, backward(BF16, BF16), STEP, UPDATE))
    found = judged(before, replace(before, scalers=OFF))
    assert found.verdict is PROVEN and found.before is None
    assert any(note.startswith("as before: a gradient that is off") for note in found.notes)


ENTERED = replace(BF16, entry="loop")
AROUND = (
    ZERO,
    backward(ENTERED, replace(ENTERED, enabled=False), scaler=None),
    replace(DIRECT, active=ENTERED),
)
APART = (ZERO, backward(BF16, scaler=None), DIRECT)
FROZEN, FRESH = plain(*AROUND, *AROUND), plain(*APART, *APART)


def test_one_region_around_a_loop_keeps_old_weights() -> None:
    found = judged(FROZEN, FRESH)
    assert found.verdict is PROVEN
    assert found.before is not None and found.before.check == "stale weights"
    assert judged(FRESH, FROZEN).verdict is REFUTED


# --- half parameters ----------------------------------------------------------------------------

LR = Input("args.lr")
ADAM = optimizer("torch.optim.Adam", lr=LR)
HALF_TRACE = (ZERO, backward(None, scaler=None), DIRECT)
HALF = program(HALF_TRACE, scalers=(), optimizers=ADAM, half=("optimizer",))


def test_float32_parameters_are_proven() -> None:
    found = judged(HALF, replace(HALF, half=()))
    assert found.verdict is PROVEN
    assert found.before is not None and "-inf instead of -0.02" in found.before.text
    assert found.axis == "gradient of a weight of 1, the same in 200 steps of Adam, lr 0.0001"
    assert all(point.after < 0.01 for point in found.points)
    broken = [point.magnitude for point in found.points if math.isinf(point.before)]
    stuck = [point.magnitude for point in found.points if point.before == pytest.approx(1, abs=0.1)]
    assert max(broken) < min(stuck), "small gradients become inf, the steps of others are lost"
    assert len(broken) + len(stuck) == len(found.points)


WRONG_HALVES = {
    "eps": replace(HALF, optimizers=optimizer("torch.optim.Adam", lr=LR, eps=Const(1e-7))),
    "fused": replace(HALF, optimizers=optimizer("torch.optim.Adam", lr=LR, fused=Const(True))),
    "SGD": replace(HALF, optimizers=optimizer("torch.optim.SGD", lr=LR)),
    "cast later": replace(HALF, half=("*",)),
    "scaler": replace(HALF, traces=((ZERO, backward(None), STEP, UPDATE),), scalers=scaler()),
    "SGD in float32": replace(HALF, optimizers=optimizer("torch.optim.SGD", lr=LR), half=()),
}


@pytest.mark.parametrize("after", WRONG_HALVES.values(), ids=WRONG_HALVES)
def test_wrong_fixes_of_half_parameters_are_refuted(after: Program) -> None:
    assert judged(HALF, after).verdict is REFUTED


def test_a_scaler_raises_for_half_parameters() -> None:
    trace = (backward(), STEP, UPDATE, ZERO)
    before = program(trace, optimizers=ADAM, half=("*",))
    found = judged(before, replace(before, half=()))
    assert found.verdict is PROVEN
    assert found.before is not None
    assert "ValueError: Attempting to unscale FP16 gradients." in found.before.text
    dropped = replace(before, traces=((backward(scaler=None), DIRECT, ZERO),))
    assert judged(before, dropped).verdict is REFUTED
    assert judged(before, replace(dropped, half=())).verdict is REFUTED


def test_arguments_that_a_constructor_does_not_take() -> None:
    wrong = scaler(scale=Const(1.0))
    assert judged(CLIPPED, replace(UNSCALED, scalers=wrong)).verdict is REFUTED
    odd = optimizer("torch.optim.Adam", rate=Const(1.0))
    assert judged(HALF, replace(HALF, optimizers=odd, half=())).verdict is not PROVEN


def test_unknown_settings_of_an_optimizer_must_stay() -> None:
    other = replace(HALF, optimizers=optimizer("torch.optim.Adam", lr=Input("lr")), half=())
    assert judged(HALF, other).verdict is Verdict.NOT_COMPARABLE


# --- every check is needed ----------------------------------------------------------------------

PLAIN = (ZERO, backward(None, scaler=None), DIRECT)
NEEDED = {
    "value": (CLIPPED, program(WRONG_CLIPS["a limit times 65536"])),
    "raises": (CLIPPED, program(WRONG_CLIPS["unscale_ twice"])),
    "range": (
        program((backward(None), STEP, UPDATE)),
        program((backward(None), STEP, UPDATE), scalers=OFF),
    ),
    "scaler arguments": (WITH_BF16, WRONG_SCALERS["backoff_factor"]),
    "forward dtype": (inside(BF16, None), WRONG_BACKWARDS["region off"]),
    "backward precision": (inside(BF16, BF16), WRONG_BACKWARDS["no cache"]),
    "optimizer": (HALF, WRONG_HALVES["eps"]),
    "calibration": (
        program((ZERO, backward(), STEP, UPDATE)),
        program(
            (
                Event(Kind.CONSTRUCT, 2, "GradScaler()", scaler="scaler"),
                ZERO,
                backward(),
                STEP,
                UPDATE,
            )
        ),
    ),
    "stale weights": (FRESH, FROZEN),
    "steps": (
        program(PLAIN, scalers=()),
        program((*PLAIN, ZERO, DIRECT), scalers=()),  # by no gradient: weights decay, perhaps
    ),
}


@pytest.mark.parametrize("check", NEEDED)
def test_without_a_check_a_wrong_fix_passes(check: str) -> None:
    before, after = NEEDED[check]
    assert judged(before, after).verdict is REFUTED
    assert judged(before, after, check).verdict is PROVEN


@pytest.mark.parametrize("half", [(), ("*",)], ids=["float32", "float16"])
def test_regions_make_no_difference_to_what_is_said_not_to_be_cast(half: tuple[str, ...]) -> None:
    """So that one run serves for all of them."""
    trace = (ZERO, backward(FP16, FP16), UNSCALE, clip(), replace(STEP, active=FP16), UPDATE)
    outside = tuple(replace(event, forward=None, active=None) for event in trace)
    for loss in (replay.linear, checks._through_float16):
        first, second = (
            replay.Rig(
                replace(program(each), half=half),
                replay.ReplayProblem(loss),
                replay.ReplayCase(),
                "cpu",
                ("optimizer",),
                ("loss",),
            ).run(each, (1.0, 0.5))
            for each in (trace, outside)
        )
        assert first.raised == second.raised
        assert all(map(torch.equal, first.weights, second.weights))


# --- traces as data -----------------------------------------------------------------------------


def test_equal_traces_without_amp_belong_together() -> None:
    one, other = (backward(), clip(), STEP, UPDATE), (backward(), STEP, UPDATE)
    fixed = (backward(), UNSCALE, clip(), STEP, UPDATE)
    found = protocol.pairs(program(one, other), program(other, fixed))
    assert [(len(p.before), len(p.after), p.equal) for p in found] == [(5, 6, True), (4, 4, True)]


# --- CUDA's policy on the CPU -------------------------------------------------------------------

POLICY = """
import torch
import torch.nn.functional as F
from torch._subclasses.fake_tensor import FakeTensorMode
from amp_lint.verify.experiments import cuda_policy

UNARY = '''acos asin cosh erfinv exp expm1 log log10 log2 log1p reciprocal rsqrt sinh tan sigmoid
tanh sqrt abs neg sin cos relu sum mean prod var std logsumexp cumsum cumprod norm'''.split()
OPS = {name: (lambda a, name=name: getattr(torch, name)(
    a, *([0] if name in ('logsumexp', 'cumsum', 'cumprod') else []))) for name in UNARY}
OPS |= {name: getattr(F, name) for name in 'softplus logsigmoid gelu silu'.split()}
OPS |= {
    'pow': lambda a: a ** 2, 'tensor pow': lambda a: a ** a, 'scalar pow': lambda a: 2 ** a,
    'one over': lambda a: 1 / a, 'mul': lambda a: a * a, 'div': lambda a: a / a,
    'softmax': lambda a: F.softmax(a, 1), 'log_softmax': lambda a: F.log_softmax(a, 1),
    'softmax dtype': lambda a: F.softmax(a, 1, dtype=torch.float16),
    'layer_norm': lambda a: F.layer_norm(a, (4,)), 'rms_norm': lambda a: F.rms_norm(a, (4,)),
    'cosine_similarity': lambda a: F.cosine_similarity(a, a), 'sum dim': lambda a: a.sum(1),
    'norm dim': lambda a: a.norm(dim=1), 'norm 1': lambda a: a.norm(1),
    'vector_norm': lambda a: torch.linalg.vector_norm(a), 'dist': lambda a: torch.dist(a, a),
    'matrix_norm': lambda a: torch.linalg.matrix_norm(a), 'cdist': lambda a: torch.cdist(a, a),
    'mm': lambda a: a.mm(a), 'matmul': lambda a: a @ a, 'mv': lambda a: a.mv(a[0]),
    'linear': lambda a: F.linear(a, a), 'addmm': lambda a: torch.addmm(a, a, a),
    'einsum': lambda a: torch.einsum('ij,jk->ik', a, a), 'addmv': lambda a: a[0].addmv(a, a[0]),
    'addr': lambda a: a.addr(a[0], a[0]), 'multi_dot': lambda a: torch.linalg.multi_dot([a, a]),
    'mse': lambda a: F.mse_loss(a, a), 'l1': lambda a: F.l1_loss(a, a),
    'smooth_l1': lambda a: F.smooth_l1_loss(a, a), 'huber': lambda a: F.huber_loss(a, a),
    'kl_div': lambda a: F.kl_div(a, a, reduction='sum'),
    'nll': lambda a: F.nll_loss(a, torch.zeros(4, dtype=torch.long, device=a.device)),
    'cross_entropy': lambda a: F.cross_entropy(a, a),
    'with_logits': lambda a: F.binary_cross_entropy_with_logits(a, a),
    'addcmul': lambda a: a.addcmul(a, a.float()), 'addcdiv': lambda a: a.addcdiv(a, a),
    'atan2': lambda a: a.atan2(a.float()), 'tensordot': lambda a: torch.tensordot(a, a),
    'cat': lambda a: torch.cat([a, a.float()]), 'stack': lambda a: torch.stack([a, a]),
    'where': lambda a: torch.where(a > 0, a, a), 'clamp': lambda a: a.clamp(0, 1),
    'bce': lambda a: F.binary_cross_entropy(a, a), 'softmin': lambda a: F.softmin(a, 1),
}

def outcome(op, a):
    try:
        return str(op(a).dtype)
    except RuntimeError as error:
        return str(error)

cuda_policy.install()
cuda_policy.install()
agree, total = 0, 0
for dtype in (torch.float16, torch.float32):
    for name, op in OPS.items():
        with FakeTensorMode():
            torch.set_autocast_enabled('cuda', True)
            torch.set_autocast_dtype('cuda', torch.float16)
            want = outcome(op, torch.empty(4, 4, device='cuda', dtype=dtype))
            torch.set_autocast_enabled('cuda', False)
        if 'not linked' in want:
            continue
        with torch.autocast('cpu', torch.float16):
            got = outcome(op, (torch.eye(4) / 2 + 0.1).to(dtype))
        total, agree = total + 1, agree + (got == want)
        if got != want:
            print(name, dtype, got, want)
print(agree, total)
"""


def test_the_cpu_follows_cuda() -> None:
    done = subprocess.run(
        [sys.executable, "-c", POLICY], capture_output=True, text=True, check=False
    )
    *differing, counts = done.stdout.splitlines() or [done.stderr]
    agree, total = map(int, counts.split())
    assert not differing
    assert agree == total and total > 130


def test_a_path_that_was_dropped_refutes_nothing() -> None:
    """Its caller's step would meet a loss that is scaled in one text alone."""
    before = program((ZERO, backward()))
    after = program((backward(scaler=None), backward(scaler=None)))
    whole = Step(Place(1, 1), before, after)
    settings = ProofSettings(modes=("eager",))
    assert steps.judge(whole, settings).verdict is REFUTED
    judged = steps.judge(replace(whole, cut=True), settings)
    assert judged.verdict is Verdict.NOT_COMPARABLE
    assert "no other one like it" in judged.statement
