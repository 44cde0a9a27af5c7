"""What must hold for the bytes of any file, asked through the command line as users call it."""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import re
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias
from unittest import mock

from amp_lint import cli
from amp_lint.edit import edits
from amp_lint.run import job
from amp_lint.text.diagnostic import SYNTAX_ERROR, Edit, Fix
from fuzz.code import parsed

MOST_SECONDS = 10.0
"""CPU time of one run on one file."""
NAME = "a.py"
_SAFE = ("--fix",)
_ALL = ("--fix", "--unsafe-fixes")

Problem: TypeAlias = tuple[str, str]
"""What does not hold, and where or how; the same for all that fail for one reason."""


@dataclass
class Verdict:
    """What came of one file."""

    problems: list[Problem] = field(default_factory=list)
    digest: str = ""
    """Of the findings, to be compared with those of another process."""
    findings: int = 0
    fixed: bool = False
    seconds: float = 0.0
    """CPU time of the longest run."""


@dataclass(frozen=True)
class Done:
    """What one run of the command line said."""

    code: int
    out: bytes
    err: str
    seconds: float


def judged(data: bytes) -> Verdict:
    """All that does not hold for a file with these bytes."""
    with tempfile.TemporaryDirectory(prefix="campaign-") as folder:
        return Case(Path(folder), data).judge()


class Case:
    """The runs on one file, in a folder of its own."""

    def __init__(self, folder: Path, data: bytes) -> None:
        self._path = folder / NAME
        self._data = data
        self._verdict = Verdict()
        self._raised: list[BaseException] = []

    def judge(self) -> Verdict:
        self._path.write_bytes(self._data)
        first = self._run("--output-format=json")
        said = (first.out + first.err.encode()).replace(self._path.parent.name.encode(), b"")
        self._verdict.digest = hashlib.sha256(said).hexdigest()[:16]
        if first != self._run("--output-format=json", like=first):
            self._problem("unstable", "a second run finds something else")
        found = self._findings(first)
        self._verdict.findings = len(found)
        self._expect_code(first, 1 if found else 0)
        self._run("--show-all")
        if parsed(self._data) is None and not (first.code == 2 or _is_syntax_error(found)):
            self._problem("silent", "no Python, and nothing is said")
        for options in (_SAFE, _ALL):
            self._fix(options, found)
        return self._verdict

    def _fix(self, options: Sequence[str], found: Sequence[dict[str, Any]]) -> None:
        self._path.write_bytes(self._data)
        preview = self._run("--diff", *options[1:])
        if self._path.read_bytes() != self._data:
            self._problem("writes", "--diff changes the file")
        with watched_edits() as torn:
            done = self._run(*options, "--output-format=json")
        fixed = self._path.read_bytes()
        if torn:
            self._problem("torn", "a character outside of the edits changes")
        if patched(self._data, preview.out) != fixed:
            self._problem("diff", f"--diff{' '.join(options[1:])} is not what --fix does")
        self._left(done, options)
        if fixed != self._data:
            self._verdict.fixed = True
            self._after(fixed, options)
        elif _applicable(found, options) and not (done.code == 2 or self._verdict.problems):
            self._problem("ignored", "a fix that is offered changes nothing")

    def _after(self, fixed: bytes, options: Sequence[str]) -> None:
        """What must hold for a fixed text."""
        if parsed(fixed) is None:
            self._problem("no Python", "the fixed text does not parse")
        self._run(*options, "--output-format=json")
        if self._path.read_bytes() != fixed:
            self._problem("not idempotent", "a second --fix changes the file")

    def _left(self, done: Done, options: Sequence[str]) -> None:
        if left := _applicable(self._findings(done), options):
            codes = {finding["code"] for finding in left}
            if "would lose bytes" not in done.err:
                names = ", ".join(sorted(codes))
                self._problem("left", f"{names} is marked fixable after --fix")

    def _findings(self, done: Done) -> list[dict[str, Any]]:
        try:
            return list(json.loads(done.out or b"[]"))
        except ValueError:
            self._problem("output", "no JSON")
            return []

    def _expect_code(self, done: Done, code: int) -> None:
        if done.code != code and not (done.code == 2 and done.err):
            self._problem("exit status", f"{done.code} for {code}")

    def _problem(self, kind: str, detail: str) -> None:
        if (kind, detail) not in self._verdict.problems:
            self._verdict.problems.append((kind, detail))

    def _run(self, *options: str, like: Done | None = None) -> Done:
        """One run; ``like`` an earlier one, of which it takes the time, to be compared."""
        started = time.process_time()
        with remembered_errors(self._raised):
            try:
                code, out, err = run(self._path, *options)
            except BaseException as error:
                if isinstance(error, KeyboardInterrupt):
                    raise
                self._raised.append(error)
                code, out, err = -1, b"", ""
        seconds = time.process_time() - started
        self._verdict.seconds = max(self._verdict.seconds, seconds)
        if seconds > MOST_SECONDS:
            self._problem("slow", f"more than {MOST_SECONDS:g} s of CPU time")
        self._look(err)
        return Done(code, out, err, like.seconds if like else seconds)

    def _look(self, err: str) -> None:
        """What must not stand in stderr, and what was raised."""
        for error in self._raised:
            self._problem("crash", place_of(error))
        for line in err.splitlines():
            known = line.startswith(("error: ", "warning: ", "Would fix", "No errors would"))
            if not known or "process died" in line:
                self._problem("stderr", line[:60])
        if "internal error" in err and not self._raised:
            self._problem("crash", "internal error")
        self._raised.clear()


def run(path: Path, *options: str) -> tuple[int, bytes, str]:
    """The command line on one file, in this process: exit status, stdout and stderr."""
    out = io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True)
    err = io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True)
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = cli.main([*options, "--isolated", "--preview", str(path)])
    return code, out.buffer.getvalue(), err.buffer.getvalue().decode()


@contextlib.contextmanager
def remembered_errors(raised: list[BaseException]) -> Iterator[None]:
    """Keep what `job.lint` makes a line of, to say where it came from."""

    def is_interrupt(error: BaseException | None) -> bool:
        if isinstance(error, Exception):
            raised.append(error)
        return real(error)

    real: Callable[[BaseException | None], bool] = job._is_interrupt
    with mock.patch.object(job, "_is_interrupt", is_interrupt):
        yield


def place_of(error: BaseException) -> str:
    """The kind of an error and where it was raised, in the innermost code of amp-lint."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if re.search(r"[/\\](amp_lint|rules)[/\\]", frame.filename)]
    if not own:
        return type(error).__name__
    where = Path(own[-1].filename)
    return f"{type(error).__name__} in {where.parent.name}/{where.name}, {own[-1].name}"


@contextlib.contextmanager
def watched_edits() -> Iterator[list[str]]:
    """The texts of which applying fixes changed something outside of the edits."""
    real, torn = edits.apply, list[str]()

    def apply(text: str, fixes: list[Fix]) -> tuple[str, list[Fix]]:
        after, applied = real(text, fixes)
        if not kept_by(applied, text, after):
            torn.append(text)
        return after, applied

    with mock.patch.object(edits, "apply", apply):
        yield torn


def kept_by(fixes: list[Fix], before: str, after: str) -> bool:
    """Whether ``after`` consists of what the edits leave and what they write, in this order."""
    rest, position = after, 0
    ordered = sorted({edit for fix in fixes for edit in fix.edits}, key=_place)
    for edit in [*ordered, Edit(len(before), len(before), "")]:
        expected = before[position : edit.start] + edit.content
        if edit.start < position or not rest.startswith(expected):
            return False
        rest, position = rest[len(expected) :], edit.end
    return not rest


def _place(edit: Edit) -> tuple[int, int]:
    return edit.start, edit.end


def _is_syntax_error(found: Sequence[dict[str, Any]]) -> bool:
    return any(finding["code"] == SYNTAX_ERROR for finding in found)


def _applicable(found: Sequence[dict[str, Any]], options: Sequence[str]) -> list[dict[str, Any]]:
    """The findings that are marked as fixable under some options."""
    kinds = {"safe", "unsafe"} if "--unsafe-fixes" in options else {"safe"}
    return [each for each in found if each["fix"] and each["fix"]["applicability"] in kinds]


_HUNK = re.compile(rb"@@ -(\d+)(?:,(\d+))? \+\d+(?:,\d+)? @@")


def patched(data: bytes, diff: bytes) -> bytes:
    """A file after a unified diff of it; lines end with ``\\n`` and nothing else."""
    old, new, at = io.BytesIO(data).readlines(), list[bytes](), 0
    lines = io.BytesIO(diff).readlines()[2:]
    for index, line in enumerate(lines):
        text = line[1:]
        if lines[index + 1 : index + 2] and lines[index + 1].startswith(b"\\ No newline"):
            text = text[:-1]
        if match := _HUNK.match(line):
            start = int(match[1]) - (match[2] != b"0")
            new += old[at:start]
            at = start
        elif line.startswith(b"+"):
            new.append(text)
        elif line.startswith((b" ", b"-")):
            assert old[at] == text, "the diff is not one of this file"
            new += [text] * line.startswith(b" ")
            at += 1
    return b"".join([*new, *old[at:]])
