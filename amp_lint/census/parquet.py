"""Blocks of a Parquet dataset that has a row for each file."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from amp_lint.census.block import Block, BlockError, File, key_of
from amp_lint.run.choice import ConfigError
from amp_lint.text.printable import printable

SUFFIX = ".parquet"
BUCKET = "amp-lint bucket"
"""The column with the key of a group of repositories."""
_BATCH = 64
"""Rows that are in memory at once, besides the pages that they lie in."""
_FOOTER = 8
"""Bytes at the end: the length of the footer, and a magic word."""


@dataclass(frozen=True)
class Columns:
    """What the columns are called; None for one that there is not."""

    repository: str = "repository"
    path: str = "path"
    content: str = "content"
    commit: str | None = None
    date: str | None = None

    @property
    def given(self) -> list[str]:
        """The names of those that there are."""
        names = (self.repository, self.path, self.content, self.commit, self.date)
        return [name for name in names if name is not None]


@dataclass(frozen=True)
class ParquetBlock(Block):
    """Some row groups of a file, or a file of which not even the footer can be read."""

    file: str
    name: str
    """The file as its dataset has it."""
    groups: tuple[int, ...]
    columns: Columns
    footer: str
    """What the footer says of all that is in the file, as a hash."""

    @functools.cached_property
    def key(self) -> str:
        """From the footer, which has the size, place and range of each piece of a column."""
        return key_of(self.name, self.groups, self.columns, self.footer)

    @property
    def title(self) -> str:
        """The file, and which part of it."""
        return f"{self.name}#{self.groups[0]}-{self.groups[-1]}" if self.groups else self.name

    @property
    def whole(self) -> bool:
        """Nothing says that rows of a repository stand together."""
        return False

    @contextlib.contextmanager
    def opened(self) -> Iterator[Iterator[File]]:
        """Its rows, a few at a time."""
        batches = self.batches(self.columns.given)
        yield (file for batch in batches for file in rows(batch, self.columns))

    def batches(self, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Some of its columns, a few rows at a time.

        Raises:
            BlockError: it cannot be read, or not to its end.
        """
        try:
            with pq.ParquetFile(self.file) as opened:
                yield from opened.iter_batches(
                    _BATCH, row_groups=[*self.groups], columns=[*names], use_threads=False
                )
        except (OSError, pa.ArrowException) as error:
            raise BlockError(f"cannot be read: {printable(str(error))}") from error

    def of_repositories(self, keys: Mapping[str, str]) -> Iterator[pa.Table]:
        """The rows of some repositories, each with the key that its repository has.

        Of what cannot be read there are none: who judges the block says so.
        """
        with contextlib.suppress(BlockError):
            for batch in self.batches(self.columns.given):
                table = pa.Table.from_batches([batch])
                names = table.column(self.columns.repository)
                table = table.filter(pc.is_in(names, pa.array([*keys], pa.string())))
                if table.num_rows:
                    yield self._with_keys(table, keys)

    def _with_keys(self, table: pa.Table, keys: Mapping[str, str]) -> pa.Table:
        names = table.column(self.columns.repository).to_pylist()
        index = table.schema.get_field_index(self.columns.content)
        content = table.column(index).cast(pa.large_binary())  # 2 GB is little for a repository
        table = table.set_column(index, self.columns.content, content)
        return table.append_column(BUCKET, pa.array([keys[name] for name in names], pa.string()))


def rows(batch: pa.RecordBatch | pa.Table, columns: Columns) -> Iterator[File]:
    """The files of a batch."""
    repositories, paths = (
        batch.column(name).to_pylist() for name in (columns.repository, columns.path)
    )
    contents = batch.column(columns.content).cast(pa.large_binary())
    commits = (None if each is None else str(each) for each in _values(batch, columns.commit))
    years = map(_year, _values(batch, columns.date))
    every = zip(repositories, paths, commits, years, strict=True)
    for index, (repository, path, commit, year) in enumerate(every):
        content = contents[index]
        read = functools.partial(_bytes, content)
        size = len(content.as_buffer()) if content.is_valid else 0
        yield File(repository or "", path or "", size, read, commit, year)


def _bytes(content: pa.Scalar) -> bytes:
    if not content.is_valid:
        raise BlockError("has no content")
    data: bytes = content.as_py()
    return data


def _values(batch: pa.RecordBatch | pa.Table, name: str | None) -> list[Any]:
    return [None] * batch.num_rows if name is None else batch.column(name).to_pylist()


def _year(value: object) -> int | None:
    """The year of a date, or of a text that begins with one."""
    year = getattr(value, "year", None)
    if isinstance(value, str) and value[:4].isdecimal():
        year = int(value[:4])
    return year if isinstance(year, int) else None


def blocks(path: Path, columns: Columns, size: int) -> list[ParquetBlock]:
    """The blocks of a dataset, each of about ``size`` rows.

    Raises:
        ConfigError: a column is missing or has a wrong type, or there is no row.
    """
    files = sorted(path.rglob(f"*{SUFFIX}")) if path.is_dir() else [path]
    top = path if path.is_dir() else path.parent
    columns = _completed(columns, files)
    made = [block for file in files for block in _of_file(file, top, columns, size)]
    if not made:
        raise ConfigError(f"census: {path}: has no row; name a dataset with files")
    return made


def _completed(columns: Columns, files: Sequence[Path]) -> Columns:
    """The columns, with those of commits and dates where every file has them under these names."""
    there: list[set[str]] = []
    for file in files:
        with contextlib.suppress(OSError, pa.ArrowException):
            there.append({*pq.read_schema(file).names})
    found = set.intersection(*there) - {*columns.given} if there else set()
    missing = [what for what in ("commit", "date") if getattr(columns, what) is None]
    return replace(columns, **{what: what for what in missing if what in found})


def _of_file(file: Path, top: Path, columns: Columns, size: int) -> Iterator[ParquetBlock]:
    place = str(file), file.relative_to(top).as_posix()
    try:
        footer, metadata, schema = _footer(file), pq.read_metadata(file), pq.read_schema(file)
    except (OSError, pa.ArrowException):
        yield ParquetBlock(*place, (), columns, f"broken {file.stat().st_size}")
        return
    _check(file, schema, columns)
    rows = [metadata.row_group(index).num_rows for index in range(metadata.num_row_groups)]
    for groups in _grouped(rows, size):
        yield ParquetBlock(*place, groups, columns, footer)


def _footer(file: Path) -> str:
    with file.open("rb") as opened:
        end = opened.seek(0, 2)
        opened.seek(max(end - _FOOTER, 0))
        length = int.from_bytes(opened.read(4), "little")
        opened.seek(max(end - _FOOTER - length, 0))
        return key_of(end, opened.read(length).hex())


def _grouped(rows: Iterable[int], size: int) -> Iterator[tuple[int, ...]]:
    """Indices of row groups that stand together, so that each has ``size`` rows or is alone."""
    groups: list[int] = []
    count = 0
    for index, number in enumerate(rows):
        if groups and count + number > size:
            yield tuple(groups)
            groups, count = [], 0
        if number:
            groups.append(index)
            count += number
    if groups:
        yield tuple(groups)


def _check(file: Path, schema: pa.Schema, columns: Columns) -> None:
    """Raise ConfigError unless the columns are there and have types that can be read."""
    for name in columns.given:
        if name not in schema.names:
            there = ", ".join(schema.names)
            advice = "say which is which with --column"
            raise ConfigError(f"census: {file}: has no column {name!r} but {there}; {advice}")
    for name in (columns.repository, columns.path, columns.content):
        kind = schema.field(name).type
        kind = kind.value_type if pa.types.is_dictionary(kind) else kind
        is_text = pa.types.is_string(kind) or pa.types.is_large_string(kind)
        is_bytes = pa.types.is_binary(kind) or pa.types.is_large_binary(kind)
        if not (is_text or (is_bytes and name == columns.content)):
            raise ConfigError(f"census: {file}: column {name!r} is {kind}, and has to be text")
