"""With Ray: what is killed is done again, what is finished is not."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

pytest.importorskip("pyarrow", reason="the extra census is not installed")
pytest.importorskip("ray", reason="the extra census is not installed")

from amp_lint.census.output import FILES
from tests.census.fleets import FLEET, census, findings, of, parquet
from tests.conftest import Result

Run = Callable[..., Result]
SECONDS = 120.0
ALONE = "import torch\n\n\ndef f(x):\n    return torch.log(torch.softmax(x, -1))\n"
"""Has a finding, and nothing that other files could say more about."""

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")


def started(*arguments: str | Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "amp_lint", "census", *map(str, arguments)]
    return subprocess.Popen(command, stderr=subprocess.PIPE)


def until(holds: Callable[[], object], process: subprocess.Popen[bytes]) -> None:
    """Wait for something to hold, or for a process to end."""
    end = time.monotonic() + SECONDS
    while process.poll() is None and not holds():
        assert time.monotonic() < end
        time.sleep(0.02)


def below(parent: int, program: bytes) -> list[int]:
    """The processes that one has started, directly or not, which are called so."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            own = int((path / "stat").read_text().rpartition(")")[2].split()[1])
            name = (path / "cmdline").read_bytes()
        except OSError:
            continue
        if own == parent:
            found += [int(path.name)] * (program in name) + below(int(path.name), program)
    return found


def test_what_is_killed_is_done_again(tmp_path: Path) -> None:
    """First a worker, then all of it; a run after that does what is left."""
    fleet = {
        f"{name}{n}": {"alone.py": ALONE + "#" * (n + len(name)), **each}
        for n in range(12)
        for name, each in FLEET.items()
    }
    dataset = parquet(tmp_path / "in" / "a.parquet", fleet, group=2)
    options = ("--cross-file", "--block-rows=2", "--workers=1", dataset)
    whole, out = tmp_path / "whole", tmp_path / "out"
    assert census("-q", *options, whole) == 0

    def done() -> list[Path]:
        return [*(out / FILES).glob("*.parquet")]

    process = started(*options, out)
    until(lambda: len(done()) > 2, process)
    (worker,) = below(process.pid, b"ray::MapWorker")
    until(lambda: below(worker, b"amp_lint.run.worker"), process)  # files have their own process
    os.kill(worker, signal.SIGKILL)
    count = len(done())
    until(lambda: len(done()) > count + 3, process)
    assert process.poll() is None, process.communicate()[1]
    process.send_signal(signal.SIGKILL)
    process.communicate()
    kept = {path: path.stat().st_mtime_ns for path in done()}
    assert 3 < len(kept) < len([*(whole / FILES).iterdir()])
    last = started(*options, out)
    _, said = last.communicate(timeout=SECONDS)
    assert last.returncode == 0, said
    match = re.search(rb"([0-9]+) blocks are there", said)
    assert match and int(match[1]) >= len(kept)  # a worker whose driver is gone may write one more
    assert kept.items() <= {path: path.stat().st_mtime_ns for path in done()}.items()
    assert of(out, FILES) == of(whole, FILES) and findings(out) == findings(whole)


def test_a_cluster_by_its_address(
    tmp_path: Path, main: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That asks for tokens, as those of newer versions of Ray do."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    address, program = f"127.0.0.1:{port}", str(Path(sys.executable).with_name("ray"))
    monkeypatch.setenv("RAY_AUTH_MODE", "token")
    monkeypatch.setenv("RAY_AUTH_TOKEN", "f" * 64)
    head = [program, "start", "--head", "--block", f"--port={port}", "--num-cpus=1"]
    head += ["--disable-usage-stats", "--include-dashboard=false"]
    process = subprocess.Popen(head, stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        lines = iter(process.stdout.readline, b"")
        assert any(b"Ray runtime started" in line for line in lines), "it has ended"
        dataset = parquet(tmp_path / "in" / "a.parquet", FLEET)
        assert census("-q", "--workers=1", dataset, tmp_path / "here") == 0
        asked = [sys.executable, "-m", "amp_lint", "census", "-q", "--address", address]
        there = tmp_path / "there"
        subprocess.run([*asked, dataset, there], check=True, timeout=SECONDS)
        assert findings(there) == findings(tmp_path / "here")
        monkeypatch.delenv("RAY_AUTH_MODE")
        done = subprocess.run([*asked, dataset, tmp_path / "x"], capture_output=True, check=False)
        assert done.returncode == 2 and b"RAY_AUTH_MODE=token" in done.stderr
    finally:
        for each in (*below(process.pid, b""), process.pid):  # `ray stop` would end other clusters
            with contextlib.suppress(ProcessLookupError):
                os.kill(each, signal.SIGKILL)
        process.communicate(timeout=SECONDS)


def test_no_such_cluster(main: Run, tmp_path: Path) -> None:
    dataset = parquet(tmp_path / "in" / "a.parquet", FLEET)
    done = main("census", "--address=127.0.0.1:1", dataset, tmp_path / "out")
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)
    assert done.err.startswith("error: census: no cluster answers at 127.0.0.1:1: ")
