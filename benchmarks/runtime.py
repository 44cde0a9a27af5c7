"""What `amp-lint run` costs a training step: CPU time of watched steps over that of plain ones.

    python benchmarks/runtime.py [--seconds 8]

Trains models on one thread with a scaler, `unscale_`, a clip and AdamW. Watching is taken away and
put back every few steps of one run, so that both kinds of steps suffer alike from what else the
machine does; steps are compared with those beside them, and the median of the differences counts.
The steps that are looked at are not in it: the budget, of which `sampled` keeps account, bounds
them.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from dataclasses import replace

import torch
from torch import nn

from amp_lint.runtime.numerics.schedule import Level, Sampling
from amp_lint.runtime.watch import Watch

_FIRST = 60
"""Steps that are not counted: some of the first are looked at, or keep numbers."""


def training(width: int, layers: int, batch: int) -> Callable[[], None]:
    """One step of a training in float16."""
    blocks = [module for _ in range(layers) for module in (nn.Linear(width, width), nn.ReLU())]
    model = nn.Sequential(*blocks, nn.Linear(width, 1))
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**10)
    x, y = torch.randn(batch, width), torch.randn(batch, 1)

    def step() -> None:
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.float16):
            loss = nn.functional.mse_loss(model(x).float(), y)
        scaler.scale(loss).backward()  # type: ignore[no-untyped-call]
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()

    return step


def training_of(seconds: float) -> Callable[[], None]:
    """A training whose steps take about so long on this machine, now."""
    width = 32
    while True:
        step = training(width, 6, 32)
        for _ in range(20):
            step()
        if statistics.median(cpu(step) for _ in range(20)) >= seconds:
            return step
        width += 4


def cpu(step: Callable[[], None]) -> float:
    """CPU seconds of a step."""
    start = time.process_time()
    step()
    return time.process_time() - start


def compared(step: Callable[[], None], level: Level, seconds: float) -> tuple[float, float]:
    """CPU seconds of a plain step, and what a watched one takes more."""
    plain, more = [], []
    with Watch(sampling=Sampling(level)) as watch:
        for _ in range(_FIRST):
            step()
        wanted = watch._sampler._schedule
        wanted.sampling = replace(wanted.sampling, budget=0.0)  # no step is looked at
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            watch.patches.active = False
            step()
            before = cpu(step)
            watch.patches.active = True
            step()
            watched = (cpu(step) + cpu(step)) / 2
            watch.patches.active = False
            step()
            plain.append((before + cpu(step)) / 2)
            more.append(watched - plain[-1])
            watch.patches.active = True
    return statistics.median(plain), statistics.median(more)


def main() -> None:
    """Print the ratio for each model."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=8)
    seconds: float = parser.parse_args().seconds
    torch.set_num_threads(1)
    torch.manual_seed(0)
    print("| plain step | level | watched: more | ratio |\n|--:|---|--:|--:|")
    for milliseconds in (1, 2, 5, 15, 30):
        step = training_of(milliseconds / 1e3)
        for level in (Level.PROTOCOL, Level.SAMPLED):
            plain, more = compared(step, level, seconds)
            cells = (f"{plain * 1e3:.1f} ms", level.value, f"{more * 1e6:.0f} us")
            print(f"| {' | '.join(cells)} | {1 + more / plain:.3f} |")


if __name__ == "__main__":
    main()
