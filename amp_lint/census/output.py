"""Where the rows of blocks go: two files for each block, whole or not there."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from amp_lint.census import schema
from amp_lint.census.judge import Rows
from amp_lint.run.choice import ConfigError

FILES, FINDINGS, ASKING, BEGUN = "files", "findings", "asking", "begun"
"""The folders of the two datasets, of the repositories that wait for a second look, and of what
workers have begun in this run."""
_MANIFEST = "census.json"
_PART = ".part"
"""The end of a file that is being written."""
_ASKING = pa.schema([("repository", pa.string())])


class OutputError(Exception):
    """A block cannot be written; the message says why in one line."""


@dataclass(frozen=True)
class Output:
    """A folder with what a census has found."""

    folder: Path

    def prepare(self, what: dict[str, object]) -> None:
        """Make the folder, or take over what a run with the same options has left there.

        Raises:
            ConfigError: it cannot be made, or holds something else.
        """
        manifest = self.folder / _MANIFEST
        try:
            if manifest.exists():
                self._require(json.loads(manifest.read_text("utf-8")), what)
            elif self.folder.exists() and any(self.folder.iterdir()):
                raise ConfigError(f"census: {self.folder}: is not empty; name a new folder")
            for name in (FILES, FINDINGS, ASKING, BEGUN):
                (self.folder / name).mkdir(parents=True, exist_ok=True)
                for left in (self.folder / name).glob(f"*{_PART}"):
                    left.unlink()
            manifest.write_text(json.dumps(what, indent=2), "utf-8")
        except OSError as error:
            raise ConfigError(f"census: {self.folder}: cannot be written: {_why(error)}") from error
        except ValueError as error:
            raise ConfigError(f"census: {manifest}: cannot be read; name a new folder") from error

    def _require(self, before: dict[str, object], what: dict[str, object]) -> None:
        differ = [name for name in what if before.get(name) != what[name]]
        if differ:
            said = ", ".join(differ)
            advice = "name a new folder, or give the same again"
            raise ConfigError(
                f"census: {self.folder}: holds a census with another {said}; {advice}"
            )

    def done(self) -> set[str]:
        """The keys of the blocks that are there."""
        return {path.stem for path in (self.folder / FILES).glob("*.parquet")}

    def require_only(self, keys: Iterable[str]) -> None:
        """Refuse blocks that are not of this input.

        Raises:
            ConfigError: there are some.
        """
        if others := self.done() - {*keys}:
            what = f"holds {len(others)} blocks that are not of this input"
            raise ConfigError(
                f"census: {self.folder}: {what}, as it has changed; name a new folder"
            )

    def begin(self, key: str) -> int:
        """Note that a block is begun; how often it was, in this run.

        Raises:
            OutputError: that cannot be written.
        """
        try:
            with (self.folder / BEGUN / f"{key}{_PART}").open("ab") as file:
                file.write(b".")
                return file.tell()
        except OSError as error:
            raise OutputError(_why(error)) from error

    def write(self, key: str, rows: Rows) -> None:
        """Write the rows of a block; it counts as done when its files are there.

        Raises:
            OutputError: they cannot be written.
        """
        asking: list[tuple[object, ...]] = [(name,) for name in sorted(rows.asking)]
        try:
            if asking:
                self._write(ASKING, key, schema.table(_ASKING, asking))
            if rows.findings:
                self._write(FINDINGS, key, schema.table(schema.FINDINGS, rows.findings))
            self._write(FILES, key, schema.table(schema.FILES, rows.files))
            (self.folder / BEGUN / f"{key}{_PART}").unlink(missing_ok=True)
        except OSError as error:
            raise OutputError(_why(error)) from error

    def _write(self, name: str, key: str, table: pa.Table) -> None:
        path = self.folder / name / f"{key}.parquet"
        part = path.with_name(f"{path.name}.{os.getpid()}{_PART}")
        try:
            with part.open("wb") as file:
                pq.write_table(table, file, compression="zstd")
                file.flush()
                os.fsync(file.fileno())
            part.replace(path)
        except OSError:
            with contextlib.suppress(OSError):
                part.unlink()
            raise

    def asking(self) -> list[str]:
        """The repositories of which some block says that it has to be looked at as a whole."""
        found: set[str] = set()
        for path in sorted((self.folder / ASKING).glob("*.parquet")):
            found.update(pq.read_table(path).column("repository").to_pylist())
        return sorted(found)


def _why(error: OSError) -> str:
    return error.strerror or str(error)
