"""A watched training: what is wrong is seen at its line, nothing else, and nothing is changed."""

from __future__ import annotations

import gc
import sys
import types
import weakref
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.optim.optimizer import _global_optimizer_pre_hooks

from amp_lint.runtime.numerics.schedule import Level, Sampling
from amp_lint.runtime.tell import said
from amp_lint.runtime.watch import Watch
from tests.runtime.conftest import Run, execute
from tests.runtime.programs import CLEAN, HERE, PLANTED, program


@pytest.mark.parametrize("name", PLANTED)
def test_a_mistake_is_seen_at_its_line(name: str, run: Run) -> None:
    if "get_total_norm" in PLANTED[name] and not hasattr(torch.nn.utils, "get_total_norm"):
        pytest.skip("this torch has no such function yet")
    lines = program(PLANTED[name]).splitlines()
    (row,) = (number for number, line in enumerate(lines, 1) if line.endswith(HERE))
    seen = said(run(PLANTED[name]))
    assert [(each.rule.code, each.place.row) for each in seen] == [(name.partition(" ")[0], row)]
    assert all(each.message and "{" not in each.message for each in seen)


@pytest.mark.parametrize("name", CLEAN)
def test_nothing_is_said_of_what_is_right(name: str, run: Run) -> None:
    record = run(CLEAN[name])
    assert [each.message for each in said(record)] == []
    assert record.summary.steps > 0
    assert record.summary.ended


BEHIND = {name: CLEAN[name] for name in CLEAN if name.startswith("unscaled by hand")}
"""Gradients that are written where torch does not count it."""


@pytest.mark.parametrize("name", BEHIND)
def test_what_is_written_behind_compiled_code_is_seen(
    name: str, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("amp_lint.runtime.reads.modes.is_compiled", lambda: True)
    assert [each.message for each in said(run(BEHIND[name]))] == []


def test_without_reads_a_step_on_scaled_gradients_is_seen(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("amp_lint.runtime.reads.modes.is_compiled", lambda: True)
    body = BEHIND["unscaled by hand behind torch's back"]
    scaled = "\n".join(
        line for line in body.splitlines() if ".div_(" not in line and "for p" not in line
    )
    assert [each.rule.code for each in said(run(scaled))] == ["AMP104"]


LARGE = """
        scaler = torch.amp.GradScaler("cpu", init_scale=64.0)
        one = nn.Linear(8, 1)
        optimizer = torch.optim.SGD(one.parameters(), 1e-12)
        for number in range({}):
            optimizer.zero_grad()
            with torch.autocast("cpu", torch.float16):
                out = one(data[0][0])
            scaler.scale((out.float() * {}).sum()).backward()
            scaler.step(optimizer)
            scaler.update()
"""


@pytest.mark.parametrize(
    ("steps", "factor", "codes"),
    [(60, 1e6, []), (200, 1e6, []), (11, 1e6, ["AMP602"]), (200, "float('inf')", ["AMP602"])],
)
def test_a_scale_below_1_may_settle(steps: int, factor: object, codes: list[str], run: Run) -> None:
    found = said(run(LARGE.format(steps, factor)))
    assert [each.rule.code for each in found] == codes
    for each in found:  # 64 is halved seven times
        assert (each.observation.step, each.observation.count) == (7, 1)


def test_what_is_gone_at_the_end_was_there(tmp_path: Path) -> None:
    """A script's variables go whenever the garbage collector comes."""
    raising = """
        for x, y in data:
            optimizer.zero_grad()
            scaler.scale(loss_of(x, y)).backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            scaler.update()
    """
    with Watch() as watch:
        with pytest.raises(AssertionError):
            execute(program(raising), tmp_path / "train.py")
        gc.collect()
    lines = (tmp_path / "train.py").read_text().splitlines()
    taken_back = [lines[place.row - 1] for place, n in watch.record.reached.items() if not n]
    assert [line.partition("(")[0].rpartition(".")[2] for line in taken_back] == [
        "clip_grad_norm_",
        "update",
    ]
    with Watch() as watch:
        execute(program(PLANTED["AMP207 kept"]), tmp_path / "kept.py")
        gc.collect()
    assert [each.rule.code for each in said(watch.record)] == ["AMP207"]


def trained(body: str, path: Path) -> list[torch.Tensor]:
    """The weights and the state of the random numbers when a program is over."""
    space: dict[str, Any] = execute(program(body), path)
    return [*space["model"].state_dict().values(), torch.get_rng_state()]


@pytest.mark.parametrize(
    "name",
    ["clip", "accumulation", "checkpointing", "fused", "moving average, schedule, evaluation"],
)
def test_watching_changes_no_bit(name: str, tmp_path: Path) -> None:
    alone = trained(CLEAN[name], tmp_path / "train.py")
    with Watch() as watch:
        watched = trained(CLEAN[name], tmp_path / "train.py")
    assert watch.record.summary.steps > 0
    assert all(torch.equal(one, other) for one, other in zip(alone, watched, strict=True))


def test_everything_is_put_back() -> None:
    import torch.nn.utils as imported_before
    from torch.nn.utils import clip_grad_norm_

    owners: list[Any] = [torch, torch.autograd, torch.nn.utils, torch.nn.Module, torch.autocast]
    owners += [torch.amp.GradScaler, torch.optim.Optimizer, torch.optim.lr_scheduler.LambdaLR]
    before = [dict(vars(owner)) for owner in owners]
    with Watch():
        assert imported_before.clip_grad_norm_ is not clip_grad_norm_
    assert [dict(vars(owner)) for owner in owners] == before
    assert not _global_optimizer_pre_hooks


@pytest.mark.parametrize("is_default", [False, True])
def test_a_device_context_ends_where_it_did(is_default: bool, tmp_path: Path) -> None:
    """A loss that is kept is listened to, by a mode that lies on that of the device."""
    begin, end = 'with torch.device("meta"):', ""
    if is_default:
        begin, end = 'torch.set_default_device("meta")\nif True:', "torch.set_default_device(None)"
    body = f"""
        scaler = torch.amp.GradScaler("cpu", init_scale=4.0)
        model = nn.Linear(8, 1, device="cpu")
        optimizer = torch.optim.SGD(model.parameters(), 1e-2)
        data = torch.randn(4, 8, device="cpu")
        {begin}
            for _ in range(3):
                loss = scaler.scale(model(data).square().mean())
                loss.backward()
                scaler.step(optimizer)
                scaler.update()
        {end}
        device = torch.zeros(1).device.type
    """
    text = program(body.replace("\nif", "\n        if"))
    with Watch(sampling=Sampling(Level.PROTOCOL)):
        space = execute(text, tmp_path / "train.py")
    assert space["device"] == "cpu"


def test_a_name_that_was_imported_before_is_watched(tmp_path: Path) -> None:
    body = """
        from torch.nn.utils import clip_grad_norm_ as limit

        def step():
            optimizer.zero_grad()
            scaler.scale(loss_of(*data[0])).backward()
            limit(model.parameters(), 1.0)
            scaler.step(optimizer)
            scaler.update()
    """
    module = types.ModuleType("helpers")
    module.__dict__.update(execute(program(body), tmp_path / "helpers.py"))
    step = types.FunctionType(module.step.__code__, vars(module))
    sys.modules["helpers"] = module
    try:
        with Watch() as watch:
            step()
    finally:
        del sys.modules["helpers"]
    assert vars(module)["limit"] is torch.nn.utils.clip_grad_norm_
    assert [each.rule.code for each in said(watch.record)] == ["AMP101"]


def test_who_wants_to_look_closer_is_told_where_a_step_ends(tmp_path: Path) -> None:
    told: list[tuple[int, bool]] = []
    with Watch() as watch:
        watch.boundaries.append(lambda step, skipped: told.append((step, skipped)))
        execute(program(PLANTED["AMP112"]), tmp_path / "train.py")
    assert told == [(1, False), (2, True), (3, False), (4, False)]


def test_a_gradient_that_is_seen_keeps_nothing_alive(tmp_path: Path) -> None:
    with Watch() as watch:
        space = execute(program(CLEAN["clip"]), tmp_path / "train.py")
        gone = [weakref.ref(space[name]) for name in ("model", "optimizer", "scaler")]
        space.clear()
        gc.collect()
        assert [ref() for ref in gone] == [None] * 3
    assert watch.record.summary.ended
