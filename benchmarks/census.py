"""How a census grows with files and workers, beside one process that does the same.

    python benchmarks/census.py SNAPSHOTS FOLDER [--sizes 10000] [--copies 20]
                                [--update docs/census.md]

SNAPSHOTS is a dataset of `benchmarks/snapshots.py`. The first sample is of distinct contents that
are all dismissed by their bytes, of the others 95 % are; the last has the largest one ``--copies``
times, as forks would. Files have less than 15 kB. One process goes through the first two samples
with `amp_lint.check`; `amp-lint census` goes through all with one worker and with two. Its rate is
that from the first block to the last, without the start of Ray, which stands apart. Memory is the
most that a worker and its process had together, looked at ten times a second.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import platform
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from marked import updated

import amp_lint
from amp_lint import api
from amp_lint.census import parquet
from amp_lint.census.block import File

DISMISSED = 0.95
FLEET = 50_000_000
MOST = 15_000
"""Bytes of a file: so a sample takes minutes."""
_MARKS = ("<!-- census -->", "<!-- end of census -->")
_GROUP = 500
_COLUMNS = parquet.Columns()


@dataclass(frozen=True)
class Cost:
    """What one run took."""

    what: str
    files: int
    megabytes: float
    start: float
    """Seconds until the first block was there."""
    rate: float
    """Files a second after that."""
    memory: int
    """Bytes, of the largest worker and its process; 0 where that was not looked at."""
    sample: str
    digest: str
    """Of all rows but for CPU seconds."""


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("snapshots", type=Path, metavar="SNAPSHOTS")
    parser.add_argument("folder", type=Path, metavar="FOLDER")
    parser.add_argument("--sizes", nargs="+", type=int, default=[10_000])
    parser.add_argument("--copies", type=int, default=20)
    parser.add_argument("--workers", nargs="+", type=int, default=[1, 2])
    parser.add_argument("--kept", type=Path, metavar="COSTS.json", help="of a run before, too")
    parser.add_argument("--update", type=Path, metavar="PAGE.md", help="write the table there")
    args = parser.parse_args()
    samples = drawn(args.snapshots, args.folder, args.sizes, args.copies)
    costs = []
    for number, sample in enumerate(samples):
        costs += [alone(sample)] if number < 2 else []
        for workers in args.workers:
            costs.append(judged(sample, args.folder / "out", workers))
            print(costs[-1], file=sys.stderr, flush=True)
    (args.folder / "costs.json").write_text(json.dumps([vars(cost) for cost in costs]), "utf-8")
    if args.kept:
        costs += [Cost(**cost) for cost in json.loads(args.kept.read_text("utf-8"))]
    costs.sort(key=lambda cost: ([path.stem for path in samples].index(cost.sample), cost.what))
    text = "\n".join((*table(costs), "", *on_paper(costs)))
    print(text)
    if args.update:
        old = args.update.read_text("utf-8")
        args.update.write_text(updated(old, *_MARKS, text), "utf-8")
    return 0


def drawn(snapshots: Path, folder: Path, sizes: Sequence[int], copies: int) -> list[Path]:
    """The samples, made if they are not there; the last with copies."""
    names = ("dismissed", *map(str, sizes), "copies")
    paths = [folder / f"{name}.parquet" for name in names]
    if all(path.exists() for path in paths):
        return paths
    folder.mkdir(parents=True, exist_ok=True)
    kept, dismissed = split(snapshots)
    write(paths[0], dismissed[: 4 * sizes[-1]])
    for size, path in zip(sizes, paths[1:], strict=False):
        least = round(size * (1 - DISMISSED))
        rows = kept[:least] + dismissed[: size - least]
        rows.sort(key=lambda row: hashlib.md5(row[1].encode() + row[2]).digest())
        write(path, rows)
    copied = [(f"{name}~{n}", *rest) for n in range(copies) for name, *rest in rows]
    write(paths[-1], copied)
    return paths


def split(snapshots: Path) -> tuple[list[tuple[str, str, bytes]], list[tuple[str, str, bytes]]]:
    """Each content once: what the bytes do not dismiss, and what they do, in an order by chance."""
    sieve = api.selection(api.DEFAULT).sieve
    seen: set[bytes] = set()
    kept: list[tuple[str, str, bytes]] = []
    dismissed: list[tuple[str, str, bytes]] = []
    for block in parquet.blocks(snapshots, _COLUMNS, _GROUP):
        with block.opened() as files:
            for file in files:
                data = file.read()
                digest = hashlib.md5(data).digest()
                if digest not in seen and file.path.endswith(".py") and len(data) < MOST:
                    seen.add(digest)
                    row = (file.repository, file.path, data)
                    (kept if sieve.by_bytes(data) else dismissed).append(row)
    for rows in (kept, dismissed):
        rows.sort(key=lambda row: hashlib.md5(row[2]).digest())
    return kept, dismissed


def write(path: Path, rows: Sequence[Sequence[object]]) -> None:
    names = ("repository", "path", "content")
    columns = zip(*rows, strict=True)
    table = pa.table(dict(zip(names, map(list, columns), strict=True)))
    pq.write_table(table, path, compression="zstd", row_group_size=_GROUP)


def alone(sample: Path) -> Cost:
    """One process that reads the sample and judges each file."""
    api.check(b"x = 1", named=True)
    start, count, size = time.perf_counter(), 0, 0
    for file in _files(sample):
        data = file.read()
        count, size = count + 1, size + len(data)
        try:
            api.check(data, name=file.path, named=False)
        except amp_lint.LintError:
            continue
    rate = count / (time.perf_counter() - start)
    return Cost("`amp_lint.check`, one process", count, size / 1e6, 0.0, rate, 0, sample.stem, "")


def _files(sample: Path) -> Iterator[File]:
    for block in parquet.blocks(sample, _COLUMNS, 2 * _GROUP):
        with block.opened() as files:
            yield from files


def judged(sample: Path, out: Path, workers: int) -> Cost:
    """A census of the sample."""
    shutil.rmtree(out, ignore_errors=True)
    options = ("-q", "--block-rows=500", f"--workers={workers}")
    command = [sys.executable, "-m", "amp_lint", "census", *options]
    start = time.time()
    process = subprocess.Popen([*command, str(sample), str(out)])
    most = [0]
    watching = threading.Thread(target=watch, args=(process, most))
    watching.start()
    if process.wait():
        raise SystemExit(f"the census of {sample} ended with {process.returncode}")
    watching.join()
    blocks = [*(out / "files").glob("*.parquet")]
    times = sorted((path.stat().st_mtime, pq.read_metadata(path).num_rows) for path in blocks)
    first, last = times[workers - 1][0], times[-1][0]
    rate = sum(rows for _, rows in times[workers:]) / max(last - first, 1e-9)
    files = sum(rows for _, rows in times)
    size = sum(sum(pq.read_table(path, columns=["size"]).column(0).to_pylist()) for path in blocks)
    what = f"census, {workers} worker{'s' * (workers > 1)}"
    return Cost(
        what, files, size / 1e6, times[0][0] - start, rate, most[0], sample.stem, digest(out)
    )


def digest(out: Path) -> str:
    """What is the same wherever the rows of a census are the same."""
    rows: list[str] = []
    for path in (*(out / "files").glob("*.parquet"), *(out / "findings").glob("*.parquet")):
        table = pq.read_table(path)
        left = [name for name in table.column_names if name != "cpu_seconds"]
        rows += map(repr, table.select(left).to_pylist())
    return hashlib.sha256("\n".join(sorted(rows)).encode()).hexdigest()[:12]


def watch(process: subprocess.Popen[bytes], most: list[int]) -> None:
    """Note how much memory a worker of a census has, with the process that it has started."""
    while process.poll() is None:
        most[0] = max([most[0], *workers_memory(process.pid)])
        time.sleep(0.1)


def workers_memory(top: int) -> Iterator[int]:
    """What each worker below a process has, with the processes that it has started, in bytes."""
    memory: dict[int, int] = {}
    parents: dict[int, int] = {}
    workers: list[int] = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            stat = (path / "stat").read_text().rpartition(")")[2].split()
            name = (path / "cmdline").read_bytes()
        except OSError:
            continue
        parents[int(path.name)] = int(stat[1])
        memory[int(path.name)] = int(stat[21]) * os.sysconf("SC_PAGE_SIZE")
        if name.startswith(b"ray::MapWorker"):
            workers.append(int(path.name))
    for worker in (each for each in workers if top in (parents.get(parents[each]), parents[each])):
        below = (pid for pid in memory if parents[pid] == worker and pid not in workers)
        yield memory[worker] + sum(map(memory.__getitem__, below))  # but one that only begins


def table(costs: Sequence[Cost]) -> Iterator[str]:
    yield f"{os.cpu_count()} CPUs ({platform.machine()}), Python {platform.python_version()}."
    yield ""
    heads = ("sample", "", "files", "MB", "first block, s", "files/s", "of one process")
    yield f"| {' | '.join(heads)} | worker, MB | rows |"
    yield "|---|---|--:|--:|--:|--:|--:|--:|---|"
    base = costs[0]
    for cost in costs:
        base = cost if cost.what.startswith("`") else base
        memory = f"{cost.memory / 1e6:,.0f}" if cost.memory else ""
        start = f"{cost.start:.1f}" if cost.start else ""
        yield (
            f"| {cost.sample} | {cost.what} | {cost.files:,} | {cost.megabytes:,.1f} | {start} "
            f"| {cost.rate:,.0f} | {cost.rate / base.rate:.2f} | {memory} | {cost.digest} |"
        )


def on_paper(costs: Sequence[Cost]) -> Iterator[str]:
    """What a fleet would take, if all of its files cost what those of the samples did."""
    single = {cost.sample: cost.rate for cost in costs if cost.what == "census, 1 worker"}
    dismissed, mixed = list(single.values())[:2]
    seconds = (1 / mixed - DISMISSED / dismissed) / (1 - DISMISSED)
    yield f"A file that is dismissed takes {1000 / dismissed:.2f} ms of a worker, another one"
    yield f"{1000 * seconds:.0f} ms. So {FLEET:,} files take, if these were their costs:"
    yield ""
    yield "| dismissed, % | hours of a worker | hours of 64 workers |"
    yield "|--:|--:|--:|"
    for share in (0.999, 0.99, 0.95):
        hours = FLEET * (share / dismissed + (1 - share) * seconds) / 3600
        yield f"| {100 * share:g} | {hours:,.0f} | {hours / 64:,.1f} |"


if __name__ == "__main__":
    sys.exit(main())
