"""Fleets to judge, and workers without Ray."""

from __future__ import annotations

import io
import subprocess
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from amp_lint.census import cli, run
from amp_lint.census.block import Block
from amp_lint.census.judge import Options
from amp_lint.census.options import CensusOptions
from amp_lint.census.output import FILES, FINDINGS, Output
from amp_lint.census.parquet import BUCKET, ParquetBlock
from amp_lint.census.work import Done, Work, Workers
from tests.conftest import CLIP

HELPER = """\
import torch


def clip(model):
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
"""
TRAINER = CLIP.replace("import torch\n", "import torch\nfrom helper import clip\n").replace(
    "torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)", "clip(model)"
)
OLD = "import torch\nscaler = torch.cuda.amp.GradScaler()\n"
TEXT = 'text = "torch.cuda.amp.autocast"\n'
FLEET = {
    "one": {"train.py": TRAINER, "helper.py": HELPER, "build/train.py": CLIP, "setup.py": ""},
    "two": {"pkg/a.py": CLIP, "pkg/b.py": OLD, "broken.py": "GradScaler autocast = (\n"},
    "fork": {"pkg/a.py": CLIP, "pkg/b.py": OLD, "other.py": TEXT},
}
"""Files by repository; what `train.py` does wrong takes `helper.py` to see."""
Rows = list[tuple[Any, ...]]


class Here(Workers):
    """Judges in this process; notes what it was given."""

    def __init__(self) -> None:
        self.judged: list[str] = []

    def __enter__(self) -> Here:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def blocks(self, blocks: Sequence[Block], options: Options, output: Output) -> Iterator[Done]:
        work = Work(options, output)
        try:
            for block in blocks:
                self.judged.append(block.key)
                yield work.block(block)
        finally:
            work.close()

    def buckets(
        self,
        blocks: Sequence[ParquetBlock],
        buckets: Mapping[str, Sequence[str]],
        options: Options,
        output: Output,
    ) -> Iterator[Done]:
        keys = {name: key for key, names in buckets.items() for name in names}
        found = [table for block in blocks for table in block.of_repositories(keys)]
        work = Work(options, output)
        try:
            for key in buckets:
                self.judged.append(key)
                mine = [t.filter(pa.compute.equal(t.column(BUCKET), key)) for t in found]
                yield work.bucket(key, pa.concat_tables(mine), blocks[0].columns)
        finally:
            work.close()


def census(*arguments: str | Path, workers: Workers | None = None) -> int:
    """Run a census without Ray."""
    options = cli.parser().read([*map(str, arguments)], CensusOptions())
    return run.run(options, workers or Here())


def of(output: Path, name: str = FINDINGS, without: Sequence[str] = ("cpu_seconds",)) -> Rows:
    """The rows of a dataset, in order."""
    paths = sorted((output / name).glob("*.parquet"))
    tables = [pq.read_table(path).drop_columns([*without]) for path in paths] if paths else []
    rows = [tuple(row.values()) for table in tables for row in table.to_pylist()]
    return sorted(rows, key=str)


def findings(output: Path) -> Rows:
    return of(output, without=())


def files(output: Path) -> dict[str, dict[str, Any]]:
    """What is said of each file, by repository and path."""
    paths = sorted((output / FILES).glob("*.parquet"))
    rows = [row for path in paths for row in pq.read_table(path).to_pylist()]
    return {f"{row['repository']}/{row['path']}": row for row in rows}


def parquet(path: Path, fleet: Mapping[str, Mapping[str, str]], group: int = 2) -> Path:
    """The fleet as a dataset, the repositories mixed."""
    rows = [(name, file, text) for name, each in fleet.items() for file, text in each.items()]
    rows.sort(key=lambda row: row[1])
    names = ("repository", "path", "content")
    table = pa.table(dict(zip(names, map(list, zip(*rows, strict=True)), strict=True)))
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, path, row_group_size=group)
    return path


def wheels(folder: Path, fleet: Mapping[str, Mapping[str, str]]) -> Path:
    """The fleet as wheels."""
    folder.mkdir()
    for name, each in fleet.items():
        data = io.BytesIO()
        with zipfile.ZipFile(data, "w") as archive:
            for file, text in each.items():
                archive.writestr(file, text)
        (folder / f"{name}-1.0-py3-none-any.whl").write_bytes(data.getvalue())
    return folder


def folders(folder: Path, fleet: Mapping[str, Mapping[str, str]]) -> Path:
    """The fleet as folders."""
    for name, each in fleet.items():
        for file, text in each.items():
            (folder / name / file).parent.mkdir(parents=True, exist_ok=True)
            (folder / name / file).write_bytes(text.encode())
    return folder


def commit(repository: Path) -> None:
    """Make a repository of a folder."""
    git(repository, "init", "-q")
    git(repository, "add", "-A", "-f")
    git(repository, "commit", "-qm", "a", "--date=2021-01-01T12:00:00Z")


def git(folder: Path, *arguments: str) -> None:
    who = ("-c", "user.name=a", "-c", "user.email=a@b.example", "-c", "commit.gpgsign=false")
    subprocess.run(["git", *who, *arguments], cwd=folder, check=True, capture_output=True)
