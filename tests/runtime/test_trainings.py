"""The clean trainings of the benchmark: watching changes no bit of what they make."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
import torch

from amp_lint.runtime.numerics.schedule import Level, Sampling
from amp_lint.runtime.watch import Watch
from tests.runtime.conftest import execute

FOLDER = Path(__file__).parents[2] / "benchmarks" / "trainings" / "clean"
NAMES = (
    "accumulation", "attention", "bf16", "checkpointing", "contrastive", "diffusion", "ema",
    "gan_penalty", "lbfgs", "ppo", "sam", "segmentation",
)  # fmt: skip
LEVELS = (Sampling(Level.PROTOCOL), Sampling(every=2), Sampling(Level.FULL))


def made(space: dict[str, Any]) -> list[torch.Tensor]:
    """All that a training leaves behind: tensors, states of modules, random numbers to come."""
    found = [torch.get_rng_state(), torch.tensor(random.getstate()[1])]
    for _, value in sorted(space.items()):
        if isinstance(value, torch.Tensor):
            found.append(value.detach())
        elif isinstance(value, torch.nn.Module):
            found += value.state_dict().values()
        elif isinstance(value, torch.amp.GradScaler):
            found.append(torch.tensor(value.get_scale()))
    return found


@pytest.mark.parametrize("name", NAMES)
def test_watching_changes_no_bit(name: str, tmp_path: Path) -> None:
    text = (FOLDER / f"{name}.py").read_text("utf-8")
    random.seed(0)
    plain = made(execute(text, tmp_path / "train.py"))
    assert len(plain) > 3
    for sampling in LEVELS:
        random.seed(0)
        watch = Watch(sampling=sampling)
        with watch:
            space = execute(text, tmp_path / "train.py")
        assert watch.record.summary.steps
        watched = made(space)
        assert len(plain) == len(watched)
        for one, other in zip(plain, watched, strict=True):
            assert torch.equal(one, other), (name, sampling.level)
