"""Everything that amp-lint says of some code, as a text that two versions can be compared by.

    python benchmarks/golden.py                       # the pages, against benchmarks/golden.txt
    python benchmarks/golden.py --update              # writes that file
    python benchmarks/golden.py --record FILE PATHS   # any Python files, before a change
    python benchmarks/golden.py --against FILE PATHS  # and after it

Findings with their messages, related places and fixes, each fix as the lines that it changes.
Differences are printed as a unified diff; then the exit status is 1. A restructuring has none. A
change of behaviour shows its difference in its own commit.
"""

from __future__ import annotations

import argparse
import difflib
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from amp_lint import engine, fixing, registry
from amp_lint.edit import edits
from amp_lint.engine import AnalysisError
from amp_lint.handbook import pages
from amp_lint.selection import Selection
from amp_lint.text.diagnostic import Diagnostic
from amp_lint.text.source import Source, SourceError

ROOT = Path(__file__).parents[1]
GOLDEN = ROOT / "benchmarks" / "golden.txt"
_ALL = Selection(registry.all_rules(), noqa=False, preview=True)


def main() -> int:
    args = _arguments()
    lines = [*(of_files(args.paths) if args.paths else of_pages())]
    if args.record:
        args.record.write_text("".join(lines), "utf-8")
        return 0
    before = args.against.read_text("utf-8").splitlines(keepends=True)
    changes = [*difflib.unified_diff(before, lines, "before", "after")]
    sys.stdout.writelines(changes)
    return 1 if changes else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("paths", nargs="*", type=Path, help="files and folders; else the pages")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--record", type=Path, metavar="FILE", help="write what is said now")
    what.add_argument("--against", type=Path, metavar="FILE", help="compare it with this")
    what.add_argument("--update", action="store_const", dest="record", const=GOLDEN,
                      help="write what is said of the pages now")  # fmt: skip
    parser.set_defaults(against=GOLDEN)
    return parser.parse_args()


def of_pages() -> Iterator[str]:
    """What is said of all code on the pages, by any rule."""
    for rule in registry.all_rules():
        for fence in pages.FENCE.finditer(registry.page(rule)):
            if fence["info"].split()[:1] == ["py"]:
                yield from said(f"{rule.code} {fence['info']}", fence["text"].encode())


def of_files(paths: Iterable[Path]) -> Iterator[str]:
    """What is said of Python files, each alone; those of a folder in order."""
    for path in paths:
        for file in sorted(path.rglob("*.py")) if path.is_dir() else [path]:
            yield from said(str(file), file.read_bytes())


def said(name: str, data: bytes) -> Iterator[str]:
    """What is said of one text; nothing if nothing is."""
    try:
        source = Source(data, "a.py")
        found = fixing.offered(source, _ALL, engine.check(source, _ALL), unsafe=True)
    except (AnalysisError, SourceError) as error:
        yield f"== {name}\nerror: {error}\n"
        return
    if found:
        yield f"== {name}\n"
    for finding in found:
        yield from _finding(source, finding)


def _finding(source: Source, finding: Diagnostic) -> Iterator[str]:
    place = _place(source, finding.start, finding.end)
    yield f"{place} {finding.code} {finding.severity.value}: {finding.text}\n"
    for related in finding.related:
        yield f"    {_place(source, related.start, related.end)} {related.label}\n"
    if finding.fix is not None:
        yield f"    fix ({finding.fix.applicability.value}): {finding.fix.title}\n"
        after, _ = edits.apply(source.text, [finding.fix])
        yield from (f"    {line}\n" for line in _changed(source.text, after))


def _place(source: Source, start: int, end: int) -> str:
    return "-".join("{}:{}".format(*source.position(place)) for place in (start, end))


def _changed(before: str, after: str) -> Sequence[str]:
    """The lines that go and come."""
    diff = difflib.unified_diff(before.splitlines(), after.splitlines(), n=0, lineterm="")
    return [line for line in diff if not line.startswith(("---", "+++"))]


if __name__ == "__main__":
    sys.exit(main())
