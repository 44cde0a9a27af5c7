"""Judges the files of a block, one by one, and turns what comes of them into rows."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath

from amp_lint import api
from amp_lint.census.block import SUFFIXES, Block, BlockError, File
from amp_lint.census.verdict import RULES, SYNTAX, Verdict, verdict
from amp_lint.report.data import Diagnostic, Location
from amp_lint.run.discover import SKIPPED
from amp_lint.run.job import Action, Job, linked, passes
from amp_lint.run.parallel import LIMIT, PATIENCE
from amp_lint.run.workers import Pool, StartError, WorkerError
from amp_lint.syntax.cells import python
from amp_lint.syntax.project import Links, asks
from amp_lint.text.printable import printable
from amp_lint.text.prose import without_prose
from amp_lint.vocabulary import written

EXCLUDED, REFUSED, BYTES, FAILED = "excluded", "refused", "bytes", "failed"
"""In a folder such as ``build``; too large; dismissed by its bytes; nobody could judge it."""

MAX_KNOWN = 10_000
"""Contents whose verdicts are kept, where bytes did not dismiss them: forks have the same files."""

MAX_CALLS = 400
"""Files that one process judges; to start the next one takes as long as two or three."""
MAX_HELD = 200_000_000
"""Bytes after which another process goes on: what a large file took is not given back."""

Row = tuple[object, ...]


@dataclass(frozen=True)
class Options:
    """How files are judged."""

    settings: api.Settings = api.DEFAULT
    cross_file: bool = False
    max_bytes: int = 2_000_000
    """Of a file; a larger one is refused."""


@dataclass
class Rows:
    """What came of the files of a block, in the order of the columns of `schema`."""

    files: list[Row] = field(default_factory=list)
    findings: list[Row] = field(default_factory=list)
    asking: set[str] = field(default_factory=set)
    """Repositories of which a file is still to be judged, together with the others."""
    errors: int = 0


class Judge:
    """Judges blocks, in a process of its own what their bytes do not dismiss."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._selection = api.selection(options.settings)
        self._pool = Pool(size=1)
        self._calls = self._held = 0
        self._known: dict[tuple[str, str], Verdict] = {}
        """What came of the last contents that were judged alone."""

    def close(self) -> None:
        """End the process."""
        self._pool.close()

    def block(self, block: Block) -> Rows:
        """The rows of a block; what cannot be read is a row with an error."""
        rows = Rows()
        try:
            with block.opened() as files:
                if block.whole and self._options.cross_file:
                    self.project(files, rows)
                else:
                    for file in files:
                        self._file(file, rows, None)
        except BlockError as error:
            self._broken(block.title, str(error), rows)
        except Exception as error:  # whatever a library raises costs this block alone
            self._broken(block.title, f"{type(error).__name__}: {error}", rows)
        return rows

    def given_up(self, block: Block) -> Rows:
        """The row of a block that nobody comes back from."""
        rows = Rows()
        self._broken(block.title, "has ended the worker that judged it, each time", rows)
        return rows

    def project(self, files: Iterable[File], rows: Rows, *, only_asking: bool = False) -> None:
        """Judge the files of repositories, each with what it imports from the others of its own.

        ``only_asking`` leaves out those that were judged alone, as they ask for no other.
        """
        repositories: dict[str, dict[str, File]] = {}
        for file in files:
            repositories.setdefault(file.repository, {})[file.path] = file
        for each in repositories.values():
            project = api.Project(_Contents(self._readable(each)))
            for file in each.values():
                self._file(file, rows, project, only_asking=only_asking)

    def _readable(self, files: Mapping[str, File]) -> dict[str, File]:
        limit = self._options.max_bytes
        return {
            path: file
            for path, file in files.items()
            if file.size <= limit and not _is_excluded(path)
        }

    def _file(
        self, file: File, rows: Rows, project: api.Project | None, *, only_asking: bool = False
    ) -> None:
        if _is_excluded(file.path):
            return None if only_asking else self._add(file, rows, Verdict(EXCLUDED))
        if file.size > self._options.max_bytes:
            error = f"has {file.size} bytes, more than {self._options.max_bytes}; raise --max-bytes"
            return None if only_asking else self._add(file, rows, Verdict(REFUSED, (), error))
        start = time.process_time()
        try:
            data = file.read()
        except (OSError, BlockError) as error:
            return None if only_asking else self._add(file, rows, Verdict(FAILED, (), str(error)))
        if self._options.cross_file and (project is None or only_asking):
            is_asking = asks(python(data, file.path)[0], self._selection.sieve)
            if is_asking and project is None:
                rows.asking.add(file.repository)
            if is_asking is (project is None):
                return None
        digest = hashlib.sha256(data).hexdigest()
        found = (
            self._alone(file, data, digest)
            if project is None
            else self._linked(file, data, project)
        )
        seconds = found.seconds + time.process_time() - start
        return self._add(file, rows, found, data, digest, seconds)

    def _alone(self, file: File, data: bytes, digest: str) -> Verdict:
        """What comes of a file by itself; at once, where its content was there lately."""
        key = digest, PurePosixPath(file.path).suffix
        known = self._known.pop(key, None)
        if known is None:
            known = self._verdict(file, data, python(data, file.path), None)
        if known.stage in (SYNTAX, RULES) and known.error is None:
            self._known[key] = replace(known, seconds=0.0)
        while len(self._known) > MAX_KNOWN:
            del self._known[next(iter(self._known))]
        findings = tuple(replace(each, filename=file.path) for each in known.findings)
        return replace(known, findings=findings)

    def _linked(self, file: File, data: bytes, project: api.Project) -> Verdict:
        code, imports = python(data, file.path), project.imports(fixing=False)
        links = linked(imports, Path(file.path), code[0], self._selection)
        return self._verdict(file, data, code, links)

    def _verdict(
        self, file: File, data: bytes, code: tuple[bytes, bytes], links: Links | None
    ) -> Verdict:
        if not passes(code, self._selection, links):
            return Verdict(BYTES)
        self._renew()
        job = Job(file.path, data, False, self._selection, Action.REPORT, links=links)
        try:
            found = self._called(job).result()[0]
        except StartError:
            return verdict(job)
        except WorkerError as error:
            return Verdict(FAILED, (), f"{error} while it was analysed; exclude it")
        self._held = found.held
        return found

    def _renew(self) -> None:
        """Have another process from time to time: what one keeps of old files grows."""
        self._calls += 1
        if self._calls >= MAX_CALLS or self._held > MAX_HELD:
            self._pool.close()
            self._pool = Pool(size=1)
            self._calls = self._held = 0

    def _called(self, job: Job) -> Future[tuple[Verdict, float]]:
        return self._pool.submit(LIMIT + PATIENCE * job.seconds, verdict, job)

    def _broken(self, title: str, error: str, rows: Rows) -> None:
        file = File("", title, 0, bytes)
        self._add(file, rows, Verdict(FAILED, (), printable(error)))

    def _add(
        self,
        file: File,
        rows: Rows,
        found: Verdict,
        data: bytes | None = None,
        digest: str | None = None,
        seconds: float = 0.0,
    ) -> None:
        is_amp = data is not None and _uses_amp(data)
        count, error = len(found.findings), found.error
        rows.errors += error is not None
        rows.files.append(
            (
                *(file.repository, file.path, file.size, digest, found.stage, is_amp),
                *(count, round(seconds, 6), error, file.commit, file.year),
            )
        )
        rows.findings += (finding_row(file.repository, each) for each in found.findings)


class _Contents(Mapping[str, bytes]):
    """The files of a repository, read when they are asked for."""

    def __init__(self, files: Mapping[str, File]) -> None:
        self._files = files

    def __getitem__(self, path: str) -> bytes:
        try:
            return self._files[path].read()
        except BlockError as error:
            raise OSError(str(error)) from error

    def __iter__(self) -> Iterator[str]:
        return iter(self._files)

    def __len__(self) -> int:
        return len(self._files)


def _is_excluded(path: str) -> bool:
    """Whether the command line would not find it, or not as Python."""
    return not path.endswith(SUFFIXES) or not SKIPPED.isdisjoint(PurePosixPath(path).parts[:-1])


def _uses_amp(data: bytes) -> bool:
    """Whether the code opens an autocast region or makes a scaler."""
    return written.USES_AMP.found_in(data) and written.USES_AMP.found_in(without_prose(data))


def finding_row(repository: str, found: Diagnostic) -> Row:
    """A finding in the order of the columns."""
    fix = found.fix
    return (
        *(repository, found.filename, found.code, found.name, found.severity, found.message),
        *_span(found.location, found.end_location),
        *(found.cell, found.noqa_row, found.preview),
        *((fix.message, fix.applicability) if fix else (None, None)),
        [_place("content", e.content, e.location, e.end_location, e.cell) for e in fix.edits]
        if fix
        else None,
        [_place("message", r.message, r.location, r.end_location, r.cell) for r in found.related],
    )


def _span(start: Location, end: Location) -> tuple[int, int, int, int]:
    return start.row, start.column, end.row, end.column


def _place(
    name: str, text: str, start: Location, end: Location, cell: int | None
) -> dict[str, object]:
    places = zip(("row", "column", "end_row", "end_column"), _span(start, end), strict=True)
    return {name: text, **dict(places), "cell": cell}
