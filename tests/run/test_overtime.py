"""No file takes for ever, and none that is stopped costs another one."""

from __future__ import annotations

import ast
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import pytest

from amp_lint import engine, registry
from amp_lint.flake8 import Plugin
from amp_lint.rule import Rule
from amp_lint.run import overtime
from amp_lint.run.overtime import OvertimeError, allowed, limited
from amp_lint.run.workers import Pool, WorkerError
from amp_lint.text.diagnostic import Applicability, Diagnostic, Edit, Fix, Severity
from tests.conftest import Result

if TYPE_CHECKING:
    from amp_lint.model import Model

Run = Callable[..., Result]
WORDS = "takes more than 0 s of CPU time and is not linted; exclude it or split it"


def spin() -> None:
    while True:
        pass


def spin_on() -> None:
    """Swallows the first exception, whatever it is."""
    try:
        spin()
    except BaseException:
        spin()


class Slow(Rule):
    """Does not come to an end in some files."""

    code = "AMP997"
    name = "slow"
    severity = Severity.ERROR
    requires: ClassVar[tuple[frozenset[str], ...]] = (frozenset({"GradScaler"}),)

    def check(self, model: Model) -> Iterable[Diagnostic]:
        if "slow" in model.tree.text:
            spin_on()
        yield Diagnostic(self.code, self.name, self.severity, "m", 0, 1)


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(overtime, "BASE_SECONDS", 0.45)
    monkeypatch.setattr(overtime, "_AGAIN", 0.2)


@pytest.mark.parametrize("option", ["--show-all", "--fix"])
def test_a_slow_file_costs_itself(
    main: Run, short: None, monkeypatch: pytest.MonkeyPatch, option: str
) -> None:
    rules = (Slow(),)
    monkeypatch.setattr(registry, "every_rule", lambda: rules)
    for name, text in (("a", ""), ("b", "slow"), ("c", "")):
        Path(f"{name}.py").write_text(f"GradScaler\n{text}\n")
    main("a.py")  # imports
    done = main("--output-format=concise", option)
    assert (done.code, done.err) == (2, f"error: b.py: {WORDS}\n")
    assert done.out.splitlines()[:2] == ["a.py:1:1: AMP997 error: m", "c.py:1:1: AMP997 error: m"]


class SlowToFix(Rule):
    """Does not come to an end where its fix was applied."""

    code = "AMP997"
    name = "slow-to-fix"
    severity = Severity.ERROR
    requires: ClassVar[tuple[frozenset[str], ...]] = (frozenset({"GradScaler"}),)

    def check(self, model: Model) -> Iterable[Diagnostic]:
        if "fixed" in model.tree.text:
            spin_on()
        fix = Fix("toy", (Edit(0, 0, "fixed = 1\n"),), Applicability.SAFE)
        yield Diagnostic(self.code, self.name, self.severity, "m", 0, 1, fix=fix)


LATE = "takes more than 0 s of CPU time with its fixes"


@pytest.mark.parametrize(
    ("option", "code", "said"),
    [
        ("--show-all", 1, f"warning: a.py: {LATE}, so that none is offered; split it\n"),
        ("--fix", 2, f"error: a.py: is not fixed: it {LATE}; fix it by hand or split it\n"),
    ],
)
def test_what_is_found_is_told_where_its_fixes_take_too_long(
    main: Run, short: None, monkeypatch: pytest.MonkeyPatch, option: str, code: int, said: str
) -> None:
    rules = (SlowToFix(),)
    monkeypatch.setattr(registry, "every_rule", lambda: rules)
    Path("a.py").write_text("GradScaler\n")
    done = main("--output-format=concise", option)
    assert (done.code, done.err) == (code, said)
    assert done.out.splitlines()[0] == "a.py:1:1: AMP997 error: m"
    assert Path("a.py").read_text() == "GradScaler\n"


def test_in_a_worker_process_too() -> None:
    pool = Pool(size=1)
    with pytest.raises(WorkerError, match=f"^OvertimeError: {WORDS}$"):
        pool.submit(30, limited, 0.2, exec, "while True: pass").result()
    (worker,) = pool._all
    assert pool.submit(30, limited, 0.2, abs, -1).result()[0] == 1
    assert {*pool._all} == {worker}
    profiled = "import sys; sys.setprofile(lambda *_: None); (lambda: 1)(); sys.setprofile(None)"
    assert pool.submit(20, exec, profiled).result()[0] is None  # would not end
    pool.close()


def test_flake8_shows_the_same_words(short: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "check", lambda *_, **__: spin())
    lines = ["autocast = 1\n"]
    ((*_, text, _),) = Plugin(ast.parse(lines[0]), lines, "a.py").run()
    assert text == f"AMP900 amp-lint failed on this file: {WORDS}"


def test_waiting_takes_no_cpu_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(overtime, "_AGAIN", 0.05)
    limited(0.3, time.sleep, 0.6)


def test_other_threads_take_no_time_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(overtime, "_AGAIN", 0.05)
    busy = threading.Thread(target=lambda: sum(range(30_000_000)))
    busy.start()
    limited(0.2, busy.join)


def test_nothing_is_left_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was to be raised at the end is not raised behind it, whatever came out."""
    monkeypatch.setattr(overtime, "_AGAIN", 0.001)
    for number in range(40):
        end = time.process_time() + 0.004 + number * 1e-4

        def until(end: float = end) -> int:
            while time.process_time() < end:
                pass
            return 1

        try:
            assert limited(0.005, until) == 1
        except OvertimeError:
            assert number
    sum(1 for _ in range(100_000))  # where an exception would be raised


def test_other_errors_pass() -> None:
    with pytest.raises(ZeroDivisionError):
        limited(10.0, divmod, 1, 0)


def test_without_a_thread_there_is_no_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr("threading.Thread.start", refuse)
    assert limited(10.0, abs, -1) == 1


def test_a_megabyte_has_nearly_two_minutes() -> None:
    assert [allowed(size) for size in (0, 1000, 1_000_000)] == [10.0, pytest.approx(10.1), 110.0]


def test_what_a_file_imports_holds_up_no_run(
    amp_lint: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("amp_lint.syntax.links.leads", lambda data, links: spin())
    monkeypatch.setattr(overtime, "_AGAIN", 0.1)
    Path("b.py").write_text("def step(loss):\n    loss.backward()\n")
    code = "import torch\nfrom b import step\nwith torch.cuda.amp.autocast():\n    step(loss)\n"
    Path("a.py").write_text(code)
    monkeypatch.setattr("amp_lint.run.job.allowed", lambda size: 0.1 if size == len(code) else 30.0)
    done = amp_lint("--isolated", "--select", "AMP201,AMP401", ".")
    assert done.code == 1 and "AMP401" in done.out and not done.err
