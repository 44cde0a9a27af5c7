"""One picture for each proof: the error of old and new code against the size of the input.

A picture is an SVG whose lines are paths and whose words are text. It has no background and takes
colours that can be told apart, and read, on white as well as on black.
"""

from __future__ import annotations

import contextlib
import math
import re
import textwrap
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from amp_lint import registry
from amp_lint.verify.proof import Judgement, Point, Proof
from amp_lint.verify.record import Entry

if TYPE_CHECKING:
    from matplotlib.axes import Axes

OLD, NEW, INK = "#d9730d", "#2f81d8", "#808080"
"""Orange and blue, which the colour-blind tell apart, and grey for the rest."""
INCHES = (6.4, 3.8)
_WIDTH = 100
"""Characters of the line below the title."""
_SMALL = 1e-4
"""Where something has no error, the scale goes down to a tenth of this at least."""
LEAST, MOST = 1e-10, 1e12
"""Errors beyond these are drawn as these."""


def draw(entries: Iterable[Entry], folder: Path) -> list[Path]:
    """Draw the proofs that hold points; the files written, in order."""
    folder.mkdir(parents=True, exist_ok=True)
    written: list[Path] = []
    for name, title, judgement in _pictures(entries):
        path = folder / name
        _draw(title, judgement, path)
        written.append(path)
    return written


def _pictures(entries: Iterable[Entry]) -> Iterator[tuple[str, str, Judgement]]:
    """Name of the file, title and data; a name that is taken gets a number."""
    taken: Counter[str] = Counter()
    for entry in filter(is_drawn, entries):
        judgement = _with_points(entry.proof)
        assert judgement is not None
        name = file_name(entry)
        taken[name] += 1
        if taken[name] > 1:
            name = name.replace(".svg", f"-{taken[name]}.svg")
        yield name, _title(entry), judgement


def is_drawn(entry: Entry) -> bool:
    """Whether a proof has a picture: not that of a wrong fix, nor one without figures."""
    return entry.kind != "wrong fix" and _with_points(entry.proof) is not None


def file_name(entry: Entry) -> str:
    """That of the first picture about the same page or place."""
    return f"{entry.rule or 'change'}-{_slug(entry)}.svg".lower()


def _with_points(proof: Proof) -> Judgement | None:
    """The judgement with the most points."""
    judgements = [shown.judgement for shown in proof.shown if shown.judgement.points]
    return max(judgements, key=lambda judgement: len(judgement.points), default=None)


def _slug(entry: Entry) -> str:
    rule = registry.find(entry.rule)
    text = rule.name if rule and entry.on_page else entry.place
    return re.sub(r"[^a-zA-Z0-9]+", "-", text).strip("-")


def _title(entry: Entry) -> str:
    rule = registry.find(entry.rule)
    named = f"{entry.rule} {rule.name}" if rule else ""
    return " ".join(filter(None, ["" if entry.on_page else entry.place, named]))


def _failure(judgement: Judgement) -> str:
    """How the old code fails, for the line below the title."""
    if judgement.before is None:
        return "the old code was not seen to fail"
    text = re.sub(r",? at line \d+$", "", judgement.before.text)
    return textwrap.shorten(f"old code: {text}", _WIDTH, placeholder=" ...")


def _draw(title: str, judgement: Judgement, path: Path) -> None:
    with page(path) as (axes,):
        _fill(axes, judgement)
        axes.set_title(title, fontsize=11, loc="left", pad=20)
        axes.text(0, 1.03, _failure(judgement), transform=axes.transAxes, fontsize=8.5)


@contextlib.contextmanager
def page(path: Path, rows: int = 1, height: float = 0.0) -> Iterator[list[Axes]]:
    """Axes, one below the other, that are written to a file when they are drawn.

    Args:
        path: the file.
        rows: how many axes.
        height: of all of them in inches, at least; by default what suits their number.
    """
    import matplotlib as mpl

    mpl.use("agg")
    import matplotlib.pyplot as plt

    style: dict[Any, Any] = {
        **dict.fromkeys(("text.color", "axes.edgecolor", "axes.labelcolor"), INK),
        **dict.fromkeys(("xtick.color", "ytick.color"), INK),
        "svg.fonttype": "none",
        "svg.hashsalt": "amp-lint",  # the same picture is the same file
        "font.size": 9,
        "axes.spines.top": False,
        "axes.spines.right": False,
    }
    with mpl.rc_context(style):
        size = (INCHES[0], max(height, INCHES[1] * (1 + rows) / 2))
        figure, axes = plt.subplots(rows, figsize=size, layout="constrained", squeeze=False)
        try:
            yield [*axes[:, 0]]
            figure.savefig(path, transparent=True, metadata={"Date": None})
        finally:
            plt.close(figure)


def _fill(axes: Axes, judgement: Judgement) -> None:
    points = sorted(judgement.points, key=lambda point: point.magnitude)
    errors = [error for point in points for error in (point.before, point.after)]
    finite = [error for error in errors if math.isfinite(error) and error > 0] or [1.0]
    exact = any(error == 0 for error in errors)
    floor = max(min(*finite, _SMALL) / 10 if exact else min(finite) / 3, LEAST)
    top = min(max(finite), MOST) * 10
    axes.set_yscale("log")
    axes.set_xscale("log" if _logarithmic(points) else "linear")
    _line(axes, points, [p.before for p in points], "old code", OLD, "o", floor, top)
    _line(axes, points, [p.after for p in points], "new code", NEW, "s", floor, top)
    axes.set_ylim(floor / 2, top * 10)
    if not all(map(math.isfinite, errors)):
        _band(axes, top)
    if exact:
        _zero(axes, floor)
    axes.set_xlabel(judgement.axis or "magnitude of the input")
    axes.set_ylabel("relative error against float64")
    axes.grid(color=INK, alpha=0.25, linewidth=0.5)
    axes.legend(frameon=False, loc="best")


def _band(axes: Axes, top: float) -> None:
    """The place of what is not finite, where the scale ends."""
    axes.axhspan(top / 3, top * 10, color=OLD, alpha=0.15, linewidth=0)
    axes.text(0.01, 0.98, "inf or NaN", transform=axes.transAxes, va="top", color=OLD)
    axes.minorticks_off()
    axes.set_yticks([tick for tick in axes.get_yticks() if tick < top / 3])


def _zero(axes: Axes, floor: float) -> None:
    """The place of what has no error, where the scale ends."""
    ends = ("axes fraction", "data")
    axes.annotate("0", (0, floor), (-6, 0), ends, "offset points", ha="right", va="center")
    axes.minorticks_off()
    axes.set_yticks([tick for tick in axes.get_yticks() if tick > 2 * floor])
    axes.set_ylim(bottom=floor / 2)


def _logarithmic(points: Sequence[Point]) -> bool:
    least, most = points[0].magnitude, points[-1].magnitude
    return least > 0 and most / least >= 100


def _line(
    axes: Axes,
    points: Sequence[Point],
    errors: Sequence[float],
    label: str,
    color: str,
    marker: str,
    floor: float,
    top: float,
) -> None:
    """Errors as a line; what is not finite stands in the band at the top."""
    heights = [min(max(error, floor), MOST) if math.isfinite(error) else top for error in errors]
    axes.plot(
        [point.magnitude for point in points],
        heights,
        color=color,
        label=label,
        marker=marker,
        markersize=3.5,
        linewidth=1.2,
    )
