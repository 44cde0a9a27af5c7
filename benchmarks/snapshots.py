"""A Parquet dataset of files out of the histories of git repositories, as a fleet to judge.

    python benchmarks/snapshots.py MIRRORS OUT [--months 6] [--rows 20000] [--archives FOLDER ...]

For each repository below MIRRORS the Python files and notebooks of the last commit before the end
of each period and of HEAD, where it is another one than that of the period before; and those of
each wheel or archive of sources in the other folders. The columns: ``repository`` (``name@date``,
or the archive's name), ``path``, ``content``, ``commit``, ``date``.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from amp_lint.census import archives, mirrors
from amp_lint.census.block import Block, BlockError

SCHEMA = pa.schema(
    [
        ("repository", pa.string()),
        ("path", pa.string()),
        ("content", pa.binary()),
        ("commit", pa.string()),
        ("date", pa.string()),
    ]
)
FIRST = 2017
"""The year before which there was no automatic mixed precision."""
_GROUP = 1000
"""Rows of a row group."""
Row = tuple[str, str, bytes, str, str]


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("mirrors", type=Path, metavar="MIRRORS")
    parser.add_argument("out", type=Path, metavar="OUT")
    parser.add_argument("--months", type=int, default=6, help="of a period (default: 6)")
    parser.add_argument("--rows", type=int, default=20_000, help="of a file (default: 20000)")
    parser.add_argument("--archives", type=Path, nargs="+", default=[], metavar="FOLDER")
    args = parser.parse_args()
    args.out.mkdir(parents=True)
    rows: list[Row] = []
    number = 0
    for row in every(args.mirrors, args.months, args.archives):
        rows.append(row)
        if len(rows) == args.rows:
            write(args.out / f"{number:05}.parquet", rows)
            rows, number = [], number + 1
            print(f"{number * args.rows} files, {row[0]}", file=sys.stderr, flush=True)
    if rows:
        write(args.out / f"{number:05}.parquet", rows)
    return 0


def every(folder: Path, months: int, packages: Sequence[Path]) -> Iterator[Row]:
    """The files of all repositories and of all archives."""
    for repository in mirrors.repositories(folder):
        yield from snapshots(repository, folder, months)
    for folder in packages:
        for block in archives.in_folder(folder):
            name = archives.repository(Path(block.file))
            yield from files(block, name, "", "")


def snapshots(repository: Path, folder: Path, months: int) -> Iterator[Row]:
    """The files of a repository at the end of each period."""
    name = repository.relative_to(folder).parts[0].replace("+", "/")
    before = ""
    today = datetime.date.today() + datetime.timedelta(days=1)
    for date in (*periods(months), today.isoformat()):
        commit = last_commit(repository, date)
        if commit and commit != before:
            before = commit
            yield from at(repository, f"{name}@{date}", commit, date)


def periods(months: int) -> Iterator[str]:
    """The ends of periods until today."""
    today = datetime.date.today()
    for month in range(0, 12 * (today.year - FIRST + 1), months):
        end = datetime.date(FIRST + month // 12, month % 12 + 1, 1)
        if end <= today:
            yield end.isoformat()


def last_commit(repository: Path, date: str) -> str:
    """The last commit before a date on the way to HEAD; "" for none."""
    command = ["git", "--git-dir", str(repository), "rev-list", "-1", "--first-parent"]
    done = subprocess.run(
        [*command, f"--before={date}", "HEAD"], capture_output=True, text=True, check=False
    )
    return done.stdout.strip()


def at(repository: Path, name: str, commit: str, date: str) -> Iterator[Row]:
    """The files of a commit that are there."""
    block = mirrors.MirrorBlock(str(repository), name, commit, int(date[:4]))
    return files(block, name, commit, date)


def files(block: Block, name: str, commit: str, date: str) -> Iterator[Row]:
    """The files of a block that can be read."""
    try:
        with block.opened() as found:
            for file in found:
                with contextlib.suppress(BlockError):  # a partial clone lacks it
                    yield name, file.path, file.read(), commit, date
    except BlockError as error:
        print(f"{name}: {error}", file=sys.stderr)


def write(path: Path, rows: list[Row]) -> None:
    columns = [*zip(*rows, strict=True)]
    arrays = [pa.array(each, field.type) for each, field in zip(columns, SCHEMA, strict=True)]
    table = pa.Table.from_arrays(arrays, schema=SCHEMA)
    pq.write_table(table, path, compression="zstd", row_group_size=_GROUP)


if __name__ == "__main__":
    sys.exit(main())
