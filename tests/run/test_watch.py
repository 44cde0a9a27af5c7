"""``--watch`` lints again when something has changed, and ends when it is told to."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from amp_lint import cli
from tests.conftest import CLIP, FIXED, Run

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Ctrl-C is sent to a group")
LIMIT = 60.0
TOLD = re.compile(r"\[\d\d:\d\d:\d\d\] linted in \d+\.\d s; watching (\d+) files?, Ctrl-C ends\n")


class Watching:
    """A process that watches, and all that it has said."""

    def __init__(self, *arguments: str, terminal: int | None = None) -> None:
        stream = subprocess.PIPE if terminal is None else terminal
        self.process = subprocess.Popen(
            [sys.executable, "-m", "amp_lint", "--watch", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=subprocess.STDOUT if terminal is None else stream,
            start_new_session=True,
            env={**os.environ, "TERM": "xterm", "NO_COLOR": "1"},
        )
        self.text = ""
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._ours = -1

    def start(self, ours: int | None = None) -> None:
        """Begin to listen, to the process or to a terminal."""
        stdout = self.process.stdout
        self._ours = ours if ours is not None else stdout.fileno() if stdout else -1
        self._thread.start()

    def _read(self) -> None:
        with contextlib.suppress(OSError):
            while data := os.read(self._ours, 65536):
                self.text += data.decode().replace("\r\n", "\n")

    def round(self, number: int) -> str:
        """What the round with this number, from 1, has printed."""
        end = time.monotonic() + LIMIT
        while len(TOLD.findall(self.text)) < number:
            assert time.monotonic() < end and self.process.poll() is None, self.text
            time.sleep(0.02)
        *_, last = [match.end() for match in TOLD.finditer(self.text)][:number]
        starts = [0, *(match.end() for match in TOLD.finditer(self.text))]
        return self.text[starts[number - 1] : last]

    def interrupt(self) -> int:
        """Ctrl-C, as a terminal sends it; the exit code."""
        os.killpg(self.process.pid, signal.SIGINT)
        code = self.process.wait(LIMIT)
        self._thread.join(LIMIT)
        return code


@contextlib.contextmanager
def watching(*arguments: str) -> Iterator[Watching]:
    made = Watching(*arguments)
    made.start()
    try:
        yield made
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(made.process.pid, signal.SIGKILL)
        made.process.wait()
        if made.process.stdout:
            made.process.stdout.close()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_changed_new_and_deleted_files(folder: Path) -> None:
    path = folder / "a.py"
    path.write_text(CLIP)
    with watching("--output-format=concise") as made:
        assert "a.py:8:9: AMP101" in made.round(1) and "watching 1 file," in made.round(1)
        path.write_text(FIXED)
        assert made.round(2).startswith("All checks passed!\n")
        (folder / "sub").mkdir()
        (folder / "sub" / "b.py").write_text(CLIP)
        assert "sub/b.py:8:9: AMP101" in made.round(3) and "watching 2 files," in made.round(3)
        (folder / "sub" / "b.py").unlink()
        assert "All checks passed!" in made.round(4)
        assert "\033" not in made.text
        assert made.interrupt() == 0
        assert made.text.endswith("stopped watching\n")
    with pytest.raises(ProcessLookupError):  # nobody of its group is left
        os.killpg(made.process.pid, 0)


def test_settings_are_read_again(folder: Path) -> None:
    (folder / "a.py").write_text(CLIP)
    settings = folder / "amp-lint.toml"
    with watching("--output-format=concise") as made:
        assert "AMP101" in made.round(1)
        settings.write_text('ignore = ["AMP101"]\n')
        assert "All checks passed!" in made.round(2)
        settings.write_text('ignore = ["AMP"\n')
        assert "error: " in made.round(3) and "amp-lint.toml" in made.round(3)
        settings.unlink()
        assert "AMP101" in made.round(4)
        assert made.interrupt() == 0


def test_what_is_saved_during_a_round_is_seen(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also in the file that the round has fixed."""
    path, events = folder / "a.py", list[str]()
    path.write_text(CLIP)

    def end_of_round(seconds: float, count: int) -> None:
        assert path.read_text().endswith(FIXED)
        if "round" in events:
            raise KeyboardInterrupt
        events.append("round")
        path.write_text(f"# saved\n{CLIP}")

    def pause(seconds: float) -> None:
        assert "pause" not in events, "the change was not seen"
        events.append("pause")

    monkeypatch.setattr("amp_lint.watching._tell", end_of_round)
    monkeypatch.setattr("time.sleep", pause)
    assert cli.main(["--watch", "--fix", "--quiet"]) == 0
    assert events == ["round", "pause"] and path.read_text() == f"# saved\n{FIXED}"


def test_fixes_are_written_once(folder: Path) -> None:
    path = folder / "a.py"
    path.write_text(CLIP)
    with watching("--fix") as made:
        assert "(1 fixed, 0 remaining)" in made.round(1)
        assert path.read_text() == FIXED
        time.sleep(1.5)
        assert len(TOLD.findall(made.text)) == 1, "what it wrote itself is no change"
        path.write_text(CLIP)
        assert "(1 fixed, 0 remaining)" in made.round(2)
        assert made.interrupt() == 0


def test_a_terminal_is_cleared(folder: Path) -> None:
    import pty

    (folder / "a.py").write_text(CLIP)
    ours, theirs = pty.openpty()
    made = Watching(terminal=theirs)
    os.close(theirs)
    made.start(ours)
    try:
        assert made.round(1).startswith("\033[H\033[2J\033[3J")
        (folder / "a.py").write_text(FIXED)
        assert made.round(2).startswith("\033[H\033[2J\033[3JAll checks passed!")
        assert made.interrupt() == 0
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(made.process.pid, signal.SIGKILL)
        os.close(ours)


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="reads CPU time from /proc")
def test_idle_it_takes_little(folder: Path) -> None:
    for number in range(300):
        (folder / f"{number}.py").write_text("x = 1\n")
    with watching() as made:
        made.round(1)
        time.sleep(1)
        before = cpu_seconds(made.process.pid)
        time.sleep(4)
        assert cpu_seconds(made.process.pid) - before < 0.8
        assert made.interrupt() == 0


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (["-"], "stdin"),
        (["--diff"], "--diff"),
        (["--fix", "--prove"], "--prove"),
        (["--add-noqa"], "--add-noqa"),
        (["--output-file=x"], "--output-file"),
        (["--output-format=json"], "--output-format=json"),
        (["--show-files"], "--show-files"),
        (["--show-settings"], "--show-settings"),
        (["--write-baseline=x"], "--write-baseline"),
    ],
)
def test_what_makes_no_sense_is_refused(main: Run, options: list[str], named: str) -> None:
    done = main("--watch", *options)
    assert (done.code, done.out) == (2, "")
    assert done.err == (
        f"error: command line: --watch shows findings again and again; leave out {named}\n"
    )
    assert not Path("x").exists()


def test_what_is_not_there_is_not_watched(main: Run) -> None:
    done = main("--watch", "nowhere.py")
    assert (done.code, done.out) == (2, "")
    assert done.err == "error: nowhere.py: does not exist; check the path\n"


def test_a_wrong_option_ends_it_at_once(main: Run) -> None:
    done = main("--watch", "--select=AMP1010")
    assert (done.code, done.err.count("\n")) == (2, 1)


def test_it_ends_where_nobody_reads_it(folder: Path) -> None:
    read, write = os.pipe()
    command = [sys.executable, "-m", "amp_lint", "--watch", "--isolated", "."]
    with subprocess.Popen(command, stdout=write, stderr=subprocess.PIPE, text=True) as process:
        os.close(write)
        os.close(read)
        try:
            _, told = process.communicate(timeout=LIMIT)
        finally:
            process.kill()
    assert process.returncode == 0 and "Traceback" not in told
