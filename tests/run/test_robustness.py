"""Odd bytes, odd files, interruptions: nothing is lost, and every other file is still linted."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import pytest

from amp_lint import cli, registry
from amp_lint.rule import Rule
from amp_lint.run import job, parallel, runner
from amp_lint.run.job import Action, Gate, Job, Outcome
from amp_lint.selection import Selection
from amp_lint.text import files
from amp_lint.text.diagnostic import Applicability, Diagnostic, Edit, Fix, Severity
from tests.conftest import Result

if TYPE_CHECKING:
    from amp_lint.model import Model

Run = Callable[..., Result]
CONCISE = "--output-format=concise"


def accented(text: str) -> str:
    return text.replace("1.0)", "1.0)  # é")


LAYOUTS: dict[str, Callable[[str], bytes]] = {
    "CRLF": lambda text: text.replace("\n", "\r\n").encode(),
    "tabs": lambda text: text.replace("    ", "\t").encode(),
    "BOM": lambda text: b"\xef\xbb\xbf" + accented(text).encode(),
    "BOM and CRLF": lambda text: b"\xef\xbb\xbf" + text.replace("\n", "\r\n").encode(),
    "form feeds": lambda text: text.replace("\n\n\n", "\n\f\n\f\n").encode(),
    "latin-1": lambda text: ("# coding: latin-1\n" + accented(text)).encode("latin-1"),
    "cp1251": lambda text: ("#!/x\n# -*- coding: cp1251 -*-\n" + text + "# Ж\n").encode("cp1251"),
    "utf-8 cookie": lambda text: ("# coding: utf-8\n" + accented(text)).encode(),
    "no last line end": lambda text: text.rstrip().encode(),
    "trailing white space": lambda text: text.replace("update()\n", "update()  \n  ").encode(),
    "odd strings": lambda text: (text + "s = '''\r\n\t\x0c\n\\\n'''\n").encode(),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_fix_changes_nothing_else(main: Run, clip: str, fixed: str, layout: str) -> None:
    lay_out = LAYOUTS[layout]
    Path("a.py").write_bytes(lay_out(clip))
    done = main("--fix", "a.py")
    assert done == Result(0, "Found 1 error (1 fixed, 0 remaining).\n", "")
    assert Path("a.py").read_bytes() == lay_out(fixed)


def test_a_fix_keeps_mode_and_link(main: Run, clip: str, fixed: str) -> None:
    Path("real").mkdir()
    Path("real/a.py").write_text(clip)
    Path("real/a.py").chmod(0o751)
    Path("link.py").symlink_to("real/a.py")
    assert main("--fix", "link.py").code == 0
    assert Path("link.py").is_symlink()
    assert Path("real/a.py").read_text() == fixed
    assert stat.S_IMODE(Path("real/a.py").stat().st_mode) == 0o751
    assert [path.name for path in Path("real").iterdir()] == ["a.py"]


def nested(text: str) -> bytes:
    return (
        f"from torch.cuda.amp import GradScaler, autocast\nscaler = GradScaler()\n{text}".encode()
    )


BAD: dict[str, tuple[bytes, str]] = {
    "NUL": (nested("x = '\0'\n"), "contains a NUL byte"),
    "undecodable": (nested("x = '") + b"\xff'\n", "cannot be decoded"),
    "unknown encoding": (b"# coding: nonsense\n" + nested(""), "cannot be decoded"),
    "wrong encoding": (b"# coding: ascii\n" + nested("x = 'é'\n"), "cannot be decoded"),
    "BOM and another encoding": (b"\xef\xbb\xbf# coding: latin-1\n" + nested(""), "decoded"),
    "deep operators": (nested("x = " + "-" * 2000 + "1\n"), "nests"),
    "deep attributes": (nested("x = a" + ".b" * 5000 + "\n"), "nests"),
    "20,000 terms": (nested("x = " + " + ".join(["a"] * 20_000) + "\n"), "nests"),
    "20,000 conditions": (nested("x = " + " and ".join(["a"] * 20_000) + "\n"), "nests"),
    "20,000 strings": (nested("x = " + "'a' " * 20_000 + "\n"), ""),
    "old Mac line ends": (nested("").replace(b"\n", b"\r"), "old Mac"),
}


@pytest.mark.parametrize("kind", BAD)
def test_a_bad_file_costs_itself_and_nothing_else(
    amp_lint: Run, main: Run, clip: str, kind: str
) -> None:
    data, message = BAD[kind]
    Path("a.py").write_bytes(data)
    Path("b.py").write_text(clip)
    done = amp_lint(CONCISE)  # as a process, which must not die
    assert done.out.startswith("b.py:8:9: AMP101")
    fixing = main(CONCISE, "--fix")
    assert fixing.out == "Found 1 error (1 fixed, 0 remaining).\n"
    assert Path("a.py").read_bytes() == data
    assert done.code == fixing.code == 2
    for err in (
        done.err,
        fixing.err,
    ):  # how deep is too deep depends on the stack
        assert err.startswith("error: a.py: ")
        assert err.count("\n") == 1
        assert message in err
        assert "; " in err


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("x = " + "f(" * 1000 + ")" * 1000 + "\n", "3:406"),
        ("".join(" " * n + "if a:\n" for n in range(110)) + " " * 110 + "a\n", "103:"),
    ],
)
def test_what_nests_too_deeply_for_python_is_no_python(main: Run, text: str, place: str) -> None:
    Path("a.py").write_bytes(nested(text))
    done = main(CONCISE)
    assert done.code == 1
    assert done.out.startswith(f"a.py:{place}")
    assert "AMP900 error: SyntaxError: too many" in done.out


def test_a_syntax_error_is_a_finding_with_a_place(main: Run) -> None:
    Path("a.py").write_text("import torch\n\ndef f(é, x y):\n    torch.cuda.amp.autocast\n")
    (found,) = json.loads(main("--output-format=json").out)
    assert (found["code"], found["location"]) == ("AMP900", {"row": 3, "column": 12})
    assert found["message"].startswith("SyntaxError: ")


def test_a_syntax_error_in_a_file_without_any_word_of_ours(main: Run) -> None:
    Path("a.py").write_text("print 'python 2'\n")
    assert main().code == 0
    done = main("a.py", "--fix", CONCISE)
    assert done.code == 1
    assert done.out.startswith("a.py:1:1: AMP900 error: SyntaxError: ")


def test_bad_paths(main: Run, clip: str) -> None:
    Path("a.py").write_text(clip)
    Path("b").mkdir()
    Path("b/pyproject.toml").write_text("[tool.amp-lint]\nnonsense = 1\n")
    Path("b/b.py").write_text(clip)
    Path("c").mkdir()
    Path("c/loop").symlink_to("..")
    Path("n.ipynb").write_text(clip)
    done = main(CONCISE, ".", "gone.py", "n.ipynb")
    assert done.code == 2
    assert [line.split(": ")[1] for line in sorted(done.err.splitlines())] == [
        str(Path("b/pyproject.toml").absolute()),
        "c/loop",
        "gone.py",
        "n.ipynb",
    ]
    assert done.out.count("AMP101") == 2


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


Capture = pytest.CaptureFixture[str]


@pytest.mark.parametrize(
    ("error", "words"),
    [(FileNotFoundError(2, "gone"), "does not exist"), (PermissionError(13, "no"), "permission")],
)
def test_a_file_that_vanishes_or_is_forbidden(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture, clip: str,
    error: OSError, words: str,
) -> None:  # fmt: skip
    for name in ("a.py", "b.py"):
        Path(name).write_text(clip)
    read = files.read

    def read_or_fail(path: Path, limit: int | None = None) -> bytes:
        if path == Path("a.py"):
            raise error
        return read(path, limit)

    monkeypatch.setattr(files, "read", read_or_fail)
    assert cli.main([CONCISE]) == 2
    out, err = capsys.readouterr()
    assert out.startswith("b.py:8:9: AMP101")
    assert err.startswith("error: a.py: ")
    assert words in err


def test_a_read_only_directory(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture, clip: str
) -> None:
    Path("a.py").write_text(clip)

    def refuse(**arguments: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(tempfile, "mkstemp", refuse)  # root may write anywhere
    assert cli.main(["--fix", CONCISE]) == 2
    out, err = capsys.readouterr()
    assert err == "error: a.py: cannot be written and is unchanged: Permission denied\n"
    assert out.startswith("a.py:8:9: AMP101")
    assert Path("a.py").read_text() == clip


class Breaking(Rule):
    """Finds `GradScaler` and offers a fix that is no Python."""

    code = "AMP998"
    name = "breaking"
    severity = Severity.ERROR
    requires: ClassVar[tuple[frozenset[str], ...]] = (frozenset({"GradScaler"}),)
    content: ClassVar[str] = ")"

    def check(self, model: Model) -> Iterable[Diagnostic]:
        start = model.tree.text.index("GradScaler")
        fix = Fix("break it", (Edit(start, start, self.content),), Applicability.SAFE)
        yield Diagnostic(self.code, self.name, self.severity, "m", start, start + 10, (), fix)


class Futile(Breaking):
    """Offers a fix that does not remove the finding."""

    content = "#\n"


class Failing(Breaking):
    """Has a bug."""

    def check(self, model: Model) -> Iterable[Diagnostic]:
        raise KeyError("oops")


@pytest.mark.parametrize("rule", [Breaking, Futile])
def test_a_bad_fix_is_neither_offered_nor_applied(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture, rule: type[Rule]
) -> None:
    rules = (rule(),)
    monkeypatch.setattr(registry, "every_rule", lambda: rules)
    Path("a.py").write_text("GradScaler\n")
    for options in ([], ["--fix"], ["--unsafe-fixes", "--fix"]):
        assert cli.main([*options, CONCISE]) == 1
        out, err = capsys.readouterr()
        assert out == "a.py:1:1: AMP998 error: m\nFound 1 error: 1 ruins the run.\n"
        assert err == ""
    assert cli.main(["--diff"]) == 0
    assert capsys.readouterr().out == ""
    assert Path("a.py").read_text() == "GradScaler\n"


def test_a_bug_in_a_rule_costs_one_file(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    rules = (Failing(),)
    monkeypatch.setattr(registry, "every_rule", lambda: rules)
    Path("a.py").write_text("GradScaler\n")
    Path("b.py").write_text("import torch\n")
    assert cli.main([]) == 2
    assert capsys.readouterr() == (
        "", "error: a.py: internal error, please report it: KeyError: 'oops'\n",
    )  # fmt: skip


CRASHING = """
import os
from amp_lint.rule import Diagnostic, Rule, Severity

class Crashing(Rule):
    code, name, severity = "AMP999", "crashing", Severity.ERROR
    requires = (frozenset({"GradScaler"}),)

    def check(self, model):
        if "crash" in model.tree.text:
            os.abort()
        yield Diagnostic("AMP999", "crashing", Severity.ERROR, "m", 0, 1)
"""


@pytest.fixture
def crashing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Rule]:
    """A rule of a module that is no part of amp-lint, but that workers can import."""
    (tmp_path / "crashing_rule.py").write_text(CRASHING)
    monkeypatch.syspath_prepend(tmp_path)
    import crashing_rule  # type: ignore[import-not-found]

    yield crashing_rule.Crashing()
    del sys.modules["crashing_rule"]


def test_a_dead_worker_costs_one_file(crashing: Rule) -> None:
    selection = Selection((crashing,))
    texts = {f"{n}.py": f"GradScaler\n{'crash' if n in (2, 5) else 'x'}\n" for n in range(8)}
    jobs = [Job(name, text.encode(), False, selection) for name, text in texts.items()]
    done: list[tuple[str, Outcome]] = []
    on_done = lambda job, outcome: done.append((job.name, outcome))  # noqa: E731
    outcomes = parallel.run(jobs[:3], on_done, iter(jobs[3:]))
    assert [outcome.name for outcome in outcomes] == [*texts]
    for outcome in outcomes:
        dead = outcome.name in ("2.py", "5.py")
        assert bool(outcome.errors) is dead
        assert len(outcome.findings) == (not dead)
    assert dict(done) == dict(zip(texts, outcomes, strict=True))
    assert len(done) == len(jobs)


@pytest.mark.parametrize(("action", "ahead"), [(Action.REPORT, 1), (Action.FIX, 4)])
def test_all_are_read_before_the_first_is_changed(
    here: Path, monkeypatch: pytest.MonkeyPatch, clip: str, action: Action, ahead: int
) -> None:
    monkeypatch.setattr(runner, "PARALLEL_BYTES", 1)
    made: list[str] = []
    begun: list[int] = []
    analysed = job.lint

    def lint(each: Job, gate: Gate | None = None) -> Outcome:
        begun.append(len(made))
        return analysed(each, gate)

    def jobs() -> Iterator[Job]:
        for name in "abcd":
            made.append(name)
            path = Path(f"{name}.py")
            path.write_text(clip)
            yield Job(str(path), clip.encode(), True, Selection(registry.all_rules()), action)

    monkeypatch.setattr(runner, "lint", lint)
    outcomes = runner.run(jobs())
    assert [outcome.name for outcome in outcomes] == ["a.py", "b.py", "c.py", "d.py"]
    assert begun[0] == ahead


def test_processes_and_one_process_agree(
    here: Path, monkeypatch: pytest.MonkeyPatch, clip: str, fixed: str
) -> None:
    selection = Selection(registry.all_rules())
    texts = {"a.py": clip, "b.py": "x = 1\n", "c.py": fixed + clip, "d.py": "GradScaler(\n"}
    jobs = [Job(name, text.encode(), True, selection) for name, text in texts.items()]
    alone = runner.run(jobs)
    monkeypatch.setattr(runner, "PARALLEL_BYTES", 0)
    monkeypatch.setattr(runner, "WORTHWHILE_BYTES", 0)
    together = runner.run(iter(jobs))
    assert [outcome.findings for outcome in together] == [outcome.findings for outcome in alone]
    assert [outcome.name for outcome in together] == [*texts]
    for name, text in texts.items():
        Path(name).write_text(text)
    fixing = [Job(job.name, job.data, True, selection, Action.FIX) for job in jobs]
    assert [len(outcome.fixed) for outcome in runner.run(fixing)] == [1, 0, 1, 0]
    assert Path("a.py").read_text() == fixed


@pytest.mark.parametrize(("files", "padding"), [(60, 0), (60, 40_000)])
def test_ctrl_c_leaves_every_file_old_or_new(
    here: Path, clip: str, fixed: str, files: int, padding: int
) -> None:
    """With padding the work goes to worker processes."""
    tail = f"# {'x' * padding}\n"
    for number in range(files):
        Path(f"{number:03}.py").write_text(clip + tail)
    process = subprocess.Popen(
        [sys.executable, "-m", "amp_lint", "--fix", "."],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
        text=True,
    )
    deadline = time.monotonic() + 60
    while Path("000.py").read_text() == clip + tail and time.monotonic() < deadline:
        assert process.poll() is None
        time.sleep(0.005)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to all processes of the run
    out, err = process.communicate(timeout=60)
    texts = [path.read_text() for path in here.iterdir()]
    assert {path.suffix for path in here.iterdir()} == {".py"}
    assert set(texts) <= {clip + tail, fixed + tail}
    assert "Traceback" not in err
    if clip + tail in texts:  # it was not too late
        assert (process.returncode, out) == (130, "")
        assert err == "interrupted: every file is either as it was or fixed\n"


@pytest.mark.skipif(os.name == "nt", reason="no SIGKILL")
def test_workers_end_when_the_run_is_killed(here: Path, main: Run, clip: str, fixed: str) -> None:
    tail = f"# {'x' * 10_000}\n"
    for number in range(60):
        Path(f"{number:03}.py").write_text(clip + tail)
    process = subprocess.Popen(
        [sys.executable, "-m", "amp_lint", "--fix", "."],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    deadline = time.monotonic() + 60
    while Path("000.py").read_text() == clip + tail and time.monotonic() < deadline:
        time.sleep(0.005)
    process.kill()
    process.communicate(timeout=30)  # the workers hold the pipe as long as they live
    assert {path.read_text() for path in here.glob("*.py")} <= {clip + tail, fixed + tail}
    main("--fix", "000.py")  # removes what the killed run was writing
    assert {path.suffix for path in here.iterdir()} == {".py"}
