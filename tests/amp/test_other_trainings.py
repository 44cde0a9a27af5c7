"""A loss that autocast refuses, in a model that another file trains under autocast."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from tests.conftest import Result

Run = Callable[..., Result]

MODEL = """\
import torch
import torch.nn.functional as F


class Head(torch.nn.Module):
    def forward(self, x, target):
        return F.binary_cross_entropy(x, target)
"""
TRAINER = """\
import torch


def train(model, optimizer, loader, amp):
    scaler = torch.amp.GradScaler("cuda", enabled=amp)
    for x, y in loader:
        with torch.autocast("cuda", enabled=amp):
            loss = model(x, y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
"""
PROGRAM = "from model import Head\nfrom trainer import train\n\ntrain(Head(), 0, [], True)\n"
FILES = {"model.py": MODEL, "trainer.py": TRAINER, "program.py": PROGRAM}


def found(folder: Path, main: Run, files: Mapping[str, str], *options: str) -> list[str]:
    """What is reported for the project, a line for each finding."""
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    result = main("--select", "AMP204", "--output-format", "concise", "-q", *options, str(folder))
    return result.out.splitlines()


def changed(**texts: str) -> dict[str, str]:
    """The project with other files."""
    return FILES | {f"{name}.py": text for name, text in texts.items()}


def test_a_model_that_is_trained_elsewhere(tmp_path: Path, main: Run) -> None:
    (line,) = found(tmp_path, main, FILES, "--preview")
    assert "model.py:7:16: AMP204" in line
    assert "trainer.py:7 may run it so" in line


def test_casts_that_are_undone_elsewhere(tmp_path: Path, main: Run) -> None:
    forward = "def forward(self, x, y):\n        return x.float() @ y.float()\n"
    model = f"from torch import nn\nclass Net(nn.Module):\n    {forward}"
    kept = model.replace("def forward", "@in_float32\n    def forward")
    options = "--preview", "--extend-select", "AMP205"
    (line,) = found(tmp_path, main, changed(model=model), *options)
    assert "AMP205" in line
    assert "trainer.py:7 may run it so" in line
    assert found(tmp_path, main, changed(model=kept), *options) == []


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("model(x, y)", "net_g(x, y)"),
        ("model(x, y)", "netD(x, y)"),
        ("model(x, y)", "diffusion.loss(x, y, model=model)"),
        ("model(x, y)", "criterion(x, y, head.net).mean()"),
        ("def train(", "def train_and_evaluate("),
        ("        with torch", "        head.train()\n        with torch"),
        ("        with torch", "        print(head.parameters())\n        with torch"),
        ("        with torch", "        head.module.eval()\n        with torch"),
    ],
)
def test_what_models_and_trainings_are_called(
    tmp_path: Path, main: Run, old: str, new: str
) -> None:
    text = trainer(old, new)["trainer.py"]
    text = text.replace("model(x, y)", "head(x, y)") if "head" in new else text
    assert found(tmp_path, main, changed(trainer=text), "--preview")


BASE = """\
import torch


class Trainer:
    def step(self, batch):
        raise NotImplementedError

    def fit(self, loader):
        for batch in loader:
            with torch.autocast("cuda"):
                loss = self.step(batch)
            self.scaler.scale(loss).backward()
            self.scaler.step(self.optimizer)
            self.scaler.update()
"""


@pytest.mark.parametrize(
    ("old", "new", "is_found"),
    [
        ("", "", True),
        ("    def step(self, batch):\n        raise NotImplementedError\n", "", True),
        ("raise NotImplementedError", "return batch.mean()", False),
        ("scale(loss)", "scale(other)", False),
        ("loss = self.step", "loss = other.step", False),
        ("loss = self.step", "output, loss = self.step", True),
        ("loss = self.step", "loss, output = self.step", True),
        ("loss = self.step", "output, other = self.step", False),
    ],
)
def test_a_method_of_heirs_that_gives_the_loss(
    tmp_path: Path, main: Run, old: str, new: str, is_found: bool
) -> None:
    assert old in BASE
    program = "from model import Head\nfrom trainer import Trainer\n\nTrainer(Head()).fit([])\n"
    files = changed(trainer=BASE.replace(old, new), program=program)
    assert bool(found(tmp_path, main, files, "--preview")) is is_found


def test_a_model_of_the_trainer_itself_has_parts_elsewhere(tmp_path: Path, main: Run) -> None:
    own = """\
from model import Head


class Whole(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.head = Head()

    def forward(self, x, y):
        return self.head(x, y)


model = Whole()
"""
    text = TRAINER.replace("\n\ndef", f"{own}\n\ndef").replace("(model, optimizer,", "(optimizer,")
    (line,) = found(tmp_path, main, {"model.py": MODEL, "trainer.py": text}, "--preview")
    assert "model.py:7:16: AMP204" in line


WHOLE = """\
        loss_scaler(loss, optimizer, parameters=model.parameters())
"""


@pytest.mark.parametrize(
    ("step", "is_found"),
    [
        (WHOLE, True),
        (WHOLE.replace("loss_scaler(", "self.scaler("), True),
        (WHOLE.replace("loss_scaler(", "logger("), False),
        (WHOLE.replace("optimizer", "model"), False),
    ],
)
def test_a_scaler_that_takes_the_whole_step(
    tmp_path: Path, main: Run, step: str, is_found: bool
) -> None:
    text = f"{TRAINER[: TRAINER.index('        scaler.scale')]}{step}"
    assert bool(found(tmp_path, main, changed(trainer=text), "--preview")) is is_found


def test_the_end_of_a_long_path_is_shown(tmp_path: Path, main: Run) -> None:
    name = f"trainer_{'of_the_experiment_' * 4}1"
    program = PROGRAM.replace("trainer", name)
    files = {"model.py": MODEL, f"{name}.py": TRAINER, "program.py": program}
    (line,) = found(tmp_path, main, files, "--preview")
    assert re.search(r"autocast, .+; …\w{44}\.py:7 may run it so; ", line)


def test_only_in_preview(tmp_path: Path, main: Run) -> None:
    assert found(tmp_path, main, FILES) == []


def test_a_trainer_that_imports_the_model_itself(tmp_path: Path, main: Run) -> None:
    text = "from model import Head\n" + TRAINER
    assert found(tmp_path, main, {"model.py": MODEL, "trainer.py": text}, "--preview")


def test_through_packages(tmp_path: Path, main: Run) -> None:
    files = {
        "nets/__init__.py": "from .heads import Head\n",
        "nets/heads.py": MODEL,
        "tools/trainer.py": TRAINER,
        "program.py": PROGRAM.replace("model ", "nets ").replace("trainer ", "tools.trainer "),
    }
    assert found(tmp_path, main, files, "--preview")


def trainer(old: str, new: str) -> dict[str, str]:
    """The project with another trainer."""
    assert old in TRAINER
    return changed(trainer=TRAINER.replace(old, new))


def model(old: str, new: str) -> dict[str, str]:
    """The project with another model."""
    assert old in MODEL
    return changed(model=MODEL.replace(old, new))


OFF = """\
        with torch.autocast("cuda", enabled=False):
            return F"""
ASKED = """\
        if not torch.is_autocast_enabled():
            return F"""


@pytest.mark.parametrize(
    "files",
    [
        {"model.py": MODEL, "trainer.py": TRAINER},
        trainer('autocast("cuda", enabled=amp', 'autocast("cuda", enabled=False'),
        trainer('autocast("cuda"', 'autocast("cpu"'),
        trainer("def train(", "@torch.no_grad()\ndef train("),
        trainer("def train(", "def evaluate("),
        trainer("model(x, y)", "compute(x, y)"),
        trainer("loss = model(x, y)", "register(model)\n            loss = compute(x, y)"),
        trainer("model(x, y)", "compute(x, model.scale)"),
        trainer(".backward()", ".detach()"),
        model("        return F", OFF),
        model("        return F", ASKED),
        model("binary_cross_entropy", "binary_cross_entropy_with_logits"),
        changed(model=MODEL + "\n\ndef train(model, x):\n    model(x).backward()\n"),
    ],
    ids=[
        "no program with both", "off", "cpu", "no_grad", "evaluation", "no model",
        "kept", "an attribute", "no training",
        "float32 here", "asked", "logits", "trains itself",
    ],
)  # fmt: skip
def test_silent(tmp_path: Path, main: Run, files: dict[str, str]) -> None:
    assert found(tmp_path, main, files, "--preview") == []


SCORES = """\
import torch


class Scores(torch.nn.Module):
    def weigh(self, q, k, mask):
        return (q @ k.mT).masked_fill(mask, -1e9).softmax(-1)

    def forward(self, q, k, mask):
        return self.weigh(q, k, mask).sum()

    def search(self, q, k, mask):
        return self.pick((q @ k.mT).masked_fill(mask, -1e9))

    def pick(self, scores):
        return scores.argmax(-1)


if __name__ == "__main__":
    Scores().search(torch.rand(2, 2), torch.rand(2, 2), None)
"""
SEARCHING = TRAINER + "    return model.search(x, y, amp)\n"


@pytest.mark.parametrize(
    ("trainer", "rows"),
    [
        pytest.param(TRAINER, [6, 12], id="only forward is known to run"),
        pytest.param(SEARCHING, [6], id="the other method runs outside"),
        pytest.param(
            SEARCHING.replace("    return model", "    with torch.autocast('cuda'): model"),
            [6, 12],
            id="and in a region",
        ),
        pytest.param(SEARCHING.replace("model.s", "index.s"), [6, 12], id="of another object"),
    ],
)
def test_methods_that_run_outside_of_the_region(
    trainer: str, rows: list[int], tmp_path: Path, main: Run
) -> None:
    files = changed(model=SCORES, trainer=trainer, program=PROGRAM.replace("Head", "Scores"))
    lines = found(tmp_path, main, files, "--preview", "--select", "AMP313")
    assert [int(line.split(":")[1]) for line in lines] == rows


TRIED = "Scores()(torch.rand(2, 2), torch.rand(2, 2), None).backward()\n"


@pytest.mark.parametrize(
    ("ending", "rows"),
    [
        pytest.param(f"    {TRIED}", [6, 12], id="a script that tries it out"),
        pytest.param(f"    {TRIED}    optimizer.step()\n", [6], id="a script that trains it"),
        pytest.param(f"\n\ndef test_scores():\n    {TRIED}", [6, 12], id="a test"),
        pytest.param(
            f"\n\ndef test_scores(optimizer):\n    {TRIED}    optimizer.step()\n",
            [6],
            id="a test that trains it",
        ),
        pytest.param(f"\n\ndef fit():\n    {TRIED}", [6], id="a function that may train it"),
        pytest.param(f"\n\n{TRIED}", [6], id="whoever imports it"),
    ],
)
def test_who_tries_a_model_out_does_not_train_it(
    ending: str, rows: list[int], tmp_path: Path, main: Run
) -> None:
    program = PROGRAM.replace("Head", "Scores")
    files = changed(model=SCORES + ending, trainer=TRAINER, program=program)
    lines = found(tmp_path, main, files, "--preview", "--select", "AMP313")
    assert [int(line.split(":")[1]) for line in lines] == rows


PLAINLY = """\
from model import Scores


def train(optimizer, loader):
    for q, k, mask in loader:
        Scores()(q, k, mask).backward()
        optimizer.step()
"""


@pytest.mark.parametrize(
    ("files", "is_told"),
    [
        pytest.param({"model.py": SCORES}, True, id="nobody trains it"),
        pytest.param({"model.py": SCORES, "main.py": PLAINLY}, False, id="in float32"),
        pytest.param(
            {"model.py": SCORES, "main.py": PLAINLY, "trainer.py": TRAINER},
            False,
            id="in float32, and another program in half precision",
        ),
        pytest.param(
            {"model.py": SCORES, "main.py": f"{PLAINLY}fp16 = False\n"},
            True,
            id="in a file that names half precision",
        ),
        pytest.param(
            {"model.py": SCORES, "main.py": f"from accelerate import Accelerator\n{PLAINLY}"},
            True,
            id="by a framework that may choose it",
        ),
        pytest.param(
            {"model.py": SCORES, "main.py": f"{PLAINLY}kinds = ['float16', 'float32']\n"},
            False,
            id="beside a name that is no dtype of torch",
        ),
        pytest.param(
            {"model.py": SCORES, "main.py": f"import torch\n{PLAINLY}kind = torch.bfloat16\n"},
            True,
            id="beside a dtype",
        ),
        pytest.param(
            {"model.py": SCORES, "main.py": f"{PLAINLY}Scores().half()\n"}, True, id="and cast"
        ),
        pytest.param(
            {"model.py": SCORES, "main.py": PLAINLY.replace("backward", "item")},
            True,
            id="not trained",
        ),
        pytest.param(
            {"model.py": SCORES, "main.py": PLAINLY.replace("optimizer.step()", "pass")},
            True,
            id="without a step, as for gradients of its own",
        ),
    ],
)
def test_what_is_only_trained_in_float32(
    files: dict[str, str], is_told: bool, tmp_path: Path, main: Run
) -> None:
    lines = found(tmp_path, main, files, "--preview", "--select", "AMP313")
    assert bool(lines) is is_told
    assert all("autocast may run it so" in line for line in lines)


ACCELERATE = """\
from accelerate import Accelerator


def train(model, optimizer, loader):
    accelerator = Accelerator(mixed_precision="fp16")
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    for x, y in loader:
        accelerator.backward(model(x, y))
        optimizer.step()
"""
LIGHTNING = """\
import lightning


def train(model, loader):
    lightning.Trainer(max_epochs=3, precision="16-mixed").fit(model, loader)
"""
APEX = """\
from apex import amp


def train(model, optimizer, loader):
    model, optimizer = amp.initialize(model, optimizer)
    for x, y in loader:
        with amp.scale_loss(model(x, y), optimizer) as scaled:
            scaled.backward()
        optimizer.step()
"""


@pytest.mark.parametrize(
    ("trainer", "line", "low", "full"),
    [
        (ACCELERATE, 5, '"fp16"', '"no"'),
        (ACCELERATE, 5, '"fp16"', "None"),
        (ACCELERATE.replace('"fp16"', '"bf16"'), 5, '"bf16"', '"no"'),
        (LIGHTNING, 5, '"16-mixed"', "32"),
        (LIGHTNING.replace('"16-mixed"', "16"), 5, ", precision=16", ""),
        (APEX, 5, "optimizer)\n    for", 'optimizer, opt_level="O0")\n    for'),
    ],
)
def test_a_framework_that_runs_models_in_half(
    tmp_path: Path, main: Run, trainer: str, line: int, low: str, full: str
) -> None:
    (said,) = found(tmp_path, main, changed(trainer=trainer), "--preview")
    assert f"trainer.py:{line} may run it so" in said
    assert low in trainer
    assert not found(tmp_path, main, changed(trainer=trainer.replace(low, full)), "--preview")


@pytest.mark.parametrize(("trainer", "count"), [(ACCELERATE, 0), (LIGHTNING, 1)])
def test_a_loss_is_not_what_accelerate_prepared(
    tmp_path: Path, main: Run, trainer: str, count: int
) -> None:
    model = MODEL.replace("class Head", "class PixelLoss")
    files = changed(model=model, trainer=trainer, program=PROGRAM.replace("Head", "PixelLoss"))
    assert len(found(tmp_path, main, files, "--preview")) == count


GIVEN = """\
def train(model, optimizer, loader, amp_autocast, scaler):
    for x, y in loader:
        with amp_autocast():
            loss = model(x, y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
"""


@pytest.mark.parametrize(
    ("old", "new", "count"),
    [
        ("", "", 1),
        ("amp_autocast", "self.autocast", 1),
        ("with amp_autocast():", "with no_sync():", 0),
        ("    for x", "    from torch.cpu.amp import autocast as amp_autocast\n    for x", 0),
        ("loss = model(x, y)", "loss = compute(x, y)", 0),
        ("backward()", "detach()", 0),
    ],
)
def test_what_is_called_autocast_and_given(
    tmp_path: Path, main: Run, old: str, new: str, count: int
) -> None:
    text = (
        GIVEN.replace(old, new).replace("loader, self.autocast", "loader, self") if old else GIVEN
    )
    lines = found(tmp_path, main, changed(trainer=text), "--preview")
    assert len(lines) == count
    assert all("trainer.py:3 may run it so" in line for line in lines)
