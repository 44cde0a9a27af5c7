"""How fast amp-lint is beside other linters, on packages that everybody can have.

    python benchmarks/speed.py FOLDER [--packages NAME==VERSION ...] [--peers NAME==VERSION ...]
                               [--rounds 5] [--picture FILE.svg] [--update benchmarks/README.md]

Downloads the wheels of the packages into FOLDER, unpacks them, and installs each linter in an
environment of its own there; what is there already is used again. Then every linter runs over
every package, one after the other in each round, cold: no cache, no settings. Prints medians of CPU
time (user and system, of all processes), of wall time and of peak memory (of the largest process),
and CPU time against the first peer; then the funnel: how many files, and bytes, are read, reach
`ast`, and reach libcst.

Times of a busy machine mean little; ratios of one run mean more, as all linters suffer alike.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import time
import venv
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from marked import updated

from amp_lint import engine
from amp_lint.engine import AnalysisError
from amp_lint.registry import all_rules
from amp_lint.selection import Selection
from amp_lint.syntax.links import leads
from amp_lint.syntax.project import Project
from amp_lint.text.source import Source, SourceError

PACKAGES = ("timm==1.0.31", "transformers==5.23.0")
PEERS = ("ruff==0.17.5", "flake8==7.3.0")
"""TorchFix can be one, too; it takes minutes for a package."""
ARGUMENTS = {
    "amp-lint": ("amp-lint", "--isolated", "--quiet"),
    "ruff": ("ruff", "check", "--no-cache", "--isolated", "--quiet"),
    "torchfix": ("torchfix",),
    "flake8": ("flake8", "--isolated", "--quiet"),
}
"""How each is called, without the package."""
_ENVIRONMENT = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
"""As users have it: a linter in Python is compiled once, not in each run."""
_MEGA = 1_000_000
_MARKS = ("<!-- speed -->", "<!-- end of speed -->")


@dataclass(frozen=True)
class Cost:
    """What one run took."""

    cpu: float
    """Seconds, of all processes."""
    wall: float
    memory: int
    """Bytes, of the largest process."""


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path, metavar="FOLDER")
    parser.add_argument("--packages", nargs="+", default=PACKAGES, metavar="NAME==VERSION")
    parser.add_argument("--peers", nargs="*", default=PEERS, metavar="NAME==VERSION")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--picture", type=Path, metavar="FILE.svg")
    parser.add_argument("--update", type=Path, metavar="PAGE.md", help="write the tables there")
    args = parser.parse_args()
    folder = args.folder.resolve()
    trees = {name: unpacked(folder, name) for name in args.packages}
    tools = {"amp-lint": Path(sys.executable).parent}
    tools |= {peer: installed(folder, peer) for peer in args.peers}
    costs = measured(tools, trees, args.rounds)
    page = "\n".join((*table(costs, [*tools], [*trees]), "", *funnels(trees)))
    print(page)
    if args.picture:
        draw(args.picture, costs, [*tools], [*trees])
    if args.update:
        old = args.update.read_text("utf-8")
        args.update.write_text(updated(old, *_MARKS, page), "utf-8")
    return 0


def unpacked(folder: Path, package: str) -> Path:
    """The folder of a package's wheel, downloaded and unpacked if it is not there."""
    target = folder / "packages" / package
    if not target.exists():
        wheels = folder / "wheels" / package
        options = ("--no-deps", "--only-binary=:all:", "--quiet", "--dest", str(wheels))
        subprocess.run([sys.executable, "-m", "pip", "download", *options, package], check=True)
        (wheel,) = wheels.glob("*.whl")
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(target)
    return target


def installed(folder: Path, peer: str) -> Path:
    """The folder of programs of an environment that has a linter and nothing else."""
    home = folder / "peers" / peer
    programs = home / ("Scripts" if os.name == "nt" else "bin")
    if not home.exists():
        venv.create(home, with_pip=True)
        subprocess.run([programs / "python", "-m", "pip", "install", "--quiet", peer], check=True)
    return programs


def measured(
    tools: dict[str, Path], trees: dict[str, Path], rounds: int
) -> dict[tuple[str, str], list[Cost]]:
    """The costs of each linter on each package; in every round each runs once."""
    costs: dict[tuple[str, str], list[Cost]] = {(t, p): [] for t in tools for p in trees}
    for done in range(rounds):
        for package, tree in trees.items():
            for tool, programs in tools.items():
                name, *rest = ARGUMENTS[tool.partition("==")[0]]
                costs[tool, package].append(run([str(programs / name), *rest, "."], tree))
                print(f"round {done + 1}/{rounds}: {tool} on {package}", file=sys.stderr)
    return costs


def run(command: Sequence[str], folder: Path) -> Cost:
    """What a command costs that may find something."""
    start = time.perf_counter()
    process = subprocess.Popen(
        command, cwd=folder, env=_ENVIRONMENT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    _, status, used = os.wait4(process.pid, 0)
    wall = time.perf_counter() - start
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode not in (0, 1):
        raise SystemExit(f"{' '.join(command)} in {folder} ended with {process.returncode}")
    unit = 1 if sys.platform == "darwin" else 1024
    return Cost(used.ru_utime + used.ru_stime, wall, used.ru_maxrss * unit)


def median(costs: Sequence[Cost], what: str) -> float:
    """The median of one figure."""
    return float(statistics.median(getattr(cost, what) for cost in costs))


def table(
    costs: dict[tuple[str, str], list[Cost]], tools: Sequence[str], packages: Sequence[str]
) -> list[str]:
    """The rows of a table in Markdown."""
    against = tools[min(1, len(tools) - 1)]
    lines = [
        f"| package | linter | CPU s | against {against} | wall s | peak MB |",
        "|---|---|--:|--:|--:|--:|",
    ]
    for package in packages:
        base = median(costs[against, package], "cpu")
        for tool in tools:
            each = costs[tool, package]
            cpu, wall = median(each, "cpu"), median(each, "wall")
            memory = median(each, "memory") / _MEGA
            ratio = f"{cpu / base:.1f}"
            lines.append(
                f"| {package} | {tool} | {cpu:.2f} | {ratio} | {wall:.2f} | {memory:.0f} |"
            )
    return lines


def funnels(trees: dict[str, Path]) -> list[str]:
    """How far the files of each package get, with the rules that are not in preview."""
    lines = ["| package | files | MB | reach ast | MB | reach libcst | MB |"]
    lines.append("|---|--:|--:|--:|--:|--:|--:|")
    for package, tree in trees.items():
        stages = funnel(sorted(tree.rglob("*.py")))
        cells = (f"{len(stage)} | {sum(stage) / _MEGA:.1f}" for stage in stages)
        lines.append(f"| {package} | {' | '.join(cells)} |")
    return lines


def funnel(paths: Sequence[Path]) -> tuple[list[int], list[int], list[int]]:
    """The sizes of the files that are read, that reach `ast`, and that reach libcst."""
    selection = Selection(tuple(rule for rule in all_rules() if not rule.preview))
    project = Project(paths)
    stages: tuple[list[int], list[int], list[int]] = ([], [], [])
    for path in paths:
        data = path.read_bytes()
        stages[0].append(len(data))
        links = project.links(path, data, selection.sieve)
        if links and not leads(data, links):
            links = links.narrowed()
        if not selection.sieve.by_bytes(data, *(links.files if links else ())):
            continue
        stages[1].append(len(data))
        try:
            if engine.survivors(Source(data, str(path)), selection, False, links):
                stages[2].append(len(data))
        except (AnalysisError, SourceError, SyntaxError):
            continue
    return stages


def draw(
    path: Path,
    costs: dict[tuple[str, str], list[Cost]],
    tools: Sequence[str],
    packages: Sequence[str],
) -> None:
    """CPU time, one bar a linter, on a logarithmic axis."""
    import matplotlib as mpl

    mpl.use("svg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(
        len(packages), 1, sharex=True, figsize=(7, 1 + 0.35 * len(tools) * len(packages))
    )
    for axis, package in zip([axes] if len(packages) == 1 else axes, packages, strict=True):
        seconds = [median(costs[tool, package], "cpu") for tool in tools]
        bars = axis.barh([*tools], seconds, color=["#3b6ea8", *["#b0b0b0"] * (len(tools) - 1)])
        axis.bar_label(bars, labels=[f"{value:.2g} s" for value in seconds], padding=3)
        axis.set_xscale("log")
        axis.set_title(package, loc="left", fontsize=10)
        axis.invert_yaxis()
        axis.spines[["top", "right"]].set_visible(False)
        axis.margins(x=0.2)
    figure.supxlabel("CPU time, seconds")
    figure.tight_layout()
    figure.savefig(path)


if __name__ == "__main__":
    raise SystemExit(main())
