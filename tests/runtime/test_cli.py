"""`amp-lint run` and `amp-lint report`: as python would run it, and what is told then."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

import pytest
import torch

from amp_lint import cli
from amp_lint.run.session import CLEAN, ERROR, FOUND
from amp_lint.runtime import tell
from amp_lint.runtime.record import Record, Summary, folded, read
from tests.runtime.numeric_programs import PLANTED as NUMERIC
from tests.runtime.programs import CLEAN as RIGHT
from tests.runtime.programs import PLANTED, program


def amp_lint(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "amp_lint", *arguments]


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with a right training, and a wrong one that leaves its numbers out."""
    (tmp_path / "right.py").write_text(program(RIGHT["clip"]))
    (tmp_path / "wrong.py").write_text(program(PLANTED["AMP101"]))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def told(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = cli.main(arguments)
    out, err = capsys.readouterr()
    return code, out, err


def test_a_right_training(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = told(capsys, "run", "right.py")
    assert (code, out) == (CLEAN, "")
    assert err.endswith(
        "The run showed 0 mistakes"
        " (4 steps, 2 looked at closely, not run on CUDA, scale 1024 to 1024).\n"
    )


LOG = """
        for x, y in data:
            optimizer.zero_grad()
            p = torch.softmax(model(x).expand(-1, 2) * torch.tensor([0.0, {}]), 1)
            (-torch.log(p)[:, 0].mean()).backward()
            optimizer.step()
"""


@pytest.mark.parametrize(
    ("gap", "code", "said"), [(1.0, CLEAN, "right down to 1e-38"), (1e5, FOUND, "results are -inf")]
)
def test_the_logarithm_of_a_softmax_is_an_error_where_float32_does_not_hold_it(
    gap: float, code: int, said: str, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "log.py").write_text(program(LOG.format(gap)))
    given, _, err = told(capsys, "run", "--level=full", "log.py")
    assert given == code and said in err and "confirmed by the run" in err


@pytest.mark.parametrize("code", ["AMP109", "AMP111"])
def test_what_the_whole_run_shows_has_no_step(
    code: str, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "whole.py").write_text(program(PLANTED[code]))
    (found,) = re.findall(rf"{code} .*\n(?:.+\n)*", told(capsys, "run", "whole.py")[2])
    assert "over the whole run\n" in found and "step " not in found.splitlines()[-1]


def test_a_run_on_cuda_says_that_nobody_has_tried_it() -> None:
    on_cuda, elsewhere = Record(summary=Summary(on_cuda=True)), Record(summary=Summary())
    assert "hardly been tried on CUDA" in "".join(tell.told(folded([elsewhere, on_cuda])))
    assert "not run on CUDA" in "".join(tell.told(folded([elsewhere, elsewhere])))


def test_threads_of_others_are_not_waited_for(capsys: pytest.CaptureFixture[str]) -> None:
    ended = threading.Event()
    other = threading.Thread(target=ended.wait, args=(60,))
    other.start()
    try:
        assert told(capsys, "run", "right.py")[0] == CLEAN and other.is_alive()
    finally:
        ended.set()


def test_a_wrong_training(capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = told(capsys, "run", "--output-format=concise", "wrong.py")
    first, *_, last = err.splitlines()
    assert code == FOUND
    assert first.startswith("wrong.py:18:5: AMP101 ")
    assert "at scale 1024 the limit is 0.00098, not 1" in first
    assert last.startswith("The run showed 1 mistake ")
    assert told(capsys, "run", "--exit-zero", "wrong.py")[0] == CLEAN


def test_a_comment_silences_a_run_as_well(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = (here / "wrong.py").read_text().replace("# here", "# noqa: AMP101")
    (here / "wrong.py").write_text(text)
    code, _, err = told(capsys, "run", "wrong.py")
    assert code == CLEAN, err


JOINED = """
    for x, y in data:
        optimizer.zero_grad()
        scaler.scale(loss_of(x, y)).backward()
        {}
        scaler.step(optimizer)
        scaler.update()
"""
CLIP = "nn.utils.clip_grad_norm_(model.parameters(), 1.0)"


@pytest.mark.parametrize(
    ("written", "status"),
    [
        (CLIP, "confirmed"),
        (f"getattr(scaler, 'unscale_')(optimizer); {CLIP}", "in order"),
        (f"len(data) > 9 and {CLIP}", "not reached"),
    ],
)
def test_findings_of_the_linter_are_joined(
    written: str, status: str, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "train.py").write_text(program(JOINED.format(written)))
    told(capsys, "run", "--output-format=json", "-o", "found.json", "train.py")
    found = json.loads((here / "found.json").read_text())
    (clip,) = (each for each in found if each["code"] == "AMP101")
    assert clip["run"]["status"] == status


def test_what_a_helper_does_is_the_finding_at_its_call(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    helper = f"from torch import nn\n\n\ndef clip(model):\n    {CLIP}\n"
    (here / "clip_helper.py").write_text(helper)
    called = "    from clip_helper import clip\n" + JOINED.format("clip(model)")
    (here / "train.py").write_text(program(called))
    told(capsys, "run", "--output-format=json", "-o", "found.json", "train.py")
    found = json.loads((here / "found.json").read_text())
    (clip,) = (each for each in found if each["code"] == "AMP101")
    assert (clip["run"]["status"], clip["run"]["count"]) == ("confirmed", 4)


def test_a_call_that_raises_is_not_in_order(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """``update`` raises, and nobody knows what would have become of the clip before it."""
    written = f"{CLIP}; scaler.update()"
    (here / "train.py").write_text(program(JOINED.format(written)))
    code, _, _ = told(capsys, "run", "--output-format=json", "-o", "found.json", "train.py")
    found = json.loads((here / "found.json").read_text())
    status = {each["code"]: each.get("run", {}).get("status") for each in found}
    assert code == 1 and status["AMP106"] == "confirmed" and status["AMP101"] is None


@pytest.mark.parametrize(
    ("body", "code", "status"),
    [
        (  # nobody knows an optimizer of what is clipped
            """
    for x, y in data:
        model.zero_grad()
        scaler.scale(loss_of(x, y)).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for p in model.parameters():
            p.data.add_(p.grad, alpha=-1e-6)
            """,
            "AMP101",
            None,
        ),
        (  # the gradients are cleared, and no step takes them
            """
    for x, y in data:
        optimizer.zero_grad()
        scaler.scale(loss_of(x, y)).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        if x.isnan().any():
            scaler.step(optimizer)
            scaler.update()
            """,
            "AMP101",
            None,
        ),
        (
            """
    with torch.autocast("cuda", torch.float16):
        loss = nn.functional.binary_cross_entropy(torch.sigmoid(model(data[0][0])), data[0][1])
            """,
            "AMP204",
            "the run ended here",
        ),
    ],
)
def test_of_what_came_to_no_end_no_order_is_known(
    body: str, code: str, status: str | None, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "train.py").write_text(program(body))
    policy = [] if torch.cuda.is_available() else ["--policy=cuda"]
    told(capsys, "run", *policy, "--output-format=json", "-o", "found.json", "train.py")
    found = json.loads((here / "found.json").read_text())
    assert [each.get("run", {}).get("status") for each in found if each["code"] == code] == [status]


def test_settings_count_for_a_run_as_well(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "amp-lint.toml").write_text('ignore = ["AMP1"]\n')
    code, _, err = told(capsys, "run", "wrong.py")
    assert (code, err.splitlines()[-1].partition(" (")[0]) == (CLEAN, "The run showed 0 mistakes")


def test_what_only_a_run_shows(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "train.py").write_text(program(PLANTED["AMP203"]))
    told(capsys, "run", "--output-format=json", "-o", "found.json", "train.py")
    (found,) = json.loads((here / "found.json").read_text())
    assert found["code"] == "AMP203"
    assert found["run"]["status"] == "run time only"
    assert found["run"]["numbers"] == {"half": 4, "all": 4}


SHOWN = "import sys; print(sys.argv, __name__, __file__, sys.path[0], __package__)"


@pytest.mark.parametrize("arguments", [["show.py"], ["-m", "package.show"]])
def test_a_script_finds_what_python_would_give_it(
    arguments: Sequence[str], here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "show.py").write_text(SHOWN)
    (here / "package").mkdir()
    (here / "package" / "__init__.py").touch()
    (here / "package" / "show.py").write_text(f"from . import other\n{SHOWN}")
    (here / "package" / "other.py").touch()
    command = [*arguments, "--lr", "1", "-m", "--", "x"]
    plain = subprocess.run([sys.executable, *command], capture_output=True, text=True, check=True)
    assert told(capsys, "run", *command)[1] == plain.stdout


@pytest.mark.parametrize(
    ("ending", "code", "shown"),
    [
        ("sys.exit(3)", 3, ""),
        ("sys.exit('no data')", 1, "no data\n"),
        ("raise KeyError(1)", 1, "KeyError: 1\n"),
        ("raise KeyboardInterrupt", 130, "KeyboardInterrupt\n"),
    ],
)
def test_the_end_of_a_script(
    ending: str, code: int, shown: str, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "wrong.py").write_text(f"{(here / 'wrong.py').read_text()}\nimport sys\n{ending}\n")
    given, _, err = told(capsys, "run", "--record", "run.jsonl", "wrong.py")
    assert given == code
    assert shown in err
    assert "AMP101" in err
    assert "amp_lint" not in err.partition("Traceback")[2].partition(shown or "\n")[0]
    assert told(capsys, "report", "run.jsonl")[0] == FOUND


def test_what_a_killed_run_has_shown(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = (here / "wrong.py").read_text()
    (here / "wrong.py").write_text(
        f"{text}\nprint('trained', flush=True)\nimport time; time.sleep(60)\n"
    )
    command = amp_lint("run", "--record", "run.jsonl", "wrong.py")
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "trained\n"
        os.kill(process.pid, signal.SIGKILL)
    record = read(here / "run.jsonl")
    assert [each.mistake.name for each in record.observations] == ["SCALED_CLIP"]
    assert not record.summary.ended
    assert str(here / "wrong.py") in record.files
    code, _, err = told(capsys, "report", "run.jsonl")
    assert code == FOUND
    assert "confirmed by the run: happened" in err and "not reached" not in err


def test_records_of_several_processes_are_one_run(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    for rank in ("0", "1"):
        monkeypatch.setenv("RANK", rank)
        told(capsys, "run", "--record", "run.jsonl", "wrong.py")
    files = sorted(map(str, here.glob("*.jsonl")))
    assert [Path(file).name for file in files] == ["run.rank0.jsonl", "run.rank1.jsonl"]
    code, _, err = told(capsys, "report", *files)
    assert code == FOUND
    assert "happened 8 times, first in step 1" in err


def test_an_error_may_be_raised_where_it_happens(capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = told(capsys, "run", "--raise", "wrong.py")
    assert code == 1
    assert "WatchedError: AMP101: `clip_grad_norm_` clips gradients" in err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["run", "nowhere.py"], "nowhere.py: no such script"),
        (["run"], "are required: SCRIPT"),
        (["run", "--every", "right.py"], "--every"),
        (["report", "right.py"], "right.py: is no record of this version"),
        (["report", "nowhere.jsonl"], "nowhere.jsonl: cannot be read"),
        (["run", "--record", "no/run.jsonl", "right.py"], "no/run.jsonl: cannot be written"),
    ],
)
def test_errors_are_one_line(
    arguments: Sequence[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = told(capsys, *arguments)
    assert (code, out, err.count("\n")) == (ERROR, "", 1)
    assert said in err


def test_a_script_that_ends_at_a_loss_that_is_nan_is_told_where_it_comes_from(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stops = NUMERIC["AMP601 stopped"].replace('raise FloatingPointError("loss is nan")', "exit(3)")
    (here / "stops.py").write_text(program(stops))
    code, _, err = told(capsys, "run", "--output-format=concise", "stops.py")
    assert code == 3
    assert "AMP601" in err and "`log`" in err


@pytest.mark.parametrize("ends", ["exit(3)", "raise ValueError('Loss is NaN, stopping')"])
def test_a_script_that_ends_itself_in_a_step_that_was_not_looked_at(
    ends: str, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    body = f"""
    for number in range(40):
        optimizer.zero_grad()
        loss = torch.log(loss_of(*data[0]) - 9 * int(number == 36))
        if loss.isnan():
            {ends}
        loss.backward()
        optimizer.step()
    """
    (here / "stops.py").write_text(program(body))
    arguments = ["run", "--every=20", "--record=run.jsonl", "stops.py"]
    code, _, err = told(capsys, *arguments)
    assert code in (1, 3) and "in step 37" in err and "`--at 37`" in err
    assert err.endswith("; it did not come to its end).\n")
    assert "AMP601" not in err and "`--at 37`" in told(capsys, "report", "run.jsonl")[2]
    err = told(capsys, "run", "--at=37", "stops.py")[2]
    assert "AMP601" in err and "`log`" in err and "`--at" not in err


@pytest.mark.parametrize(("ends", "expected"), [("raise SystemExit(7)", 7), ("", ERROR)])
def test_what_goes_wrong_afterwards_does_not_hide_how_the_script_ended(
    ends: str, expected: int, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "ends.py").write_text(f"import torch\n{ends}\n")
    code, _, err = told(capsys, "run", "--output-file=ends.py/where.txt", "ends.py")
    assert code == expected
    assert err.count("error:") == 1 and "ends.py/where.txt" in err


def test_a_script_that_fails_for_another_reason_is_told_of_no_number(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The state of a metric that looks for the least value is inf, and nothing is wrong."""
    body = """
    best = torch.tensor(float("inf"))
    for x, y in data:
        optimizer.zero_grad()
        loss_of(x, y).backward()
        optimizer.step()
    state = best.detach().clone()
    assert float(torch.minimum(state, torch.zeros(()))) == 0
    state = best.clone()
    print(state, torch.isfinite(best))
    raise KeyError(1)
    """
    (here / "fails.py").write_text(program(body))
    code, _, err = told(capsys, "run", "--level=full", "--output-format=concise", "fails.py")
    assert code == 1 and "KeyError: 1" in err
    assert "AMP601" not in err
    assert err.endswith("looked at closely, not run on CUDA; it did not come to its end).\n")


class Lazy(ModuleType):
    """Is imported when something of it is used, which fails here."""

    def __getattr__(self, name: str) -> object:
        raise ImportError(f"{self.__name__}.{name} is not installed")


def test_a_module_that_is_imported_when_it_is_used_stays_unused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "lazy", Lazy("lazy"))
    code, _, err = told(capsys, "run", "--output-format=concise", "wrong.py")
    assert code == FOUND and "AMP101" in err and "ImportError" not in err


SAVES = """
    def train():
        for x, y in data:
            optimizer.zero_grad()
            scaler.scale(loss_of(x, y)).backward()
            scaler.step(optimizer)
            scaler.update()

    def save(name, file):
        state = {
            "model": model.state_dict(),
            "optimizer": optimizer.state_dict(),
        }
        print("saving")
        torch.save(state, file)

    train()
    save("last", "last.pt")
    loaded = torch.load("last.pt")
    model.load_state_dict(loaded["model"])
    optimizer.load_state_dict(loaded["optimizer"])
"""


def test_a_checkpoint_is_one_finding_wherever_it_is_written(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "train.py").write_text(program(SAVES))
    told(capsys, "run", "--output-format=json", "-o", "found.json", "train.py")
    found = json.loads((here / "found.json").read_text())
    (kept,) = (each for each in found if each["code"] == "AMP111")
    assert kept["run"]["status"] == "confirmed"
    assert "state = {" in (here / "train.py").read_text().splitlines()[kept["location"]["row"] - 1]


def test_a_picture_that_cannot_be_written(capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = told(capsys, "run", "--level=protocol", "--picture=no/where.svg", "right.py")
    assert (code, err.splitlines()[-1][:31]) == (ERROR, "error: no/where.svg: cannot be ")


@pytest.mark.parametrize("option", ["--budget=x", "--budget=0", "--every=0", "--at=-1"])
def test_an_option_of_sampling_that_is_wrong(
    option: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = told(capsys, "run", option, "right.py")
    assert (code, out, err.count("\n")) == (ERROR, "", 1)
