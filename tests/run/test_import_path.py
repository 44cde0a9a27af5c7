"""Nothing that lies in the linted tree is ever imported, by no process of a run."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from amp_lint.run import import_path
from amp_lint.run.workers import Worker

MODULES = (
    "conftest", "flake8", "libcst", "multiprocessing", "packaging", "pickle", "queue",
    "selectors", "signal", "sitecustomize", "struct", "subprocess", "tempfile", "threading",
    "tomli", "tomllib", "usercustomize", "yaml",
)  # fmt: skip
BEFORE = (
    "argparse", "ast", "collections", "contextlib", "functools", "importlib", "json", "pathlib",
    "re", "tokenize", "types", "typing",
)  # fmt: skip
"""Modules that Python may import before a program has a say, from PYTHONPATH too."""
PACKAGES = ("hypothesis", "torch")
PADDING = f"# {'x' * 300_000}\n"  # what makes a run start workers
PROGRAM = Path(sys.executable).with_name("amp-lint")


@pytest.fixture
def marks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, clip: str) -> Path:
    """A tree with findings and traps, entered, and a directory in which the traps leave marks."""
    folder = tmp_path / "marks"
    tree = tmp_path / "tree"
    for path in (folder, *(tree / package for package in PACKAGES)):
        path.mkdir(parents=True)
    files = [f"{name}.py" for name in (*BEFORE, *MODULES)]
    for file in (*files, *(f"{name}/__init__.py" for name in PACKAGES)):
        mark = f"{str(folder)!r} + '/%d {Path(file).parts[0]}' % os.getpid()"
        (tree / file).write_text(f"import os\nos.close(os.open({mark}, os.O_CREAT))\n")
    for name in ("a", "b", "c"):
        (tree / f"train_{name}.py").write_text(clip + PADDING)
    monkeypatch.chdir(tree)
    for variable in ("PYTHONPATH", "PYTHONSAFEPATH"):
        monkeypatch.delenv(variable, raising=False)
    return folder


def run(*command: str, **environment: str) -> tuple[int, subprocess.CompletedProcess[str]]:
    """The id of a process, and what it printed."""
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **environment},
    )
    out, err = process.communicate(timeout=120)
    return process.pid, subprocess.CompletedProcess(command, process.returncode, out, err)


def executed(marks: Path, besides: int = 0) -> list[str]:
    """What was executed by any process but one."""
    return sorted(p.name for p in marks.iterdir() if not p.name.startswith(f"{besides} "))


COMMANDS = {
    "program": [str(PROGRAM)],
    "module": [sys.executable, "-m", "amp_lint"],
    "source": [
        sys.executable,
        "-c",
        "from amp_lint.__main__ import main; raise SystemExit(main())",
    ],
}


@pytest.mark.parametrize("way", COMMANDS)
def test_linting_in_processes(marks: Path, way: str) -> None:
    _, done = run(*COMMANDS[way], "--output-format=concise", "train_a.py", "train_b.py", ".")
    assert done.stderr == ""
    assert (done.returncode, done.stdout.count("AMP101")) == (1, 3)
    assert not executed(marks)


@pytest.mark.parametrize("named", [".", "..", os.pathsep, "tree"])
def test_what_the_environment_names_is_not_imported_by_workers(marks: Path, named: str) -> None:
    """Python itself imports from PYTHONPATH when it starts; of that, workers know nothing."""
    if named == "tree":
        named = str(Path.cwd())
    for name in BEFORE:
        Path(f"{name}.py").unlink()
    pid, done = run(str(PROGRAM), "--output-format=concise", ".", PYTHONPATH=named)
    assert done.stdout.count("AMP101") == 3, done.stderr
    assert not executed(marks, besides=pid)
    assert {path.name for path in marks.iterdir()} <= {
        f"{pid} sitecustomize.py", f"{pid} usercustomize.py",
    }  # fmt: skip


def test_proving(marks: Path) -> None:
    arguments = ("--mode=eager", "--dtype=float32", "--examples=1", "train_a.py")
    _, done = run(sys.executable, "-m", "amp_lint", "verify", *arguments)
    assert done.stdout.startswith("train_a.py:8:9 AMP101: proven"), done
    assert not executed(marks)


def test_fixing_with_proof(marks: Path, fixed: str) -> None:
    _, done = run(str(PROGRAM), "--fix", "--prove", "train_a.py")
    assert Path("train_a.py").read_text() == fixed + PADDING, done
    assert not executed(marks)


def flake8(*files: str, method: str = "") -> Sequence[str]:
    """A program that runs flake8 with two processes, as its own does."""
    arguments = ["--isolated", "--jobs=2", "--select=AMP", *files]
    start = f"multiprocessing.set_start_method({method!r}); " if method else ""
    program = Path("../lint.py")
    program.write_text(
        "import multiprocessing, sys\n"
        "if __name__ == '__main__':\n"
        f"    sys.path.pop(0); {start}\n"
        "    from flake8.main.cli import main\n"
        f"    sys.exit(main({arguments!r}))\n"
    )
    return [sys.executable, str(program)]


@pytest.mark.parametrize("method", ["", "spawn", "forkserver"])
def test_flake8(marks: Path, method: str) -> None:
    if method and sys.version_info < (3, 11):
        pytest.skip("Python has no switch for it")
    _, done = run(*flake8("train_a.py", "train_b.py", "train_c.py", method=method))
    assert done.stderr == ""
    assert done.stdout.count("AMP101") == 3
    assert not executed(marks)


def test_a_worker_looks_nowhere_else(marks: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path.cwd()))
    monkeypatch.setattr(sys, "path", ["", *sys.path, str(Path.cwd())])
    worker = Worker()
    path = worker.call(60, eval, "__import__('sys').path")
    assert worker.call(60, os.getcwd) == Path(sys.executable).anchor
    worker.close()
    assert not {"", ".", str(Path.cwd())} & {*path}


def test_packages_that_only_the_environment_names_are_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("mine", "other"):
        (tmp_path / name).mkdir()
        (tmp_path / name / f"{name}_package.py").write_text("")
    named = [str(tmp_path / "mine"), str(tmp_path / "other")]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(named))
    monkeypatch.setattr(sys, "path", [*named, *sys.path])
    assert set(named).isdisjoint(import_path.trusted())
    path = import_path.trusted(["mine_package", "sys_is_no_file", "json"])
    assert path[-1] == named[0]
    assert named[1] not in path
    assert sys.path[:2] == named
    import_path.isolate(["other_package"])
    assert sys.path[-1] == named[1]


def test_a_working_directory_that_is_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    monkeypatch.setattr(sys, "path", ["", "relative", *sys.path])
    assert "" not in import_path.trusted()
