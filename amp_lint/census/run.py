"""One census: from INPUT to blocks, from blocks to OUTPUT."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from amp_lint import __version__
from amp_lint.census import archives, mirrors, parquet
from amp_lint.census.block import Block, key_of
from amp_lint.census.judge import Options
from amp_lint.census.output import Output
from amp_lint.census.parquet import Columns, ParquetBlock
from amp_lint.census.schema import VERSION
from amp_lint.census.work import Done, Workers, buckets
from amp_lint.run.choice import ConfigError
from amp_lint.run.session import CLEAN, ERROR
from amp_lint.text.files import absolute
from amp_lint.text.printable import printable

if TYPE_CHECKING:
    from amp_lint.census.options import CensusOptions

LOG = "ray.log"
"""What Ray has to say, in OUTPUT."""
_EVERY = 5.0
"""Seconds between two lines about how far it is."""


def run(options: CensusOptions, workers: Workers | None = None) -> int:
    """Judge what INPUT has that OUTPUT lacks; the exit code. The workers are those of Ray.

    Raises:
        ConfigError: INPUT, OUTPUT or the cluster is not what it has to be.
    """
    source, target = (absolute(Path(name)) for name in options.where)  # as workers see them
    judging = Options(options.settings, options.cross_file, options.max_bytes)
    blocks = found(source, Columns(**dict(options.column or ())), options.block_rows)
    output = Output(target)
    output.prepare(_manifest(judging, options, blocks))
    census = _Census(blocks, judging, output, _Progress(enabled=not options.quiet))
    return census.run(workers or _cluster(options, target / LOG))


def _cluster(options: CensusOptions, log: Path) -> Workers:
    from amp_lint.census.cluster import Cluster

    return Cluster(options.workers, options.address, log)


def found(source: Path, columns: Columns, size: int) -> Sequence[Block]:
    """The blocks of INPUT, whatever it is.

    Raises:
        ConfigError: there is none, or it cannot be read.
    """
    try:
        if source.is_dir():
            if next(source.rglob(f"*{parquet.SUFFIX}"), None):
                return parquet.blocks(source, columns, size)
            blocks: Sequence[Block] = archives.in_folder(source) or mirrors.blocks(source)
        elif source.suffix == parquet.SUFFIX and source.is_file():
            return parquet.blocks(source, columns, size)
        else:
            blocks = archives.listed(source)
    except OSError as error:
        raise ConfigError(f"census: {source}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        kinds = "neither a Parquet file nor a list of packages"
        raise ConfigError(f"census: {source}: is {kinds}; see `amp-lint census --help`") from error
    if not blocks:
        kinds = "no Parquet file, git repository or archive" if source.is_dir() else "no package"
        raise ConfigError(f"census: {source}: has {kinds} in it; see `amp-lint census --help`")
    return blocks


def _manifest(
    judging: Options, options: CensusOptions, blocks: Sequence[Block]
) -> dict[str, object]:
    """What has to be the same where a census goes on."""
    settings = asdict(judging.settings).items()
    return {
        "amp-lint": __version__,
        "schema": VERSION,
        "settings": {n: [*v] if isinstance(v, tuple) else v for n, v in settings},
        "--cross-file": judging.cross_file,
        "--max-bytes": judging.max_bytes,
        "--block-rows": None if blocks[0].whole else options.block_rows,
        "Python": "{}.{}".format(*sys.version_info),
    }


class _Census:
    """What is to be done, and what came of it."""

    def __init__(
        self, blocks: Sequence[Block], options: Options, output: Output, progress: _Progress
    ) -> None:
        self._blocks = blocks
        self._options = options
        self._output = output
        self._progress = progress

    def run(self, workers: Workers) -> int:
        """Do what is left; the exit code."""
        keys = [block.key for block in self._blocks]
        done = self._output.done()
        self._output.require_only([*keys, *(self._buckets(keys) if done.issuperset(keys) else ())])
        todo = [block for block, key in zip(self._blocks, keys, strict=True) if key not in done]
        self._progress.begin(len(todo), len(keys) - len(todo))
        spread = [block for block in self._blocks if isinstance(block, ParquetBlock)]
        if todo or self._waiting(keys):
            with workers:
                judged = workers.blocks(todo, self._options, self._output) if todo else ()
                if failed := self._follow(judged):
                    return self._failed(failed)
                if rest := self._waiting(keys):
                    self._progress.begin(len(rest), 0)
                    judged = workers.buckets(spread, rest, self._options, self._output)
                    if failed := self._follow(judged):
                        return self._failed(failed)
        self._progress.end()
        return CLEAN

    def _buckets(self, keys: Sequence[str]) -> dict[str, tuple[str, ...]]:
        return buckets(self._output.asking(), key_of(*keys))

    def _waiting(self, keys: Sequence[str]) -> dict[str, tuple[str, ...]]:
        """The groups of repositories that are still to be looked at as a whole."""
        done = self._output.done()
        if not done.issuperset(keys):
            return {}
        return {key: names for key, names in self._buckets(keys).items() if key not in done}

    def _follow(self, judged: Iterable[Done]) -> str:
        """Wait for what comes; why it cannot be written, if it cannot."""
        for each in judged:
            if each.failure:
                return each.failure
            self._progress.add(each)
        return ""

    def _failed(self, why: str) -> int:
        kept = "what is finished is kept, run it again to go on"
        line = f"error: census: {self._output.folder}: cannot be written: {why}; {kept}"
        print(printable(line), file=sys.stderr)
        return ERROR


@dataclass
class _Progress:
    """Says on stderr how far a census is, and how fast."""

    enabled: bool
    _todo: int = 0
    _blocks: int = 0
    _total: Done = field(default_factory=lambda: Done(""))
    _start: float = field(default_factory=time.monotonic)
    _told: float = 0.0

    def begin(self, todo: int, there: int) -> None:
        """So many blocks are to be judged, and so many are there."""
        self._todo, self._blocks = todo, 0
        if there:
            self._say(f"{there} blocks are there, {todo} are left")

    def add(self, done: Done) -> None:
        """A block is there."""
        self._blocks += 1
        self._total = Done(
            "",
            *(
                getattr(self._total, n) + getattr(done, n)
                for n in ("files", "findings", "errors", "bytes")
            ),
        )
        if time.monotonic() - self._told > _EVERY:
            self._told = time.monotonic()
            self._say(f"{self._blocks}/{self._todo} blocks, {self._counts()}")

    def end(self) -> None:
        """All is there."""
        self._say(f"done: {self._counts()}")

    def _counts(self) -> str:
        total, seconds = self._total, max(time.monotonic() - self._start, 1e-3)
        rate = f"{total.files / seconds:,.0f} files/s, {total.bytes / 1e6 / seconds:,.1f} MB/s"
        return (
            f"{total.files:,} files, {total.findings:,} findings, {total.errors:,} errors, {rate}"
        )

    def _say(self, text: str) -> None:
        if self.enabled:
            print(text, file=sys.stderr, flush=True)
