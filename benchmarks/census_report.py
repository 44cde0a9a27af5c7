"""Put the report of a census into a page of the documentation.

    python benchmarks/census_report.py OUTPUT --update docs/census.md --picture docs/img/census.svg

The page gets all but the sample of findings, between two marks, as a section of it.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Iterator
from itertools import takewhile
from pathlib import Path

from marked import updated

from amp_lint.census.report import Census, draw, page

MARKS = ("<!-- report -->", "<!-- end of report -->")


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("output", type=Path, metavar="OUTPUT")
    parser.add_argument("--update", type=Path, metavar="PAGE.md")
    parser.add_argument("--picture", type=Path, metavar="FILE.svg")
    args = parser.parse_args()
    census = Census(args.output)
    text = "\n".join(section(page(census, 1, 0)))
    print(text)
    if args.update:
        old = args.update.read_text("utf-8")
        args.update.write_text(updated(old, *MARKS, text), "utf-8")
    if args.picture:
        draw(census.shares(), args.picture)
    return 0


def section(lines: Iterable[str]) -> Iterator[str]:
    """A report without its title and its sample, its headings one level down."""
    _, _, *rest = lines
    for line in takewhile(lambda line: "to judge" not in line, rest):
        yield f"#{line}" if line.startswith("##") else line


if __name__ == "__main__":
    sys.exit(main())
