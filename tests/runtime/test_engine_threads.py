"""Backward passes in threads of autograd's engine, as all of them are on CUDA."""

from __future__ import annotations

import contextlib
import re
from pathlib import Path

import engine_threads
import pytest
import torch

from amp_lint.runtime.numerics.scalars import Scalars
from amp_lint.runtime.numerics.schedule import Level, Sampling
from amp_lint.runtime.record import Record
from amp_lint.runtime.tell import closing, said
from amp_lint.runtime.watch import Watch
from tests.runtime import numeric_programs, programs
from tests.runtime.conftest import Run, execute
from tests.runtime.programs import HERE, program

FULL = Sampling(Level.FULL)


@pytest.fixture(autouse=True)
def threads(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (torch.autograd, torch.autograd.graph):
        monkeypatch.setattr(module, engine_threads.RUN, engine_threads.in_pool)


def looked_at(body: str, path: Path) -> Record:
    with Watch(sampling=FULL) as watch:
        execute(program(body), path)
    return watch.record


@pytest.mark.parametrize("name", programs.PLANTED)
def test_a_mistake_is_seen_at_its_line(name: str, run: Run) -> None:
    body = programs.PLANTED[name]
    (row,) = (at for at, line in enumerate(program(body).splitlines(), 1) if line.endswith(HERE))
    seen = [(each.rule.code, each.place.row) for each in said(run(body))]
    assert seen == [(name.partition(" ")[0], row)]


@pytest.mark.parametrize("name", programs.CLEAN)
def test_what_is_right_runs_to_its_end_and_nothing_is_said(name: str, tmp_path: Path) -> None:
    record = looked_at(programs.CLEAN[name], tmp_path / "train.py")
    assert [each.message for each in said(record)] == []
    assert record.summary.note == ""
    assert record.summary.ended


@pytest.mark.parametrize("name", numeric_programs.PLANTED)
def test_what_goes_wrong_is_named_at_its_line(name: str, tmp_path: Path) -> None:
    body, path = numeric_programs.PLANTED[name], tmp_path / "train.py"
    (row,) = (at for at, line in enumerate(program(body).splitlines(), 1) if line.endswith(HERE))
    with contextlib.suppress(FloatingPointError), Watch(sampling=Sampling()) as watch:
        execute(program(body), path)
    assert (name[:6], row) in {(each.rule.code, each.place.row) for each in said(watch.record)}


@pytest.mark.parametrize("failing", ["Facts.look", "Ranges.loss", "Updates.before", "Facts.judge"])
def test_what_fails_in_looking_ends_the_looking_alone(
    failing: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The memory of a device may be full, say, and the training goes on."""

    def fail(*_: object, **__: object) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory.\nTried to allocate")

    monkeypatch.setattr(f"amp_lint.runtime.numerics.sampler.{failing}", fail)
    record = looked_at(programs.PLANTED["AMP101"], tmp_path / "train.py")
    assert record.summary.ended
    reason = r"which failed with OutOfMemoryError: CUDA out of memory\."
    assert re.fullmatch(rf"not looked at closely from step \d on, {reason}", record.summary.note)
    assert [each.rule.code for each in said(record)] == ["AMP101"]
    assert record.summary.note in closing(record.summary, ())


def test_the_largest_number_of_any_dtype_is_asked_for_where_it_lies() -> None:
    for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64):
        scalars = Scalars()
        scalars.put_largest(torch.ones(2, dtype=dtype, device="meta"))
        assert len(scalars) == 1
