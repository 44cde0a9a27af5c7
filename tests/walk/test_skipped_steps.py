"""Schedulers beside the steps that a framework leaves out."""

from __future__ import annotations

import pytest

from tests.programs import model_of

APEX = """\
import torch
from apex import amp
def train(net, opt, scheduler, batches, fp16):
    net, opt = amp.initialize(net, opt, opt_level="O1")
    for x in batches:
        opt.zero_grad()
        loss = net(x).mean()
        if fp16:
            with amp.scale_loss(loss, opt) as scaled:
                scaled.backward()
        else:
            loss.backward()
        opt.step()
        scheduler.step()
"""
ACCELERATE = """\
import torch
from accelerate import Accelerator
def train(net, batches):
    accelerator = Accelerator(mixed_precision="fp16")
    opt = torch.optim.Adam(net.parameters())
    scheduler = torch.optim.lr_scheduler.StepLR(opt, 10)
    net, opt, batches = accelerator.prepare(net, opt, batches)
    for x in batches:
        opt.zero_grad()
        accelerator.backward(net(x).mean())
        opt.step()
        scheduler.step()
"""
PREPARED = """\
from accelerate import Accelerator
from other import schedule_of
def train(net, opt, batches):
    accelerator = Accelerator(mixed_precision="fp16", step_scheduler_with_optimizer=False)
    scheduler = schedule_of(opt)
    net, opt, scheduler = accelerator.prepare(net, opt, scheduler)
    for x in batches:
        with accelerator.accumulate(net):
            accelerator.backward(net(x).mean())
        if accelerator.sync_gradients:
            opt.step()
            scheduler.step()
            opt.zero_grad()
"""


@pytest.mark.parametrize(
    ("program", "old", "new", "count"),
    [
        (APEX, "", "", 1),
        (APEX, ', opt_level="O1"', "", 1),
        (APEX, '"O1"', "fp16", 1),
        (APEX, '"O1"', '"O0"', 0),
        (APEX, "from apex import amp", "from other import amp", 0),
        (APEX, "net, opt = amp", "net, other = amp", 0),
        (APEX, "        scheduler.step()", "    scheduler.step()", 0),
        (ACCELERATE, "", "", 1),
        (ACCELERATE, '"fp16"', '"bf16"', 0),
        (ACCELERATE, 'mixed_precision="fp16"', "", 0),
        (ACCELERATE, "net, opt, batches =", "scheduler, opt, batches =", 0),
        (ACCELERATE, "torch.optim.lr_scheduler.StepLR(opt, 10)", "net.scheduler", 0),
        (PREPARED, "", "", 1),
        (PREPARED, "=False", "=True", 0),
        (PREPARED, "=False", "=net.follows", 0),
        (PREPARED, ", step_scheduler_with_optimizer=False", "", 0),
        (PREPARED, '"fp16"', '"bf16"', 0),
        (PREPARED, "        if accelerator.sync_gradients:\n", "        if len(net):\n", 1),
    ],
)  # fmt: skip
def test_scheduler_behind_a_step_that_may_be_left_out(
    program: str, old: str, new: str, count: int
) -> None:
    assert old in program
    mistakes = model_of(program.replace(old, new) if old else program).mistakes
    assert len(mistakes.scheduled) == count


COUNTED = """\
import torch
def train(net, opt, scheduler, loaders, args):
    scaler = torch.amp.GradScaler("cuda")
    for epoch, batches in enumerate(loaders):
        for i, x in enumerate(batches):
            opt.zero_grad()
            scaler.scale(net(x).mean()).backward()
            scaler.step(opt)
            scaler.update()
            scheduler.step(args.done)
            args.done += 1
        args.epoch += 1
"""


@pytest.mark.parametrize(
    ("old", "new", "count"),
    [
        ("step(args.done)", "step(args.done)", 1),
        ("step(args.done)", "step(epoch=args.done)", 1),
        ("step(args.done)", "step(args.epoch)", 0),
        ("step(args.done)", "step(epoch)", 0),
        ("step(args.done)", "step(epoch + i / len(batches))", 0),
        ("step(args.done)", "step(args.done, x)", 0),
        ("args.done += 1", "args.done += len(x)", 0),
        ("        args.epoch += 1", "        args.done += 1", 1),
        ("            args.done += 1\n        args.epoch += 1", "        args.done += 1", 0),
    ],
)
def test_a_scheduler_that_is_told_how_many_rounds_there_were(
    old: str, new: str, count: int
) -> None:
    assert old in COUNTED
    assert len(model_of(COUNTED.replace(old, new)).mistakes.scheduled) == count


SHOWN = """\
import torch
from progress import Progress
def train(net, opt, scheduler, batches):
    scaler = torch.amp.GradScaler("cuda")
    progress = Progress(net)
    for x in batches:
        opt.zero_grad()
        scaler.scale(net(x).mean()).backward()
        scaler.step(opt)
        scaler.update()
        told = progress.show(net, scaler)
        scheduler.step()
"""
STEP = "        scheduler.step()"


@pytest.mark.parametrize(
    ("old", "new", "count"),
    [
        (STEP, STEP, 1),
        (STEP, f"        if told:\n    {STEP}", 0),
        (STEP, f"        if told is not None:\n    {STEP}", 0),
        ("told =", "told, norm =", 1),
        (
            f"told = progress.show(net, scaler)\n{STEP}",
            f"told, norm = progress.show(net, scaler)\n        if told:\n    {STEP}",
            0,
        ),
        (STEP, f"        if not told:\n            continue\n{STEP}", 0),
        (STEP, f"        if scheduler is not None:\n    {STEP}", 1),
        (STEP, "    scheduler.step()", 0),
    ],
)
def test_a_scheduler_behind_a_call_that_is_handed_the_scaler(
    old: str, new: str, count: int
) -> None:
    assert old in SHOWN
    assert len(model_of(SHOWN.replace(old, new)).mistakes.scheduled) == count


UPDATES = """\
import torch
from timm.scheduler import CosineLRScheduler
def train(net, opt, loaders):
    scaler = torch.amp.GradScaler("cuda")
    scheduler = CosineLRScheduler(opt, t_initial=9000, t_in_epochs=False)
    done = 0
    for epoch, batches in enumerate(loaders):
        for i, x in enumerate(batches):
            opt.zero_grad()
            scaler.scale(net(x).mean()).backward()
            scaler.step(opt)
            before = scaler.get_scale()
            scaler.update()
            done += 1
            scheduler.step_update(done)
        scheduler.step(epoch)
"""
MADE = "CosineLRScheduler(opt, t_initial=9000, t_in_epochs=False)"
TAKEN = "            if before <= scaler.get_scale():\n                done += 1\n"


@pytest.mark.parametrize(
    ("old", "new", "count"),
    [
        (MADE, MADE, 1),
        (", t_in_epochs=False", "", 0),
        ("=False", "=True", 0),
        ("=False", "=net.by_epochs", 0),
        ("step_update(done)", "step_update(num_updates=done, metric=x)", 1),
        ("step_update(done)", "step_update(epoch * len(batches) + i)", 1),
        ("step_update(done)", "step_update((epoch * 100 + i) // 2)", 1),
        ("step_update(done)", "step_update(epoch)", 0),
        ("step_update(done)", "step_update(net.updates)", 0),
        ("            done += 1\n", TAKEN, 0),
        (MADE, "make_scheduler(opt)", 0),
        (MADE, "Scheduler(opt)", 0),
        (MADE, "net.scheduler", 0),
    ],
)
def test_a_scheduler_that_is_told_how_many_updates_there_were(
    old: str, new: str, count: int
) -> None:
    assert old in UPDATES
    assert len(model_of(UPDATES.replace(old, new)).mistakes.scheduled) == count


@pytest.mark.parametrize(
    ("made", "count"),
    [("make_scheduler(opt)", 1), ("Scheduler(opt)", 0), ("net.scheduler", 0)],
)
def test_a_scheduler_that_is_told_of_nothing_but_updates(made: str, count: int) -> None:
    alone = UPDATES.replace(MADE, made).replace("        scheduler.step(epoch)\n", "")
    assert len(model_of(alone).mistakes.scheduled) == count


def test_rounds_that_are_counted_where_the_scale_did_not_fall() -> None:
    taken = "            if not skipped:\n                args.done += 1\n"
    program = COUNTED.replace("            args.done += 1\n", taken)
    before = "            before = scaler.get_scale()\n            scaler.update()\n"
    after = "            skipped = scaler.get_scale() < before\n"
    program = program.replace("            scaler.update()\n", before + after)
    assert model_of(program).mistakes.scheduled == []
