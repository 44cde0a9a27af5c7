"""`amp-lint why`: what is asked, how it is answered, and what is found in code."""

from __future__ import annotations

import codecs
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from amp_lint import suspects, why
from amp_lint.handbook import symptoms
from amp_lint.handbook.symptoms import Sight
from amp_lint.report import Style, reading
from tests.conftest import Result
from tests.handbook.test_symptoms import TRACEBACK

Run = Callable[..., Result]
NO_DATA = 'say what you see, as in `amp-lint why "loss is nan"`, or give a log: '
BYPASS = """\
import torch


def train(model, optimizer, loader):
    scaler = torch.amp.GradScaler("cuda")
    for x in loader:
        with torch.autocast("cuda"):
            loss = model(x).sum()
        scaler.scale(loss).backward()
        optimizer.step()
"""


# --- answers --------------------------------------------------------------------------------------


def test_a_question(main: Run) -> None:
    done = main("why", "loss is nan")
    lines = done.out.splitlines()
    assert (done.code, done.err) == (0, "")
    assert lines[0] == (
        "AMP104 step-bypasses-scaler: the loss is nan, or inf, after one step or a few"
    )
    assert lines[1].startswith("AMP203 half-model-training: the loss is nan")
    assert lines[-2:] == [
        "`amp-lint rule AMP104` explains a rule,",
        "`amp-lint why 'loss is nan' PATHS` looks for what fits in your code.",
    ]


def test_words_as_several_arguments(main: Run) -> None:
    assert main("why", "loss", "is", "nan") == main("why", "loss is nan")
    assert main("why", "loss", "is", "-inf").code == 0


def test_a_question_of_two_lines(main: Run) -> None:
    done = main("why", "my loss\ndoes not go down")
    assert done.out.startswith("AMP101 ")
    assert done.out.endswith("`amp-lint why TEXT PATHS` looks for what fits in your code.\n")


def test_what_no_rule_is_about(main: Run) -> None:
    done = main("why", "expected scalar type Half")
    first, second, *rest = done.out.splitlines()
    assert done.code == 0
    assert (first, second) == (
        "",
        "no rule finds this yet: RuntimeError: expected scalar type ... but found ...",
    )
    assert rest[0].startswith("  cause: ")
    assert any(line.startswith("  fix: ") for line in rest)
    assert "PATHS" not in done.out


@pytest.mark.parametrize("asked", ["banana", "loss", "the"])
def test_nothing_fits(main: Run, asked: str) -> None:
    done = main("why", asked)
    assert (done.code, done.err) == (1, "")
    assert done.out.startswith("Nothing fits.\nSay what the run does, ")


def test_many_answers_are_cut() -> None:
    read = symptoms.index().read("loss does not go down")
    lines = [*reading.answer(read, Style())]
    assert sum(line.startswith("AMP") for line in lines) == reading.MAX_RULES
    assert lines[-1].startswith("and AMP")


def test_narrow_terminals() -> None:
    read = symptoms.index().read("nan")
    lines = [*reading.answer(read, Style(width=40, wrap=True))]
    assert max(map(len, lines)) <= 40
    assert any("\033[1mAMP104" in line for line in reading.answer(read, Style(color=True)))


def test_help(main: Run) -> None:
    assert main("why", "--help").out.startswith("usage: amp-lint why TEXT ... [PATHS]\n")


# --- logs -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("arguments", [("why",), ("why", "-"), ("why", "log.txt")])
def test_a_log(amp_lint: Run, arguments: tuple[str, ...]) -> None:
    Path("log.txt").write_text(TRACEBACK)
    done = amp_lint(*arguments, stdin=TRACEBACK if "log.txt" not in arguments else "")
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith("AMP103 repeated-unscale: RuntimeError: unscale_() has already ")


@pytest.mark.parametrize(
    "data",
    [
        b"\x80\xff\xfe\x00 loss: nan \xf0\x9f\n\x00\x1b[0m\n",
        codecs.BOM_UTF16_LE + "step 1\r\nloss: nan\r\n".encode("utf-16-le"),
        codecs.BOM_UTF8 + b"a\rloss: nan\rb",
    ],
)
def test_odd_bytes(amp_lint: Run, data: bytes) -> None:
    done = amp_lint("why", stdin=data)
    assert (done.code, done.err) == (0, "")
    assert "loss: nan" in done.out.splitlines()[0]
    assert "AMP104" in done.out


def test_a_log_says_where(amp_lint: Run) -> None:
    done = amp_lint("why", stdin="epoch 1 loss 0.5\n" + "epoch 2 loss nan\n" * 1234)
    assert done.out.startswith("line 2: epoch 2 loss nan (and 1,233 more like it)\nAMP104 ")


def test_a_log_without_a_sign(amp_lint: Run) -> None:
    done = amp_lint("why", stdin="epoch 1 loss 0.5\n" * 1234)
    assert done.code == 1
    assert done.out.startswith("Nothing fits in these 1,234 lines.\n")
    done = amp_lint("why", stdin="epoch 1\nKeyError: 'weights'\n")
    assert done.code == 1
    assert "none that amp-lint knows: KeyError: 'weights'" in done.out.replace("\n    ", " ")


def test_a_long_log_has_a_short_answer(amp_lint: Run) -> None:
    line = "INFO epoch 7 loss: {} grad_norm=inf scale 65536.0 " + "x" * 1000 + "\n"
    log = line.format(0.5) * 2500 + line.format("nan") * 2500
    assert len(log) > 5_000_000
    done = amp_lint("why", stdin=log)
    assert (done.code, done.err) == (0, "")
    assert len(done.out.splitlines()) < 40
    assert len(done.out) < 4000


def test_only_the_end_of_a_huge_log_is_read(monkeypatch: pytest.MonkeyPatch, main: Run) -> None:
    monkeypatch.setattr(why, "_CHUNK", 1000)
    monkeypatch.setattr(why, "MAX_BYTES", 10_000)
    Path("log.txt").write_text("loss nan\n" + "epoch\n" * 10_000)
    assert main("why", "log.txt").code == 1
    Path("log.txt").write_text("epoch\n" * 10_000 + "loss nan\n")
    assert main("why", "log.txt").code == 0


def test_a_log_does_not_control_the_terminal(amp_lint: Run) -> None:
    for line in ("\033]0;title\a loss nan\033[2J", "\033[31mKeyError: \x9b2J x"):
        done = amp_lint("why", stdin=f"epoch\n{line}\n")
        assert "nan" in done.out or "KeyError" in done.out
        assert {*done.out}.isdisjoint("\033\a\x9b")


def test_sights_are_cut_to_the_screen(capsys: pytest.CaptureFixture[str]) -> None:
    line = reading._sight(Sight(1000, "loss nan " * 100, 2), Style(width=60))
    assert len(line) <= 60
    assert line.startswith("line 1,000: loss nan loss")
    assert line.endswith(" ... (and 1 more like it)")


# --- errors ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("stdin", ["", " \n\t\n"])
def test_an_empty_log(amp_lint: Run, stdin: str) -> None:
    done = amp_lint("why", stdin=stdin)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith(f"error: stdin is empty; {NO_DATA}")


def test_an_empty_question(main: Run) -> None:
    done = main("why", "")
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith(f"error: the text is empty; {NO_DATA}")


def test_nothing_is_asked_on_a_terminal(main: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True)
    for arguments in ((), ("--",)):
        done = main("why", *arguments)
        assert (done.code, done.out) == (2, "")
        assert done.err.startswith(f"error: command line: no symptom is given; {NO_DATA}")


def test_a_closed_stdin(main: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    assert main("why").code == 2
    assert main("why", "-").code == 2
    assert main("why", "nan").code == 0


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (("nan", "--select=AMP1"), "command line: why has no option --select=AMP1"),
        (("nan", "train.py"), "train.py: does not exist; check the path"),
        (("nan", "--", "train.py"), "train.py: does not exist; check the path"),
        (("nan", "--", "nowhere"), "nowhere: does not exist; check the path"),
    ],
)
def test_errors(main: Run, arguments: tuple[str, ...], error: str) -> None:
    done = main("why", *arguments)
    assert done.code == 2
    assert done.err == f"error: {error}\n"


def test_a_log_that_cannot_be_read(main: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("log.txt").write_text("nan")

    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", refuse)
    done = main("why", "log.txt")
    assert done.code == 2
    assert done.err.startswith("error: log.txt: cannot be read: permission denied; ")


def test_long_words_are_no_paths(main: Run) -> None:
    assert main("why", "x" * 10_000).code == 1
    assert main("why", "nan", "\0").code == 0
    assert main("why", "nan in train.py").code == 0


def test_a_reader_who_leaves(tmp_path: Path) -> None:
    command = f"{sys.executable} -m amp_lint why nan | head -n 1"
    done = subprocess.run(
        command, shell=True, cwd=tmp_path, capture_output=True, check=False, text=True
    )
    assert (done.stderr, done.stdout.count("\n")) == ("", 1)


# --- code -----------------------------------------------------------------------------------------


def test_paths(main: Run) -> None:
    Path("src").mkdir()
    Path("src/train.py").write_text(BYPASS)
    done = main("why", "loss is nan", "src")
    assert (done.code, done.err) == (0, "")
    findings, _, rest = done.out.partition("Found 1 with this symptom, the most likely first.\n")
    assert findings.startswith("AMP104 error: step-bypasses-scaler")
    assert "train.py:10:9\n" in findings
    ruled_out, _, rest = rest.partition("could not be seen:\n")
    assert ruled_out.startswith("ruled out:\n")
    assert "  AMP206 autocast-arguments: nothing found in 1 file\n" in ruled_out
    assert ": nothing in these files that is looked at\n" in ruled_out
    assert "AMP301" in ruled_out and "AMP101" not in done.out
    assert "  what only a run shows, " in rest
    assert "\nno rule finds this yet: the loss is nan or inf\n" in rest


@pytest.mark.parametrize(
    "arguments",
    [
        ("loss", "is", "nan", "src"),
        ("loss is nan", "src/train.py"),
        ("loss is nan", "--", "src"),
        ("src/train.py", "loss", "is", "nan"),
        ("log.txt", "src"),
        ("log.txt", "--", "src/"),
    ],
)
def test_which_arguments_are_paths(main: Run, arguments: tuple[str, ...]) -> None:
    Path("src").mkdir()
    Path("src/train.py").write_text(BYPASS)
    Path("log.txt").write_text("epoch\nloss is nan\n")
    done = main("why", *arguments)
    assert done.code == 0
    assert "train.py:10:9\n" in done.out
    assert ("line 2: loss is nan\n" in done.out) is ("log.txt" in arguments)


def test_a_path_with_spaces(main: Run) -> None:
    Path("my train.py").write_text(BYPASS)
    assert "my train.py:10:9\n" in main("why", "loss is nan", "my train.py").out


def test_a_word_may_be_a_directory(main: Run) -> None:
    Path("loss").mkdir()
    assert main("why", "loss", "is", "nan") == main("why", "loss is nan")
    assert main("why", "nan", "loss", "--").out.startswith("AMP104 ")


def test_a_log_from_stdin_and_paths(amp_lint: Run) -> None:
    Path("train.py").write_text(BYPASS)
    for arguments in ((".",), ("-", "."), ("--", "train.py")):
        done = amp_lint("why", *arguments, stdin="epoch\nloss nan\n")
        assert done.code == 0
        assert done.out.startswith("line 2: loss nan\nAMP104 ")


def test_a_log_without_a_sign_and_paths(amp_lint: Run) -> None:
    Path("train.py").write_text(BYPASS)
    done = amp_lint("why", ".", stdin="epoch 1\nepoch 2\n")
    assert done.code == 1
    assert done.out.startswith("Nothing fits in these 2 lines.\n")


def test_the_most_likely_comes_first(main: Run) -> None:
    model = "import torch\n\n\ndef f(x):\n    return torch.log(torch.softmax(x, -1))\n"
    Path("a.py").write_text(model)
    Path("b.py").write_text(BYPASS)
    done = main("why", "loss is nan", ".")
    codes = [line[:6] for line in done.out.splitlines() if line.startswith("AMP")]
    assert codes == ["AMP104", "AMP301"]
    assert "Found 2 with this symptom" in done.out


def test_what_is_silenced_may_be_the_cause(main: Run) -> None:
    Path("a.py").write_text(BYPASS.replace("optimizer.step()", "optimizer.step()  # noqa"))
    assert "AMP104" in main("why", "loss is nan", "a.py").out.splitlines()[0]


def test_rules_in_preview_are_asked(main: Run) -> None:
    Path("a.py").write_text(BYPASS.replace("scaler.scale(loss)", "loss").replace("scaler", "other"))
    Path("b.py").write_text(
        "import torch\n\n\ndef train(model, optimizer, loader):\n    for x in loader:\n"
        '        with torch.autocast("cuda", dtype=torch.float16):\n'
        "            loss = model(x).sum()\n        loss.backward()\n        optimizer.step()\n"
    )
    done = main("why", "gradients vanish", "b.py")
    assert done.out.startswith("AMP110 warning: fp16-without-scaler")


def test_other_findings_are_not_shown(main: Run, clip: str) -> None:
    Path("a.py").write_text(clip)
    done = main("why", "loss is nan", "a.py")
    assert done.code == 1
    assert done.out.startswith("Found nothing with this symptom.\nruled out:\n  AMP104 ")


def test_many_findings_are_cut(main: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(suspects, "MAX_FINDINGS", 2)
    step = "        optimizer.step()\n"
    for name in "abc":
        Path(f"{name}.py").write_text(BYPASS + step)
    done = main("why", "loss is nan", ".")
    assert done.out.count("AMP104 error: step-bypasses-scaler") == 2
    assert ", of which 2 are shown; `amp-lint --preview --select=AMP104," in done.out


def test_what_cannot_be_seen(main: Run) -> None:
    Path("src").mkdir()
    Path("src/broken.py").write_text("autocast(\n")
    Path("src/model.py").write_text(
        "import numpy\nfrom .engine import step\nfrom helpers import finish\nimport unrelated\n"
        "import torch\n\n\ndef f(x):\n"
        '    with torch.autocast("cuda"):\n        return step(finish(x))\n'
    )
    Path("src/engine.py").write_text("def step(x):\n    x.backward()\n")
    Path("helpers.py").write_text("def finish(x):\n    x.backward()\n")
    Path("unrelated.py").write_text("x = 1\n")
    done = main("why", "loss is nan", "src/model.py", "src/broken.py")
    assert done.code == 1
    _, _, unseen = done.out.partition("could not be seen:\n")
    model, engine = str(Path("src/model.py")), str(Path("src/engine.py"))
    lines = unseen.splitlines()
    assert lines[:4] == [
        f"  {Path('src/broken.py')}:1:9: SyntaxError: '(' was never closed",
        "  the training step: no file here that uses AMP runs `backward`; add one that does",
        f"  {engine}, which {model} imports; add it",
        f"  helpers.py, which {model} imports; add it",
    ]
    assert "unrelated" not in unseen
    done = main("why", "loss is nan", "src", "helpers.py")
    assert "add it" not in done.out and "add one that does" not in done.out


def test_files_that_cannot_be_read(main: Run) -> None:
    Path("a.py").write_text(BYPASS)
    Path("b.ipynb").write_text("{}")
    done = main("why", "loss is nan", "a.py", "b.ipynb")
    assert done.code == 2
    assert done.out.startswith("AMP104 ")
    assert "  the paths of which an error is printed\n" in done.out
    assert done.err.startswith("error: b.ipynb: is no notebook: it has no `nbformat`")


def test_no_files(main: Run) -> None:
    Path("empty").mkdir()
    done = main("why", "loss is nan", "empty")
    assert done.code == 1
    assert done.err == "warning: No Python files found under the given path(s)\n"
    assert "ruled out:" not in done.out


def test_why_does_not_import_a_parser(tmp_path: Path) -> None:
    """A question is answered at once."""
    code = (
        "import sys; from amp_lint import cli; cli.main(['why', 'nan']); "
        "sys.exit('libcst._nodes' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, check=False
    )
    assert done.returncode == 0
