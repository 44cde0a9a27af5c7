"""Sampled steps: what goes wrong with numbers is named at its line, and nothing else."""

from __future__ import annotations

import re
import types
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from amp_lint import cli
from amp_lint.runtime.advice import advice, window
from amp_lint.runtime.numerics.schedule import Level, Sampling, Schedule
from amp_lint.runtime.patches import Function, Patches, Timed
from amp_lint.runtime.picture import draw
from amp_lint.runtime.record import Record
from amp_lint.runtime.tell import said
from amp_lint.runtime.watch import Watch
from tests.runtime import programs
from tests.runtime.conftest import execute
from tests.runtime.numeric_programs import CLEAN, PLANTED
from tests.runtime.programs import HERE, program

FULL = Sampling(Level.FULL)
PROGRAMS = {**programs.CLEAN, **CLEAN}


def record(body: str, path: Path, sampling: Sampling) -> Record:
    """What a program shows that may end by an exception of its own."""
    watch = Watch(sampling=sampling)
    try:
        with watch:
            execute(program(body), path)
    except FloatingPointError:
        assert not watch.record.summary.ended
    return watch.record


@pytest.mark.parametrize("name", PLANTED)
def test_what_goes_wrong_is_named_at_its_line(name: str, tmp_path: Path) -> None:
    expected = set()
    for row, line in enumerate(program(PLANTED[name]).splitlines(), 1):
        code = name[:6] if line.endswith(HERE) else None
        found = re.search(r"# too: (\w+)", line)
        expected |= {(row, each) for each in (code, found and found[1]) if each}
    seen = said(record(PLANTED[name], tmp_path / "train.py", Sampling()))
    assert {(each.place.row, each.rule.code) for each in seen} == expected
    assert all("{" not in each.message for each in seen)


@pytest.mark.parametrize("name", ["AMP104 in a step that is looked at"])
def test_what_is_measured_of_gradients_is_no_write_to_them(name: str, tmp_path: Path) -> None:
    seen = said(record(PLANTED[name], tmp_path / "train.py", FULL))
    assert [each.rule.code for each in seen] == [name[:6]]


@pytest.mark.parametrize("name", CLEAN)
def test_numbers_that_are_right_are_silent(name: str, tmp_path: Path) -> None:
    seen = record(CLEAN[name], tmp_path / "train.py", FULL)
    assert [each.message for each in said(seen)] == []
    assert seen.summary.sampled >= 2


@pytest.mark.parametrize("name", programs.CLEAN)
def test_protocols_that_are_right_are_silent_when_all_is_looked_at(
    name: str, tmp_path: Path
) -> None:
    seen = record(programs.CLEAN[name], tmp_path / "train.py", FULL)
    assert [each.message for each in said(seen)] == []


@pytest.mark.parametrize("name", ["checkpointing", "lbfgs", "fused", "functions of functions"])
def test_looking_changes_no_bit(name: str, tmp_path: Path) -> None:
    results = []
    for watched in (False, True):
        if watched:
            with Watch(sampling=FULL) as watch:
                space = execute(program(PROGRAMS[name]), tmp_path / "train.py")
            assert watch.record.summary.sampled
        else:
            space = execute(program(PROGRAMS[name]), tmp_path / "train.py")
        results.append([*space["model"].state_dict().values(), torch.get_rng_state()])
    assert all(torch.equal(one, other) for one, other in zip(*results, strict=True))


def test_compiled_code_is_compiled_once_and_looked_at_as_it_is_written() -> None:
    graphs: list[object] = []

    def backend(graph: torch.fx.GraphModule, _: list[torch.Tensor]) -> Callable[..., Any]:
        graphs.append(graph)
        return graph.forward

    model = torch.nn.Linear(8, 1)
    optimizer = torch.optim.SGD(model.parameters(), 1e-2)
    compiled = torch.compile(model, backend=backend)
    with Watch(sampling=Sampling(every=3)) as watch:
        for _ in range(7):
            optimizer.zero_grad()
            compiled(torch.randn(4, 8)).sum().backward()
            optimizer.step()
    torch.compiler.reset()  # where something is compiled, no gradient is watched
    assert watch.record.summary.sampled == 4
    # an older torch cannot be told to leave compiled code alone, and compiles it for each such step
    assert len(graphs) == (1 if hasattr(torch.compiler, "set_stance") else 4)
    assert not said(watch.record)


def test_a_step_that_was_not_looked_at_is_named_and_found_by_its_number(tmp_path: Path) -> None:
    body, path = PLANTED["AMP601 late"], tmp_path / "train.py"
    (first,) = said(record(body, path, Sampling()))
    step = first.observation.numbers["number"]
    assert isinstance(step, int)
    (second,) = said(record(body, path, Sampling(at=step)))
    assert "out / out.detach()" in path.read_text().splitlines()[second.place.row - 1]
    assert second.observation.numbers["operation"] == "div"
    assert second.observation.step == step


def test_the_protocol_alone_looks_at_no_step(tmp_path: Path) -> None:
    seen = record(PLANTED["AMP606"], tmp_path / "train.py", Sampling(Level.PROTOCOL))
    assert not said(seen) and not seen.summary.sampled


def steps(
    sampling: Sampling,
    plain: float,
    looked: float,
    most: int = 2000,
    watching: float | None = None,
) -> list[int]:
    """The steps that are looked at, of a run whose steps take so long."""
    schedule, chosen = Schedule(sampling), []
    for step in range(1, most + 1):
        wanted = schedule.wants(step)
        chosen += [step] if wanted else []
        seconds = looked if wanted else plain
        schedule.ended(step, seconds, looked=wanted, watching=None if wanted else watching)
    return chosen


@pytest.mark.parametrize("budget", [0.01, 0.05, 0.2])
@pytest.mark.parametrize("times", [2.0, 5.0, 14.0])
def test_sampling_stays_within_its_budget(budget: float, times: float) -> None:
    chosen = steps(Sampling(budget=budget), 1.0, times, 20_000)
    assert chosen[:2] == [1, 2]
    for number, step in enumerate(chosen[2:], 3):  # also what the first two have cost is counted
        assert number * (times - 1) <= budget * (step + number * (times - 1))
    assert len(chosen) * (times - 1) > 0.8 * budget * 20_000


def test_what_all_calls_cost_is_of_the_budget() -> None:
    chosen = steps(Sampling(), 1.0, 3.0, 20_000, watching=0.03)
    assert 0.018 * 20_000 < len(chosen) * 2.0 <= 0.021 * 20_000
    some = steps(Sampling(), 1.0, 3.0, 20_000, watching=0.2)
    assert 0.009 * 20_000 < len(some) * 2.0 <= 0.011 * 20_000


def test_what_watching_takes_is_measured_without_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    patches, clock = Patches(), [0.0]
    monkeypatch.setattr("amp_lint.runtime.patches.perf_counter", lambda: clock[0])

    def spend(seconds: float) -> None:
        clock[0] += seconds

    def wrap(old: Function) -> Function:
        def watching(again: bool) -> None:
            spend(1.0)
            if again:
                space.step(again=False)
            with patches.inside:
                old(again)

        return watching

    space = types.SimpleNamespace(step=lambda again: spend(100.0))
    patches.function(space, "step", wrap)
    patches.timed = timed = Timed()
    space.step(again=False)
    assert (timed.seconds, patches.inside.seconds) == (1.0, 100.0)
    space.step(again=True)  # one in the other
    assert (timed.seconds, patches.inside.seconds) == (3.0, 300.0)
    patches.timed = None
    space.step(again=True)
    assert (timed.seconds, patches.inside.seconds) == (3.0, 300.0)


def test_time_between_steps_is_of_the_whole() -> None:
    schedule = Schedule(Sampling())
    for step, seconds in enumerate((9.0, 2.0, 1.0, 1.0), 1):
        schedule.ended(step, seconds, looked=step <= 2)
    assert not schedule.wants(5)
    schedule.ended(5, 60.0, looked=False)  # an evaluation
    assert schedule.wants(6)


def test_a_number_of_steps_is_kept_whatever_they_take() -> None:
    assert steps(Sampling(every=20), 1.0, 9.0, 100) == [1, 2, 21, 41, 61, 81]
    assert steps(Sampling(at=7), 1.0, 9.0, 100) == [6, 7]


def test_the_step_after_a_skip_is_looked_at() -> None:
    schedule = Schedule(Sampling())
    assert schedule.wants(500, skipped=True) and not schedule.wants(500)


def test_a_scale_is_advised_and_drawn(tmp_path: Path) -> None:
    body = PROGRAMS["overflow at first"]
    seen = record(body, tmp_path / "train.py", Sampling())
    found = window(seen)
    assert found is not None and found.is_open
    last = seen.summary.last_scale
    assert last is not None and 2.0**found.least <= last <= 2.0 ** (found.most + 2)
    assert seen.scales[-1][1] == last < seen.scales[0][1]
    draw(seen, tmp_path / "run.svg")
    assert "held by float16 at this scale" in (tmp_path / "run.svg").read_text()


def test_a_scale_is_advised_by_the_sum_of_gradients() -> None:
    wide = Record(exponents=Counter({-20: 600_000, -30: 399_500, -50: 500}))
    assert window(wide) == (6, 34)
    assert advice(wide) is None  # nothing was scaled
    wide.summary.last_scale = 2.0**16
    assert "at a scale of 2**6 to 2**34, which was 2**16" in str(advice(wide))
    wide.exponents = Counter({10: 500_000, -40: 500_000})
    assert "No scale" in str(advice(wide))
    wide.exponents = Counter({0: 1})
    assert "without a scale" in str(advice(wide))


@pytest.mark.parametrize("limit", [1e9, 1e-7])
def test_the_scale_is_advised_for_gradients_before_a_clip(
    limit: float, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    body = f"""
    for x, y in data:
        scaler.scale(loss_of(x, y)).backward()
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), {limit})
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
    """
    path = tmp_path / "train.py"
    path.write_text(program(body))
    assert cli.main(["run", "--level=full", str(path)]) == 0
    assert "fit into float16 without a scale" in capsys.readouterr().err
