"""Runs of ``amp-lint --fix`` that are killed or interrupted at some moment."""

from __future__ import annotations

import contextlib
import functools
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from amp_lint import fixing
from amp_lint.__main__ import INTERRUPTED
from amp_lint.run import runner
from amp_lint.text.source import Source
from fuzz import bases
from fuzz.neutral import ALL
from fuzz.oracle import Problem

MOST_SECONDS = 120.0
_MARK = "AMP_LINT_CAMPAIGN"
_SIZES = {"one process": (24, 0), "workers": (60, runner.PARALLEL_BYTES // 40)}
"""How many files, and how many bytes of comment at the end of each."""
MOMENTS = ("any", "writing", "temporary file")
STARTING = "before amp-lint is imported"
SAID = "interrupted: every file is either as it was or fixed\n"


@dataclass
class Round:
    """What came of one run that was ended."""

    size: str
    moment: str
    signal: str
    problems: list[Problem] = field(default_factory=list)
    code: int | None = None
    written: int = 0
    """Files that were fixed when the run ended."""
    temporaries: int = 0
    """Files that the run left beside them."""
    late: bool = False
    """Whether the run had ended before."""
    seconds: float = 0.0
    """From the signal to the end."""

    def problem(self, kind: str, detail: str) -> None:
        if (kind, detail) not in self.problems:
            self.problems.append((kind, detail))


@dataclass(frozen=True)
class Folder:
    """Files to fix, what fixing makes of them, and how long that takes."""

    old: dict[str, bytes]
    new: dict[str, bytes]
    seconds: float

    @property
    def changing(self) -> int:
        """How many files fixing changes."""
        return sum(self.new[name] != data for name, data in self.old.items())


@functools.cache
def folder(size: str) -> Folder:
    """The files for one size of run."""
    number, padding = _SIZES[size]
    old = dict(_files(number, padding))
    with tempfile.TemporaryDirectory(prefix="campaign-") as name:
        here = Path(name)
        _write(here, old)
        started = time.monotonic()
        process = _start(here, "reference")
        _, err = process.communicate(timeout=MOST_SECONDS)
        seconds = time.monotonic() - started
        if process.returncode not in (0, 1):
            raise RuntimeError(f"fixing the folder fails: {err}")
        new = {path.name: path.read_bytes() for path in here.iterdir()}
    return Folder(old, new, seconds)


def _files(number: int, padding: int) -> Iterator[tuple[str, bytes]]:
    """Programs, most of which fixing changes; none where a fix is refused."""
    chosen, count = random.Random(0), 0
    while count < number:
        base = bases.own(chosen.choice(sorted(bases.OWN)), chosen)
        source = Source(f"{base.text}# {'x' * padding}\n".encode(), base.name)
        if not fixing.fix(source, ALL).refused:
            yield f"{count:03}.py", source.data
            count += 1


def _write(here: Path, files: dict[str, bytes]) -> None:
    for name, data in files.items():
        (here / name).write_bytes(data)


def _start(here: Path, mark: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "amp_lint", "--fix", "--isolated", "--preview", str(here)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        start_new_session=True,
        text=True,
        errors="replace",
        env={**os.environ, _MARK: mark},
        cwd=Path(sys.executable).anchor,
    )


def drawn(chosen: random.Random, number: signal.Signals) -> Round:
    """Any run that gets a signal at any moment."""
    return played(chosen, number, chosen.choice(sorted(_SIZES)), chosen.choice(MOMENTS))


def played(chosen: random.Random, number: signal.Signals, size: str, moment: str) -> Round:
    """One run that gets a signal at some moment, what it leaves, and the run after it."""
    files = folder(size)
    done = Round(size, moment, number.name)
    mark = f"{os.getpid()}-{time.monotonic_ns()}"
    with tempfile.TemporaryDirectory(prefix="campaign-") as name:
        here = Path(name)
        _write(here, files.old)
        process = _start(here, mark)
        _wait(process, here, files, done.moment, chosen)
        done.late = process.poll() is not None
        _send(process, number, chosen)
        sent = time.monotonic()
        _, err = _ended(process, done)
        done.code, done.seconds = process.returncode, time.monotonic() - sent
        _look_at_files(here, files, done)
        _look_at_processes(mark, done)
        if number == signal.SIGINT:
            _look_at_words(done, err, complete=done.written == files.changing)
        _run_again(here, files, done)
    return done


def _wait(
    process: subprocess.Popen[str], here: Path, files: Folder, moment: str, chosen: random.Random
) -> None:
    """Wait for a moment of the run, or for its end."""
    seen, wanted = set[str](), chosen.randrange(1, files.changing // 2)
    deadline = time.monotonic() + MOST_SECONDS
    while process.poll() is None and time.monotonic() < deadline and moment != "any":
        if moment == "temporary file":
            seen.update(path.name for path in here.iterdir() if _is_temporary(path.name))
            if len(seen) >= wanted:
                return
        elif _has_changed(here, files):
            break
        time.sleep(0.002 * (moment == "writing"))
    share = 1.0 if moment == "any" else 0.25
    time.sleep(chosen.random() * share * files.seconds)


def _has_changed(here: Path, files: Folder) -> bool:
    """Whether a file has been written; the first in one process, any of the large ones else."""
    return any((here / name).read_bytes() != data for name, data in files.old.items())


def _is_temporary(name: str) -> bool:
    return not re.fullmatch(r"\d+\.py", name)


def _send(process: subprocess.Popen[str], number: signal.Signals, chosen: random.Random) -> None:
    """The signal, to the process, or as a terminal does to all of its group."""
    if process.poll() is None:
        if number == signal.SIGINT or chosen.random() < 0.5:
            os.killpg(process.pid, number)
        else:
            process.send_signal(number)


def _ended(process: subprocess.Popen[str], done: Round) -> tuple[str, str]:
    try:
        return process.communicate(timeout=MOST_SECONDS)
    except subprocess.TimeoutExpired:
        done.problem("hang", f"the run goes on for {MOST_SECONDS:g} s after the signal")
        os.killpg(process.pid, signal.SIGKILL)
        return process.communicate()


def _look_at_files(here: Path, files: Folder, done: Round) -> None:
    for path in sorted(here.iterdir()):
        if _is_temporary(path.name):
            done.temporaries += 1
        elif (data := path.read_bytes()) not in (files.old[path.name], files.new[path.name]):
            done.problem("torn", "a file is neither as it was nor fixed")
        else:
            done.written += data != files.old[path.name]
    if missing := files.old.keys() - {path.name for path in here.iterdir()}:
        done.problem("lost", f"{len(missing)} files are gone")
    if done.temporaries and done.signal == "SIGINT":
        done.problem("temporary file", "left behind by Ctrl-C")


def _look_at_processes(mark: str, done: Round) -> None:
    """No process of the run may outlive it by more than some seconds."""
    deadline = time.monotonic() + 10
    while (alive := _marked(mark)) and time.monotonic() < deadline:
        time.sleep(0.02)
    for pid in alive:
        done.problem("orphan", "a worker lives on")
        os.kill(pid, signal.SIGKILL)


def _marked(mark: str) -> list[int]:
    """The processes that a run has started, on Linux."""
    found, wanted = [], f"{_MARK}={mark}".encode()
    for path in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):  # it has ended, or is somebody else's
            if wanted in path.read_bytes().split(b"\0"):
                found.append(int(path.parent.name))
    return found


def _look_at_words(done: Round, err: str, *, complete: bool) -> None:
    """What a run must say, and its exit status, when it was interrupted."""
    if done.late:
        return
    if internal := re.search(r"internal error.*?: (\w+): (.{,40})", err):
        done.problem("internal error", " ".join(internal.groups()))
    elif "Traceback" in err:
        own = re.search(r"[/\\]amp_lint[/\\](\w+)", err)
        done.problem("traceback", "while amp-lint is imported" if own else STARTING)
    elif done.code == -signal.SIGINT and not err:
        done.problem("exit status", STARTING)
    elif done.code == INTERRUPTED and err != SAID:
        done.problem("words", err[:60] or "none")
    elif done.code in (0, 1) and complete:
        if done.seconds > 0.3:
            done.problem("ignored", "the run goes on to its end after Ctrl-C")
    elif done.code != INTERRUPTED:
        done.problem("exit status", f"{done.code} after Ctrl-C")


def _run_again(here: Path, files: Folder, done: Round) -> None:
    """The next run fixes the rest and leaves nothing else."""
    process = _start(here, "again")
    _, err = process.communicate(timeout=MOST_SECONDS)
    if process.returncode not in (0, 1) or err:
        done.problem("next run", f"ends with {process.returncode}: {err[:60]}")
    if any((here / name).read_bytes() != data for name, data in files.new.items()):
        done.problem("next run", "a file is not fixed")
    if any(_is_temporary(path.name) for path in here.iterdir()):
        done.problem("temporary file", "left behind by the next run")
