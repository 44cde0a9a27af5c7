"""Clients that are wrong, in a hurry, or gone: no process is left, and the exit status says it."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("pygls")

import server as benchmark
from lsp_client import client

from tests.conftest import CLIP, Run

Process = subprocess.Popen[bytes]


@pytest.fixture
def process() -> Iterator[Process]:
    command = [sys.executable, "-m", "amp_lint", "server"]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe) as started:
        yield started
        started.kill()


def message(method: str, params: object = None, number: int | None = None) -> bytes:
    said = {"jsonrpc": "2.0", "method": method, "params": params}
    body = json.dumps(said if number is None else {**said, "id": number}).encode()
    return b"Content-Length: %d\r\n\r\n%s" % (len(body), body)


def session(path: Path) -> bytes:
    """What a client says at the beginning."""
    text = {"uri": path.as_uri(), "languageId": "python", "version": 1, "text": CLIP}
    begin = message("initialize", {"capabilities": {}, "processId": None, "rootUri": None}, 1)
    opened = message("textDocument/didOpen", {"textDocument": text})
    return begin + message("initialized", {}) + opened


def read_until(process: Process, words: bytes) -> bytes:
    assert process.stdout is not None
    said = b""
    while words not in said:
        more = os.read(process.stdout.fileno(), 65536)
        assert more, said
        said += more
    return said


def children(process: Process) -> list[int]:
    tasks = Path(f"/proc/{process.pid}/task").glob("*/children")
    return [int(child) for task in tasks for child in task.read_text().split()]


def assert_gone(pid: int) -> None:
    end = time.monotonic() + 30
    while time.monotonic() < end:
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            return
        if state == "Z":  # nobody has asked for its exit status
            return
        time.sleep(0.02)
    pytest.fail(f"process {pid} is left")


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="no /proc to look at")
def test_garbage_is_told_and_a_closed_pipe_ends_all(process: Process, tmp_path: Path) -> None:
    assert process.stdin is not None and process.stderr is not None
    process.stdin.write(b"hello\r\n\r\n\0\xff\n" + b"Content-Length: 5\r\n\r\n{{{{{")
    process.stdin.write(b"Content-Length: 3\r\n\r\n[1]" + session(tmp_path / "a.py"))
    process.stdin.write(message("textDocument/hover", {"position": "here"}, 2))
    process.stdin.write(message("textDocument/didChange", {"no": "such"}))
    process.stdin.flush()
    assert b"JSONDecodeError" in read_until(process, b"AMP101")
    (worker,) = children(process)
    process.stdin.close()
    assert process.wait(30) == 1
    assert not process.stderr.read()
    assert_gone(worker)


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="no /proc to look at")
@pytest.mark.parametrize("way", ["exit", "deaf"])
def test_a_client_that_ends_it_otherwise(process: Process, tmp_path: Path, way: str) -> None:
    assert process.stdin is not None and process.stdout is not None
    process.stdin.write(session(tmp_path / "a.py"))
    process.stdin.flush()
    read_until(process, b"AMP101")
    (worker,) = children(process)
    if way == "exit":
        process.stdin.write(message("exit"))
        process.stdin.flush()
    else:
        process.stdout.close()  # and stdin stays open
        process.stdin.write(session(tmp_path / "b.py"))
        process.stdin.flush()
    assert process.wait(30) == 1
    assert_gone(worker)


def test_random_edits(tmp_path: Path) -> None:
    """`type_into` says what must hold; most edits come before the answer to the one before."""
    arguments = ["x", "--edits", "100", "--pause", "0.05"]

    async def session() -> None:
        async with client("--isolated") as editor:
            await editor.begin(tmp_path)
            options = benchmark.parser().parse_args(arguments)
            await benchmark.type_into(editor, tmp_path / "a.py", CLIP, options)
            assert await editor.end() == 0

    asyncio.run(session())


def test_without_the_extra_one_line_says_what_to_do(
    main: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("serving", "language_server"):
        monkeypatch.delitem(sys.modules, f"amp_lint.server.{name}", raising=False)
    monkeypatch.setitem(sys.modules, "lsprotocol", None)
    done = main("server")
    assert (done.code, done.out) == (2, "")
    assert done.err == (
        'error: server: lsprotocol is not installed; `pip install "amp-lint[server]"` brings it\n'
    )


def test_an_editor_hears_that_the_extra_is_missing() -> None:
    """Nobody sees what is on stderr there."""
    code = "import sys; sys.modules['lsprotocol'] = None\n"
    code += "from amp_lint.__main__ import main; sys.argv[1:] = ['server']; sys.exit(main())"

    def said(asked: bytes) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            [sys.executable, "-c", code], input=asked, capture_output=True, check=False
        )

    done = said(message("initialize", {"capabilities": {}}, 7))
    head, _, body = done.stdout.partition(b"\r\n\r\n")
    assert done.returncode == 2 and int(head.split()[1]) == len(body)
    answer = json.loads(body)
    assert answer["id"] == 7
    assert 'pip install "amp-lint[server]"' in answer["error"]["message"]
    for garbage in (b"", b"x" * 9999, b"Content-Length: 3\r\n\r\n[]", message("exit")):
        done = said(garbage)
        assert (done.returncode, done.stdout) == (2, b"") and b"Traceback" not in done.stderr


def test_options_are_checked(main: Run) -> None:
    assert "`--preview`" in main("server", "--preveiw").err
