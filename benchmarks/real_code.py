"""How many labelled bugs in real training code amp-lint finds, and how many traps it falls into.

    python benchmarks/real_code.py LABELS_DIR TARGET [--update docs/precision.md]

LABELS_DIR holds ``dev.jsonl``, ``score.py`` and ``extract.py``: places in public PyTorch code that
were read and judged by hand, a script that scores findings against them, and one that brings the
labelled files onto disk, each at its own commit. No source text is stored with the labels; to fill
TARGET, clone the repositories that ``dev.jsonl`` names as ``MIRRORS/<owner>+<name>/repo`` and run

    LABELS_DIR/extract.py LABELS_DIR/dev.jsonl MIRRORS TARGET --dists DISTS

A bug whose scope is the project needs the files that the labelled one works with. For each such
label, unpack the commit around it:

    git --git-dir MIRRORS/<owner>+<name>/repo archive COMMIT |
        tar -x -C TARGET/<owner>__<name>/<first 8 digits of COMMIT>

amp-lint runs as users run it, with every rule of the table and without the configuration and the
``noqa`` comments of the labelled projects. All counting is ``score.py``'s. Prints a table in
Markdown and exits with 1 if a figure is below what is promised.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

from marked import updated

CODES = (
    "AMP101", "AMP102", "AMP103", "AMP104", "AMP105", "AMP107", "AMP108", "AMP109", "AMP110",
    "AMP111", "AMP112", "AMP201", "AMP203", "AMP204", "AMP301", "AMP311", "AMP401",
)  # fmt: skip
PROMISED = {"P": 0.97, "famP": 0.97, "nearR": 0.90, "nearFamR": 0.90}
COLUMNS = {
    "bugs": "TP",
    "found": "hit",
    "traps": "TN",
    "reported": "flagged",
    "precision": "P",
    "by family": "famP",
    "near bugs": "near",
    "recall": "nearR",
    "by family ": "nearFamR",
}
"""Headings, and what ``score.py`` calls them."""
BEGIN, END = "<!-- real-code table -->", "<!-- end -->"

Counts = dict[str, float | None]


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("labels", type=Path, metavar="LABELS_DIR")
    parser.add_argument("target", type=Path, metavar="TARGET")
    parser.add_argument("--update", type=Path, metavar="PAGE", help="write the table there too")
    parser.add_argument("--list", action="store_true", help="name what is missed and what is wrong")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        findings = Path(scratch) / "findings.json"
        findings.write_bytes(lint(args.target))
        scored = score(args.labels, args.target, findings, listing=args.list)
    text = table(scored)
    print(text)
    if args.update:
        args.update.write_text(updated(args.update.read_text("utf-8"), BEGIN, END, text), "utf-8")
    short = [name for name, least in PROMISED.items() if (scored["all"][name] or 0) < least]
    for name in short:
        print(f"{name} is below {PROMISED[name]}", file=sys.stderr)
    return 1 if short else 0


def lint(target: Path) -> bytes:
    """The findings below ``target``, in ruff's JSON; what goes wrong shows on stderr."""
    command = [sys.executable, "-m", "amp_lint", "--isolated", "--ignore-noqa", "--preview"]
    command += ["--select", ",".join(CODES), "--output-format", "json", "--exit-zero"]
    done = subprocess.run([*command, str(target)], stdout=subprocess.PIPE, check=False)
    if done.returncode != 0:
        sys.exit(f"amp-lint exited with {done.returncode}")
    return done.stdout


def score(labels: Path, target: Path, findings: Path, *, listing: bool) -> dict[str, Counts]:
    """What ``score.py`` counts: for each code and for all together."""
    out = findings.with_name("scored.json")
    command = [sys.executable, labels / "score.py", labels / "dev.jsonl", target, findings]
    command += ["--codes", ",".join(CODES), "--json", out] + ["--list"] * listing
    done = subprocess.run([*map(str, command)], stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        sys.exit("score.py failed")
    if listing:
        print(done.stdout, file=sys.stderr)
    scored: dict[str, Counts] = json.loads(out.read_text("utf-8"))
    return scored


def table(scored: dict[str, Counts]) -> str:
    """Markdown, a line for each code."""
    lines = ["| code | " + " | ".join(map(str.strip, COLUMNS)) + " |"]
    lines.append("|---|" + "--:|" * len(COLUMNS))
    for code, counts in scored.items():
        cells = [_cell(counts[column]) for column in COLUMNS.values()]
        lines.append(f"| {code} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _cell(value: float | None) -> str:
    if value is None:
        return "–"  # noqa: RUF001  (no site to divide by)
    return f"{value:.2f}" if isinstance(value, float) else str(value)


if __name__ == "__main__":
    sys.exit(main())
