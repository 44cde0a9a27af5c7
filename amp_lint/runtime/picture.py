"""One picture of a run: its scale over time, and its gradients in the window of float16."""

from __future__ import annotations

import math
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from amp_lint.runtime.advice import LARGEST, SMALLEST
from amp_lint.runtime.record import Record
from amp_lint.verify.plot import INK, NEW, OLD, page

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def draw(record: Record, path: Path) -> None:
    """Write the picture.

    Raises:
        ImportError: matplotlib is not installed.
        OSError: the file cannot be written.
    """
    with page(path, rows=2) as (scale, gradients):
        _scale(scale, record)
        _gradients(gradients, record)


def _scale(axes: Axes, record: Record) -> None:
    """The scale as steps; where it falls, a step was skipped."""
    axes.set_title("loss scale", fontsize=11, loc="left")
    axes.set_xlabel("updates so far")
    if not record.scales:
        axes.text(0.5, 0.5, "no scaler", transform=axes.transAxes, ha="center")
        return
    first = record.summary.first_scale or record.scales[0][1]
    last = (max(record.summary.steps, record.scales[-1][0]), record.scales[-1][1])
    points = [(0, first), *record.scales, last]
    axes.step([x for x, _ in points], [y for _, y in points], where="post", color=NEW)
    pairs = pairwise(points)
    falls = [(x, y) for (_, before), (x, y) in pairs if y < before]
    axes.plot([x for x, _ in falls], [y for _, y in falls], "v", color=OLD, label="skipped")
    axes.set_yscale("log", base=2)
    if falls:
        axes.legend(frameon=False, loc="best")


def _gradients(axes: Axes, record: Record) -> None:
    """How much of the gradients' sum has which exponent, and which of them float16 holds."""
    axes.set_title("gradients of the weights", fontsize=11, loc="left")
    axes.set_xlabel("size, as a power of 2")
    axes.set_ylabel("% of their sum")
    total = sum(record.exponents.values()) or 1
    shares = {power: 100 * part / total for power, part in record.exponents.items()}
    axes.bar([*shares], [*shares.values()], color=NEW, width=0.9)
    last = record.summary.last_scale or 1.0
    shift = math.log2(last) if last > 0 and math.isfinite(last) else 0.0
    axes.axvspan(SMALLEST - shift, LARGEST - shift, color=INK, alpha=0.15, linewidth=0)
    axes.text(SMALLEST - shift, axes.get_ylim()[1], " held by float16 at this scale", va="top")
