"""Draw a random sample of findings to be judged by hand, and sum up the verdicts.

    python benchmarks/sample.py draw FINDINGS.json... --labels dev.jsonl --target TARGET > drawn.tsv
    python benchmarks/sample.py sum benchmarks/sample.tsv --population FINDINGS.json... [...]

FINDINGS.json is what ``packages.py --findings`` keeps. Copies of a file count once (same content,
same line, same code). Files that are labelled, in whatever version, are left out, because the rules
were tuned on them. The sample is stratified by rule: every rule gets an equal share of the 60, and
what a rule cannot fill goes to the others; a plain sample would be AMP401 and little else. Within a
rule the order is random, but a fourth finding from one package comes only after three from every
other, lest one project's copies fill the sample. The seed is fixed.

The judged file has a line for each finding: place, path, line, code, verdict (``right``, ``false``
or ``unclear``), reason. ``sum`` prints it as Markdown after the share of false alarms with a
95 % interval (Wilson) and the same weighted by how often each rule reports.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import json
import math
import random
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

SEED, SIZE = 20, 60
PER_PACKAGE = 3


class Site(NamedTuple):
    """A finding: in which package, in which file of it, where, and of which rule."""

    package: str
    path: str
    line: int
    code: str


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=("draw", "sum"))
    parser.add_argument("files", type=Path, nargs="+")
    parser.add_argument("--population", type=Path, nargs="+", default=[])
    parser.add_argument("--labels", type=Path, required=True)
    parser.add_argument("--target", type=Path, required=True)
    args = parser.parse_args()
    drawing = args.what == "draw"
    labelled = Labelled(args.labels, args.target)
    sites = population(args.files if drawing else args.population, labelled)
    if drawing:
        csv.writer(sys.stdout, "excel-tab", lineterminator="\n").writerows(draw(sites))
    else:
        print(summary(args.files[0], Counter(site.code for site in sites)))
    return 0


class Labelled:
    """The labelled files, by content and by repository and path."""

    def __init__(self, labels: Path, target: Path) -> None:
        rows = [json.loads(line) for line in labels.read_text("utf-8").splitlines() if line]
        self._places = {(row["repo"].replace("/", "+"), row["path"]) for row in rows}
        self._hashes = {_hash(path) for path in target.rglob("*.py")}

    def holds(self, package: str, path: str, content: str) -> bool:
        return content in self._hashes or (package, path) in self._places


def population(files: Iterable[Path], labelled: Labelled) -> list[Site]:
    """Every finding once, in an order that does not depend on the machine."""
    sites: dict[tuple[str, int, str], Site] = {}
    for finding in sorted(_findings(files), key=lambda finding: _key(finding)):
        package, path = _place(finding)
        content = _hash(Path(finding["filename"]))
        row, code = finding["location"]["row"], finding["code"]
        if code != "AMP900" and not labelled.holds(package, path, content):
            sites.setdefault((content, row, code), Site(package, path, row, code))
    return list(sites.values())


def _findings(files: Iterable[Path]) -> Iterator[dict[str, Any]]:
    for file in files:
        yield from json.loads(file.read_text("utf-8"))


def _key(finding: dict[str, Any]) -> tuple[str, str, int, int]:
    return (*_place(finding), finding["location"]["row"], finding["location"]["column"])


def _place(finding: dict[str, Any]) -> tuple[str, str]:
    return finding["package"], Path(finding["filename"]).relative_to(finding["root"]).as_posix()


def _hash(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def draw(sites: list[Site]) -> list[Site]:
    """The sample, in order of rule and place."""
    generator = random.Random(SEED)
    strata: dict[str, list[Site]] = defaultdict(list)
    for site in sites:
        strata[site.code].append(site)
    drawn: list[Site] = []
    for code, quota in sorted(quotas({code: len(strata[code]) for code in strata}).items()):
        shuffled = generator.sample(strata[code], len(strata[code]))
        drawn += sorted(spread(shuffled)[:quota])
    return drawn


def spread(sites: list[Site]) -> list[Site]:
    """The same, such that no package gets a fourth place before all others had three."""
    seen: Counter[str] = Counter()
    rounds: list[int] = []
    for site in sites:
        rounds.append(seen[site.package] // PER_PACKAGE)
        seen[site.package] += 1
    return [site for _, site in sorted(zip(rounds, sites, strict=True), key=lambda pair: pair[0])]


def quotas(sizes: dict[str, int]) -> dict[str, int]:
    """How many findings of each rule to draw."""
    quota = dict.fromkeys(sizes, 0)
    while sum(quota.values()) < SIZE:
        open_ = [code for code in sizes if quota[code] < sizes[code]]
        if not open_:
            break
        quota[min(open_, key=lambda code: (quota[code], code))] += 1
    return quota


def summary(judged: Path, sizes: Counter[str]) -> str:
    """The shares and the list, in Markdown."""
    with judged.open(encoding="utf-8", newline="") as lines:
        rows = list(csv.reader(lines, "excel-tab"))
    drawn, false = (
        Counter(row[3] for row in rows if verdict in (None, row[4])) for verdict in (None, "false")
    )
    low, high = wilson(false.total(), drawn.total())
    weighted = sum(sizes[code] * false[code] / drawn[code] for code in drawn) / sizes.total()
    lines_ = ["| rule | findings | drawn | false alarms | unclear |", "|---|--:|--:|--:|--:|"]
    for code in sorted(sizes):
        unclear = sum(row[3] == code and row[4] == "unclear" for row in rows)
        lines_.append(f"| {code} | {sizes[code]} | {drawn[code]} | {false[code]} | {unclear} |")
    lines_ += [
        "",
        f"False alarms: {false.total()} of {drawn.total()}, {_percent(false.total() / len(rows))} "
        f"(95 % interval {_percent(low)} to {_percent(high)}); weighted by how often each rule "
        f"reports: {_percent(weighted)}.",
        "",
        "| package or repository | place | code | verdict | reason |",
        "|---|---|---|---|---|",
    ]
    for package, path, line, code, verdict, reason in rows:
        lines_.append(f"| {package} | `{path}:{line}` | {code} | {verdict} | {reason} |")
    return "\n".join(lines_)


def wilson(hits: int, trials: int) -> tuple[float, float]:
    """The 95 % interval of a share, after Wilson."""
    z, share = 1.959964, hits / trials
    middle = share + z * z / (2 * trials)
    spread = z * math.sqrt(share * (1 - share) / trials + (z / (2 * trials)) ** 2)
    scale = 1 + z * z / trials
    return max(0.0, (middle - spread) / scale), (middle + spread) / scale


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


if __name__ == "__main__":
    sys.exit(main())
