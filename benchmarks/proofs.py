"""The table of docs/proofs.md and the pages' pictures, from committed records.

    amp-lint verify --record benchmarks/records/cpu-torch2.13.0.json
    python benchmarks/proofs.py benchmarks/records/*.json
        [--update docs/proofs.md] [--pictures docs/img]

A record holds every fix and every wrong fix of every rule's page. A row shows the first fix of a
page whose old code was seen to fail, how it fails, and the largest error of the new code in each
mode over all fixes, in units of what is tolerated. A picture shows the first fix of a page that has
figures for one, if the page shows that picture. Exits with 1 if a rule's page does not hold.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from marked import updated

from amp_lint import registry
from amp_lint.verify import plot, record
from amp_lint.verify.record import Entry, Record

BEGIN, END = "<!-- proof table -->", "<!-- end of proofs -->"
HEADINGS = ("rule", "how the old code fails", "the new code", "proven", "wrong fixes refuted", "on")


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("records", type=Path, nargs="+", metavar="RECORD")
    parser.add_argument("--update", type=Path, metavar="PAGE", help="write the table there too")
    parser.add_argument("--pictures", type=Path, metavar="FOLDER", help="draw the pages' pictures")
    args = parser.parse_args()
    records = [record.read(path) for path in args.records]
    text = table(records)
    print(text)
    if args.update:
        args.update.write_text(updated(args.update.read_text("utf-8"), BEGIN, END, text), "utf-8")
    if args.pictures:
        plot.draw(pictured(records[0]), args.pictures)
    wrong = [entry for one in records for entry in one.entries if not entry.right]
    for entry in wrong:
        verdict = entry.proof.verdict.value
        print(f"{entry.rule} {entry.kind}, {entry.place}: {verdict}", file=sys.stderr)
    return 1 if wrong else 0


def table(records: Sequence[Record]) -> str:
    """Markdown, a line for each rule and record."""
    lines = ["| " + " | ".join(HEADINGS) + " |", "|---|---|---|--:|--:|---|"]
    rows = (_rows(rule.code, records) for rule in registry.all_rules())
    lines += ["| " + " | ".join(map(_cell, row)) + " |" for of_rule in rows for row in of_rule]
    return "\n".join(lines)


def pictured(one: Record) -> Iterator[Entry]:
    """The proofs of a record that have a picture on a page, the first of each rule."""
    done: set[str] = set()
    for entry in one.entries:
        rule = registry.find(entry.rule)
        if rule is None or rule.code in done or not plot.is_drawn(entry):
            continue
        done.add(rule.code)
        if f"/{plot.file_name(entry)})" in registry.page(rule):
            yield entry


def _rows(code: str, records: Iterable[Record]) -> Iterator[tuple[str, ...]]:
    for one in records:
        if group := [entry for entry in one.entries if entry.rule == code]:
            yield row(code, group, one)


def row(code: str, group: Sequence[Entry], one: Record) -> tuple[str, ...]:
    """The cells of a rule."""
    fixes = [entry for entry in group if entry.kind != "wrong fix"]
    wrong = [entry for entry in group if entry.kind == "wrong fix"]
    where = one.environment
    device = f"{where.device}, torch {where.torch}" if where else ""
    return (code, _before(fixes), _after(fixes), _count(fixes), _count(wrong), device)


def _before(fixes: Sequence[Entry]) -> str:
    if not fixes:
        return "no fix is offered"
    failures = (entry.proof.fails_before for entry in fixes)
    return next((_short(failure.text) for failure in failures if failure), "no numeric effect")


def _short(text: str) -> str:
    """A failure without the line of the page at which it came up."""
    return re.sub(r"\.?,? at line \d+$", "", text)


def _after(fixes: Sequence[Entry]) -> str:
    """What was shown, and the largest errors by mode; errors that a note excuses are left out."""
    if not fixes:
        return ""
    largest: dict[str, list[float]] = {}
    statements: dict[str, None] = {}
    for entry in fixes:
        for shown in entry.proof.shown:
            if shown.subject == "finding":
                continue
            statements[shown.judgement.statement] = None
            for measured in shown.judgement.measured:
                found = (measured.value_error, measured.gradient_error)
                kept = (e for e in found if e is not None and e <= 1)
                largest.setdefault(measured.mode, []).extend(kept)
    errors = [f"{mode} {max(found):.2g}" for mode, found in largest.items() if found]
    return "; ".join([*list(statements)[:1], *errors])


def _count(entries: Sequence[Entry]) -> str:
    return f"{sum(entry.right for entry in entries)}/{len(entries)}"


def _cell(text: str) -> str:
    return text.replace("|", r"\|").replace("\n", " ")


if __name__ == "__main__":
    sys.exit(main())
