"""What number formats do to a training, beside what a linter can see in its code.

    python benchmarks/formats.py [--update docs/beyond.md]

Prints the tables of that page, or writes them there, each between its own pair of comments. One
thread of a CPU, seed 0: these are properties of the formats, not of a device.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable
from pathlib import Path

import torch
import torch.nn.functional as F
from marked import updated

FORMATS = (torch.float16, torch.bfloat16, torch.float32)
DTYPES = ("float16", "bfloat16", "float32")


def table(head: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
    """A table in Markdown, numbers with three digits."""
    head = [*head]
    lines = [head, ["---"] + ["--:"] * (len(head) - 1)]
    lines += [[f"{x:.3g}" if isinstance(x, float) else str(x) for x in row] for row in rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def ranges() -> str:
    """What each format can hold."""
    infos = [torch.finfo(dtype) for dtype in FORMATS]
    return table(
        ("", *DTYPES),
        [
            ("largest", *(info.max for info in infos)),
            ("smallest, with all digits", *(info.smallest_normal for info in infos)),
            ("smallest above 0", *(info.smallest_normal * info.eps for info in infos)),
            ("from 1 to the next", *(info.eps for info in infos)),
        ],
    )


def updates() -> str:
    """1000 steps of one size on a weight of 1, by format."""

    def moved(dtype: torch.dtype, step: float) -> float:
        weight = torch.ones(1, dtype=dtype)
        for _ in range(1000):
            weight -= step
        return 1 - weight.item()

    steps = (1e-3, 5e-4, 2e-4, 1e-4)
    rows = [(f"{step:g}", 1000 * step, *(moved(d, step) for d in FORMATS)) for step in steps]
    return table(("step", "exact", *DTYPES), rows)


def drifted_logits() -> str:
    """The error of a cross entropy of 1000 classes whose logits all have the same added."""
    torch.manual_seed(0)
    logits, target = torch.randn(256, 1000, dtype=torch.float64), torch.randint(1000, (256,))

    def error(shift: float, dtype: torch.dtype) -> float:
        exact = F.cross_entropy(logits + shift, target, reduction="none")
        stored = (logits + shift).to(dtype).double()
        return float((F.cross_entropy(stored, target, reduction="none") - exact).abs().mean())

    shifts = (0.0, 10.0, 100.0, 1000.0)
    rows = ((f"{shift:g}", *(error(shift, dtype) for dtype in FORMATS)) for shift in shifts)
    return table(("added to all logits", *DTYPES), rows)


def attention() -> str:
    """How many probabilities of an attention are 0, and its largest score, by the size of both."""
    torch.manual_seed(0)
    q, k = torch.randn(256, 64), torch.randn(256, 64)

    def row(size: float) -> tuple[object, ...]:
        scores = (size * q) @ (size * k).T / 8
        unit = F.normalize(size * q, dim=-1) @ F.normalize(size * k, dim=-1).T * 8
        zero = [
            100 * float((each.softmax(-1).half() == 0).float().mean()) for each in (scores, unit)
        ]
        return f"{size:g}", float(scores.max()), *zero

    head = ("size of q and k", "largest score", "% that are 0 in float16", "the same, normalized")
    return table(head, map(row, (1.0, 2.0, 4.0, 8.0)))


def depth() -> str:
    """The size of a residual stream behind so many blocks."""

    def size(blocks: int, scale: Callable[[int], float]) -> float:
        torch.manual_seed(0)
        x = torch.randn(64, 128)
        for _ in range(blocks):
            x = x + scale(blocks) * F.layer_norm(x, (128,)) @ (torch.randn(128, 128) / 128**0.5)
        return float(x.std())

    def unnormalized(blocks: int) -> float:
        torch.manual_seed(0)
        x = torch.randn(64, 128)
        for _ in range(blocks):
            x = x + x @ (torch.randn(128, 128) / 128**0.5)
        return float(x.std())

    rows = (
        (str(n), unnormalized(n), size(n, lambda _: 1.0), size(n, lambda n: (2 * n) ** -0.5))
        for n in (8, 24, 48)
    )
    return table(("blocks", "no norm", "a norm before each", "and 1/sqrt(2 blocks) after"), rows)


def order() -> str:
    """What sums of a million numbers in other orders differ by, as a share of their sizes."""

    def spread(dtype: torch.dtype) -> float:
        torch.manual_seed(0)
        numbers = torch.randn(1_000_000).to(dtype)
        sums = []
        for _ in range(8):
            shuffled = numbers[torch.randperm(len(numbers))]
            parts = shuffled.view(1000, 1000)
            total = parts[0].clone()
            for part in parts[1:]:
                total += part
            sums.append(float(total.double().sum()))
        return (max(sums) - min(sums)) / float(numbers.double().abs().sum())

    return table(("", *DTYPES), [("differ by", *map(spread, FORMATS))])


TABLES = {
    "ranges": ranges,
    "updates": updates,
    "logits": drifted_logits,
    "attention": attention,
    "depth": depth,
    "order": order,
}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--update", metavar="PAGE", type=Path)
    page = parser.parse_args().update
    torch.set_num_threads(1)
    for name, made in TABLES.items():
        text = made()
        if page is None:
            print(f"\n{name}\n{text}")
        else:
            marks = f"<!-- {name} -->", f"<!-- end of {name} -->"
            page.write_text(updated(page.read_text("utf-8"), *marks, text), "utf-8")


if __name__ == "__main__":
    main()
