"""What a worker does: it judges a block, writes what came of it, and says how much that was."""

from __future__ import annotations

import os
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import pyarrow as pa

from amp_lint.census import parquet
from amp_lint.census.block import Block, key_of
from amp_lint.census.judge import Judge, Options, Rows
from amp_lint.census.output import Output, OutputError
from amp_lint.census.parquet import ParquetBlock
from amp_lint.garbage import collect_seldom

MAX_BEGUN = 3
"""How often a block may end its worker, as by using up all memory."""


@dataclass(frozen=True)
class Done:
    """What came of a block, in numbers."""

    key: str
    files: int = 0
    findings: int = 0
    errors: int = 0
    bytes: int = 0
    seconds: float = 0.0
    """Of the clock."""
    failure: str = ""
    """Why it could not be written."""
    process: int = 0


class Workers(ABC):
    """Those who judge blocks, as a context."""

    @abstractmethod
    def __enter__(self) -> Workers:
        """Have them ready.

        Raises:
            ConfigError: there are none.
        """

    @abstractmethod
    def __exit__(self, *_: object) -> None:
        """Send them home."""

    @abstractmethod
    def blocks(self, blocks: Sequence[Block], options: Options, output: Output) -> Iterator[Done]:
        """Have blocks judged and written."""

    @abstractmethod
    def buckets(
        self,
        blocks: Sequence[ParquetBlock],
        buckets: Mapping[str, Sequence[str]],
        options: Options,
        output: Output,
    ) -> Iterator[Done]:
        """Have the files of repositories brought together out of all blocks, judged and written."""


class Work:
    """A worker; it goes on with the next block, whatever the last was."""

    def __init__(self, options: Options, output: Output) -> None:
        collect_seldom()
        self._judge = Judge(options)
        self._output = output

    def block(self, block: Block) -> Done:
        """Judge a block of the input."""
        start = time.perf_counter()
        try:
            is_hopeless = self._output.begin(block.key) > MAX_BEGUN
        except OutputError as error:
            return Done(block.key, failure=str(error))
        judge = self._judge.given_up if is_hopeless else self._judge.block
        return self._written(block.key, judge(block), start)

    def bucket(self, key: str, table: pa.Table, columns: parquet.Columns) -> Done:
        """Judge what is left of some repositories, of which these are all rows."""
        start, rows = time.perf_counter(), Rows()
        files = parquet.rows(table.combine_chunks(), columns)
        self._judge.project(files, rows, only_asking=True)
        return self._written(key, rows, start)

    def close(self) -> None:
        """End the processes that it has started."""
        self._judge.close()

    def _written(self, key: str, rows: Rows, start: float) -> Done:
        failure = ""
        try:
            self._output.write(key, rows)
        except OutputError as error:
            failure = str(error)
        sizes = sum(size for _, _, size, *_ in rows.files if isinstance(size, int))
        counts = (len(rows.files), len(rows.findings), rows.errors, sizes)
        return Done(key, *counts, time.perf_counter() - start, failure, os.getpid())


def row(done: Done) -> dict[str, list[Any]]:
    """As a batch of one row."""
    return {name: [value] for name, value in asdict(done).items()}


BUCKET = 16
"""Repositories that are looked at together where each is looked at as a whole."""


def buckets(repositories: Sequence[str], origin: str) -> dict[str, tuple[str, ...]]:
    """Groups of repositories by their keys; ``origin`` tells their dataset from others."""
    starts = range(0, len(repositories), BUCKET)
    groups = (tuple(repositories[start : start + BUCKET]) for start in starts)
    return {key_of("bucket", origin, *names): names for names in groups}
