"""Draw a random sample of findings to be judged by hand, and sum up the verdicts.

    python benchmarks/sample.py draw FINDINGS.json... --labels dev.jsonl --target TARGET
    python benchmarks/sample.py sum FINDINGS.json... --labels dev.jsonl --target TARGET [--update]

FINDINGS.json is what ``packages.py --findings`` keeps; the population is every finding in it. Up
to 100 are drawn at random from each family of rules (AMP1xx, AMP2xx, ...). Strata of their own, of
up to 100 each, are what a family reports in preview only, and the files that are labelled, in
whatever version, because the rules were tuned on them. Where a rule comes to fewer than 20, what is
left of its findings is drawn up to that number and kept apart, lest one rule hide the others.
Copies are drawn as they come, but one judgement does for all: what has the same line in the same
function, word for word, is one *piece of code*.

The order of drawing is that of a hash of seed and place, so that a finding more or less moves no
other. ``draw`` writes ``sample.tsv``, a line for each finding: package, path, line, code, the hash
of its piece of code, stratum, verdict (``right``, ``false`` or ``unclear``) and reason. Verdicts
that the file already has for a piece of code are kept; what is yet to be judged has none. ``sum``
prints the tables, and with ``--update`` writes them into ``tables/sample.md``: for each stratum the
share of false alarms with its 95 % interval (Wilson), by finding, by piece of code, and by rule and
project, where one false alarm counts for all; then what is not right.
"""

from __future__ import annotations

import argparse
import ast
import csv
import functools
import hashlib
import json
import math
import sys
import textwrap
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from marked import updated

from amp_lint.text.diagnostic import SYNTAX_ERROR

SEED, SIZE, LEAST = 20, 100, 20
HERE = Path(__file__).parent
BEGIN, END = "<!-- sample -->", "<!-- end of sample -->"


class Site(NamedTuple):
    """A finding: in which file of which package, where, of which rule, in what code."""

    package: str
    path: str
    line: int
    code: str
    piece: str
    stratum: str


class Judged(NamedTuple):
    """A finding that was drawn."""

    site: Site
    verdict: str
    reason: str


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=("draw", "sum"))
    parser.add_argument("findings", type=Path, nargs="+", metavar="FINDINGS.json")
    parser.add_argument("--labels", type=Path, required=True)
    parser.add_argument("--target", type=Path, required=True)
    parser.add_argument("--judged", type=Path, default=HERE / "sample.tsv")
    parser.add_argument("--update", action="store_true", help="write its page, too")
    args = parser.parse_args()
    sites = population(args.findings, Labelled(args.labels, args.target))
    judged = read(args.judged)
    if args.what == "draw":
        rows = draw(sites, judged)
        write(args.judged, rows)
        print(f"{len(rows)} drawn, {len({r.site.piece for r in rows if not r.verdict})} to judge")
        return 0
    text = summary(sites, judged)
    print(text)
    if args.update:
        page = HERE / "tables" / "sample.md"
        page.write_text(updated(page.read_text("utf-8"), BEGIN, END, text), "utf-8")
    return 0


class Labelled:
    """The labelled files, by content and by repository and path."""

    def __init__(self, labels: Path, target: Path) -> None:
        rows = [json.loads(line) for line in labels.read_text("utf-8").splitlines() if line]
        self._places = {(row["repo"].replace("/", "+"), row["path"]) for row in rows}
        self._hashes = {_hash(path.read_bytes()) for path in target.rglob("*.py")}

    def holds(self, package: str, path: str, content: bytes) -> bool:
        return _hash(content) in self._hashes or (package, path) in self._places


def population(files: Iterable[Path], labelled: Labelled) -> list[Site]:
    """Every finding, in the order of drawing."""
    sites: dict[str, Site] = {}
    for finding in _findings(files):
        package = finding["package"]
        path = Path(finding["filename"]).relative_to(finding["root"]).as_posix()
        code, place = finding["code"], finding["location"]
        row, column = place["row"], place["column"]
        content = Path(finding["filename"]).read_bytes()
        if code != SYNTAX_ERROR:
            order = _hash(f"{SEED} {package} {path} {row} {column} {code}".encode())
            known = labelled.holds(package, path, content)
            where = stratum(code, preview=finding["preview"], labelled=known)
            sites[order] = Site(package, path, row, code, piece(content, row, code), where)
    return [sites[order] for order in sorted(sites)]


def _findings(files: Iterable[Path]) -> Iterator[dict[str, Any]]:
    for file in files:
        yield from json.loads(file.read_text("utf-8"))


def piece(content: bytes, row: int, code: str) -> str:
    """The hash of a finding's rule, line and function, or file if it is in no function."""
    lines = [line.decode("utf-8", "replace") for line in content.splitlines()]
    around = [span for span in _functions(content) if row in span]
    span = min(around, key=len, default=range(1, len(lines) + 1))
    text = textwrap.dedent("\n".join(lines[span.start - 1 : span.stop - 1]))
    return _hash(f"{code} {row - span.start} {text}".encode())[:12]


@functools.cache
def _functions(content: bytes) -> list[range]:
    nodes = ast.walk(ast.parse(content))
    functions = (
        node for node in nodes if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
    )
    return [range(node.lineno, (node.end_lineno or node.lineno) + 1) for node in functions]


def _hash(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def stratum(code: str, *, preview: bool, labelled: bool) -> str:
    """The family of a rule, and what sets it apart: ``AMP1xx``, ``AMP1xx, preview``."""
    return f"{code[:4]}xx" + ", preview" * preview + ", labelled files" * labelled


def draw(sites: Iterable[Site], judged: Iterable[Judged]) -> list[Judged]:
    """The sample, in order of rule and place, with the verdicts that are known."""
    known = {row.site.piece: row for row in judged}
    by_stratum: Counter[str] = Counter()
    by_rule: Counter[tuple[str, str]] = Counter()
    drawn: list[Site] = []
    left: list[Site] = []
    for site in sites:
        chosen = by_stratum[site.stratum] < SIZE
        by_stratum[site.stratum] += chosen
        by_rule[site.stratum, site.code] += chosen
        (drawn if chosen else left).append(site)
    for site in left:
        if by_rule[site.stratum, site.code] < LEAST:
            by_rule[site.stratum, site.code] += 1
            drawn.append(site._replace(stratum=f"{site.stratum}, rare rules"))
    blank = Judged(Site("", "", 0, "", "", ""), "", "")
    rows = sorted(drawn, key=lambda site: (site.code, site))
    return [known.get(site.piece, blank)._replace(site=site) for site in rows]


def read(path: Path) -> list[Judged]:
    """The judged file; empty if there is none."""
    if not path.exists():
        return []
    with path.open(encoding="utf-8", newline="") as lines:
        rows = [*csv.reader(lines, "excel-tab")]
    return [Judged(Site(r[0], r[1], int(r[2]), r[3], r[4], r[5]), r[6], r[7]) for r in rows]


def write(path: Path, rows: Iterable[Judged]) -> None:
    """Write the judged file."""
    with path.open("w", encoding="utf-8", newline="") as out:
        writer = csv.writer(out, "excel-tab", lineterminator="\n")
        writer.writerows([*row.site, row.verdict, row.reason] for row in rows)


def summary(sites: list[Site], judged: list[Judged]) -> str:
    """The tables, in Markdown.

    Raises:
        SystemExit: something that was drawn has not been judged.
    """
    if not all(row.verdict in ("right", "false", "unclear") for row in judged):
        sys.exit("judge all that was drawn first")
    return "\n".join([*_strata(sites, judged), "", *_rules(sites, judged), "", *_wrong(judged)])


def _strata(sites: list[Site], judged: list[Judged]) -> Iterator[str]:
    yield "| stratum | findings | false alarms | unclear | by piece of code | by project and rule |"
    yield "|---|--:|---|--:|---|---|"
    for name in sorted({row.site.stratum for row in judged}):
        rows = [row for row in judged if row.site.stratum == name]
        false = [row.verdict == "false" for row in rows]
        pieces, projects = ([*_worst(rows, by).values()] for by in ("piece", "project"))
        cells = [
            *(sum(site.stratum == name for site in sites) or "", _share(false)),
            *(_count(rows, "unclear"), _share(pieces), _share(projects)),
        ]
        yield f"| {name} | " + " | ".join(map(str, cells)) + " |"


def _worst(rows: Iterable[Judged], by: str) -> dict[object, bool]:
    """Whether any finding of the same piece of code, or of a rule in a project, is false."""
    worst: dict[object, bool] = {}
    for site, verdict, _ in rows:
        key = site.piece if by == "piece" else (site.package, site.code)
        worst[key] = worst.get(key, False) or verdict == "false"
    return worst


def _rules(sites: list[Site], judged: list[Judged]) -> Iterator[str]:
    yield "| rule | findings | pieces of code | drawn | pieces judged | false alarms | unclear |"
    yield "|---|--:|--:|--:|--:|--:|--:|"
    total = Counter(site.code for site in sites)
    for code in sorted(total):
        rows = [row for row in judged if row.site.code == code]
        pieces = len({site.piece for site in sites if site.code == code})
        cells = [total[code], pieces, len(rows), len({row.site.piece for row in rows})]
        cells += [_count(rows, "false"), _count(rows, "unclear")]
        yield f"| {code} | " + " | ".join(map(str, cells)) + " |"


def _wrong(judged: list[Judged]) -> Iterator[str]:
    pieces = {row.site.piece: row for row in judged if row.verdict != "right"}
    if not pieces:
        return
    copies = Counter(row.site.piece for row in judged)
    yield "| package or repository | place | code | drawn | verdict | reason |"
    yield "|---|---|---|--:|---|---|"
    for site, verdict, reason in pieces.values():
        place = f"`{site.path}:{site.line}` | {site.code} | {copies[site.piece]}"
        yield f"| {site.package} | {place} | {verdict} | {reason} |"


def _count(rows: Iterable[Judged], verdict: str) -> int:
    return sum(row.verdict == verdict for row in rows)


def _share(false: list[bool]) -> str:
    hits, trials = sum(false), len(false)
    low, high = wilson(hits, trials)
    return f"{hits} of {trials}, {_percent(hits / trials)} ({_percent(low)} to {_percent(high)})"


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
