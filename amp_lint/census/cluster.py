"""Hands blocks to workers: Ray Data says which does what and when, here or on many machines."""

from __future__ import annotations

import contextlib
import functools
import logging
import os
import pickle
import socket
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # it would tell others that it runs
os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # or it warns of what will change

import ray
import ray.data
import ray.exceptions

from amp_lint.census.block import Block
from amp_lint.census.judge import Options
from amp_lint.census.output import Output
from amp_lint.census.parquet import BUCKET, Columns, ParquetBlock
from amp_lint.census.work import Done, Work, Workers, row
from amp_lint.run import import_path
from amp_lint.run.choice import ConfigError
from amp_lint.text.printable import printable

_STORE_BYTES = 256 * 2**20
"""Of shared memory on this machine; what does not fit is on disk for a while."""
_PATIENCE = 10.0
"""Seconds for which a cluster is called."""
_NEEDED = (*import_path.NEEDED, "amp_lint", "pyarrow", "ray")
"""What workers import, from nowhere else than this process does."""
_BLOCK = "block"
_AUTHENTICATION = "RAY_AUTH_MODE"
_TOKENS = f"if it asks for tokens, set {_AUTHENTICATION}=token"
"""Clusters of newer versions of Ray do so by default, and clients not."""


class Cluster(Workers):
    """Workers, as a context."""

    def __init__(self, count: int, address: str | None, log: Path) -> None:
        """So many workers, of this machine or of the cluster at an address.

        What Ray's own code writes to stderr goes to ``log``.
        """
        self._workers = count
        self._address = address
        self._log = log
        self._aside = contextlib.ExitStack()

    def __enter__(self) -> Cluster:
        """Start workers here, or ask a cluster for them.

        Raises:
            ConfigError: there is no such cluster, or Ray does not start.
        """
        if self._address is not None:
            _require(self._address)
        where: dict[str, Any] = {"address": self._address}
        if self._address is None:
            where = {
                "address": "local",
                "num_cpus": self._workers,
                "include_dashboard": False,
                "object_store_memory": _STORE_BYTES,
            }
        self._aside.enter_context(_aside(self._log))
        os.environ["PYTHONPATH"] = os.pathsep.join(import_path.kept(_NEEDED))
        try:
            ray.init(**where, log_to_driver=False, logging_level=logging.CRITICAL)
        except (ConnectionError, OSError, RuntimeError, ValueError) as error:
            why = printable(" ".join(str(error).split())[:200])
            what = "Ray does not start"
            if self._address:
                what = f"no cluster answers at {self._address}"
                why += "" if _AUTHENTICATION in os.environ else f"; {_TOKENS}"
            self._aside.close()
            raise ConfigError(f"census: {what}: {why}") from error
        _quiet()
        return self

    def __exit__(self, *_: object) -> None:
        ray.shutdown()
        self._aside.close()

    def blocks(self, blocks: Sequence[Block], options: Options, output: Output) -> Iterator[Done]:
        """Have blocks judged and written, each by the next worker that is free."""
        judged = _dataset(blocks).map_batches(
            _Judging,
            batch_size=1,
            batch_format="pyarrow",
            fn_constructor_args=(options, output),
            concurrency=self._workers,
            num_cpus=1,
        )
        yield from _done(judged)

    def buckets(
        self,
        blocks: Sequence[ParquetBlock],
        buckets: Mapping[str, Sequence[str]],
        options: Options,
        output: Output,
    ) -> Iterator[Done]:
        """Bring the files of repositories together and have them judged."""
        wanted = {name: key for key, names in buckets.items() for name in names}
        columns = blocks[0].columns
        gathered = _dataset(blocks).map_batches(
            functools.partial(_gathered, wanted=ray.put(wanted)),
            batch_size=1,
            batch_format="pyarrow",
        )
        judge = functools.partial(_judged, columns=columns, options=options, output=output)
        yield from _done(gathered.groupby(BUCKET).map_groups(judge, batch_format="pyarrow"))


def _require(address: str) -> None:
    """Refuse a cluster that is not there; Ray would wait for it.

    Raises:
        ConfigError: nobody listens.
    """
    host, colon, port = address.removeprefix("ray://").rpartition(":")
    if not colon:
        return  # "auto", as Ray finds it
    try:
        socket.create_connection((host, int(port)), _PATIENCE).close()
    except (OSError, ValueError) as error:
        what = f"no cluster answers at {address}: {error}; `ray status` says where there is one"
        raise ConfigError(f"census: {what}") from error


@contextlib.contextmanager
def _aside(log: Path) -> Iterator[None]:
    """Have what is written to the stream of errors past Python go to a file."""
    sys.stderr.flush()
    kept = os.dup(2)
    before = sys.stderr
    with log.open("ab") as file, os.fdopen(os.dup(2), "w", errors="backslashreplace") as own:
        os.dup2(file.fileno(), 2)
        sys.stderr = own
        try:
            yield
        finally:
            sys.stderr = before
            os.dup2(kept, 2)
            os.close(kept)


def _quiet() -> None:
    context = ray.data.DataContext.get_current()
    context.enable_progress_bars = False
    context.enable_operator_progress_bars = False
    context.execution_no_progress_timeout_s = -1
    logging.getLogger("ray").setLevel(logging.CRITICAL)
    logging.getLogger("ray.data").setLevel(logging.CRITICAL)


def _dataset(blocks: Sequence[Block]) -> ray.data.Dataset:
    items = [{_BLOCK: pickle.dumps(block)} for block in blocks]
    return ray.data.from_items(items, override_num_blocks=len(items))


def _done(dataset: ray.data.Dataset) -> Iterator[Done]:
    try:
        for found in dataset.iter_rows():
            yield Done(**found)
    except ray.exceptions.RayError as error:
        why = printable(" ".join(str(error).split())[-300:])
        raise ConfigError(f"census: workers are lost: {why}; run it again to go on") from error


class _Judging:
    """A worker of Ray."""

    def __init__(self, options: Options, output: Output) -> None:
        self._work = Work(options, output)

    def __call__(self, batch: pa.Table) -> Iterator[dict[str, list[Any]]]:
        for pickled in batch.column(_BLOCK).to_pylist():
            yield row(self._work.block(pickle.loads(pickled)))


def _gathered(batch: pa.Table, wanted: ray.ObjectRef) -> Iterator[pa.Table]:
    keys: dict[str, str] = ray.get(wanted)
    for pickled in batch.column(_BLOCK).to_pylist():
        block: ParquetBlock = pickle.loads(pickled)
        yield from block.of_repositories(keys)


@functools.lru_cache(maxsize=1)
def _work(options: Options, output: Output) -> Work:
    """That of this process, which Ray uses again for the next group."""
    return Work(options, output)


def _judged(
    group: pa.Table, columns: Columns, options: Options, output: Output
) -> dict[str, list[Any]]:
    key = group.column(BUCKET)[0].as_py()
    return row(_work(options, output).bucket(key, group, columns))
