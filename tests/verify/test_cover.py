"""What no obligation answers for must be the same: else a change is not comparable."""

from __future__ import annotations

import textwrap
from collections.abc import Callable

import pytest

from amp_lint.verify import Change, Prover, Verdict
from amp_lint.verify.compare import compare
from amp_lint.verify.obligations import Comparison

STEP = """
    import contextlib
    import math

    import torch
    from torch.nn.utils import clip_grad_norm_


    class Trainer(torch.nn.Module):
        @property
        def rate(self):
            return 0.1


    def train(model, head, optimizer, scheduler, ema, loader, accum=2, *, amp=True):
        scaler = torch.amp.GradScaler("cuda")
        done = 0
        for i, (x, y) in enumerate(loader):
            with torch.autocast("cuda", dtype=torch.float16):
                loss = (model(x) - y).square().mean()
            scaler.scale(loss).backward()
            if (i + 1) % accum == 0:
                clip_grad_norm_(model.parameters(), 1.0)
                scaler.step(optimizer)
                scaler.update()
                optimizer.zero_grad()
                ema.update(model)
                scheduler.step()
                done += 1
        return done


    def batches(loader):
        for x in loader:
            yield x, 1
"""
CLIP = "            clip_grad_norm_(model"
FIX = (CLIP, f"            scaler.unscale_(optimizer)\n{CLIP}")
BACKWARD = "        scaler.scale(loss).backward()"
UPDATE = "            scaler.update()"
EMA = "            ema.update(model)\n"
TAKEN = "            scaler.step(optimizer)\n"


Verdicts = Callable[..., Verdict]


def changed(before: str, *changes: tuple[str, str]) -> tuple[str, str]:
    """A text, and the text with replacements; each must be there."""
    before = textwrap.dedent(before)
    after = before
    for old, new in changes:
        assert old in after
        after = after.replace(old, new)
    return before, after


def reasons(before: str, *changes: tuple[str, str]) -> str:
    """Why the change cannot be compared; "" if it can."""
    return "; ".join(compare(*changed(before, *changes)).reasons)


def test_the_fix_alone_is_comparable() -> None:
    assert not reasons(STEP, FIX)


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("accum=2", "accum=4", "`2` became `4`"),
        ("model, head, opt", "head, model, opt", "`model` became `head`"),
        ("accum=2, *, amp", "accum=2, amp", "*, amp=True` became"),
        ("def batches", "async def batches", "became `async def batches"),
        ("torch.nn.Module", "torch.nn.Linear", "became `torch.nn.Linear`"),
        ("    @property\n", "", "`def rate(self): return 0.1`"),
        ("def train(", "@torch.no_grad()\ndef train(", "`def train("),
        ("yield x, 1", "yield 1, x", "`1` became `x`"),
        ("        yield", "        if x:\n            yield", "`if x: yield x, 1` was added"),
        ("import math\n", "from math import *\n", "`from math import *` was added"),
        ("done = 0", "done = 7", "`0` became `7`"),
        ("            scheduler.step()\n", "", "`scheduler.step()` was removed"),
    ],
)
def test_what_is_hidden_beside_a_fix(old: str, new: str, reason: str) -> None:
    assert reason in reasons(STEP, FIX, (old, new))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("backward()", "backward(inputs=[head.weight])"),
        ("backward()", "backward(2 * torch.ones_like(loss))"),
        ("backward()", "backward(retain_graph=True)"),
        ("clip_grad_norm_(model.par", "clip_grad_norm_(head.par"),
        ("1.0)", "1.0, norm_type=math.inf)"),
        ("step(optimizer)", "step(optimizer, head)"),
        ("update()", "update(1024.0)"),
        ("zero_grad()", "zero_grad(False)"),
    ],
)
def test_arguments_of_events(old: str, new: str) -> None:
    assert reasons(STEP, FIX, (old, new))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (BACKWARD, f"        with torch.no_grad():\n    {BACKWARD}"),
        (BACKWARD, f"        with contextlib.suppress(ValueError):\n    {BACKWARD}"),
        (UPDATE, f"            if i > 5:\n    {UPDATE}"),
        ("i, (x, y) in", "i, (y, x) in"),
    ],
)
def test_what_stands_around_events(old: str, new: str) -> None:
    assert reasons(STEP, FIX, (old, new))


def test_another_handler_of_a_guarded_event() -> None:
    guarded = f"        try:\n    {BACKWARD}\n        except RuntimeError:\n            raise"
    _, before = changed(STEP, (BACKWARD, guarded))
    more = ("            raise", "            raise\n        except ValueError:\n            pass")
    assert "except RuntimeError" in reasons(before, FIX, more)


def test_calls_keep_their_place_among_the_events() -> None:
    early = ((EMA, ""), (TAKEN, EMA + TAKEN))
    assert "`ema.update(model)` was added or moved" in reasons(STEP, FIX, *early)
    late = (
        ("            optimizer.zero_grad()\n", ""),
        (EMA, EMA + "            optimizer.zero_grad()\n"),
    )
    assert "`ema.update(model)` was added or moved" in reasons(STEP, FIX, *late)


def test_what_a_scaler_does_may_pass_calls() -> None:
    assert not reasons(STEP, FIX, (f"{UPDATE}\n", ""), (EMA, f"{EMA}{UPDATE}\n"))


def test_another_object_is_cleared() -> None:
    assert "`head.zero_grad()` was added" in reasons(STEP, FIX, ("optimizer.zero", "head.zero"))


def test_a_scaled_loss_is_for_the_backward_pass() -> None:
    scaled = f"        scaled = scaler.scale(loss)\n{BACKWARD}"
    twice = (BACKWARD, scaled.replace("scaled =", "loss ="))
    assert "`loss = scaler.scale(loss)` was added" in reasons(STEP, FIX, twice)
    logged = (BACKWARD, f"{scaled}\n        done += scaled.item()")
    assert "`scaled = scaler.scale(loss)` was added" in reasons(STEP, FIX, logged)
    only = (BACKWARD, scaled.replace("scaler.scale(loss).b", "scaled.b"))
    assert not reasons(STEP, FIX, only)


MADE = """
    import torch

    def train(model, loader, epochs):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        scaler = torch.amp.GradScaler("cuda")
        for _ in range(epochs):
            for x in loader:
                optimizer.zero_grad()
                scaler.scale(model(x).mean()).backward()
                torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                scaler.step(optimizer)
                scaler.update()
        torch.save({"model": model.state_dict(), "scaler": scaler.state_dict()}, "x.pt")
"""
MADE_CLIP = "            torch.nn.utils"
MADE_FIX = (MADE_CLIP, f"            scaler.unscale_(optimizer)\n{MADE_CLIP}")
SCALER = '    scaler = torch.amp.GradScaler("cuda")\n'
ROUND = "    for _ in range(epochs):\n"


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ((), ""),
        (
            ((SCALER, ""), (ROUND, f"{ROUND}    {SCALER}")),
            '`scaler = torch.amp.GradScaler("cuda")` was added',
        ),
        (((', "scaler": scaler.state_dict()', ""),), "`scaler.state_dict()` was removed"),
        ((("    scaler =", "    model.half()\n    scaler ="),), "`model.half()` was added"),
    ],
)
def test_what_terms_are_lifted_without(changes: tuple[tuple[str, str], ...], reason: str) -> None:
    found = reasons(MADE, MADE_FIX, *changes)
    assert reason in found
    assert bool(found) is bool(reason)


DECAYED = """
    import torch

    def train(model, optimizer, loader, sync):
        scaler = torch.amp.GradScaler("cuda")
        for x in loader:
            optimizer.zero_grad()
            with torch.autocast("cuda", dtype=torch.float16):
                loss = model(x).mean()
                scaler.scale(loss).backward()
            sync(model)
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            scaler.unscale_(optimizer)
            for p in model.parameters():
                p.grad.add_(p.data, alpha=0.1)
            scaler.step(optimizer)
            scaler.update()
"""
DECAY = "        for p in model.parameters():\n            p.grad.add_(p.data, alpha=0.1)\n"
OUTSIDE = ("            scaler.scale(loss)", "        scaler.scale(loss)")
UNSCALE, STEPPED = "        scaler.unscale_(optimizer)\n", "        scaler.step(optimizer)\n"
SYNC = "        sync(model)\n"
CLIPPED = "        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)\n"


@pytest.fixture(scope="module")
def verdict(proving: Prover) -> Verdicts:
    def prove(before: str, *changes: tuple[str, str]) -> Verdict:
        return proving.prove(Change(*changed(before, *changes))).verdict

    return prove


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("(i + 1) % accum", "i % accum"),
        ("enumerate(loader)", "enumerate(loader[1:])"),
        ("(i + 1) % accum", "(i + 1) % (accum + 1)"),
    ],
)
def test_a_test_or_loop_of_other_numbers(verdict: Verdicts, old: str, new: str) -> None:
    assert verdict(STEP, FIX, (old, new)) is not Verdict.PROVEN


ROUNDS = """
    import torch

    def run(model, batches, limit=1e-4):
        rounds = 0
        rate = 1.0
        kept = []
        while rounds < 500 and len(kept) < 50:
            found = torch.log(torch.softmax(model(batches), dim=1))
            rounds += 1
            kept.append(found)
        while rate > limit:
            rate = rate * 0.5
        while rounds != 2:
            rounds = rounds // 2
        return kept, rate, rounds
"""
ROUNDS_FIX = ("torch.log(torch.softmax(model(batches), dim=1))",
              "torch.log_softmax(model(batches), dim=1)")  # fmt: skip


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("rounds < 500", "rounds < 400"),
        ("rounds < 500", "rounds <= 500"),
        ("len(kept) < 50", "len(kept) < 60"),
        ("rate > limit", "rate > limit * 2"),
        ("rounds != 2", "rounds != 4"),
    ],
)
def test_a_loop_that_ends_in_another_round(verdict: Verdicts, old: str, new: str) -> None:
    assert verdict(ROUNDS, ROUNDS_FIX) is Verdict.PROVEN
    assert verdict(ROUNDS, ROUNDS_FIX, (old, new)) is not Verdict.PROVEN


@pytest.mark.parametrize(
    "moved",
    [
        ((DECAY, ""), (UNSCALE, DECAY + UNSCALE)),
        ((DECAY, ""), (STEPPED, STEPPED + DECAY)),
        ((SYNC, ""), (CLIPPED, CLIPPED + SYNC)),
        (("alpha=0.1", "alpha=0.2"),),
        ((DECAY, ""),),
    ],
)
def test_what_is_done_to_gradients_keeps_its_place(
    verdict: Verdicts, moved: tuple[tuple[str, str], ...]
) -> None:
    assert verdict(DECAYED, OUTSIDE) is Verdict.PROVEN
    assert verdict(DECAYED, OUTSIDE, *moved) is Verdict.NOT_COMPARABLE


def test_an_unknown_change_may_come_to_gradients_that_are_unscaled(verdict: Verdicts) -> None:
    _, scaled = changed(DECAYED, OUTSIDE, (UNSCALE, ""))
    assert verdict(scaled, (CLIPPED, UNSCALE + CLIPPED)) is Verdict.PROVEN


ENTERED = """
    import torch
    from torch.cuda.amp import autocast

    def train(model, optimizer, loader):
        scaler = torch.amp.GradScaler("cuda")
        for x in loader:
            optimizer.zero_grad()
            with autocast:
                loss = model(x).mean()
            scaler.scale(loss).backward()
            scaler.unscale_(optimizer)
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            scaler.step(optimizer)
            scaler.update()
"""
ENTER = ("autocast:", "autocast():")
REGION = "        with autocast:\n            loss = "


@pytest.mark.parametrize(
    ("changes", "wanted"),
    [
        ((ENTER,), Verdict.PROVEN),
        ((ENTER, ("        scaler.unscale_(optimizer)\n", "")), Verdict.REFUTED),
        ((ENTER, ("        scaler.update()\n", "")), Verdict.REFUTED),
        ((ENTER, ("        optimizer.zero_grad()\n", "")), Verdict.REFUTED),
        ((ENTER, ("        scaler.scale", "            scaler.scale")), Verdict.NOT_COMPARABLE),
        (((REGION, "        loss = "),), Verdict.NOT_COMPARABLE),
    ],
)
def test_a_region_that_raises_hides_nothing(
    verdict: Verdicts, changes: tuple[tuple[str, str], ...], wanted: Verdict
) -> None:
    assert verdict(ENTERED, *changes) is wanted


BYPASSED = """
    import torch

    def step(model, x, optimizer, scaler=None):
        optimizer.zero_grad()
        if scaler is not None:
            scaler.scale(model(x).mean()).backward()
        else:
            model(x).mean().backward()
        optimizer.step()
"""
STEPS = "    if scaler is not None:\n        scaler.step(optimizer)\n"
PLAIN = "    else:\n        optimizer.step()\n"
DIRECT = "    optimizer.step()\n"


@pytest.mark.parametrize(
    ("steps", "wanted"),
    [
        (f"{STEPS}        scaler.update()\n{PLAIN}", Verdict.PROVEN),
        (f"{STEPS}{PLAIN}", Verdict.REFUTED),
    ],
)
def test_an_update_that_only_the_new_code_needs(
    verdict: Verdicts, steps: str, wanted: Verdict
) -> None:
    assert verdict(BYPASSED, (DIRECT, steps)) is wanted


TWO = """
    import torch

    def train(first, second, one, two, loader):
        scaler = torch.amp.GradScaler("cuda")
        for x in loader:
            one.zero_grad()
            two.zero_grad()
            scaler.scale(first(x).mean()).backward()
            scaler.step(one)
            scaler.update()
            scaler.scale(second(x).mean()).backward()
            scaler.step(two)
            scaler.update()
"""
FIRST = "        scaler.step(one)\n        scaler.update()\n"
SECOND = "        scaler.scale(second(x).mean()).backward()\n"


def test_one_update_for_two_optimizers(verdict: Verdicts) -> None:
    once = (FIRST, FIRST.splitlines(keepends=True)[0])
    assert verdict(TWO, once) is Verdict.PROVEN


def test_which_optimizer_trains_on_which_loss_is_not_known(verdict: Verdicts) -> None:
    assert verdict(TWO, (SECOND, ""), (FIRST, SECOND + FIRST)) is Verdict.NOT_COMPARABLE


NAMES = """
    import torch

    def loss(pred, target):
        p = pred.softmax(1)
        return -(target * p.log()).sum(1).mean()
"""
LOSS = "    p = pred.softmax(1)\n    return -(target * p.log()).sum(1).mean()\n"
BETTER = "    return -(target * pred.log_softmax(1)).sum(1).mean()\n"


def test_a_new_helper_is_compared_where_it_is_called(verdict: Verdicts) -> None:
    helper = "def logs(x):\n    return x.log_softmax(1)\n\n\ndef loss"
    called = BETTER.replace("pred.log_softmax(1)", "logs(pred)")
    assert verdict(NAMES, (LOSS, called), ("def loss", helper)) is Verdict.PROVEN


def test_a_renamed_parameter_is_no_missing_name(verdict: Verdicts) -> None:
    renamed = BETTER.replace("pred", "logits")
    assert verdict(NAMES, (LOSS, renamed), ("pred,", "logits,")) is Verdict.NOT_COMPARABLE


COUNTED = """
    import torch

    def train(model, optimizer, loader, mode):
        scaler = torch.amp.GradScaler("cuda")
        step, scale, last = 0, 1.0, 0.0
        for x in loader:
            try:
                weight = mode.weight
            except AttributeError:
                weight = 0.5
            match mode:
                case "slow":
                    weight = weight * 2
            loss = model(x).mean() * weight - last
            scaler.scale(loss).backward()
            if step % 4 == 0:
                torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                scaler.step(optimizer)
                scaler.update()
                optimizer.zero_grad()
            last = weight
            step += 1

        limit = 3

        def report(value):
            return value < limit

        return report
"""
MEASURED = "            torch.nn.utils"
COUNTED_FIX = (MEASURED, f"            scaler.unscale_(optimizer)\n{MEASURED}")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("step += 1", "step += 2"),
        ("last = weight", "last = weight + 1"),
        ("step, scale, last = 0, 1.0, 0.0", "step, scale, last = 1, 1.0, 0.0"),
        ("limit = 3", "limit = 4"),
        ("weight * 2", "weight * 3"),
        ("weight = 0.5", "weight = 0.25"),
    ],
)
def test_values_that_pass_through_loops_handlers_and_inner_functions(old: str, new: str) -> None:
    def found(*changes: tuple[str, str]) -> Comparison:
        return compare(*changed(COUNTED, COUNTED_FIX, *changes))

    assert not found().reasons
    other = found((old, new))
    assert other.reasons or len(other.obligations) > len(found().obligations)


def test_a_value_too_large_to_be_kept_is_compared() -> None:
    many = " + ".join(f"x * {n}" for n in range(150))
    before = f"def f(x):\n    y = {many}\n    return y\n"
    assert compare(before, before.replace("x * 77", "x * 78")) != compare(before, before)


MODES = """
    import torch

    def step(model, x, optimizer, scaler, args):
        optimizer.zero_grad()
        with torch.autocast("cuda", enabled=args.amp):
            loss = model(x).mean()
            if args.amp:
                scaler.scale(loss).backward()
            else:
                loss.backward()
        if args.amp:
            scaler.step(optimizer)
            scaler.update()
        else:
            optimizer.step()
"""


def test_the_arms_of_a_mode_may_not_be_swapped() -> None:
    assert "`args.amp` in `step` is asked the other way round" in reasons(
        MODES,
        ("    if args.amp:\n        scaler.step", "    if not args.amp:\n        scaler.step"),
    )


GUARDED = """\
                if scaler.get_scale() > 128.0:
                    scaler.unscale_(optimizer)
"""
BOUND = STEP.replace(f"    {CLIP}", f"{GUARDED}    {CLIP}")


@pytest.mark.parametrize("test", ["() >= 128.0", "() < 128.0", "() <= 128.0", "() > 64.0"])
def test_a_test_of_the_scale_stays_as_it_is(test: str) -> None:
    assert "128.0` became" in reasons(BOUND, ("() > 128.0", test))


def test_paths_that_still_fail_as_before(verdict: Verdicts) -> None:
    """The fix stands behind a test of something else, in a block that is there already."""
    checked = textwrap.dedent(STEP).replace(
        CLIP, "            if ema.shown:\n                ema.look(model)\n" + CLIP
    )
    inside = ("ema.look(model)\n", "ema.look(model)\n                scaler.unscale_(optimizer)\n")
    assert verdict(checked, FIX) is Verdict.PROVEN
    assert verdict(checked, inside) is Verdict.NOT_COMPARABLE  # a path to the clip goes round it
