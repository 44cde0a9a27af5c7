"""What `amp-lint run` costs a training step: CPU time of watched steps over that of plain ones.

    python benchmarks/runtime.py [--pairs 9]

Trains three models on one thread with a scaler, `unscale_`, a clip and AdamW. A pair is some plain
steps and as many watched ones, one after the other, in turns; the ratio is the median of the pairs.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable

import torch
from torch import nn

from amp_lint.runtime.numerics.schedule import Level, Sampling
from amp_lint.runtime.watch import Watch

_CPU_SECONDS = {Level.PROTOCOL: 0.4, Level.SAMPLED: 1.6}
"""Of half a pair."""
_FIRST = 10
"""Steps that are not counted: some of the first are looked at, whatever that takes."""


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


def cpu(step: Callable[[], None], times: int) -> float:
    """CPU seconds of one step."""
    start = time.process_time()
    for _ in range(times):
        step()
    return (time.process_time() - start) / times


def pair(
    step: Callable[[], None], times: int, sampling: Sampling, *, watched_first: bool
) -> tuple[float, float]:
    """CPU seconds of a plain step and of a watched one."""
    found = {}
    for watched in (watched_first, not watched_first):
        if watched:
            with Watch(sampling=sampling):
                for _ in range(_FIRST):
                    step()
                found[True] = cpu(step, times)
        else:
            found[False] = cpu(step, times)
    return found[False], found[True]


def main() -> None:
    """Print the ratio for each model."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--pairs", type=int, default=9)
    pairs: int = parser.parse_args().pairs
    torch.set_num_threads(1)
    torch.manual_seed(0)
    print("| plain step | level | watched: more | ratio |\n|--:|---|--:|--:|")
    for width, layers, batch in ((48, 3, 16), (160, 6, 32), (256, 8, 32)):
        step = training(width, layers, batch)
        cpu(step, 3)
        for level, seconds in _CPU_SECONDS.items():
            times, sampling = max(5, round(seconds / cpu(step, 5))), Sampling(level)
            both = [pair(step, times, sampling, watched_first=bool(n % 2)) for n in range(pairs)]
            plain = statistics.median(one for one, _ in both)
            ratio = statistics.median(other / one for one, other in both)
            more = statistics.median(other - one for one, other in both)
            cells = (f"{plain * 1e3:.1f} ms", level.value, f"{more * 1e6:.0f} us", f"{ratio:.3f}")
            print(f"| {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
