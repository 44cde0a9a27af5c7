"""``amp-lint verify`` and ``--fix --prove``, run as users run them, mostly in this process."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from importlib import metadata
from pathlib import Path

import pytest

from amp_lint.verify import record, report
from tests.conftest import Result

Run = Callable[..., Result]

BEFORE = """\
import torch
import torch.nn.functional as F


def loss(x):
    return torch.log(F.softmax(x, dim=1))
"""
AFTER = BEFORE.replace("torch.log(F.softmax(x, dim=1))", "F.log_softmax(x, dim=1)")
WRONG = AFTER.replace("dim=1", "dim=0")
OPEN = "from oracle import mystery\n" + BEFORE.replace(
    "torch.log(F.softmax(x, dim=1))", "mystery(x)"
)
QUICK = ("--mode=eager", "--dtype=float32", "--examples=5", "--device=cpu")
ENGINE = f"torch {metadata.version('torch')} on cpu"
FIRST = f"proving {{}} with {ENGINE}\n"


@pytest.fixture
def texts(tmp_path: Path) -> None:
    for name, text in (("old", BEFORE), ("new", AFTER), ("wrong", WRONG), ("open", OPEN)):
        (tmp_path / f"{name}.py").write_text(text)


def compare(run: Run, after: str, *options: str) -> Result:
    return run("verify", "--before=old.py", f"--after={after}.py", *QUICK, *options)


@pytest.mark.parametrize(
    ("after", "code", "verdict"),
    [("new", 0, "proven"), ("wrong", 1, "refuted")],
)
def test_two_texts(quick: Run, texts: None, after: str, code: int, verdict: str) -> None:
    done = compare(quick, after)
    assert (done.code, done.err) == (code, FIRST.format(f"{after}.py against old.py"))
    first, *rest = done.out.splitlines()
    assert first == f"old.py -> {after}.py: {verdict}"
    assert all(len(line) <= 80 for line in rest), done.out
    assert rest[-1] == report.NOT_ON_CUDA
    assert ", cpu, seed 0; " in rest[-2]


def test_the_failure_of_the_old_code_is_shown_with_its_input(quick: Run, texts: None) -> None:
    words = " ".join(compare(quick, "new").out.split())
    assert "before -inf instead of " in words or "before gradient NaN instead of " in words
    assert "torch.tensor(" in words
    assert re.search(r" eager float32 0\.\d+ values 0\.\d+ gradients \d+ inputs ", words)


def test_the_counterexample_is_shown_with_its_input(quick: Run, texts: None) -> None:
    words = " ".join(compare(quick, "wrong").out.split())
    assert " after " in words
    assert " instead of " in words.partition(" after ")[2]


def test_what_is_not_comparable_says_why(quick: Run, texts: None) -> None:
    done = compare(quick, "open")
    assert done.code == 2
    first, *rest = done.out.splitlines()
    assert first == "old.py -> open.py: not comparable"
    assert any(line.startswith("  because  ") and "mystery" in line for line in rest)


def test_no_change_needs_no_torch(amp_lint: Run, texts: None) -> None:
    done = compare(amp_lint, "old")
    assert (done.code, done.out) == (0, "old.py -> old.py: proven\n  nothing differs\n")


def test_a_record_is_written_and_can_be_run_again(quick: Run, texts: None) -> None:
    compare(quick, "wrong", "--seed=3", "--record=first.json")
    first = record.read(Path("first.json"))
    assert first.environment is not None
    assert first.settings.seed == first.environment.seed == 3
    compare(quick, "wrong", f"--seed={first.settings.seed}", "--record=second.json")
    second = record.read(Path("second.json"))
    assert first.entries[0].proof.counterexample == second.entries[0].proof.counterexample
    assert first.entries[0].proof.sha256_after == second.entries[0].proof.sha256_after


def test_json(quick: Run, texts: None) -> None:
    done = compare(quick, "new", "--output-format=json")
    (entry,) = record.loads(done.out).entries
    assert entry.right
    assert json.loads(done.out)["entries"][0]["proof"]["verdict"] == "proven"


def test_pictures(quick: Run, texts: None) -> None:
    compare(quick, "new", "--plot=pictures")
    (picture,) = Path("pictures").iterdir()
    assert picture.name == "change-old-py-new-py.svg"
    text = picture.read_text()
    assert len(text) <= 60_000
    assert ">old code<" in text
    assert ">relative error against float64<" in text


# --- files ----------------------------------------------------------------------------------------


def test_each_fix_of_a_file_is_a_site(quick: Run, texts: None, clip: str) -> None:
    Path("clip.py").write_text(clip)
    done = quick("verify", "old.py", "clip.py", "new.py", *QUICK)
    assert done.code == 0
    assert "clip.py:8:9 AMP101: proven\n" in done.out
    assert "old.py:6:12 AMP301: proven\n" in done.out
    assert "new.py" not in done.out
    assert Path("clip.py").read_text() == clip


def test_files_without_findings(quick: Run, texts: None) -> None:
    done = quick("verify", "new.py", *QUICK)
    assert (done.code, done.out, done.err) == (0, "", "No fixable findings.\n")


def test_pages_without_fixes(quick: Run) -> None:
    done = quick("verify", "AMP503", "AMP504", *QUICK)
    said = "No fixes to prove or refute on the pages of AMP503, AMP504.\n"
    assert (done.code, done.out, done.err) == (0, "", said)


def test_select_chooses_the_sites(quick: Run, texts: None, clip: str) -> None:
    Path("clip.py").write_text(clip)
    done = quick("verify", ".", "--select=AMP101", *QUICK)
    assert "AMP101: proven" in done.out
    assert "AMP301" not in done.out


def test_an_unreadable_file_is_an_error_and_the_others_are_verified(
    quick: Run, texts: None
) -> None:
    Path("bad.py").write_bytes(b"\xff\xfe")
    done = quick("verify", "old.py", "bad.py", *QUICK)
    assert done.code == 2
    assert done.err.startswith("error: bad.py: ")
    assert "old.py:6:12 AMP301: proven" in done.out


# --- --fix --prove --------------------------------------------------------------------------------


def test_a_proven_fix_is_applied(quick: Run, clip: str, fixed: str) -> None:
    Path("a.py").write_text(clip)
    done = quick("--fix", "--prove", "a.py")
    assert done.code == 0, done
    first, second, third = done.err.splitlines()
    assert first.startswith(f"fixes are proven before they are applied, with {ENGINE}; ")
    assert second == "a.py: proving 1 fix"
    assert re.fullmatch(r"a\.py:8:9: AMP101 fix proven, \d+ s", third)
    assert Path("a.py").read_text() == fixed


def test_diff_shows_only_what_is_proven(quick: Run, clip: str) -> None:
    Path("a.py").write_text(clip)
    done = quick("--diff", "--prove", "a.py")
    assert done.code == 1
    assert "a.py:8:9: AMP101 fix proven, " in done.err
    assert "+        scaler.unscale_(optimizer)\n" in done.out
    assert Path("a.py").read_text() == clip


def test_prove_without_fix_is_refused(quick: Run) -> None:
    done = quick("--prove")
    assert done.code == 2
    assert done.err == ("error: command line: --prove proves fixes; give --fix or --diff with it\n")


# --- errors ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["AMP999"], "AMP999: no such rule or file; `amp-lint rule` lists the rules"),
        (["--before=old.py"], "command line: --before and --after stand together, without others"),
        (
            ["--before=old.py", "--after=new.py", "AMP101"],
            "command line: --before and --after stand together, without others",
        ),
        (["--before=old.py", "--after=none.py"], "none.py: does not exist; check the path"),
    ],
)
def test_wrong_arguments(main: Run, texts: None, arguments: list[str], error: str) -> None:
    assert main("verify", *arguments) == Result(2, "", f"error: {error}\n")


@pytest.mark.parametrize("option", ["--mode=fast", "--dtype=int8", "--examples=0", "--mode="])
def test_wrong_values(option: str, main: Run) -> None:
    done = main("verify", option)
    assert (done.code, done.err.count("\n")) == (2, 1)
    assert done.err.startswith(f"error: argument {option.partition('=')[0]}: ")


def test_a_device_that_is_not_there(amp_lint: Run, texts: None) -> None:
    done = amp_lint("verify", "--before=old.py", "--after=new.py", "--device=cuda:77")
    assert (done.code, done.out) == (2, "")
    *_, last = done.err.splitlines()
    assert last.startswith("error: device cuda:77: ")


@pytest.mark.parametrize("package", ["torch", "hypothesis", "matplotlib"])
@pytest.mark.parametrize("arguments", [["verify", "--plot=p"], ["--fix", "--prove", "a.py"]])
def test_without_a_package_there_is_one_line(
    package: str, arguments: list[str], clip: str, tmp_path: Path
) -> None:
    if package == "matplotlib" and "--prove" in arguments:
        pytest.skip("draws nothing")
    (tmp_path / "a.py").write_text(clip)
    program = (
        "import importlib.util, sys\n"
        "find = importlib.util.find_spec\n"
        f"importlib.util.find_spec = lambda name, *a: None if name == {package!r} "
        "else find(name, *a)\n"
        "from amp_lint.cli import main\n"
        f"sys.exit(main({arguments!r}))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, cwd=tmp_path, check=False
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        f'error: amp-lint verify needs {package}: pip install "amp-lint[verify]"\n'
    )
    assert (tmp_path / "a.py").read_text() == clip
