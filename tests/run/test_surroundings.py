"""Streams, limits and variables as they may be: one line says what is wrong, the rest goes on."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from amp_lint import registry
from amp_lint.run import parallel, workers
from amp_lint.run.job import Job
from amp_lint.run.worker import NOT_STARTED
from amp_lint.selection import Selection
from tests.conftest import Result

Run = Callable[..., Result]
pytestmark = pytest.mark.skipif(os.name == "nt", reason="needs a POSIX shell")
CONCISE = "--output-format=concise"
FULL = "error: stdout: cannot be written: No space left on device; send it elsewhere\n"
CLOSED = "error: stdout: cannot be written: it is closed; send it elsewhere\n"
NO_DIRECTORY = "error: the current directory does not exist; change to another one\n"
NO_STDIN = "error: -: stdin cannot be read: it is closed; give a file or a pipe\n"


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, clip: str) -> Run:
    """Runs a shell where ``a.py`` has a finding, and ``bad.py`` one that takes less time.

    ``amp-lint`` in a command is this one.
    """
    monkeypatch.chdir(tmp_path)
    Path("a.py").write_text(clip)
    Path("bad.py").write_text("x = (\n")

    def run(command: str, **environment: str) -> Result:
        program = f'"{sys.executable}" -m amp_lint'
        done = subprocess.run(
            ["bash", "-c", command.replace("amp-lint", program)],
            capture_output=True,
            stdin=subprocess.DEVNULL,
            env={**os.environ, **environment},
            check=False,
        )
        return Result(done.returncode, done.stdout.decode(), done.stderr.decode())

    return run


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is full")
@pytest.mark.parametrize("arguments", ["bad.py", "--diff a.py", "--help"])
def test_a_full_stdout_is_an_error(shell: Run, arguments: str) -> None:
    done = shell(f"amp-lint {arguments} >/dev/full")
    assert (done.code, done.out, done.err.splitlines(keepends=True)[-1]) == (2, "", FULL)
    assert done.err.count("\n") == 1 + ("--diff" in arguments)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is full")
@pytest.mark.parametrize("stderr", ["&-", "/dev/full"])
def test_where_nothing_can_be_said_the_exit_status_says_it(shell: Run, stderr: str) -> None:
    assert shell(f"amp-lint bad.py 2>{stderr}").code == 1
    assert shell(f"amp-lint bad.py gone.py 2>{stderr}").code == 2
    assert shell(f"amp-lint bad.py >/dev/full 2>{stderr}").code == 2


def test_closed_streams_do_not_become_the_files_that_are_opened(shell: Run, fixed: str) -> None:
    assert shell("amp-lint bad.py >&-") == Result(2, "", CLOSED)
    assert shell("amp-lint --fix . gone.py >&- 2>&- <&-").code == 2
    assert Path("a.py").read_text() == fixed
    assert {path.name for path in Path().iterdir()} == {"a.py", "bad.py"}


def test_a_closed_stdin_matters_to_who_reads_it(shell: Run) -> None:
    assert shell("amp-lint bad.py <&-").code == 1
    assert shell("amp-lint - <&-") == Result(2, "", NO_STDIN)
    assert shell("amp-lint why <&-").err.startswith("error: stdin cannot be read: it is closed; ")


def test_a_reader_that_goes_away_does_not_make_findings(shell: Run) -> None:
    Path("clean.py").write_text("x = 1\n")
    for path, code in (("bad.py", 1), ("clean.py", 0)):
        done = shell(f"(sleep 0.5; amp-lint {path}; echo $? >&2) | true")
        assert (done.code, done.err) == (0, f"{code}\n")


def test_a_pipe_that_does_not_block_gets_everything(shell: Run) -> None:
    for number in range(400):
        Path(f"{number}.py").write_text("x = (\n")
    unblock = f"{sys.executable} -Sc 'import os; os.set_blocking(1, False)'"
    run = "amp-lint --output-format=json *.py"
    assert len(json.loads(shell(f"{{ {unblock}; {run}; }} | {{ sleep 1; cat; }}").out)) == 402


def test_a_deleted_directory(shell: Run) -> None:
    for arguments in ("", f"{Path.cwd()}", "--show-files", f"why nan {Path.cwd()}"):
        done = shell(f"mkdir gone; cd gone; rmdir ../gone; amp-lint {arguments}")
        assert (done.code, done.err) == (2, NO_DIRECTORY)
    assert shell("mkdir gone; cd gone; rmdir ../gone; amp-lint version").code == 0


@pytest.mark.parametrize(
    "environment",
    [
        {"PYTHONOPTIMIZE": "2", "PYTHONWARNINGS": "error", "PYTHONIOENCODING": "ascii:strict"},
        {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "TMPDIR": "/nowhere"},
        {"PYTHONUNBUFFERED": "1", "PYTHONHASHSEED": "3", "COLUMNS": "nonsense", "TERM": ""},
    ],
    ids=lambda environment: " ".join(environment),
)
def test_variables_change_nothing(shell: Run, environment: dict[str, str]) -> None:
    path = Path("a.py").rename("ä\N{SNOWMAN} b.py")
    path.write_text(path.read_text().replace("1.0)", r"1.0, '\d')  # é"), "utf-8")
    Path("bad.py").unlink()
    done = shell("unset HOME; amp-lint --output-format=json", **environment)
    assert (done.code, done.err) == (1, "")
    (found,) = json.loads(done.out)
    name = found["filename"].encode("utf-8", "surrogateescape").decode()
    assert (found["code"], name) == ("AMP101", str(path.absolute()))
    if "PYTHONIOENCODING" in environment:
        (line, *_) = shell(f"amp-lint {CONCISE}", **environment).out.splitlines()
        assert line.startswith(r"\xe4\u2603 b.py:8:9: AMP101 [*] error: ")
        assert line.endswith("after `unscale_` of each optimizer")


LARGE = f"# {'x' * 250_000}\n"
"""Twice this, and there are worker processes."""


@pytest.mark.parametrize("handles", [12])
def test_too_few_handles_for_processes(shell: Run, handles: int) -> None:
    """None, or one, can be started; what it leaves is done where there are handles."""
    for name in ("a.py", "b.py"):
        Path(name).write_text(Path("a.py").read_text() + LARGE)
    done = shell(f"ulimit -n {handles}; amp-lint {CONCISE} --select=AMP101")
    assert (done.code, done.err) == (1, "")
    assert done.out.count("AMP101") == 2


@pytest.mark.parametrize("lacking", ["threads", "processes", "memory in a process"])
def test_where_no_worker_can_start_all_is_done_here(
    monkeypatch: pytest.MonkeyPatch, clip: str, lacking: str
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise BlockingIOError(11, "no") if lacking == "processes" else RuntimeError("no")

    if lacking == "threads":
        monkeypatch.setattr(threading.Timer, "start", refuse)
    elif lacking == "processes":
        monkeypatch.setattr(subprocess, "Popen", refuse)
    else:
        monkeypatch.setattr(workers, "_SERVE", f"import os; os._exit({NOT_STARTED})")
    selection = Selection(registry.all_rules())
    jobs = [Job(f"{number}.py", clip.encode(), True, selection) for number in range(3)]
    for outcome in parallel.run(jobs):
        assert (outcome.errors, [each.code for each in outcome.findings]) == ([], ["AMP101"])


@pytest.mark.skipif(sys.platform != "linux", reason="no limit of memory")
def test_too_little_memory_costs_one_file(shell: Run) -> None:
    Path("b.py").write_text(f"import torch\nautocast = [{'a,' * 500_000}]\n")
    done = shell(f"ulimit -v 400000; amp-lint {CONCISE} a.py b.py")
    assert done.code == 2
    assert done.out.startswith("a.py:8:9: AMP101")
    assert done.err == (
        "error: b.py: nests too deeply, or is too large, to be parsed; "
        "correct the file or exclude it\n"
    )


INTERRUPTED = """
import builtins, signal, sys
real = builtins.__import__
def load(name, *args, **options):
    if name.startswith({name!r}):
        builtins.__import__ = real
        signal.raise_signal(signal.SIGINT)
    return real(name, *args, **options)
builtins.__import__ = load
from amp_lint.__main__ import main
sys.exit(main())
"""


@pytest.mark.parametrize("name", ["amp_lint.run.session", "libcst"])
def test_ctrl_c_while_something_is_imported(shell: Run, name: str) -> None:
    Path("program.py").write_text(INTERRUPTED.format(name=name))
    done = shell(f"exec {sys.executable} program.py a.py")
    line = "interrupted: every file is either as it was or fixed\n"
    assert done == Result(130, "", line)


LIBRARY = """\
import builtins
from amp_lint._lazy import cst

real = builtins.__import__
def load(name, *args, **options):
    if name == "libcst._nodes.op":
        raise KeyboardInterrupt
    return real(name, *args, **options)
builtins.__import__ = load

def name_it():
    global libcst
    import libcst

for ask in (name_it, lambda: cst.Module):
    try:
        ask()
    except KeyboardInterrupt:
        print("raised")
builtins.__import__ = real
print(cst.Module.__name__)
"""


def test_ctrl_c_while_the_parser_is_imported(shell: Run) -> None:
    """Neither dropped by the import system, nor does it leave half a library behind."""
    Path("program.py").write_text(LIBRARY)
    assert shell(f"exec {sys.executable} program.py").out == "raised\nraised\nModule\n"


DROPPED = """\
import time
from amp_lint import cli

class Last:
    def __del__(self):
        raise KeyboardInterrupt

def wait(arguments=None):
    Last()
    time.sleep(20)

cli.main = wait
from amp_lint.__main__ import main
main()
"""


def test_ctrl_c_where_python_drops_it(shell: Run) -> None:
    """In what is called when an object is thrown away, Python can raise nothing."""
    Path("program.py").write_text(DROPPED)
    began = time.monotonic()
    done = shell(f"exec {sys.executable} program.py")
    assert time.monotonic() - began < 15, "what it waits for is interrupted, too"
    line = "interrupted: every file is either as it was or fixed\n"
    assert done == Result(130, "", line)


ENDED = """\
import atexit, sys
from amp_lint.__main__ import main
atexit.register(print, "Python's own end", flush=True)
sys.exit(main())
"""


@pytest.mark.parametrize(
    ("arguments", "last"),
    [("a.py", "[*] 1 fixable"), ("version", "Python's own end")],
)
def test_a_lint_ends_at_once(shell: Run, arguments: str, last: str) -> None:
    """All is printed, and no tree is taken apart; other commands end as Python does."""
    Path("program.py").write_text(ENDED)
    Path("a.py").write_text("import torch\n\nscaler = torch.cuda.amp.GradScaler()\n")
    done = shell(f"exec {sys.executable} program.py {arguments}")
    assert done.code == (arguments != "version")
    assert done.out.splitlines()[-1].startswith(last)


# --- odd names, numbers and texts -----------------------------------------------------------------

NAMES = (
    b"a\nb.py", b"c\x1b[31md.py", b"e\xff.py", b"f" * 252 + b".py", b"g h.py", b"i%0A:,j.py",
    b"k\tl.py", b"m\rn.py", "o\u202ep\u2028q\x9b.py".encode(), b'r"\\s.py', b"-t.py",
)  # fmt: skip


@pytest.fixture
def odd(shell: Run) -> list[str]:
    """The paths of files with one finding each."""
    for path in Path().iterdir():
        path.unlink()
    for name in NAMES:
        Path(os.fsdecode(name)).write_text("x = (\n")
    return sorted(str(Path(os.fsdecode(name)).absolute()) for name in NAMES)


@pytest.mark.parametrize("form", ["concise", "github"])
def test_a_finding_is_one_line_whatever_the_path(shell: Run, odd: list[str], form: str) -> None:
    done = shell(f"amp-lint --output-format={form} -- *.py gone$'\\n'.py")
    found = [line for line in done.out.splitlines() if "AMP900" in line]
    assert len(found) == len(NAMES)
    assert len(done.out.splitlines()) == len(NAMES) + (form == "concise")
    assert all(line.isprintable() for line in done.out.splitlines())
    assert (done.code, done.err) == (2, "error: gone\\n.py: does not exist; check the path\n")


def test_json_and_diffs_name_files_as_they_are(shell: Run, odd: list[str], clip: str) -> None:
    done = shell("amp-lint --output-format=json -- *.py")
    assert sorted(found["filename"] for found in json.loads(done.out)) == odd
    for name in ("a\nb.py", "k\tl.py", 'r"\\s.py'):
        Path(name).write_text(clip)
    patch = shell("amp-lint --diff -- a$'\\n'b.py k*.py r*.py").out
    assert patch.count("\n--- ") == 2
    Path("all.patch").write_text(patch)
    assert shell("git apply -p0 all.patch").err == ""
    assert all("unscale_" in Path(name).read_text() for name in ("a\nb.py", "k\tl.py"))


def test_files_with_odd_names_are_listed_and_fixed(shell: Run, odd: list[str], clip: str) -> None:
    assert len(shell("amp-lint --show-files").out.splitlines()) == len(NAMES)
    Path(odd[0]).write_text(clip)
    Path(odd[-1]).write_text(clip)
    done = shell("amp-lint --fix .")
    assert (done.code, done.err) == (0, "")
    assert "unscale_" in Path(odd[0]).read_text()


DIGITS = "9" * 5000
SETTINGS: dict[str, tuple[str | bytes, str]] = {
    "digits": (f"[tool.amp-lint]\npreview = {DIGITS}\n", "too many digits"),
    "a version": (f'[tool.amp-lint]\ntarget-torch = "{DIGITS}"\n', "must be a string such as"),
    "UTF-16": ("[tool.amp-lint]\n".encode("utf-16"), "is not UTF-8"),
    "latin-1": ("# é\n[tool.amp-lint]\n".encode("latin-1"), "is not UTF-8"),
    "a mark": ("[tool.amp-lint]\n".encode("utf-8-sig"), "byte order mark"),
    "brackets": (f"x = {'[' * 10_000}", "nests too deeply"),
    "closed brackets": (f"x = {'[' * 10_000}{']' * 10_000}", "nests too deeply"),
    "tables": (f"x = {'{a=' * 10_000}", "nests too deeply"),
    "a table": ("[tool]\namp-lint = 3\n", "must be a table"),
    "an odd key": ('[tool.amp-lint]\n"\\u001b[31m\\n" = 1\n', r"'\x1b[31m\n' is no setting"),
}


@pytest.mark.parametrize("kind", SETTINGS)
def test_settings_that_cannot_be_read(main: Run, kind: str) -> None:
    text, words = SETTINGS[kind]
    Path("pyproject.toml").write_bytes(text if isinstance(text, bytes) else text.encode())
    Path("a.py").write_text("x = (\n")
    done = main(CONCISE, "a.py")
    assert done.code == 2
    assert done.out.startswith("a.py:1:5: AMP900")
    assert done.err.startswith(f"error: {Path('pyproject.toml').absolute()}: ")
    assert words in done.err
    assert done.err.count("\n") == 1
    assert len(done.err) < 500


@pytest.mark.parametrize("number", [f"0x{DIGITS}", f"1e{DIGITS}", f"{DIGITS}.0", f"-0x{DIGITS}"])
def test_numbers_that_python_takes(main: Run, clip: str, number: str) -> None:
    Path("a.py").write_text(clip.replace("1.0", number))
    done = main(CONCISE, "a.py")
    clips = "x" in number  # to infinity does not clip
    assert (done.code, done.err, done.out.count("AMP101")) == (clips, "", clips)


def test_a_number_that_python_refuses(main: Run, clip: str) -> None:
    Path("a.py").write_text(clip.replace("1.0", DIGITS))
    done = main(CONCISE, "a.py")
    assert (done.code, done.err) == (1, "")
    assert done.out.startswith("a.py:8:")
